"""What every page of l2x is made of: a base template, a style sheet, a script, nothing from other hosts.

`static/htmx.min.js` is htmx 2.0.11, as the npm registry has it (Zero-Clause BSD).
"""
