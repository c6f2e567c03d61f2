"""Numbers that users give: whole ones."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def is_whole(number: Any, *, least: int = 1) -> bool:
    """Whether this is a whole number of at least `least`; a boolean is none.

    >>> is_whole(3), is_whole(0), is_whole(0, least=0), is_whole(2.0), is_whole(True)
    (True, False, True, False, False)
    """
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= least
