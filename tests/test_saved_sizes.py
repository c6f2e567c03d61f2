"""Sizes in a file: what comes back is what went in, and what cannot be is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import l2x
from l2x.errors import ArtifactError
from l2x.learning._sizes import Sizes, header_of, restored, tensors_of


@pytest.fixture
def sizes() -> Sizes:
    """Of three features, learned from scores and from q's word."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))

    def model(X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-3 * X[:, 1] - X[:, 2]))
        return np.stack([1 - p, p], axis=1)

    plan = l2x.TrainingPlan(progress=False).with_steps(value=60, selector=30)
    found = l2x.Explainer(model, 3, training=plan).fit(X).sizes_
    assert found is not None
    assert found.by_q is not None
    return found


def read(header: Any, tensors: dict[str, np.ndarray]) -> Sizes | None:
    header = json.loads(json.dumps(header))
    return restored(header, tensors, k=3, d=5, likelihood=l2x.learning._likelihood.Categorical(2))


def test_what_comes_back_is_what_went_in(sizes: Sizes) -> None:
    again = read(header_of(sizes), tensors_of(sizes))
    assert again is not None
    assert header_of(again) == header_of(sizes)
    for name, array in tensors_of(sizes).items():
        np.testing.assert_array_equal(tensors_of(again)[name], array)


def test_an_explainer_without_sizes_stays_so() -> None:
    assert (header_of(None), tensors_of(None), read(None, {})) == (None, {}, None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prices": []}, "0 prices"),
        ({"asking": 99}, "99 of them with q"),
        ({"asking": -1}, "-1 of them with q"),
        ({"prices": [float("nan")] * 52}, "no numbers"),
        ({"shares": [0.9] + [0.5] * 51}, "do not rise"),
    ],
)
def test_a_header_that_cannot_be(sizes: Sizes, wrong: dict[str, object], message: str) -> None:
    header = header_of(sizes)
    assert header is not None
    with pytest.raises(ArtifactError, match=message):
        read(header | wrong, tensors_of(sizes))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("sizes.weights", lambda array: array[:-1], "of the shapes"),
        ("sizes_q.gains", lambda array: array[:-1], "of the shapes"),
        ("sizes.usual", lambda array: array * np.nan, "no numbers"),
        ("sizes.spread", lambda array: array * 0, "no numbers"),
    ],
)
def test_tensors_that_cannot_be(sizes: Sizes, name: str, change: Any, message: str) -> None:
    tensors = tensors_of(sizes)
    with pytest.raises(ArtifactError, match=message):
        read(header_of(sizes), tensors | {name: change(tensors[name])})
