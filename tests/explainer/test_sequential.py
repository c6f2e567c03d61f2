"""The sequential selector: what it finds, and that the selected values alone determine the selection."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_models import one_column, people

import l2x
from l2x.datasets import synthetic
from l2x.display._paths import path_tree
from l2x.evaluation import exact_sets
from l2x.export._onnx_parts import graph_inputs
from l2x.learning import PathSizes, SequentialSelector
from l2x.learning._rows import Categorical
from l2x.learning._sequential import AT_ONCE, MANY_ROWS
from l2x.learning._training import Phase

PLAN = l2x.TrainingPlan(
    Phase(200, 1e-2, batch_size=256, averaging=0.9), Phase(100, 3e-3, batch_size=256, averaging=0.9),
    evaluations=4, progress=False,
)  # fmt: skip
SHORT = l2x.TrainingPlan(Phase(30, 1e-2), Phase(25, 3e-2), evaluations=2, progress=False)


def branching(X: np.ndarray) -> np.ndarray:
    """Read column 1 where column 0 is positive, else column 2."""
    X = np.asarray(X, dtype=float)
    p = 1 / (1 + np.exp(-5 * np.where(X[:, 0] > 0, X[:, 1], X[:, 2])))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def fitted() -> l2x.Explainer:
    X = np.random.default_rng(0).normal(size=(4000, 6))
    return l2x.Explainer(branching, 2, selector="sequential", training=PLAN, queries=0).fit(X)


def test_the_second_feature_depends_on_the_value_of_the_first(fitted: l2x.Explainer) -> None:
    X = np.random.default_rng(1).normal(size=(500, 6))
    explanation = fitted.explain(X)
    assert set(explanation.indices[:, 0]) == {0}
    expected = np.where(X[:, 0] > 0, 1, 2)
    assert (explanation.indices[:, 1] == expected).mean() > 0.95


def test_features_that_matter_only_together_are_found() -> None:
    data = synthetic("xor", 3000, seed=0)
    explainer = l2x.Explainer(data.model, 2, selector="sequential", training=PLAN, queries=0).fit(data.X)
    assert exact_sets(explainer.explain(data.X), data.truth).mean() > 0.99


def table(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Numbers with gaps, categories, and a column without any value."""
    X = people(n).X.sample(n, random_state=int(rng.integers(1 << 30))).reset_index(drop=True)
    X["empty"] = np.nan
    X["age"] = X["age"].astype(float).where(rng.random(n) > 0.2)
    return X


def wide(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n, 70))


def numbers(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n, 6)).round(1)


def prediction(X: Any) -> np.ndarray:
    """Depend on the columns 0 and 1 of any table."""
    X = pd.DataFrame(X).iloc[:, :2].fillna(0.0).to_numpy(dtype=float)
    p = 1 / (1 + np.exp(-2 * np.sin(X[:, 0]) - np.sin(X[:, 1])))
    return np.stack([1 - p, p], axis=1)


TABLES = {"numbers": numbers, "table": table, "wide": wide}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sequential")


@pytest.fixture(scope="module", params=TABLES)
def example(request: pytest.FixtureRequest, folder: Path) -> tuple[str, l2x.Explainer, l2x.Explainer]:
    """Return an explainer of a kind of table, and the same after saving and loading it."""
    name = request.param
    X = TABLES[name](400, np.random.default_rng(0))
    view = l2x.ColumnGroups({"both": [3, 4]}) if name == "numbers" else l2x.Columns()
    explainer = l2x.Explainer(
        prediction, 3, features=view, selector="sequential", training=SHORT, queries=0
    ).fit(X)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # the property holds for any weights: let the paths differ as much as they can
        for weights in explainer.selector_.policy.parameters():
            weights += 0.3 * torch.randn(weights.shape, generator=generator)
        for weights in explainer.selector_.common.parameters():
            weights.zero_()
    assert len(np.unique(explainer.explain(X).indices, axis=0)) > 2
    return name, explainer, l2x.load(explainer.save(folder / f"{name}.l2x"))


def agreeing(explainer: l2x.Explainer, X: Any, others: Any) -> Any:
    """Return rows that agree with X on the features selected for it, and with `others` elsewhere."""
    view, indices = explainer.features_, explainer.explain(X).indices
    mask = np.zeros((len(X), view.d), dtype=bool)
    np.put_along_axis(mask, indices, values=True, axis=1)
    columns = mask if view.group_ is None else mask[:, view.group_]
    if isinstance(X, np.ndarray):
        return np.where(columns, X, others)
    return X.where(columns, others).astype(X.dtypes)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 30), n=st.integers(1, 30), first=st.integers(0, 29))
def test_rows_that_agree_on_the_selected_features_have_the_same_selection(
    example: tuple[str, l2x.Explainer, l2x.Explainer], seed: int, n: int, first: int
) -> None:
    name, explainer, loaded = example
    rng = np.random.default_rng(seed)
    X, others = TABLES[name](n, rng), TABLES[name](n, rng)
    expected = explainer.explain(X)
    changed = agreeing(explainer, X, others)
    for each in (explainer, loaded):
        found = each.explain(changed)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.mask, expected.mask)
    # The other rows of a batch do not matter either.
    row = first % n
    part = changed[row : row + 1]
    np.testing.assert_array_equal(loaded.explain(part).indices[0], expected.indices[row])


def test_the_size_of_a_batch_does_not_matter(example: tuple[str, l2x.Explainer, l2x.Explainer]) -> None:
    """Many rows look up the selected cells, and few rows mask the others."""
    name, explainer, _ = example
    X = TABLES[name](2 * AT_ONCE, np.random.default_rng(7))
    whole = explainer.explain(X)
    for size in (1, MANY_ROWS - 1, AT_ONCE + 1):
        part = explainer.explain(X[:size])
        np.testing.assert_array_equal(part.indices, whole.indices[:size])
        np.testing.assert_allclose(part.scores, whole.scores[:size], rtol=1e-4, atol=1e-4)


def test_the_property_fails_for_the_default_selector() -> None:
    """The test above can fail: a selector that reads the whole input does not have the property."""
    X = numbers(400, np.random.default_rng(0))
    explainer = l2x.Explainer(branching, 1, training=PLAN, queries=0).fit(X)
    explainer.features_.group_ = None
    changed = agreeing(explainer, X, numbers(400, np.random.default_rng(1)))
    assert (explainer.explain(changed).indices != explainer.explain(X).indices).mean() > 0.1


def test_equal_preferences_are_resolved_without_rounding(fitted: l2x.Explainer) -> None:
    """All features are equally likely before training: the first ones are selected, in order."""
    selector = SequentialSelector(fitted.features_, 3).eval()
    X = np.random.default_rng(0).normal(size=(50, 6))
    scores = selector(fitted.features_.encode(X))
    assert (scores.topk(3).indices.numpy() == [0, 1, 2]).all()


def test_more_features_than_steps_are_ranked_by_the_last_step(fitted: l2x.Explainer) -> None:
    X = np.random.default_rng(2).normal(size=(20, 6))
    two, four = fitted.explain(X), fitted.explain(X, k=4)
    np.testing.assert_array_equal(four.indices[:, :2], two.indices)
    assert (two.scores[:, :] <= 2).all()
    assert fitted.explain(X, k=1).names == [["x0"]] * 20


def test_a_path_may_be_longer_than_there_are_features() -> None:
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 7, "c": np.nan})
    explainer = l2x.Explainer(prediction, 3, selector="sequential", training=SHORT, queries=0).fit(X)
    assert (explainer.explain(X).selected.sum(axis=1) == 2).all()


def test_regression() -> None:
    X = np.random.default_rng(0).normal(size=(2000, 4))
    explainer = l2x.Explainer(lambda X: 3 * X[:, 2] + X[:, 0], 2, selector="sequential", training=PLAN)
    explanation = explainer.fit(X).explain(X[:50])
    assert set(explanation.indices.ravel()) == {0, 2}
    np.testing.assert_allclose(
        explanation.base + explanation.effects.sum(axis=1) + explanation.rest, 3 * X[:50, 2] + X[:50, 0],
        rtol=1e-4, atol=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"uses_prediction": True},
        {"objective": "joint"},
        {"sampler": l2x.samplers.Shapley()},
        {"selector": "seqential"},
    ],
)
def test_settings_that_do_not_fit_are_refused(options: dict[str, Any]) -> None:
    explainer = l2x.Explainer(one_column, 1, **{"selector": "sequential"} | options)
    with pytest.raises(l2x.errors.InputError, match="sequential"):
        explainer.fit(np.zeros((10, 3)))


def test_paths_in_words_and_as_a_tree(fitted: l2x.Explainer, tmp_path: Path) -> None:
    X = np.array([[1.0, 0.5, 0, 0, 0, 0], [-1.25, 0, 0.5, 0, 0, 0]])
    explanation = fitted.explain(X)
    assert explanation.paths() == ["x0 = 1, then x1 = 0.5", "x0 = -1.25, then x2 = 0.5"]
    X = np.random.default_rng(3).normal(size=(300, 6))
    figure = fitted.explain(X).tree(tmp_path / "tree.svg")
    texts = [text.get_text() for text in figure.axes[0].texts]
    share = (fitted.explain(X).indices[:, 1] == 1).mean()
    assert "x0\n100%" in texts
    assert f"x1\n{share:.0%}" in texts
    assert (tmp_path / "tree.svg").stat().st_size > 1000


def test_the_tree_adds_up_and_names_values() -> None:
    X = pd.DataFrame({"a": ["x", "x", "y", None], "b": [1.0, 2.0, np.nan, 4.0], "c": [0.0] * 4})
    view = l2x.Columns().fit(X)
    scores = np.array([[2, 1, 0.0], [2, 1, 0], [2, 0, 1], [2, 0, 1]])
    explanation = l2x.Explanation(scores, 2, view.names_, inputs=X, view=view, sequential=True)
    assert explanation.paths()[3] == "a = missing, then c = 0"
    root = path_tree(explanation)
    assert [(branch.feature, branch.rows.tolist(), branch.values) for branch in root.branches] == [
        (1, [0, 1], "x"), (2, [2, 3], "y or missing"),
    ]  # fmt: skip
    assert root.branches[0].branches[0].values == "1 to 2"
    with pytest.raises(l2x.errors.InputError, match="sequential"):
        replace(explanation, sequential=False).paths()


def test_the_report_excludes_leakage_by_construction(fitted: l2x.Explainer) -> None:
    X = np.random.default_rng(4).normal(size=(700, 6))
    found = l2x.report(fitted, branching, X[:500], X[500:], training=SHORT)
    assert (found.finding, found.leaks) == ("none", False)
    assert "by construction" in found.verdict
    assert found["leakage"]["share"].value < 1
    brief = l2x.report(fitted.explain(X[500:]), branching, X[:500], X[500:], training=SHORT, brief=True)
    assert brief.finding == "none"


def test_paths_stop_when_they_have_read_enough(fitted: l2x.Explainer, tmp_path: Path) -> None:
    """After the first feature, only x_S may decide whether the path goes on."""
    rng = np.random.default_rng(5)
    X, others = rng.normal(size=(400, 6)), rng.normal(size=(400, 6))
    half = fitted.explain(X, keep=0.5)
    assert set(half.sizes) <= {1, 2}
    assert (fitted.explain(X, keep=1).sizes == 2).all()
    assert half.sizes.mean() <= fitted.explain(X, keep=0.95).sizes.mean()
    changed = np.where(half.mask, X, others)
    loaded = l2x.load(fitted.save(tmp_path / "paths.l2x"))
    for each in (fitted, loaded):
        found = each.explain(changed, keep=0.5)
        np.testing.assert_array_equal(found.sizes, half.sizes)
        np.testing.assert_array_equal(found.mask, half.mask)


def test_sizes_follow_what_the_surrogate_knows() -> None:
    """Half of the rows are certain after one feature, and the others need two."""
    sure = np.arange(400) % 2 == 0
    prefixes = np.zeros((400, 3, 2), dtype=np.float32)
    prefixes[sure, 1:, 1] = prefixes[~sure, 2, 1] = 8.0
    likelihood = Categorical(2)
    target = torch.tensor([[0.0, 1.0]]).expand(400, 2)
    information = [likelihood.log_likelihood(torch.from_numpy(prefixes[:, j]), target) for j in range(3)]
    sizes = PathSizes.learn(prefixes, torch.stack(information, dim=1).numpy().astype(float), likelihood)
    explanation = l2x.Explanation(np.tile([2.0, 1.0, 0.0], (400, 1)), 2, ["a", "b", "c"])
    found = sizes.shortened(explanation, 0.95, iter([prefixes]), likelihood).sizes
    assert (found == np.where(sure, 1, 2)).all()
    again = PathSizes.restore(sizes.header(), sizes.tensors(), d=3, outputs=2)
    np.testing.assert_array_equal(
        again.shortened(explanation, 0.95, iter([prefixes]), likelihood).sizes, found
    )
    with pytest.raises(l2x.errors.ArtifactError, match="9 steps through 3"):
        PathSizes.restore(sizes.header() | {"steps": 9}, sizes.tensors(), d=3, outputs=2)


def test_the_onnx_graph_has_the_property(
    example: tuple[str, l2x.Explainer, l2x.Explainer], tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    name, explainer, _ = example
    rng = np.random.default_rng(6)
    X, others = TABLES[name](200, rng), TABLES[name](200, rng)
    session = onnxruntime.InferenceSession(explainer.export_onnx(tmp_path / "paths.onnx").read_bytes())

    def selected(X: Any) -> np.ndarray:
        feed, _ = graph_inputs(explainer.features_).read(explainer.features_.check(X))
        indices: np.ndarray = session.run(["indices"], feed | {"k": np.array([3])})[0]
        return indices

    expected = selected(X)
    np.testing.assert_array_equal(expected, explainer.explain(X).indices)
    np.testing.assert_array_equal(selected(agreeing(explainer, X, others)), expected)


def test_compare_knows_the_method() -> None:
    X = np.random.default_rng(0).normal(size=(120, 4))
    comparison = l2x.compare(one_column, X, ["sequential", "random"], k=1, training=SHORT)
    assert comparison.explanations["sequential"].sequential


def test_the_guide_counts_towards_the_limit_of_queries() -> None:
    """The limit is shared by all steps: it is not used up before training ends."""
    X = np.random.default_rng(0).normal(size=(1000, 20))
    plan = l2x.TrainingPlan(
        Phase(2, 1e-2), Phase(40, 1e-2, batch_size=100), evaluations=1, validation_rows=40, progress=False
    )
    explainer = l2x.Explainer(prediction, 3, selector="sequential", training=plan, queries=6000, mixed=0).fit(
        X
    )
    assert 0 < explainer.queries_ < 6000
