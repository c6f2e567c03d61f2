"""Against the model: does it give the same answer when it is shown only what was selected?"""

from __future__ import annotations

from typing import Any

import numpy as np

from l2x.blackbox import BlackBox, as_black_box
from l2x.data import ask
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features.columns import Columns
from l2x.features.view import View
from l2x.foundations.arrays import Array, batches


def posthoc_accuracy(
    model: Any, X: Any, explanation: Explanation, *, complement: bool = False, responses: Array | None = None
) -> float:
    """Post-hoc accuracy, section 4.2: the share of rows where argmax P_m(y | x̃_S) = argmax P_m(y | x).

    `complement=True` shows the model everything *but* the selection: a good explanation scores low there.
    What removed features look like to the model is the view's choice (`Columns(removal=...)`). `responses`,
    the model's answers for X where they are at hand, halves what it is asked.
    """
    whole, part = _answers(as_black_box(model), X, explanation, complement, responses)
    return float((whole.argmax(axis=1) == part.argmax(axis=1)).mean())


def posthoc_r2(
    model: Any, X: Any, explanation: Explanation, *, complement: bool = False, responses: Array | None = None
) -> float:
    """The same for regression: the R² of the model's answers on the selection against its full answers."""
    whole, part = _answers(as_black_box(model), X, explanation, complement, responses)
    total = np.square(whole - whole.mean(axis=0)).sum()
    return float(1 - np.square(whole - part).sum() / total) if total > 0 else float("nan")


def _answers(
    black_box: BlackBox, X: Any, explanation: Explanation, complement: bool, responses: Array | None
) -> tuple[Array, Array]:
    view = explanation.view or Columns().fit(X)
    X = view.check(X)
    if len(X) != len(explanation):
        raise InputError(f"X has {len(X)} rows, the explanation has {len(explanation)}.")
    mask = ~explanation.mask if complement else explanation.mask
    whole = ask(black_box, view, X, progress=False) if responses is None else np.asarray(responses)
    return whole.reshape(len(X), -1), masked_answers(black_box, view, X, mask)


def masked_answers(black_box: BlackBox, view: View, X: Any, mask: Array) -> Array:
    """P_m(y | x̃_S) of checked inputs, with what is not in the mask removed as the view says."""
    rng = np.random.default_rng(0)
    parts = [
        black_box(view.remove(view.take(X, rows), mask[rows], rng=rng))
        for rows in batches(len(X), view.rows_at_once)
    ]
    return np.concatenate(parts)
