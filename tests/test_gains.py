"""What each further feature adds: what is seen of a row, and the regression on it."""

from __future__ import annotations

import numpy as np
import pytest

from l2x.learning._likelihood import Categorical, Gaussian
from l2x.learning._sizes import Gains, seen_by_q, seen_in_scores


def test_the_regression_finds_what_is_linear() -> None:
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(2000, 3)) * [1.0, 5.0, 0.1]
    added = np.stack([0.5 + 0.2 * seen[:, 0], 0.1 - 0.04 * seen[:, 1]], axis=1)
    learned = Gains.learn(seen, added)
    # Shrunk by ten rows of 2,000; what is further than four standard deviations from usual counts as four.
    assert learned.expected(seen) == pytest.approx(added, abs=0.01)
    far = learned.expected(np.array([[1e9, 0.0, 0.0]]))
    assert far[0, 0] == pytest.approx(0.5 + 0.2 * 4, abs=0.05)


def test_what_is_the_same_in_all_rows_adds_nothing() -> None:
    added = np.random.default_rng(0).normal(size=(50, 2))
    learned = Gains.learn(np.ones((50, 4)), added)
    assert learned.expected(np.ones((3, 4))) == pytest.approx(np.tile(added.mean(axis=0), (3, 1)))


def test_seen_in_scores_does_not_depend_on_their_level() -> None:
    scores = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    assert seen_in_scores(scores + 7, 3) == pytest.approx(seen_in_scores(scores, 3), abs=1e-4)


def test_seen_in_scores_of_features_that_may_not_be_selected() -> None:
    scores = np.array([[2.0, -np.inf, 1.0, 0.0], [-np.inf] * 4], dtype=np.float32)
    assert np.isfinite(seen_in_scores(scores, 3)).all()
    whole = seen_in_scores(scores[:1, [0, 2, 3]], 2)
    assert seen_in_scores(scores[:1], 2) == pytest.approx(whole)


def test_seen_by_q() -> None:
    """Two features. The first turns q to the class that it has with both; the second makes it surer."""
    heads = np.log(np.array([[[0.6, 0.4], [0.2, 0.8], [0.1, 0.9]]]))
    seen = seen_by_q(heads, Categorical(2))
    answer, logs = np.array([0.1, 0.9]), heads[0]
    surer = np.diff(logs @ answer)
    assert seen[0] == pytest.approx([*surer, 1.0, 0.0, *surer**2, 1.0, 0.0])
    assert surer[0] > surer[1] > 0


def test_seen_by_q_of_means() -> None:
    heads = np.array([[[0.0], [1.5], [2.0]]], dtype=np.float32)
    nearer = [2.0 - 0.125, 0.125]
    found = seen_by_q(heads, Gaussian((0.0,), (1.0,)))[0]
    assert found == pytest.approx([*nearer, *nearer, *np.square(nearer), *np.square(nearer)])
