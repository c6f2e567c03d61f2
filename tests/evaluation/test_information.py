"""Information in bits, and choose_k: all features capture all of it, noise none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.datasets import synthetic
from l2x.errors import InputError
from l2x.evaluation import ConditionalModel, Information, information
from l2x.evaluation._information import candidate_sizes, log_informed, log_uninformed

NAMES = [f"x{i}" for i in range(10)]


def test_information_of_everything_is_all_there_is() -> None:
    data = synthetic("orange_skin", 400, seed=0)
    q = data.model.conditional(rows=50)
    everything = l2x.Explanation(np.zeros((400, 10)), 10, NAMES)
    bits = information(q, data.X, everything)
    assert bits.captured == pytest.approx(bits.available, abs=1e-9)
    assert 0 < bits.available < 1
    assert bits.share == pytest.approx(1)


def test_a_true_subset_carries_more_than_noise() -> None:
    data = synthetic("orange_skin", 400, seed=0)
    q = data.model.conditional(rows=200)
    true = l2x.Explanation(data.truth.astype(float), 4, NAMES)
    noise = l2x.Explanation(-data.truth.astype(float), 4, NAMES)
    good, bad = information(q, data.X, true), information(q, data.X, noise)
    assert good.captured == pytest.approx(good.available, abs=1e-9)
    # Noise says nothing: about 0 bits, within the error of 200 background rows.
    assert bad.captured == pytest.approx(0, abs=0.02)


def test_no_information_has_no_share() -> None:
    assert np.isnan(Information(captured=0.0, available=0.0).share)


def test_certain_predictions_of_single_precision(table: np.ndarray) -> None:
    """log(0) times 0 is 0: two classes, each certain in half of the rows, are one bit."""
    predictions = np.eye(2, dtype=np.float32)[np.arange(600) % 2]
    everything = l2x.Explanation(np.zeros(table.shape), 5, list("abcde"))
    assert (
        information(ConditionalModel(one_column, table), table, everything, predictions=predictions).available
        == 1
    )


def test_regression_has_no_bits(table: np.ndarray) -> None:
    explanation = l2x.Explanation(table, 1, list("abcde"))
    q = ConditionalModel(lambda X: X[:, :1], table[:5])
    with pytest.raises(InputError, match="for regression use"):
        information(q, table, explanation)


def test_of_standardised_means_half_the_variance_is_available() -> None:
    target = np.random.default_rng(0).normal(size=(1000, 2))
    available = log_informed(target, classes=False) - log_uninformed(target, classes=False)
    assert available.mean() == pytest.approx(target.var(axis=0).sum() / 2)


class Counting:
    """An evaluator that counts how many of the first `relevant` features are selected."""

    def __init__(self, relevant: int) -> None:
        self.relevant = relevant
        self.sizes: list[int] = []

    def predictions(self, X: Any) -> np.ndarray:
        return np.full((len(X), 2), 0.5)

    def log_q(self, X: Any, mask: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        self.sizes.append(int(mask[0].sum()))
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
    choice = l2x.choose_k(InOrder(), np.zeros((4, d)), keep=keep, evaluator=Counting(relevant))
    assert choice.k == k
    shares = dict(zip(choice.sizes, choice.shares, strict=True))
    assert shares[k] >= keep
    assert choice.sizes == sorted(choice.sizes)
    assert max(choice.shares) == pytest.approx(1)


def test_every_size_is_measured_once() -> None:
    evaluator = Counting(37)
    choice = l2x.choose_k(InOrder(), np.zeros((4, 300)), keep=1, evaluator=evaluator)
    assert sorted(evaluator.sizes) == [0, *choice.sizes]


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
    with pytest.raises(l2x.errors.InputError, match="keep is 95"):
        l2x.choose_k(InOrder(), np.zeros((4, 3)), keep=95, evaluator=Counting(1))


def test_no_number_of_features_carries_information() -> None:
    with pytest.warns(UserWarning, match="does it vary"):
        assert l2x.choose_k(InOrder(), np.zeros((4, 3)), evaluator=Counting(0)).k == 1


def test_what_cannot_be_measured(fitted: l2x.Explainer, table: np.ndarray) -> None:
    with pytest.raises(l2x.errors.InputError, match="pass evaluator="):
        l2x.choose_k(InOrder(), np.zeros((4, 3)))
    with pytest.raises(l2x.errors.InputError, match=r"predictions has the shape \(4,\)"):
        l2x.choose_k(fitted, table, predictions=np.zeros(4))
