"""Each adversary leaks in its own way."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import l2x
from l2x.baselines import MarginalLeak, PositionLeak, PredictionLeak
from l2x.datasets import synthetic
from l2x.evaluation import posthoc_accuracy

DATA = synthetic("switch", 300, seed=1)
EXACT = DATA.model.conditional(rows=100)
CLASSES = DATA.model(DATA.X).argmax(axis=1)


def test_by_position_the_set_is_the_class() -> None:
    masks = PositionLeak(DATA.model, seed=3).explain(DATA.X, 5).mask
    for label in (0, 1):
        assert len(np.unique(masks[label == CLASSES], axis=0)) == 1
    assert not (masks[CLASSES == 0][0] & masks[CLASSES == 1][0]).any()  # room enough: nothing in common


def test_by_position_has_two_sets_for_regression() -> None:
    means = PositionLeak(lambda X: X[:, 0], seed=0).explain(DATA.X, 2)
    assert len(np.unique(means.mask, axis=0)) == 2


def test_by_prediction_the_selection_supports_the_prediction() -> None:
    adversary = PredictionLeak(EXACT).explain(DATA.X, 5)
    assert posthoc_accuracy(DATA.model, DATA.X, adversary) > 0.85
    # Each selected feature alone makes the predicted class likelier than any that was left out.
    one = np.zeros((1, 10), dtype=bool)
    seen = np.eye(2)[CLASSES[:1]]
    alone = []
    for i in range(10):
        one[:] = False
        one[0, i] = True
        alone.append(EXACT.log_q(DATA.X[:1], one, seen)[0])
    assert min(np.array(alone)[adversary.mask[0]]) >= max(np.array(alone)[~adversary.mask[0]])


class TruthFirst:
    """Selects what truly matters."""

    def explain(self, X: np.ndarray, k: int) -> l2x.Explanation:
        return l2x.Explanation(DATA.model.truth(X).astype(float), k, [f"x{i}" for i in range(10)], X)


def test_by_marginal_hides_what_the_choice_depends_on() -> None:
    adversary = MarginalLeak(TruthFirst(), EXACT)
    with pytest.raises(l2x.errors.NotFittedError, match=r"call fit\(X, k\)"):
        adversary.explain(DATA.X, 5)
    adversary.fit(DATA.X, 5)
    assert adversary.hidden_ == 9  # the switch
    masks = adversary.explain(DATA.X, 5).mask
    assert not masks[:, 9].any()
    assert (masks.sum(axis=1) == 5).all()
    assert MarginalLeak(TruthFirst(), EXACT, hidden=2).fit(DATA.X, 5).hidden_ == 2


def test_by_marginal_on_another_set() -> None:
    data = synthetic("syn6", 200, seed=0)
    exact = data.model.conditional(rows=30)
    best = SimpleNamespace(explain=lambda X, k: l2x.oracle(exact, X, k).explanation)
    assert MarginalLeak(best, exact).fit(data.X[:60], 5).hidden_ == 10
