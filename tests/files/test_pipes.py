"""Standard input and output: CSV and JSON lines, whole in and as they come out."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from l2x.errors import InputError
from l2x.files import _writing as pipes
from l2x.files._writing import STANDARD, opened, standard_output


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
    ("content", "message"), [("", "Standard input is empty"), ('{"a": 1}\n{"a": \n', "no JSON with one")]
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
