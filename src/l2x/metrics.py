"""What `l2x.evaluation` was called before its first release; the name goes with the second."""

from l2x.evaluation import *  # noqa: F403
