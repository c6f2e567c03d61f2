"""`l2x explain`: any table into any table, interrupted and resumed, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import Folder, expected, make_frame

from l2x.files import _writing as writing
from l2x.files._tables import Table


@pytest.mark.parametrize("source", ["test.csv", "test.parquet"])
@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_any_table_into_any_table(folder: Folder, source: str, target: str) -> None:
    result = folder.run("explain", "tree.l2x", source, "-o", target, "--copy", "id", "--batch-rows", 33)
    assert "note: columns that the explainer does not know are ignored: label" in result.stderr
    assert "out" in result.stdout
    assert "200 rows" in result.stdout
    out = pd.read_csv(target, dtype={"id": str}) if target == "out.csv" else pd.read_parquet(target)
    whole = expected()
    assert list(out.columns) == ["id", "feature_1", "feature_2", "score_1", "score_2"]
    assert out["id"].tolist() == make_frame(200, seed=1)["id"].tolist()
    for name in ("feature_1", "feature_2"):
        assert out[name].tolist() == whole[name].tolist()
    np.testing.assert_allclose(out["score_1"], whole["score_1"], rtol=1e-5)


def test_the_bar_counts_rows_and_their_speed(folder: Folder) -> None:
    result = folder.run("explain", "tree.l2x", "test.csv", "-o", "out.csv", "--batch-rows", 33)
    bar = " ".join(result.stderr.split())
    assert "explaining" in bar
    assert "100%" in bar
    speeds = [
        float(found.group(1).replace(",", ""))
        for said in (bar, result.stdout)
        if (found := re.search(r"200 rows.*?([\d,]+) rows/s", said))
    ]
    assert speeds[0] >= speeds[1] > 0  # the last line counts until the file is complete


def test_batches_side_by_side_have_one_thread_each(folder: Folder) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        folder.run("explain", "tree.l2x", "test.csv", "-o", "out.csv", "-q")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_again_with_another_k(folder: Folder) -> None:
    folder.run("explain", "tree.l2x", "test.csv", "-o", "out.csv", "--k", 4, "-q")
    assert pd.read_csv("out.csv")["feature_4"].tolist() == expected(k=4)["feature_4"].tolist()


def test_columns_are_found_by_name(folder: Folder) -> None:
    make_frame(200, seed=1)[["e", "label", "c", "a", "d", "b"]].to_csv("shuffled.csv", index=False)
    folder.run("explain", "tree.l2x", "test.csv", "-o", "straight_out.csv", "-q")
    silent = folder.run("explain", "tree.l2x", "shuffled.csv", "-o", "shuffled_out.csv", "-q")
    assert silent.output == ""
    assert Path("shuffled_out.csv").read_bytes() == Path("straight_out.csv").read_bytes()


def interrupt() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("stop", "code"), [(interrupt, 130), (terminate, 143)])
def test_an_interrupted_run_leaves_what_was_there_and_resumes(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, stop: Callable[[], None], code: int
) -> None:
    calls = iter(range(20))

    def share_then_stop(self: Table, rows: int) -> float:
        if next(calls) == 3:
            stop()
        return 0.5

    Path("out.csv").write_text("older")
    before = folder.files()
    command = ("explain", "tree.l2x", "test.csv", "-o", "out.csv", "--batch-rows", 20)
    with monkeypatch.context() as patch:
        patch.setattr(Table, "share_read", share_then_stop)
        result = folder.run(*command, code=code)
    told = " ".join(result.stderr.split())
    assert code == 143 or "interrupted: 60 explained rows are kept in 'out.csv.parts'; run" in told
    assert Path("out.csv").read_text() == "older"
    assert folder.files() == before | {"out.csv.parts"}
    result = folder.run(*command)
    assert "note: 60 rows were explained before; resuming" in result.stderr
    assert "200 rows" in result.stdout
    assert folder.files() == before
    assert pd.read_csv("out.csv")["feature_1"].tolist() == expected()["feature_1"].tolist()


def test_a_full_disk_is_one_sentence_and_the_same_command_resumes(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("explain", "tree.l2x", "test.csv", "-o", "out.csv", "--batch-rows", 50)
    with monkeypatch.context() as patch:
        patch.setattr(writing, "_csv_bytes", lambda batch, quoting: _full())
        sentence = folder.fails(*command)
    assert "Cannot write 'out.csv': No space left on device." in sentence
    assert "50 explained rows are kept in 'out.csv.parts'; run the same again to resume." in sentence
    assert "note: 50 rows were explained before; resuming" in folder.run(*command).stderr
    assert pd.read_csv("out.csv")["feature_1"].tolist() == expected()["feature_1"].tolist()
    assert not Path("out.csv.parts").exists()


def _full() -> bytes:
    raise OSError(28, "No space left on device")


EXPLAIN = ["explain", "tree.l2x", "test.csv"]
ERRORS: dict[str, tuple[list[object], str]] = {
    "no such explainer": (["explain", "no.l2x", "test.csv"], "Cannot read 'no.l2x'"),
    "not an explainer": (["explain", "test.csv", "test.csv"], "not an l2x explainer"),
    "k": ([*EXPLAIN, "--k", 9], "k = 9 but there are 5"),
    "out is a folder": ([*EXPLAIN, "-o", "folder.csv"], "it is a folder"),
    "out in no folder": ([*EXPLAIN, "-o", "no/out.csv"], "no folder 'no'"),
    "out is data": ([*EXPLAIN, "-o", "./test.csv"], "'test.csv' is DATA"),
    "out is the explainer": ([*EXPLAIN, "-o", "link.csv"], "'link.csv' is FILE"),
    "out of what kind": ([*EXPLAIN, "-o", "out.xlsx"], "neither a .csv nor"),
    "columns missing": (["explain", "tree.l2x", "lacking.csv", "-o", "out.csv"], "fitted on: b, d; it has"),
    "no rows": (["explain", "tree.l2x", "header.csv", "-o", "out.csv"], "has no rows"),
    "no rows to show": (["explain", "tree.l2x", "header.csv"], "has no rows"),
    "empty file": (["explain", "tree.l2x", "empty.csv", "-o", "out.csv"], "Empty CSV"),
    "copy a stranger": ([*EXPLAIN, "--copy", "z"], "Cannot copy 'z': the columns of 'test.csv' are id, a"),
    "keep a column": ([*EXPLAIN, "--keep", "id"], "To copy a column into the output: --copy."),
    "keep too much": ([*EXPLAIN, "--keep", "95"], "--keep is 95; expected the share of the information"),
    "a column of texts": ([*EXPLAIN, "--column", "id"], "column is 'id', but this explainer reads 5 columns"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_sentence_and_nothing_is_lost(folder: Folder, case: str) -> None:
    Path("header.csv").write_text("a,b,c,d,e\n")
    Path("empty.csv").write_text("")
    Path("lacking.csv").write_text("a,c,e,label\n1,2,3,0\n")
    Path("folder.csv").mkdir()
    Path("link.csv").symlink_to("tree.l2x")
    Path("out.csv").write_text("older")
    arguments, sentence = ERRORS[case]
    assert sentence in folder.fails_without_a_trace(*arguments)


def test_in_a_pipe(folder: Folder) -> None:
    """A real one: CSV in and out, and JSON lines in and out, with the same answers as a file."""
    command = [sys.executable, "-m", "l2x.apps.cli", "explain", "tree.l2x", "-", "-o", "-", "-q"]
    content = Path("test.csv").read_bytes()
    out = subprocess.run(command, input=content, capture_output=True, check=True).stdout
    found, wanted = pd.read_csv(io.BytesIO(out)), expected()
    assert found["feature_1"].tolist() == wanted["feature_1"].tolist()
    assert np.allclose(found["score_2"], wanted["score_2"], atol=1e-4)
    lines = make_frame(200, seed=1).to_json(orient="records", lines=True).encode()
    out = subprocess.run(command, input=lines, capture_output=True, check=True).stdout
    rows = [json.loads(line) for line in out.decode().splitlines()]
    assert [row["feature_1"] for row in rows] == wanted["feature_1"].tolist()
    assert not Path("-").exists()
    empty = subprocess.run(command, input=b"id,a,b,c,d,e\n", capture_output=True, check=False)
    assert (empty.returncode, empty.stdout) == (1, b"")
    assert b"DATA has no rows" in empty.stderr


def test_flags_have_no_type_in_help(folder: Folder) -> None:
    for command in ("label", "fit", "explain", "evaluate", "export", "serve", "reproduce"):
        assert "<bool>" not in folder.run(command, "--help").output
    for command in ("reproduce adult", "study new", "study serve", "data fetch"):
        assert "<bool>" not in folder.run(*command.split(), "--help").output
