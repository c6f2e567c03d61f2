"""Rows of tables: what the model gets, and what is known of the training rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from service import file_of, rows_of

import l2x
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve.rows._reader import reader_of
from l2x.apps.serve.rows._tables import TableReader, training_range


def test_the_model_gets_a_frame_like_that_of_training() -> None:
    rows, X = rows_of("frame", 30)
    reader = reader_of(l2x.load(file_of("frame")).features_)
    frame = reader.for_model(reader.parse(rows).cells)
    assert list(frame.columns) == list(X.columns)
    assert frame["owner"].dtype == bool
    pd.testing.assert_frame_equal(frame, X.reset_index(drop=True), check_dtype=False)


def test_ranges_are_those_of_the_training_rows(table: np.ndarray) -> None:
    for view in (l2x.Columns(), l2x.Columns(bins=0), l2x.Columns(standardize=False)):
        low, high = training_range(view.fit(table[:400]))  # fewer than are kept to resample from
        np.testing.assert_allclose(low, table[:400].min(axis=0), rtol=1e-6)
        np.testing.assert_allclose(high, table[:400].max(axis=0), rtol=1e-6)


def test_names_may_be_numbers_or_nasty() -> None:
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=[0, "<b>", "a'\"🙂"])
    frame.columns = frame.columns.astype(object)
    reader = reader_of(l2x.Columns().fit(frame))
    cells = reader.parse([{"0": 1, "<b>": 2, "a'\"🙂": 3}]).cells
    assert reader.for_model(cells).to_numpy().tolist() == [[1.0, 2.0, 3.0]]
    assert list(reader.for_model(cells).columns) == list(frame.columns)


def test_every_wrong_cell_is_listed_up_to_a_limit() -> None:
    reader = reader_of(l2x.Columns().fit(np.zeros((3, 30)) + np.arange(3)[:, None]))
    assert isinstance(reader, TableReader)
    with pytest.raises(ServiceError) as error:
        reader.parse([["x"] * 30, {}])
    assert len(error.value.details) == 20
    assert [detail["column"] for detail in error.value.details[:3]] == ["x0", "x1", "x2"]


def test_examples_are_rows() -> None:
    for kind in ("columns", "frame", "groups", "regression"):
        reader = reader_of(l2x.load(file_of(kind)).features_)
        assert len(reader.parse([reader.example()])) == 1
