"""Explaining in batches is explaining in one go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import l2x
from l2x.errors import InputError
from l2x.scale.stream import BatchExplainer, explain_table, match_columns, selection_columns
from l2x.scale.tables import Table

NAMES = ["x0", "x1", "x2", "x3", "x4"]


@pytest.fixture
def frame(table: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(table, columns=NAMES)


def test_arrow_columns_are_those_of_to_frame(fitted: l2x.Explainer, frame: pd.DataFrame) -> None:
    explanation = fitted.explain(frame, k=3)
    columns = pa.table(selection_columns(explanation)).to_pandas()
    pd.testing.assert_frame_equal(columns, explanation.to_frame(), check_dtype=False, check_exact=True)


@pytest.mark.parametrize("batch_rows", [1, 77, 600, 10_000])
def test_batches_change_nothing(
    fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path, batch_rows: int
) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    source = Table(tmp_path / "in.parquet")
    heard: list[tuple[int, float]] = []
    rows = explain_table(
        BatchExplainer(fitted, NAMES, k=2),
        source,
        tmp_path / "out.parquet",
        batch_rows=batch_rows,
        report=lambda done, share: heard.append((done, share)),
    )
    assert rows == len(frame)
    assert heard[-1] == (len(frame), 1.0)
    assert len(heard) == -(-len(frame) // batch_rows)
    result, whole = pd.read_parquet(tmp_path / "out.parquet"), fitted.explain(frame, k=2).to_frame()
    features = ["feature_1", "feature_2"]
    assert (result[features].to_numpy() == whole[features].to_numpy()).all()
    # Batched matrix products may round differently in the last digit.
    np.testing.assert_allclose(result["score_1"], whole["score_1"], rtol=1e-5)


def test_a_bad_cell_is_found_where_it_is(fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.loc[423, "x3"] = np.nan
    frame.to_parquet(tmp_path / "in.parquet")
    with pytest.raises(InputError, match=r"Row 23, column 'x3'.*counted from row 400 on"):
        explain_table(
            BatchExplainer(fitted, NAMES),
            Table(tmp_path / "in.parquet"),
            tmp_path / "out.csv",
            batch_rows=100,
        )
    assert not (tmp_path / "out.csv").exists()


def test_columns_of_an_explainer_without_names_go_by_position(
    fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path
) -> None:
    other = frame.set_axis(list("abcde"), axis=1)
    other.insert(0, "id", range(len(other)))
    other.to_csv(tmp_path / "in.csv", index=False)
    source = Table(tmp_path / "in.csv")
    assert match_columns(fitted, source, drop=["id"]) == (list("abcde"), [])
    assert match_columns(fitted, source, keep=["id"]) == (list("abcde"), [])
    (batch,) = source.batches(list("abcde"), text=["id"])
    explained = BatchExplainer(fitted, list("abcde"), keep=["id"])(batch).to_pydict()
    assert explained["feature_1"] == fitted.explain(frame).to_frame()["feature_1"].tolist()
    with pytest.raises(InputError, match=r"5 columns without names.* has 6"):
        match_columns(fitted, source)


def test_a_kept_column_may_not_pose_as_a_result(fitted: l2x.Explainer, frame: pd.DataFrame) -> None:
    batch = pa.RecordBatch.from_pandas(frame.assign(score_1=0.0))
    with pytest.raises(InputError, match="'score_1' has the name of a result"):
        BatchExplainer(fitted, NAMES, keep=["score_1"])(batch)
