"""The name of `l2x.evaluation` until 0.1; goes with it."""

from l2x.evaluation import *  # noqa: F403
