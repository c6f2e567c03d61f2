"""`l2x explain` and `l2x export`: any table into any table, interrupted and resumed, shown, exported."""

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
import onnxruntime
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from command_line import Folder, expected, make_frame
from toy_models import first_column

import l2x
from l2x.files import _writing as writing
from l2x.files._tables import Table


@pytest.mark.parametrize("source", ["test.csv", "test.parquet"])
@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_any_table_into_any_table(folder: Folder, source: str, target: str) -> None:
    result = folder.run("explain", "tree.l2x", source, "-o", target, "--copy", "id", "--batch-rows", 33)
    assert re.search(r"note: .*the explainer.*: label\n", result.stderr)
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
        for printed in (bar, result.stdout)
        if (found := re.search(r"200 rows.*?([\d,]+) rows/s", printed))
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


def test_explain_with_another_k(folder: Folder) -> None:
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
    printed = " ".join(result.stderr.split())
    assert code == 143 or re.search(r"interrupted: 60 .*'out.csv.parts'", printed)
    assert Path("out.csv").read_text() == "older"
    assert folder.files() == before | {"out.csv.parts"}
    result = folder.run(*command)
    assert "note: 60 rows" in result.stderr
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
    assert re.search(r"50 .*'out.csv.parts'", sentence)
    assert "note: 50 rows" in folder.run(*command).stderr
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
    "keep too much": ([*EXPLAIN, "--keep", "95"], "keep is 95.0"),
    "a column of texts": ([*EXPLAIN, "--column", "id"], "column is 'id'"),
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
    """CSV in and out, and JSON lines in and out, give the same explanations as a file."""
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


PLAN = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=2, progress=False)


def test_first_rows_show_selected_columns_with_their_values(folder: Folder) -> None:
    lines = folder.run("explain", "tree.l2x", "test.csv", "--copy", "id", "--head", 3).stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].split() == ["row", "id", "1.", "2."]
    first = expected()["feature_1"][0]
    value = make_frame(200, seed=1)[first][0]
    assert lines[1].split()[:2] == ["0", "0000"]
    assert f"{first} = {value:.4g}" in lines[1]


@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_effects_into_a_file(folder: Folder, target: str) -> None:
    command = ["explain", "tree.l2x", "test.csv", "--copy", "id", "--effects", "-o", target]
    folder.run(*command)
    out = pd.read_csv(target) if target == "out.csv" else pd.read_parquet(target)
    assert list(out.columns)[5:] == [
        *("effect_1", "effect_2", "base", "rest", "prediction", "alone", "without", "class", "predicted_by")
    ]
    total = out[["base", "effect_1", "effect_2", "rest"]].sum(axis=1)
    np.testing.assert_allclose(total, out["prediction"], atol=1e-6)
    assert set(out["predicted_by"]) == {"surrogate"}
    folder.run(*command, "--model", "cli_models:tree", "--class", "1")
    out = pd.read_csv(target) if target == "out.csv" else pd.read_parquet(target)
    tree = sys.modules["cli_models"].tree
    predictions = tree.predict_proba(make_frame(200, seed=1)[list("abcde")])
    np.testing.assert_allclose(out["prediction"], predictions[:, 1], atol=1e-6)
    assert set(out["predicted_by"]) == {"model"}
    assert "--effects" in folder.fails_without_a_trace(
        "explain", "tree.l2x", "test.csv", "--class", "1", "-o", target
    )


def test_first_rows_with_effects(folder: Folder) -> None:
    lines = folder.run("explain", "tree.l2x", "test.csv", "--effects", "--head", 2).stdout.splitlines()
    assert lines[0].split() == ["row", "prediction", "1.", "2."]
    assert re.search(r"0 +class [01], [<>]?\d+% \(predicted by the surrogate\) +[ab] = .* pp\)", lines[1])
    assert lines[3].startswith("Scores rank")


def test_first_rows_show_which_the_model_confirms(folder: Folder) -> None:
    command = ("explain", "tree.l2x", "test.csv", "--model", "cli_models:tree", "--head", 20)
    for option in (("--verify", "--no-polish"), ("--refine", 3)):
        head, *rows = folder.run(*command, *option).stdout.splitlines()[-21:]
        assert head.split()[:2] == ["row", "confirmed"]
        assert {row.split()[1] for row in rows} <= {"yes", "no"}
        name = f"{option[0]}.parquet"
        folder.run(*command[:5], *option, "-o", name)
        confirmed = pd.read_parquet(name)["confirmed"][:20]
        assert [row.split()[1] == "yes" for row in rows] == confirmed.tolist()


def test_first_rows_show_no_value_for_a_group(folder: Folder) -> None:
    frame = make_frame(100, seed=0)[list("abcde")]
    view = l2x.ColumnGroups({"[b]group[/b]": list("abcd")})
    l2x.Explainer(first_column, k=2, features=view, training=PLAN).fit(frame).save("groups.l2x")
    line = folder.run("explain", "groups.l2x", "test.csv", "--head", 1).stdout.splitlines()[1]
    assert "[b]group[/b]" in line
    assert "[b]group[/b] =" not in line
    assert f"e = {make_frame(200, seed=1)['e'][0]:.4g}" in line


def test_first_rows_match_columns_without_names_by_position(folder: Folder) -> None:
    l2x.Explainer(first_column, k=5, training=PLAN).fit(np.random.default_rng(0).normal(size=(99, 5))).save(
        "array.l2x"
    )
    shown = ("explain", "array.l2x", "test.csv", "--drop", "id", "--drop", "label", "--head", 1)
    line = folder.run(*shown).stdout.splitlines()[1]
    assert f"x4 = {make_frame(200, seed=1)['e'][0]:.4g}" in line
    assert "has 7: id, a, b, c, d, ... (7 in all)" in folder.fails("explain", "array.l2x", "test.csv")


def test_first_rows_highlight_words_of_texts(folder: Folder) -> None:
    def model(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "good" in text else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = ["a good film", "a [bold]dull[/bold] film", "film"] * 20
    view = l2x.Words(length=5)
    l2x.Explainer(model, k=2, features=view, training=PLAN).fit(texts).save("words.l2x")
    pd.DataFrame({"id": range(60), "text": texts}).to_csv("texts.csv", index=False)
    lines = folder.run("explain", "words.l2x", "texts.csv", "--copy", "id", "--head", 3).stdout.splitlines()
    assert lines[0].split() == ["row", "id", "text"]
    names = l2x.load("words.l2x").explain(texts[:3]).names
    for line, text, selected in zip(lines[1:], texts, names, strict=False):
        assert line.replace("«", "").replace("»", "").split() == [*line.split()[:2], *text.split()]
        assert all(word in line.partition("«")[2] for word in selected)
    Path("texts.txt").write_text("film\n")
    assert "«film»" in folder.run("explain", "words.l2x", "texts.txt").stdout


def test_export_an_explainer_as_an_onnx_file(folder: Folder) -> None:
    assert "1,000 rows" in folder.run("export", "tree.l2x", "-o", "tree.onnx").stdout
    session = onnxruntime.InferenceSession("tree.onnx", providers=["CPUExecutionProvider"])
    numbers = pd.read_csv("test.csv")[list("abcde")].to_numpy()
    indices = session.run(["indices"], {"numbers": numbers, "k": np.array([2])})[0]
    assert [list("abcde")[i] for i in indices[:, 0]] == expected()["feature_1"].tolist()


def test_export_rejects(folder: Folder) -> None:
    assert "is not an .onnx file" in folder.fails_without_a_trace("export", "tree.l2x", "-o", "tree.pt")
    assert "Cannot read 'none.l2x'" in folder.fails_without_a_trace("export", "none.l2x", "-o", "a.onnx")


def test_a_parquet_column_of_type_null_is_read_as_the_csv_is(folder: Folder) -> None:
    """A column without a single value has no type in Parquet; in a CSV it has missing numbers."""
    frame = pd.read_parquet("train.parquet")[list("abcde")]
    frame.loc[::5, "b"] = float("nan")
    frame.to_parquet("gaps.parquet")
    folder.run("fit", "cli_models:tree", "gaps.parquet", "--k", 2, "--quick", "-o", "gaps.l2x", "-q")
    table = pa.table({name: [0.5, -0.5] for name in "acde"}).append_column("b", pa.nulls(2))
    pa.parquet.write_table(table, "null.parquet")
    Path("null.csv").write_text("a,c,d,e,b\n0.5,0.5,0.5,0.5,\n-0.5,-0.5,-0.5,-0.5,\n")
    for name in ("null.csv", "null.parquet"):
        folder.run("explain", "gaps.l2x", name, "-o", f"from-{name}.csv", "-q")
    assert Path("from-null.csv.csv").read_text() == Path("from-null.parquet.csv").read_text()
    explained = l2x.load("gaps.l2x").explain(table.select(list("abcde")))
    assert len(explained.names) == 2


def test_files_that_cannot_be_read_or_written_are_explained(folder: Folder) -> None:
    header = "id,a,b,c,d,e,label\n"
    Path("long.csv").write_text(header + "x" * 20_000_000 + ",1,2,3,4,5,0\n")
    sentence = folder.fails("explain", "tree.l2x", "long.csv", "-o", "out.csv")
    assert "long.csv" in sentence
    assert "4 MiB" in sentence
    assert "straddl" not in sentence
    Path("nul.csv").write_bytes(header.encode() + b"1,1,2,3,4,5,0\n2,1,\0,3,4,5,0\n")
    sentence = folder.fails("explain", "tree.l2x", "nul.csv", "-o", "out.csv")
    assert "line 3" in sentence
    assert "UTF-16" not in sentence
    Path("wide.csv").write_bytes((header + "1,1,2,3,4,5,0\n").encode("utf-16-le"))
    assert "UTF-16" in folder.fails("explain", "tree.l2x", "wide.csv", "-o", "out.csv")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
def test_a_folder_that_takes_no_files_is_not_called_missing(folder: Folder) -> None:
    sentence = folder.fails("explain", "tree.l2x", "test.csv", "-o", "/proc/x.csv")
    assert "'/proc/x.csv'" in sentence
    assert "no folder" not in sentence
