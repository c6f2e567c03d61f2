"""choose_k: the smallest k that is enough, on every scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import l2x
from l2x.evaluation._choose_k import candidate_sizes


class Counting:
    """A value that knows how many of the first `relevant` features are selected."""

    def __init__(self, relevant: int) -> None:
        self.relevant = relevant
        self.asked: list[int] = []

    def answers(self, X: Any) -> np.ndarray:
        return np.full((len(X), 2), 0.5)

    def log_q(self, X: Any, mask: np.ndarray, answers: np.ndarray) -> np.ndarray:
        self.asked.append(int(mask[0].sum()))
        return mask[:, : self.relevant].sum(axis=1) / max(1, self.relevant) - 5.0


class InOrder:
    """Ranks features by their index."""

    def explain(self, X: np.ndarray, k: int) -> l2x.Explanation:
        d = X.shape[1]
        return l2x.Explanation(np.tile(np.arange(d, 0, -1.0), (len(X), 1)), k, [f"x{i}" for i in range(d)], X)


@pytest.mark.parametrize(
    ("d", "relevant", "keep", "k"), [(10, 4, 1, 4), (10, 4, 0.5, 2), (300, 37, 1, 37), (1, 1, 0.9, 1)]
)
def test_the_smallest_that_keeps_the_share(d: int, relevant: int, keep: float, k: int) -> None:
    choice = l2x.choose_k(InOrder(), np.zeros((4, d)), keep=keep, value=Counting(relevant))
    assert choice.k == k
    shares = dict(zip(choice.sizes, choice.shares, strict=True))
    assert shares[k] >= keep
    assert choice.sizes == sorted(choice.sizes)
    assert max(choice.shares) == pytest.approx(1)


def test_every_size_is_measured_once() -> None:
    value = Counting(37)
    choice = l2x.choose_k(InOrder(), np.zeros((4, 300)), keep=1, value=value)
    assert sorted(value.asked) == [0, *choice.sizes]


def test_an_explainers_own_q(fitted: l2x.Explainer, table: np.ndarray, tmp_path: Path) -> None:
    choice = l2x.choose_k(fitted, table, keep=0.9)
    assert choice.k == 1  # one column decides
    choice.plot(tmp_path / "sizes.svg")
    assert "k = 1" in (tmp_path / "sizes.svg").read_text()


def test_sizes_end_at_d() -> None:
    assert candidate_sizes(3) == [1, 2, 3]
    assert candidate_sizes(400)[0] == 1
    assert candidate_sizes(400)[-1] == 400
    assert len(candidate_sizes(400)) <= 16


def test_wrong_share() -> None:
    with pytest.raises(l2x.InputError, match="keep is 95"):
        l2x.choose_k(InOrder(), np.zeros((4, 3)), keep=95, value=Counting(1))


def test_no_number_of_features_carries_information() -> None:
    with pytest.warns(UserWarning, match="does it vary"):
        assert l2x.choose_k(InOrder(), np.zeros((4, 3)), value=Counting(0)).k == 1


def test_what_cannot_be_measured(fitted: l2x.Explainer, table: np.ndarray) -> None:
    with pytest.raises(l2x.InputError, match="pass value="):
        l2x.choose_k(InOrder(), np.zeros((4, 3)))
    with pytest.raises(l2x.InputError, match=r"responses has the shape \(4,\)"):
        l2x.choose_k(fitted, table, responses=np.zeros(4))
