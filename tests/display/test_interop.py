"""Explanations in the formats of shap, captum and Arrow."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import l2x
from l2x.display._interop import margins
from l2x.explanation import arrow_columns


def test_margins_are_positive_exactly_where_selected(fitted: l2x.Explainer, table: np.ndarray) -> None:
    explanation = fitted.explain(table, k=2, polish=False)
    assert ((margins(explanation) > 0) == explanation.mask).all()
    best = margins(explanation).argmax(axis=1)
    assert best.tolist() == explanation.indices[:, 0].tolist()
    everything = margins(fitted.explain(table, k=5, polish=False))
    assert (everything.min(axis=1) == 0).all()


@pytest.mark.filterwarnings("ignore")
def test_shap_draws_them(tiny: l2x.TrainingPlan) -> None:
    shap = pytest.importorskip("shap")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": rng.choice(["red", "blue"], 200), "a": rng.normal(size=200), "b": 1.0})

    def model(X: pd.DataFrame) -> np.ndarray:
        p = np.where(X["colour"] == "red", 0.9, 0.1)
        return np.stack([1 - p, p], axis=1)

    found = l2x.Explainer(model, k=1, training=tiny).fit(frame).explain(frame).to_shap()
    assert found.values.shape == found.data.shape == (200, 4)
    assert found.feature_names == ["colour", "a", "b", "all other features"]
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), 0.9, atol=1e-6)  # additive
    for draw, content in (
        (shap.plots.bar, found),
        (shap.plots.beeswarm, found),
        (shap.plots.waterfall, found[0]),
    ):
        axes = draw(content, show=False)
        assert "colour" in " ".join(label.get_text() for label in axes.get_yticklabels())
        plt.close("all")
    axes = shap.plots.scatter(found[:, "a"], show=False, ax=plt.figure().add_subplot())
    assert "SHAP value" in axes.get_ylabel()
    (dots,) = [group for group in axes.collections if len(group.get_offsets()) == 200]
    drawn = np.sort(np.ma.getdata(dots.get_offsets()), axis=0)
    np.testing.assert_allclose(drawn[:, 1], np.sort(found.values[:, 1]), atol=1e-6)
    force = shap.plots.force(found[0], matplotlib=False)
    assert force.data["baseValue"] == pytest.approx(found.base_values[0])
    assert force.data["outValue"] == pytest.approx(0.9)
    # shap's own additivity check, which it applies to its explainers
    check = shap.TreeExplainer.assert_additivity
    own = SimpleNamespace(expected_value=found.base_values, feature_perturbation="interventional")
    check(own, found.values, model(frame).max(axis=1))
    with pytest.raises(shap.utils._exceptions.ExplainerError):
        check(own, found.values[:, :-1] * 0, model(frame).max(axis=1))


def test_captum_style(fitted: l2x.Explainer, table: np.ndarray) -> None:
    inputs = torch.from_numpy(table)
    explanation = fitted.explain(table)
    for target, expected in ((None, explanation), (1, explanation.for_class(1))):
        effects = fitted.attribute(inputs, target=target)
        assert effects.shape == inputs.shape
        assert not effects.numpy()[~explanation.mask].any()
        selected = np.take_along_axis(effects.numpy(), explanation.indices, axis=1)
        np.testing.assert_allclose(selected, expected.effects, atol=1e-6)
    with pytest.raises(l2x.errors.InputError, match="takes a tensor, as captum's methods do, not a ndarray"):
        fitted.attribute(table)


def test_arrow_columns_hold_what_the_frame_holds(fitted: l2x.Explainer, table: np.ndarray) -> None:
    texts = ["a truly wonderful film", "bad", ""]
    view = l2x.Words(length=5)
    words = l2x.baselines.RandomK(features=view).explain(texts, k=3)
    for explanation in (fitted.explain(table, k=3), words):
        columns = arrow_columns(explanation)
        arrow = pa.table(columns).to_pandas()
        frame = explanation.to_frame()
        assert list(columns) == list(frame)
        for name in columns:
            missing = frame[name].isna()
            assert (arrow[name].isna() == missing).all()
            assert arrow[name][~missing].tolist() == frame[name][~missing].tolist()
    assert columns["feature_1"].type == pa.string()
    assert columns["score_3"].null_count == 2
    names = arrow_columns(fitted.explain(table))["feature_1"]
    assert names.type == pa.dictionary(pa.int32(), pa.string())


def test_arrow_columns_of_names_that_are_numbers() -> None:
    scores = np.array([[1.0, 2.0], [-np.inf, 1.0]])
    columns = arrow_columns(l2x.Explanation(scores, 2, [3, 7]))  # type: ignore[list-item]
    assert columns["feature_1"].to_pylist() == ["7", "7"]
    assert columns["feature_2"].to_pylist() == ["3", None]
    assert columns["score_2"].to_pylist() == [1.0, None]


def test_captums_metrics_take_it(fitted: l2x.Explainer, table: np.ndarray) -> None:
    """captum's metrics pass a tuple without gradients, and expect a tuple."""
    metrics = pytest.importorskip("captum.metrics")
    inputs = torch.from_numpy(table[:20].astype(np.float32))
    (attributed,) = fitted.attribute((inputs,))
    assert torch.equal(attributed, fitted.attribute(inputs))
    assert metrics.sensitivity_max(fitted.attribute, inputs).shape == (20,)


def test_no_rows_are_shap_values_of_no_rows(fitted: l2x.Explainer, table: np.ndarray) -> None:
    pytest.importorskip("shap")
    found = fitted.explain(table[:0]).to_shap()
    assert found.values.shape == found.data.shape == found.display_data.shape == (0, 6)


@pytest.mark.parametrize("target", [2, -1, "x", 0.5, [0, 1], torch.tensor([0, 1]), np.array([[0]])])
def test_a_wrong_target_is_named(fitted: l2x.Explainer, target: object) -> None:
    with pytest.raises(
        l2x.errors.InputError, match=r"target is .*position of a class or predicted value, 0 to 1"
    ):
        fitted.attribute(torch.zeros(5, 5), target)
