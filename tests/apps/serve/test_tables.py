"""Rows of tables: cells, frames for the model, and scores by the ONNX graph."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from service import file_of, rows_of

import l2x
from l2x.apps.serve._requests import ServiceError
from l2x.apps.serve._rows import RowError, row_format
from l2x.apps.serve._tables import Category, Number, TableRows, checked_cell, table_graph, training_range
from l2x.features import Levels

NUMBER = Number("age", False, 0.0, 1.0, False, 0.5)


@pytest.mark.parametrize(("given", "cell"), [(1, 1.0), (1.5, 1.5), (-0.0, 0.0), (10**300, 1e300)])
def test_numbers(given: Any, cell: float) -> None:
    assert checked_cell(NUMBER, given) == cell
    assert isinstance(checked_cell(NUMBER, given), float)


@pytest.mark.parametrize("given", [None, True, "1", [1], {}, float("inf"), float("nan"), 10**400])
def test_cells_that_are_not_numbers(given: Any) -> None:
    with pytest.raises(RowError) as wrong:
        checked_cell(NUMBER, given)
    (problem,) = wrong.value.problems
    assert (problem.column, problem.expected) == ("age", "a number")
    if given is None:
        assert checked_cell(Number("age", True, 0.0, 1.0, False, 0.5), None) is None


@pytest.mark.parametrize(
    ("levels", "given", "cell", "seen"),
    [
        (["Ulm", "Bonn"], "Ulm", "Ulm", True),
        (["Ulm", "Bonn"], "Köln", "Köln", False),
        (["01234", "5"], 5, "5", True),
        (["true", "b"], True, "true", True),
        ([True, False], False, False, True),
        ([True, False], "true", True, True),
        ([1, 2], 1.0, 1, True),
        ([1, 2], "2", 2, True),
        ([1.5, 2.0], 7, 7, False),
    ],
)
def test_categories_take_the_type_of_the_training_rows(
    levels: list[Any], given: Any, cell: Any, seen: bool
) -> None:
    column = Category("town", False, Levels(levels, len(levels)))
    found = checked_cell(column, given)
    assert found == cell
    assert type(found) is type(cell)
    assert column.seen(found) == seen
    assert list(column.series([found])) == [cell]


@pytest.mark.parametrize(
    ("levels", "given"),
    [(["a"], None), (["a"], ["a"]), ([True], "maybe"), ([True], 7), ([1], "x"), ([1], True), ([], {})],
)
def test_cells_that_are_not_categories(levels: list[Any], given: Any) -> None:
    with pytest.raises(RowError):
        checked_cell(Category("town", False, Levels(levels, len(levels))), given)


def test_a_column_without_categories_takes_null() -> None:
    assert checked_cell(Category("town", True, Levels([], 0)), None) is None


def test_inputs_are_a_frame_like_the_training_rows() -> None:
    rows, X = rows_of("frame", 30)
    json_rows = row_format(l2x.load(file_of("frame")).features_)
    frame = json_rows.inputs(json_rows.parse(rows).cells)
    assert list(frame.columns) == list(X.columns)
    assert frame["owner"].dtype == bool
    pd.testing.assert_frame_equal(frame, X.reset_index(drop=True), check_dtype=False)


def test_ranges_agree_with_the_training_rows(table: np.ndarray) -> None:
    for view in (l2x.Columns(), l2x.Columns(bins=0), l2x.Columns(standardize=False)):
        low, high = training_range(view.fit(table[:400]))  # fewer than are stored for resampling
        np.testing.assert_allclose(low, table[:400].min(axis=0), rtol=1e-6)
        np.testing.assert_allclose(high, table[:400].max(axis=0), rtol=1e-6)


def test_names_may_be_numbers_or_nasty() -> None:
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=[0, "<b>", "a'\"🙂"])
    frame.columns = frame.columns.astype(object)
    json_rows = row_format(l2x.Columns().fit(frame))
    cells = json_rows.parse([{"0": 1, "<b>": 2, "a'\"🙂": 3}]).cells
    assert json_rows.inputs(cells).to_numpy().tolist() == [[1.0, 2.0, 3.0]]
    assert list(json_rows.inputs(cells).columns) == list(frame.columns)


def test_invalid_cells_are_listed_up_to_a_limit() -> None:
    json_rows = row_format(l2x.Columns().fit(np.zeros((3, 30)) + np.arange(3)[:, None]))
    assert isinstance(json_rows, TableRows)
    with pytest.raises(ServiceError) as error:
        json_rows.parse([["x"] * 30, {}])
    assert len(error.value.details) == 20
    assert [detail["column"] for detail in error.value.details[:3]] == ["x0", "x1", "x2"]


def test_examples_are_rows() -> None:
    for kind in ("columns", "frame", "groups", "regression"):
        json_rows = row_format(l2x.load(file_of(kind)).features_)
        assert len(json_rows.parse([json_rows.example()])) == 1


@pytest.mark.parametrize("kind", ["columns", "regression", "frame", "groups"])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_the_graph_selects_and_scores_as_explain_does(kind: str, n: int) -> None:
    explainer = l2x.load(file_of(kind))
    json_rows = row_format(explainer.features_)
    graph = table_graph(explainer, json_rows)
    assert graph is not None
    rows, X = rows_of(kind, n)
    indices, scores, _ = graph(json_rows.parse(rows).cells, 2)
    wanted = explainer.explain(X, k=2)
    np.testing.assert_array_equal(indices, wanted.indices)
    np.testing.assert_allclose(scores, wanted.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("town", ["Köln", "", None])
def test_the_graph_reads_unseen_and_missing_cells_as_explain_does(town: str | None) -> None:
    explainer = l2x.load(file_of("frame"))
    json_rows = row_format(explainer.features_)
    graph = table_graph(explainer, json_rows)
    assert graph is not None
    rows, X = rows_of("frame", 3)
    parsed = json_rows.parse([row | {"town": town, "income": None} for row in rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unseen categories
        wanted = explainer.explain(X.assign(town=town, income=np.nan)).scores
    np.testing.assert_allclose(graph(parsed.cells, 2)[1], wanted, rtol=1e-4, atol=1e-5)
    assert parsed.unseen == ({"town": 3} if town is not None else {})


@pytest.mark.parametrize("kind", ["words", "patches"])
def test_other_views_have_no_graph(kind: str) -> None:
    explainer = l2x.load(file_of(kind))
    assert table_graph(explainer, row_format(explainer.features_)) is None


def test_a_table_that_onnx_cannot_express_has_no_graph(tiny: l2x.TrainingPlan) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.choice(["", "Ulm"], 60), "age": rng.normal(size=60)})
    explainer = l2x.Explainer(lambda X: np.full((len(X), 2), 0.5), 1, training=tiny)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the predictions are constant
        explainer.fit(frame)
    assert table_graph(explainer, row_format(explainer.features_)) is None
