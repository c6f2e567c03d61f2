"""Against the model: does it give the same answer when it is shown only what was selected?"""

from __future__ import annotations

from typing import Any

import numpy as np

from l2x.blackbox import BlackBox, as_black_box, batches
from l2x.explanation import Array, Explanation
from l2x.features.columns import Columns
from l2x.rows import ASK_BATCH


def posthoc_accuracy(model: Any, X: Any, explanation: Explanation, *, complement: bool = False) -> float:
    """Post-hoc accuracy, section 4.2: the share of rows where argmax P_m(y | x̃_S) = argmax P_m(y | x).

    `complement=True` shows the model everything *but* the selection: a good explanation scores low there.
    What removed features look like to the model is the view's choice (`Columns(removal=...)`).
    """
    whole, part = _answers(as_black_box(model), X, explanation, complement)
    return float((whole.argmax(axis=1) == part.argmax(axis=1)).mean())


def posthoc_r2(model: Any, X: Any, explanation: Explanation, *, complement: bool = False) -> float:
    """The same for regression: the R² of the model's answers on the selection against its full answers."""
    whole, part = _answers(as_black_box(model), X, explanation, complement)
    total = np.square(whole - whole.mean(axis=0)).sum()
    return float(1 - np.square(whole - part).sum() / total) if total > 0 else float("nan")


def _answers(black_box: BlackBox, X: Any, explanation: Explanation, complement: bool) -> tuple[Array, Array]:
    view = explanation.view or Columns().fit(X)
    X = view.check(X)
    mask = ~explanation.mask if complement else explanation.mask
    rng = np.random.default_rng(0)
    whole, part = [], []
    for rows in batches(len(X), ASK_BATCH):
        some = view.take(X, rows)
        whole.append(black_box(some))
        part.append(black_box(view.remove(some, mask[rows], rng=rng)))
    return np.concatenate(whole), np.concatenate(part)
