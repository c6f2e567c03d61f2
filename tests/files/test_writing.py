"""Tables written whole or not at all, and through pipes."""

from __future__ import annotations

import gc
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from l2x.errors import InputError
from l2x.files import _writing as pipes
from l2x.files import _writing as writing
from l2x.files._writing import STANDARD, opened, standard_output, table_writer


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


def give(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))


def test_csv_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, "a,b\n1,x\n2,y\n")
    with opened(STANDARD) as (table, as_lines):
        assert not as_lines
        assert table.columns == ["a", "b"]
        for _ in range(2):  # a pipe is read once, a table as often as one likes
            assert pa.Table.from_batches(table.batches(["b"])).to_pydict() == {"b": ["x", "y"]}
        spool = table.path
    assert not spool.exists()


def test_json_lines_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "BLOCK", 10)  # several blocks; only a later one has a fraction
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"b": "é", "a": 0.5}, {"a": None, "b": "z", "new": 1}]
    give(monkeypatch, "".join(f"{json.dumps(row)}\n" for row in rows))
    with opened(STANDARD) as (table, as_lines):
        assert as_lines
        found = pa.Table.from_batches(table.batches(["a", "b"])).to_pydict()
    assert found == {"a": [1.0, 2.0, 0.5, None], "b": ["x", None, "é", "z"]}


@pytest.mark.parametrize(
    ("content", "message"), [("", "Standard input is empty"), ('{"a": 1}\n{"a": \n', "from line 1 on")]
)
def test_what_is_no_table(monkeypatch: pytest.MonkeyPatch, content: str, message: str) -> None:
    give(monkeypatch, content)
    with pytest.raises(InputError, match=message), opened(STANDARD):
        pass


def test_files_are_files(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    with opened(tmp_path / "t.csv") as (table, as_lines):
        assert (table.path, as_lines) == (tmp_path / "t.csv", False)


@pytest.mark.parametrize("lines", [True, False])
def test_batches_go_out(monkeypatch: pytest.MonkeyPatch, lines: bool) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    with standard_output(lines=lines) as write:
        for a, b in ((1, "x"), (None, "é")):
            write(pa.record_batch({"a": pa.array([a], pa.int64()), "b": [b]}))
    expected = '{"a": 1, "b": "x"}\n{"a": null, "b": "é"}\n' if lines else "a,b\n1,x\n,é\n"
    assert out.getvalue().decode() == expected
