"""Scores of a few rows, which the service is asked for most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from l2x._base.arrays import Array
from l2x.apps.serve.rows._reader import Reader
from l2x.apps.serve.rows._tables import TableReader
from l2x.explainer import Explainer
from l2x.learning import ColumnSelector, only_selectable

Scores = Callable[[Sequence[Any]], Array]


def table_scores(explainer: Explainer, reader: Reader) -> Scores | None:
    """Checked rows of a table -> (n, d) scores, those of `explain` to the bit, without all that it has to
    find out about its inputs; None for explainers of another kind."""
    view, selector = explainer.features_, explainer.selector_
    if not isinstance(reader, TableReader) or type(selector) is not ColumnSelector or explainer.sees_answer:
        return None
    forward = selector.bare()

    def scores(cells: Sequence[Any]) -> Array:
        x = reader.view.encode_numbers(reader.numbers(cells))
        found: Array = only_selectable(forward(x), view.selectable(x), never=-torch.inf).numpy()
        return found

    return scores
