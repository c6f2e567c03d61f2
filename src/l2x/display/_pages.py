"""Templates that escape everything, the files that pages load, and the headers that keep other hosts out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from l2x.errors import require

STATIC = Path(__file__).parent / "static"

# Scripts, styles and requests of this host only; no inline script or style, and no page around ours.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def environment(package: str, *, extra: str) -> Any:
    """Jinja's environment with the templates of `package` and, behind them, those of this one (base.html and
    the fragments of an explanation). Without Jinja, the error names `extra`.

    base.html has the blocks title, head, nav, main and footer; `root` is the path under which a proxy shows
    the site, empty by default.
    """
    jinja2: Any = require("jinja2", extra=extra)
    packages = [package] if package == "l2x.display" else [package, "l2x.display"]
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name, "templates") for name in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["root"] = ""
    return made
