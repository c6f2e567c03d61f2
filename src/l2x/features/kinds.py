"""Which kind of input a view reads, for whoever shows, asks for or writes inputs of each kind differently."""

from __future__ import annotations

from typing import Literal

from l2x.features.patches import Patches
from l2x.features.texts import TextView
from l2x.features.view import View

Kind = Literal["table", "text", "image"]


def kind_of(view: View) -> Kind:
    """A view of one's own counts as a table: rows of features with names."""
    if isinstance(view, TextView):
        return "text"
    return "image" if isinstance(view, Patches) else "table"


def unit_of(view: View) -> str:
    """What one feature is called: a word, a sentence, a patch, a column."""
    if isinstance(view, TextView):
        return view.unit
    return {"image": "patch", "table": "column"}[kind_of(view)]
