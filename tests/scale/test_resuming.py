"""A run of explain_table that stopped - interrupted, killed, on a full disk - resumes where it stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.errors import InputError, WriteError
from l2x.export._stream import BatchExplainer, explain_table
from l2x.files import _writing as writing
from l2x.files._journal import Journal
from l2x.files._tables import Table

NAMES = ["x0", "x1", "x2", "x3", "x4"]


@pytest.fixture
def frame(table: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(table, columns=NAMES)


class Stop(BaseException):
    """As Ctrl-C or a termination, in the middle of a run."""


@pytest.mark.parametrize(("source", "target"), [("in.parquet", "out.parquet"), ("in.csv", "out.csv")])
def test_an_interrupted_run_resumes_where_it_stopped(
    fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path, source: str, target: str
) -> None:
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=130)
    frame.to_csv(tmp_path / "in.csv", index=False)
    out, parts = tmp_path / target, tmp_path / f"{target}.parts"
    explain = BatchExplainer(fitted, NAMES, copy=["x4"], k=2)
    out.write_text("what was there before")

    def stop_at(limit: int) -> list[int]:
        heard: list[int] = []

        def report(rows: int, share: float) -> None:
            heard.append(rows)
            if rows >= limit:
                raise Stop

        with pytest.raises(Stop):
            explain_table(explain, Table(tmp_path / source), out, batch_rows=50, report=report)
        return heard

    assert stop_at(250) == [0, 50, 100, 150, 200, 250]
    assert out.read_text() == "what was there before"
    # A session that was killed leaves half a result at its end, and half a file.
    segment = parts / "0000.arrows"
    segment.write_bytes(segment.read_bytes()[:-300])
    (parts / ".out.killed").write_text("half")
    resumed = stop_at(350)
    assert resumed[0] == 200
    heard: list[int] = []
    rows = explain_table(
        explain,
        Table(tmp_path / source),
        out,
        batch_rows=50,
        report=lambda done, share: heard.append(done),
    )
    assert (rows, heard[0]) == (600, resumed[-1])
    assert not parts.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.csv", "in.parquet", target])
    straight = tmp_path / f"straight-{target}"
    explain_table(explain, Table(tmp_path / source), straight, batch_rows=50)
    assert out.read_bytes() == straight.read_bytes()


@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_a_run_that_cannot_write_resumes(
    fitted: l2x.Explainer,
    frame: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    source, explain = Table(tmp_path / "in.parquet"), BatchExplainer(fitted, NAMES, k=2)
    monkeypatch.setattr(writing, "GROUP_ROWS", 100)
    explain_table(explain, source, tmp_path / f"straight-{target}", batch_rows=100)
    heard: list[int] = []

    def report(rows: int, share: float) -> None:
        heard.append(rows)
        if rows == 300:
            raise OSError(28, "No space left on device")  # as the file itself would

    full = (
        r"Cannot write .*No space left.*300 explained rows are kept in .*parts'; run the same again to resume"
    )
    with pytest.raises(WriteError, match=full):
        explain_table(explain, source, tmp_path / target, batch_rows=100, report=report)
    heard.clear()
    explain_table(
        explain, source, tmp_path / target, batch_rows=100, report=lambda rows, share: heard.append(rows)
    )
    assert heard[0] == 300
    assert (tmp_path / target).read_bytes() == (tmp_path / f"straight-{target}").read_bytes()
    assert not (tmp_path / f"{target}.parts").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from l2x.export._artifact import load
from l2x.files._tables import Table
from l2x.export._stream import BatchExplainer, explain_table
folder = Path(sys.argv[1])

def report(rows, share):
    if rows == 300:
        os.kill(os.getpid(), signal.SIGKILL)

explain = BatchExplainer(load(folder / "saved.l2x"), ["x0", "x1", "x2", "x3", "x4"])
explain_table(explain, Table(folder / "in.csv"), folder / "out.csv", batch_rows=50, report=report)
"""


def test_a_killed_process_resumes(fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "in.csv", index=False)
    fitted.save(tmp_path / "saved.l2x")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    heard: list[int] = []
    explain = BatchExplainer(l2x.load(tmp_path / "saved.l2x"), NAMES)
    explain_table(
        explain,
        Table(tmp_path / "in.csv"),
        tmp_path / "out.csv",
        report=lambda rows, share: heard.append(rows),
    )
    assert heard[0] == 300
    found, whole = pd.read_csv(tmp_path / "out.csv"), fitted.explain(frame).to_frame()
    assert found["feature_1"].tolist() == whole["feature_1"].tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv", "saved.l2x"]


def test_an_interruption_says_how_to_resume(
    fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "in.parquet")

    def stop_at(limit: int) -> str:
        def report(rows: int, share: float) -> None:
            if rows == limit:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as stopped:
            explain_table(
                BatchExplainer(fitted, NAMES),
                Table(tmp_path / "in.parquet"),
                tmp_path / "out.csv",
                batch_rows=100,
                report=report,
            )
        return str(stopped.value)

    assert stop_at(0) == ""  # there is nothing to resume
    assert stop_at(200).startswith("200 explained rows are kept in")


def test_another_question_starts_over(fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    source, out = Table(tmp_path / "in.parquet"), tmp_path / "out.parquet"

    def stop(rows: int, share: float) -> None:
        if rows:
            raise Stop

    with pytest.raises(Stop):
        explain_table(BatchExplainer(fitted, NAMES, k=1), source, out, batch_rows=100, report=stop)
    heard: list[int] = []
    other = BatchExplainer(fitted, NAMES, k=2)
    explain_table(other, source, out, batch_rows=100, report=lambda rows, share: heard.append(rows))
    assert heard[0] == 0
    assert list(pd.read_parquet(out).columns) == ["feature_1", "feature_2", "score_1", "score_2"]


def test_only_journals_are_touched(fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    folder = tmp_path / "out.parquet.parts"
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    explain = BatchExplainer(fitted, NAMES)
    with pytest.raises(InputError, match=r"out.parquet.parts', .* is something else"):
        explain_table(explain, Table(tmp_path / "in.parquet"), tmp_path / "out.parquet")
    assert (folder / "thesis.tex").read_text() == "mine"
    source, busy = Table(tmp_path / "in.parquet"), tmp_path / "busy.parquet"
    with (
        Journal(busy, explain.description(source)).opened(),
        pytest.raises(InputError, match="Another run is at work"),
    ):
        explain_table(explain, source, busy)
