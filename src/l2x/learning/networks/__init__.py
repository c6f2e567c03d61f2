"""The networks of each kind of input, and the recipes by which they are trained."""
