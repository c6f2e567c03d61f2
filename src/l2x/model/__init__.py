"""The model being explained, and everything about querying it."""

from l2x.model._black_box import SUM_TOLERANCE, BlackBox, Task, as_black_box, numbers_of
from l2x.model._endpoint import Endpoint
from l2x.model._evaluating import evaluating
from l2x.model._querying import (
    Memory,
    Part,
    announce,
    check_enough,
    checked_queries,
    default_queries,
    per_call,
    query,
    query_parts,
    rows_within,
    view_parts,
    without_reserve,
)

__all__ = [
    "SUM_TOLERANCE",
    "BlackBox",
    "Endpoint",
    "Memory",
    "Part",
    "Task",
    "announce",
    "as_black_box",
    "check_enough",
    "checked_queries",
    "default_queries",
    "evaluating",
    "numbers_of",
    "per_call",
    "query",
    "query_parts",
    "rows_within",
    "view_parts",
    "without_reserve",
]
