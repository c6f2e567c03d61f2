"""The model being explained, and everything about querying it."""

from l2x.model import _endpoint
from l2x.model._black_box import SUM_TOLERANCE, BlackBox, Task, as_black_box, evaluating, numbers_of
from l2x.model._budget import (
    Memory,
    announce,
    check_enough,
    checked_queries,
    default_queries,
    rows_within,
    without_reserve,
)
from l2x.model._endpoint import Endpoint
from l2x.model._querying import Part, ask_about, query, view_parts

__all__ = [
    "SUM_TOLERANCE",
    "BlackBox",
    "Endpoint",
    "Memory",
    "Part",
    "Task",
    "_endpoint",
    "announce",
    "as_black_box",
    "ask_about",
    "check_enough",
    "checked_queries",
    "default_queries",
    "evaluating",
    "numbers_of",
    "query",
    "rows_within",
    "view_parts",
    "without_reserve",
]
