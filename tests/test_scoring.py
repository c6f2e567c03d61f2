"""Scores of raw inputs: the same by whatever batches, from the selector or from its bare pass."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import l2x
from l2x.learning._selection import input_scores
from l2x.learning.networks._columns import ColumnSelector


@pytest.fixture
def view() -> l2x.Columns:
    rng = np.random.default_rng(0)
    return l2x.Columns().fit(pd.DataFrame({"a": rng.normal(size=30), "b": rng.choice(["x", "y"], 30)}))


@pytest.fixture
def selector(view: l2x.Columns) -> ColumnSelector:
    torch.manual_seed(0)
    selector = ColumnSelector(2, inputs=view.inputs_, told=2)
    torch.nn.init.normal_(selector.layers[-1].weight)
    return selector


ROWS = pd.DataFrame({"a": [0.5, -1.0, 2.0, 0.1, 0.0], "b": ["x", "z", "y", "z", "x"]})
TOLD = torch.tensor([[0.0, -2.0], [-1.0, -0.5], [-3.0, 0.0], [-0.1, -2.5], [0.0, 0.0]])


def test_batches_give_what_one_pass_gives(
    view: l2x.Columns, selector: ColumnSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, unseen = input_scores(view, selector, ROWS, TOLD)
    assert unseen == {"b": 2}
    with torch.inference_mode():
        expected = selector(view.encode(ROWS), TOLD)
    np.testing.assert_array_equal(whole, expected.numpy())
    monkeypatch.setattr(type(view), "rows_at_once", 2)
    parts, unseen = input_scores(view, selector, ROWS, TOLD)
    assert unseen == {"b": 2}
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)


def test_a_selector_of_another_kind_is_asked_itself(view: l2x.Columns, selector: ColumnSelector) -> None:
    class Doubled(ColumnSelector):
        def forward(self, x: torch.Tensor, told: torch.Tensor | None = None) -> torch.Tensor:
            return 2 * super().forward(x, told)

    doubled = Doubled(2, inputs=view.inputs_, told=2)
    doubled.load_state_dict(selector.state_dict())
    once, _ = input_scores(view, selector, ROWS, TOLD)
    twice, _ = input_scores(view, doubled, ROWS, TOLD)
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-6)


def test_no_rows(view: l2x.Columns, selector: ColumnSelector) -> None:
    scores, unseen = input_scores(view, selector, ROWS[:0], TOLD[:0])
    assert scores.shape == (0, 2)
    assert not unseen
