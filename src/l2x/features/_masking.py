"""The ways in which a view can remove features, for metrics that compare them."""

from __future__ import annotations

import copy
from typing import get_args, get_type_hints

from l2x.features._view import View


def draws_replacements(view: View) -> bool:
    """Whether removing the same features of the same row twice may give two different inputs."""
    return bool(view.get_params(deep=False).get("removal") == "resample")


def removals(view: View) -> dict[str | None, View]:
    """The same fitted view with each removal that its parameter `removal` takes, the view's own first; only
    itself, under None, if it has no such parameter.

    >>> import numpy as np
    >>> from l2x.features._columns import Columns
    >>> list(removals(Columns(removal="zero").fit(np.eye(3))))
    ['zero', 'mean', 'resample']
    """
    own = view.get_params(deep=False).get("removal")
    if own is None:
        return {None: view}
    ways = get_args(get_type_hints(type(view)).get("removal"))
    if getattr(view, "reads", None) == "ids":
        ways = ()  # the black box sees padding, whatever `removal` says of texts
    return {own: view} | {way: copy.copy(view).set_params(removal=way) for way in ways if way != own}
