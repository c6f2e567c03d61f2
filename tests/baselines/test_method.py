"""What baselines share: the way from scores to an explanation, and the answer that is explained."""

from __future__ import annotations

import numpy as np
import pytest

import l2x
from l2x.baselines.method import explained, predicted_class

X = np.random.default_rng(0).normal(size=(5, 3))
SCORES = np.array([[0.1, -3.0, 2.0]] * 5)


def test_ranked_by_score_or_by_size() -> None:
    view = l2x.Columns().fit(X)
    assert explained(view, X, SCORES, 2).names[0] == ["x2", "x0"]
    assert explained(view, X, SCORES, 2, magnitude=True).names[0] == ["x1", "x2"]
    with pytest.raises(l2x.InputError, match="k = 4 but there are 3 features"):
        explained(view, X, SCORES, 4)


def test_padding_is_never_selected() -> None:
    texts = ["good", "a good film", "a bad film", "bad", "a film"]
    view = l2x.Words(length=3, vocabulary=9).fit(texts)
    explanation = explained(view, view.check(texts), np.tile([1.0, 2.0, 3.0], (5, 1)), 2)
    assert explanation.mask.sum(axis=1).tolist() == [1, 2, 2, 1, 2]


def test_the_class_with_the_highest_probability_is_explained() -> None:
    black_box = l2x.as_black_box(lambda X: X)
    assert predicted_class(black_box, np.array([[0.2, 0.8], [0.9, 0.1]])).tolist() == [1, 0]
    means = l2x.as_black_box(lambda X: X, task="regression")
    assert predicted_class(means, np.array([[3.0], [4.0]])).tolist() == [0, 0]
    with pytest.raises(l2x.InputError, match="predicts 2 means at once; explain one of them"):
        predicted_class(means, np.ones((2, 2)))
