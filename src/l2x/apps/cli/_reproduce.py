"""`l2x reproduce`: the paper's experiments, which are the second package of the wheel.

The only module of l2x that knows them.
"""

from l2x_experiments.commands import app

__all__ = ["app"]
