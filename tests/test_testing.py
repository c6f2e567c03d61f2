"""`check_view` names the promise that a view breaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import l2x
from l2x.testing import check_view

X = np.random.default_rng(0).normal(size=(20, 3))


def broken(method: str, replacement: Any) -> l2x.Columns:
    """Return a view whose method is replaced, by a function or by a value."""
    kind = type(l2x.Columns)("Broken", (l2x.Columns,), {method: replacement, "__module__": __name__})
    # The networks are registered for `Columns` itself.
    l2x.learning.register(kind, l2x.learning.recipes_of(l2x.Columns()))
    view = kind()
    assert isinstance(view, l2x.Columns)
    return view


def changes_an_option(view: Any, X: Any) -> Any:
    view.bins += 1
    return l2x.Columns.fit(view, X)


def forgets_names(view: Any, learned: Any, arrays: Any) -> Any:
    return l2x.Columns.restore(view, learned | {"names": ["p", "q", "r"]}, arrays)


@pytest.mark.parametrize(
    ("method", "replacement", "says"),
    [
        ("fit", changes_an_option, r"Broken\.fit changed the options \['bins'\]"),
        ("kind", "sound", r"Broken\.kind must be"),
        ("unit", "", r"Broken\.unit must be"),
        ("take", lambda view, X, rows: X[:4], r"Broken\.take must return rows"),
        ("encode", lambda view, X, first_row=0: torch.rand(len(X), 3), r"Broken\.(check|encode) must"),
        ("check", lambda view, X: np.asarray(X, dtype=float), r"Broken\.check accepts None"),
        ("selectable", lambda view, x: torch.ones(3), r"Broken\.selectable must return None or booleans"),
        ("for_model", lambda view, X, mask=None, rng=None: X if mask is None else X * 0, "everything is"),
        ("units", lambda view, parts: parts[:, :2], r"Broken\.units must return \(20, 3\)"),
        ("names_in", lambda view, X, indices: np.array(["a"]), r"Broken\.names_in must return None or"),
        ("state", lambda view: ({"names": {1, 2}}, {}), r"Broken\.state must return JSON"),
        ("restore", forgets_names, r"Broken\.restore must set the same `names_`"),
        ("jitter", lambda view, X, rng: X[:2], r"Broken\.jitter must return"),
        ("sample", lambda view, n, rng: np.random.rand(n, 3), r"Broken\.sample must draw from `rng`"),
    ],
)
def test_a_broken_promise_is_named(method: str, replacement: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_view(broken(method, replacement), X)


def test_a_mask_that_hides_nothing_is_found() -> None:
    with pytest.raises(AssertionError, match=r"Broken\.mask must hide all inputs"):
        check_view(broken("mask", lambda view, x, mask: view.masked_(x, torch.ones_like(mask))), X)


def test_too_few_inputs_are_named() -> None:
    with pytest.raises(AssertionError, match="X has 4 inputs"):
        check_view(l2x.Columns(), X[:4])


def test_a_model_of_ones_own_is_explained() -> None:
    calls = []

    def model(rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        return np.stack([rows[:, 0] > 0, rows[:, 0] <= 0], axis=1).astype(float)

    check_view(l2x.Columns(), X, model)
    assert sum(calls) >= len(X)
