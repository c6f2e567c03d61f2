"""Tables are written whole or not at all, and read again as they were."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from l2x.errors import InputError
from l2x.files import _writing as writing
from l2x.files._writing import table_writer


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_written_is_read_again(tmp_path: Path, suffix: str) -> None:
    batch = pa.RecordBatch.from_pydict({"id": ["7", 'a "b", c'], "x": pa.array([0.5, 1.5], pa.float32())})
    path = tmp_path / f"t{suffix}"
    with table_writer(path) as add:
        add(batch.slice(0, 1))
        add(batch.slice(1))
    frame = pd.read_csv(path, dtype={"id": str}) if suffix == ".csv" else pd.read_parquet(path)
    assert frame["id"].tolist() == ["7", 'a "b", c']
    assert frame["x"].tolist() == [0.5, 1.5]
    if suffix == ".csv":
        assert path.read_text().splitlines()[:2] == ["id,x", "7,0.5"]  # no quotes where none are needed


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_the_older_file_and_nothing_else(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("older")

    def write_and_fail() -> None:
        with table_writer(path) as add:
            add(pa.RecordBatch.from_pydict({"x": [1.0]}))
            raise failure

    with pytest.raises(failure):
        write_and_fail()
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_an_abandoned_parquet_file_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow completes a file when its writer is deleted; ours is closed by then, which it would print."""
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    monkeypatch.setattr(writing, "GROUP_ROWS", 1)

    def write_and_fail() -> None:
        with table_writer(tmp_path / "t.parquet") as add:
            add(pa.RecordBatch.from_pydict({"x": [1.0]}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    gc.collect()
    assert not complaints
    assert not list(tmp_path.iterdir())


def test_batches_gather_into_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 5)
    with table_writer(tmp_path / "t.parquet") as add:
        for _ in range(4):
            add(pa.RecordBatch.from_pydict({"x": [1.0, 2.0]}))
    with pa.parquet.ParquetFile(tmp_path / "t.parquet") as file:
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [6, 2]


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a"), table_writer(tmp_path / "t.xlsx"):
        pass
