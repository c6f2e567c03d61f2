"""One row for the page: what was selected; what the model says of all, of these features, of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.apps.serve._served import Served
from l2x.display import explained_html, percent
from l2x.learning import complement_of

# Classes that a page lists, the most probable ones.
MOST_CLASSES = 6


@dataclass(frozen=True)
class Shown:
    """html : the explanation, escaped
    answers : (class, whole, from the selected features alone, from the others), as texts; empty if unknown
    asked : who answered: "the model", or the explainer's own q
    same : whether the selected features alone give the same class
    """

    html: str
    answers: list[tuple[str, ...]]
    asked: str
    same: bool | None
    unseen: list[str]


def shown(served: Served, row: Any, k: int) -> Shown:
    """Explain one row, as a client sent it, and ask for the answers beside it."""
    parsed = served.reader.parse([row])
    raw = served.reader.for_model(parsed.cells)
    whole = None if served.model is None else served.ask(raw)
    explanation = served.explain_inputs(served.explainer.features_.check(raw), k, whole)
    mask = explanation.mask
    if served.model is not None:
        said = [whole, *(served.ask(raw, part) for part in (mask, complement_of(mask)))]
        asked = "the model"
    elif served.explainer.q_.q.networks:
        # The surrogate has never read features that cannot be selected: all that it can read stays.
        selectable = explanation.scores > -np.inf
        parts = (selectable, mask, selectable & complement_of(mask))
        said = [served.explainer.q_.predict(raw, part) for part in parts]
        asked = "the explainer's own estimate of the model"
    else:
        said, asked = [], ""
    answers = _table(served, [part[0] for part in said if part is not None])
    same = None
    if said and not served.regression:
        same = bool(np.argmax(said[0]) == np.argmax(said[1]))  # type: ignore[arg-type]
    return Shown(explained_html(explanation), answers, asked, same, sorted(parsed.unseen))


def _table(served: Served, said: list[Array]) -> list[tuple[str, ...]]:
    """Rows of the table of answers: the most probable classes, or the means."""
    if not said:
        return []
    if served.regression:
        return [("mean", *(f"{answer[i]:.4g}" for answer in said)) for i in range(len(said[0]))]
    order = np.argsort(-said[0], kind="stable")[:MOST_CLASSES]
    classes = served.classes or list(range(len(said[0])))
    return [(str(classes[i]), *(percent(float(answer[i])) for answer in said)) for i in order]
