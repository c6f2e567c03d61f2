"""LIME and Kernel SHAP: additivity, agreement on a linear model, seeds, and a missing package."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import l2x
from l2x.baselines import KernelShap, Lime, Saliency, Taylor

WEIGHTS = np.array([0.1, -0.9, 0.5, 0.0])


@pytest.fixture(scope="module")
def background() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(80, 4))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """In the outer quartiles, where LIME's "in the same bin or not" means the same as the value."""
    return np.random.default_rng(1).choice([-1.5, 1.5], size=(3, 4))


def linear(X: Any) -> np.ndarray:
    """A mean, w·x."""
    return np.asarray(X, dtype=float) @ WEIGHTS


def classifier(X: Any) -> np.ndarray:
    z = np.stack([linear(X), -linear(X), np.asarray(X, dtype=float)[:, 0] ** 2 - 1], axis=1)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def methods(background: np.ndarray, **options: Any) -> list[Any]:
    settings = {"background": background, "progress": False} | options
    return [Lime(classifier, samples=500, **settings), KernelShap(classifier, **settings)]


def test_kernel_shap_sums_to_the_difference_from_its_base(background: np.ndarray, rows: np.ndarray) -> None:
    shap = KernelShap(classifier, background=background, magnitude=False, progress=False)
    scores = shap.explain(rows, k=2).scores
    predictions = classifier(rows)
    predicted = predictions.argmax(axis=1)
    difference = predictions.max(axis=1) - classifier(background).mean(axis=0)[predicted]
    assert scores.sum(axis=1) == pytest.approx(difference, abs=1e-8)


def test_kernel_shap_of_a_linear_model_is_weight_times_distance_from_the_mean(
    background: np.ndarray, rows: np.ndarray
) -> None:
    scores = (
        KernelShap(linear, background=background, magnitude=False, progress=False).explain(rows, k=2).scores
    )
    assert scores == pytest.approx(WEIGHTS * (rows - background.mean(axis=0)), abs=1e-6)


def test_taylor_lime_and_shap_agree_on_a_linear_model(rows: np.ndarray) -> None:
    background = np.random.default_rng(2).normal(size=(2000, 4))
    background -= background.mean(axis=0)
    net = nn.Linear(4, 1, bias=False)
    net.weight.data[:] = torch.from_numpy(WEIGHTS).float()
    settings: dict[str, Any] = {"background": background, "progress": False}
    alike = [
        Taylor(net),
        Lime(linear, **settings),
        Lime(linear, discretize=False, **settings),
        KernelShap(linear, background_rows=2000, **settings),
    ]
    for method in alike:
        assert method.explain(rows, k=3).indices.tolist() == [[1, 2, 0]] * 3


@pytest.mark.parametrize("which", [0, 1])
def test_a_row_is_explained_alike_alone_and_among_others(
    which: int, background: np.ndarray, rows: np.ndarray
) -> None:
    method = methods(background)[which]
    together = method.explain(rows, k=2)
    assert (method.explain(rows[::-1], k=2).scores[::-1] == together.scores).all()
    assert (method.explain(rows[1:2], k=2).scores == together.scores[1]).all()


def test_another_seed_draws_other_samples(background: np.ndarray, rows: np.ndarray) -> None:
    first, second = (methods(background, seed=seed)[0].explain(rows, k=2).scores for seed in (0, 1))
    assert (first != second).any()


def test_shap_samples_are_seeded_where_subsets_are_too_many() -> None:
    background = np.random.default_rng(0).normal(size=(3, 14))
    rows = np.random.default_rng(1).normal(size=(1, 14))

    def model(X: Any) -> np.ndarray:
        return np.tanh(X[:, 0] * X[:, 1] + X[:, 2:].sum(axis=1))

    def scores(seed: int) -> np.ndarray:
        shap = KernelShap(model, background=background, samples=60, seed=seed, progress=False)
        return shap.explain(rows, k=2).scores

    assert (scores(0) == scores(0)).all()
    assert (scores(0) != scores(1)).any()


@pytest.mark.parametrize("which", [0, 1])
def test_global_random_state_logging_and_streams_are_left_alone(
    which: int, background: np.ndarray, rows: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    np.random.seed(3)
    expected = np.random.random(2)
    np.random.seed(3)
    first = np.random.random()
    level = logging.getLogger("shap").level
    methods(background)[which].explain(rows[:1], k=2)
    assert [first, np.random.random()] == expected.tolist()
    assert logging.getLogger("shap").level == level
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("which", [0, 1])
def test_a_model_that_wants_a_data_frame_gets_one(
    which: int, background: np.ndarray, rows: np.ndarray
) -> None:
    names = list("abcd")

    def wants_frame(frame: Any) -> np.ndarray:
        assert list(frame.columns) == names
        return classifier(frame.to_numpy())

    method = methods(pd.DataFrame(background, columns=names))[which].set_params(model=wants_frame)
    explanation = method.explain(pd.DataFrame(rows, columns=names), k=2)
    # The frame's memory is laid out by columns, so that sums may differ in the last digit.
    assert explanation.scores == pytest.approx(methods(background)[which].explain(rows, k=2).scores)
    assert l2x.evaluation.posthoc_accuracy(wants_frame, explanation.inputs, explanation) >= 0


@pytest.mark.parametrize("which", [0, 1])
def test_exactly_k_on_ties(which: int, background: np.ndarray, rows: np.ndarray) -> None:
    method = methods(background)[which].set_params(model=lambda X: np.full((len(X), 2), 0.5))
    assert (method.explain(rows, k=3).mask.sum(axis=1) == 3).all()


def test_a_fitted_view_brings_its_background(background: np.ndarray, rows: np.ndarray) -> None:
    view = l2x.Columns().fit(background)
    explanation = KernelShap(classifier, features=view, progress=False).explain(rows, k=2)
    assert explanation.view is view
    assert explanation.indices.tolist() == methods(background)[1].explain(rows, k=2).indices.tolist()
    with pytest.raises(l2x.errors.InputError, match="pass background=X_train"):
        Lime(classifier, progress=False).explain(rows, k=2)


def test_several_means_at_once_are_refused(background: np.ndarray, rows: np.ndarray) -> None:
    means = l2x.as_black_box(lambda X: np.asarray(X)[:, :2], task="regression")
    with pytest.raises(l2x.errors.InputError, match="predicts 2 values at once"):
        Lime(means, background=background, progress=False).explain(rows, k=2)


@pytest.mark.parametrize(
    ("package", "method"),
    [
        ("lime", lambda X: Lime(classifier, background=X, progress=False)),
        ("shap", lambda X: KernelShap(classifier, background=X, progress=False)),
        ("captum", lambda X: Saliency(nn.Linear(4, 2))),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    package: str, method: Any, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]
    with pytest.raises(
        l2x.errors.MissingExtraError, match=rf"needs the package '{package}'.*l2x\[baselines\]"
    ):
        method(rows).explain(rows, k=2)
