"""What baselines share: the way from scores to an explanation, and the class that is explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import l2x
from l2x.baselines._method import Method, predicted_class

X = np.random.default_rng(0).normal(size=(5, 3))


@dataclass(eq=False, repr=False)
class Given(Method):
    """Scores every row alike."""

    name: ClassVar[str] = "Given"

    scores: Any
    features: Any = None
    magnitude: bool = False

    def _scores(self, view: Any, X: Any, k: int) -> np.ndarray:
        return np.tile(self.scores, (len(X), 1))


def test_ranked_by_score_or_by_size() -> None:
    scores = [0.1, -3.0, 2.0]
    assert Given(scores).explain(X, 2).names[0] == ["x2", "x0"]
    assert Given(scores, magnitude=True).explain(X, 2).names[0] == ["x1", "x2"]
    with pytest.raises(l2x.errors.InputError, match="k = 4 but there are 3 features"):
        Given(scores).explain(X, 4)


def test_padding_is_never_selected() -> None:
    texts = ["good", "a good film", "a bad film", "bad", "a film"]
    view = l2x.Words(length=3, vocabulary=9).fit(texts)
    explanation = Given([1.0, 2.0, 3.0], features=view).explain(texts, 2)
    assert explanation.mask.sum(axis=1).tolist() == [1, 2, 2, 1, 2]


def test_the_class_with_the_highest_probability_is_explained() -> None:
    view = l2x.Columns().fit(X)
    predictions = np.array([[0.2, 0.8], [0.9, 0.1], [0.3, 0.7], [1.0, 0.0], [0.0, 1.0]])
    assert predicted_class(l2x.as_black_box(lambda X: predictions), view, X).tolist() == [1, 0, 1, 0, 1]
    means = l2x.as_black_box(lambda X: X[:, 0], task="regression")
    assert predicted_class(means, view, X).tolist() == [0] * 5
    with pytest.raises(l2x.errors.InputError, match="predicts 2 values at once"):
        predicted_class(l2x.as_black_box(lambda X: X[:, :2], task="regression"), view, X)
