"""The greedy search: the best single feature, never worse with more rounds, no more words than there are."""

from __future__ import annotations

import numpy as np
import pytest

import l2x
from l2x.baselines import _search as search
from l2x.baselines._search import GreedySearch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
WEIGHTS = np.array([0.0, 3.0, -2.0, 1.0, 0.0])


def linear(X: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-(np.asarray(X) @ WEIGHTS)))
    return np.stack([1 - p, p], axis=1)


def mean(X: np.ndarray) -> np.ndarray:
    return np.asarray(X) @ WEIGHTS


def error(explanation: l2x.Explanation) -> np.ndarray:
    """Of the mean, from the selection alone."""
    kept = np.where(explanation.mask, X, X.mean(axis=0))
    return np.square(mean(kept) - mean(X))


def test_the_first_feature_is_the_best_one_for_each_row() -> None:
    view = l2x.Columns().fit(X)
    found = GreedySearch(mean, features=view, progress=False).explain(X, 1)
    for i in range(5):
        only = np.zeros((40, 5), dtype=bool)
        only[:, i] = True
        other = np.square(mean(np.where(only, X, X.mean(axis=0))) - mean(X))
        assert (error(found) <= other + 1e-12).all()


def test_further_rounds_are_never_worse() -> None:
    view = l2x.Columns().fit(X)
    once, thrice = (
        GreedySearch(mean, features=view, rounds=rounds, progress=False).explain(X, 2) for rounds in (1, 3)
    )
    assert (error(thrice) <= error(once) + 1e-12).all()
    assert once.mask.sum(axis=1).tolist() == thrice.mask.sum(axis=1).tolist() == [2] * 40


def test_small_batches_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = GreedySearch(linear, progress=False).explain(X, 3)
    monkeypatch.setattr(search, "SEARCH_BATCH", 10)
    again = GreedySearch(linear, features=whole.view, progress=False).explain(X, 3)
    assert np.array_equal(whole.scores, again.scores)
    assert set(np.unique(whole.scores)) == {0.0, 1.0, 2.0, 3.0}


def test_short_texts_run_out_of_words() -> None:
    def mood(texts: list[str]) -> np.ndarray:
        p = np.array([0.5 + 0.4 * (("good" in text) - int("bad" in text)) for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = ["good", "a good film", "a bad bad film", "a film"]
    explanation = GreedySearch(
        mood, features=l2x.Words(length=4, vocabulary=9).fit(texts), progress=False
    ).explain(texts, 3)
    assert explanation.mask.sum(axis=1).tolist() == [1, 3, 3, 2]
    assert explanation.names[1][0] == "good"


def test_no_rounds() -> None:
    with pytest.raises(l2x.InputError, match="rounds is 0; the search needs at least one"):
        GreedySearch(linear, rounds=0).explain(X, 1)
