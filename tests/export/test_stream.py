"""Explaining in batches equals explaining at once, and an interrupted run resumes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from flawed_server import Flawed, serving

import l2x
from l2x.errors import InputError, WriteError
from l2x.explanation import arrow_columns
from l2x.export._stream import BatchExplainer, explain_table, match_columns
from l2x.export.ray import BatchLabeller
from l2x.files import _writing as writing
from l2x.files._journal import Journal
from l2x.files._predictions import row_checksums
from l2x.files._tables import Table

NAMES = ["x0", "x1", "x2", "x3", "x4"]
SHORT = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=2, progress=False)
TEXTS = ["a good film", "dull", "", "good, bad and 007", "NA"] * 20


@pytest.fixture
def frame(table: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(table.copy(), columns=NAMES)  # pandas 2 would write into the table of all tests


def test_arrow_columns_are_those_of_to_frame(fitted: l2x.Explainer, frame: pd.DataFrame) -> None:
    explanation = fitted.explain(frame, k=3)
    columns = pa.table(arrow_columns(explanation)).to_pandas()
    texts = columns.astype({f"feature_{j}": str for j in (1, 2, 3)})
    pd.testing.assert_frame_equal(texts, explanation.to_frame(), check_dtype=False, check_exact=True)


def test_arrow_columns_with_effects_are_those_of_to_frame(fitted: l2x.Explainer, frame: pd.DataFrame) -> None:
    explanation = fitted.explain(frame, k=3)
    columns = pa.table(arrow_columns(explanation, effects=True)).to_pandas()
    expected = explanation.to_frame(effects=True)
    texts = columns.astype({name: str for name in columns if columns[name].dtype == "category"})
    pd.testing.assert_frame_equal(texts, expected, check_dtype=False, check_exact=True)


def test_a_batch_is_labelled_in_requests_of_the_allowed_size(frame: pd.DataFrame) -> None:
    batch = pa.RecordBatch.from_pandas(frame)
    with serving(Flawed()) as server:
        black_box = l2x.as_black_box(l2x.Endpoint(server.url, rows_per_request=100))
        found = BatchLabeller(black_box, NAMES)(batch)
        assert max(len(request["body"]["rows"]) for request in server.requests) <= 100
    assert np.allclose(found["prediction_1"], 1 / (1 + np.exp(-frame["x0"])))
    assert np.array_equal(found["checksum"], row_checksums(frame))


def mentions_good(texts: list[str]) -> np.ndarray:
    p = np.array([0.9 if "good" in text else 0.1 for text in texts])
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def words_explained() -> l2x.Explainer:
    view = l2x.Words(length=6)
    return l2x.Explainer(mentions_good, k=2, features=view, training=SHORT).fit(TEXTS)


def test_arrow_columns_of_texts_have_nulls_where_to_frame_has_gaps(words_explained: l2x.Explainer) -> None:
    explanation = words_explained.explain(TEXTS)
    columns = pa.table(arrow_columns(explanation))
    assert columns.column("feature_1").null_count == columns.column("score_1").null_count == 20
    assert columns.column("feature_2").null_count == 60
    pd.testing.assert_frame_equal(columns.to_pandas(), explanation.to_frame(), check_exact=True)


@pytest.mark.parametrize("name", ["in.csv", "in.parquet", "in.txt"])
def test_a_table_of_texts(words_explained: l2x.Explainer, tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"id": range(100), "text": TEXTS})
    if name == "in.txt":
        (tmp_path / name).write_text("\n".join(TEXTS) + "\n")
    elif name == "in.csv":
        frame.to_csv(tmp_path / name, index=False)
    else:
        frame.to_parquet(tmp_path / name)
    table = Table(tmp_path / name)
    columns, ignored = match_columns(words_explained, table)
    assert (columns, ignored) == (["text"], [])
    explain_table(BatchExplainer(words_explained, columns), table, tmp_path / "out.parquet", batch_rows=30)
    result = pd.read_parquet(tmp_path / "out.parquet")
    whole = words_explained.explain(TEXTS).to_frame()
    assert result["feature_1"].tolist() == whole["feature_1"].tolist()
    assert result["feature_2"].tolist() == whole["feature_2"].tolist()
    with pytest.raises(InputError, match="no column of texts"):
        match_columns(words_explained, table, copy=["text"])


@pytest.mark.parametrize("case", ["loaded", "model", "predictions", "class"])
def test_effects_add_up_to_the_prediction(
    fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path, case: str
) -> None:
    """Without a model they add up to the surrogate's prediction; with it, or with predictions, to these."""
    p = l2x.as_black_box(fitted.model)(frame[NAMES].to_numpy())
    frame = frame.assign(p0=p[:, 0], p1=p[:, 1])
    frame.to_parquet(tmp_path / "in.parquet")
    explainer = l2x.load(fitted.save(tmp_path / "e.l2x"), model=fitted.model if case == "model" else None)
    given = ["p0", "p1"] if case in ("predictions", "class") else []
    chosen = 1 if case == "class" else None
    explain = BatchExplainer(explainer, NAMES, k=2, predictions=given, effects=True, for_class=chosen)
    explain_table(explain, Table(tmp_path / "in.parquet"), tmp_path / "out.parquet", batch_rows=250)
    found = pd.read_parquet(tmp_path / "out.parquet")
    total = found["base"] + found["effect_1"] + found["effect_2"] + found["rest"]
    np.testing.assert_allclose(total, found["prediction"], atol=1e-6)
    expected = {"loaded": None, "class": p[:, 1]}.get(case, p.max(axis=1))
    assert set(found["predicted_by"]) == {"surrogate" if case == "loaded" else "model"}
    if expected is None:
        assert np.abs(found["prediction"] - p.max(axis=1)).max() > 1e-4
    else:
        np.testing.assert_allclose(found["prediction"], expected, atol=1e-6)


def test_a_class_that_does_not_exist(fitted: l2x.Explainer, frame: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="'blue'; choose one of 0, 1"):
        BatchExplainer(fitted, NAMES, effects=True, for_class="blue")(pa.RecordBatch.from_pandas(frame))


@pytest.mark.parametrize("batch_rows", [1, 77, 600, 10_000])
def test_batches_change_nothing(
    fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path, batch_rows: int
) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    source = Table(tmp_path / "in.parquet")
    reported: list[tuple[int, float]] = []
    rows = explain_table(
        BatchExplainer(fitted, NAMES, k=2),
        source,
        tmp_path / "out.parquet",
        batch_rows=batch_rows,
        report=lambda done, share: reported.append((done, share)),
    )
    assert rows == len(frame)
    assert reported[0] == (0, 0.0)
    assert reported[-1] == (len(frame), 1.0)
    assert len(reported) == 1 + -(-len(frame) // batch_rows)
    result, whole = pd.read_parquet(tmp_path / "out.parquet"), fitted.explain(frame, k=2).to_frame()
    features = ["feature_1", "feature_2"]
    assert (result[features].to_numpy() == whole[features].to_numpy()).all()
    # Batched matrix products may round differently in the last digit.
    np.testing.assert_allclose(result["score_1"], whole["score_1"], rtol=1e-5)


def test_torch_threads_are_left_to_the_caller(
    fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    source, target = Table(tmp_path / "in.parquet"), tmp_path / "out.parquet"
    threads: list[int] = []
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        explain_table(
            BatchExplainer(fitted, NAMES),
            source,
            target,
            batch_rows=300,
            report=lambda done, share: threads.append(torch.get_num_threads()),
        )
    finally:
        torch.set_num_threads(before)
    assert threads == [2, 2, 2]


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
    assert match_columns(fitted, source, copy=["id"]) == (list("abcde"), [])
    (batch,) = source.batches(list("abcde"), text=["id"])
    explained = BatchExplainer(fitted, list("abcde"), copy=["id"])(batch).to_pydict()
    assert explained["feature_1"] == fitted.explain(frame).to_frame()["feature_1"].tolist()
    with pytest.raises(InputError, match=r"5 columns without names.* has 6"):
        match_columns(fitted, source)
    for name in ("drop", "copy"):
        with pytest.raises(InputError, match=f"Cannot {name} 'z'"):
            match_columns(fitted, source, **{name: ["z"]})
    with pytest.raises(InputError, match="column is 'a', but this explainer reads a table"):
        match_columns(fitted, source, column="a")


def test_a_copied_column_with_the_name_of_a_result_is_rejected(
    fitted: l2x.Explainer, frame: pd.DataFrame
) -> None:
    batch = pa.RecordBatch.from_pandas(frame.assign(score_1=0.0))
    with pytest.raises(InputError, match="'score_1' has the name of a result"):
        BatchExplainer(fitted, NAMES, copy=["score_1"])(batch)


@pytest.mark.parametrize("groups", [{}, {"when": ["time", "day"]}])
def test_a_csv_gives_what_the_frame_gives(tmp_path: Path, groups: dict[str, list[str | int]]) -> None:
    rng = np.random.default_rng(0)
    looks = {
        "zip": ["01234", "00501"],
        "time": ["12:30", "13:30"],
        "flag": ["True", "False"],
        "day": ["2024-01-01", "2024-02-01"],
        "city": ["Bonn", None],
    }
    frame = pd.DataFrame({name: rng.choice(np.array(cells, object), 200) for name, cells in looks.items()})
    frame["branch"] = rng.choice([7, 30_000_000_000], 200)

    def model(X: pd.DataFrame) -> np.ndarray:
        p = np.where(X["zip"] == "01234", 0.9, 0.1)
        return np.stack([1 - p, p], axis=1)

    view = l2x.ColumnGroups(groups, categorical=["branch"])
    explainer = l2x.Explainer(model, k=2, features=view, training=SHORT).fit(frame)
    texts = explainer.features_.table_layout().categories
    assert [list(frame)[position] for position in sorted(texts)] == ["zip", "time", "flag", "day", "city"]
    frame.to_csv(tmp_path / "in.csv", index=False)
    frame.to_parquet(tmp_path / "in.parquet")
    results = []
    for name in ("in.csv", "in.parquet"):
        (batch,) = (explain := BatchExplainer(explainer, list(frame))).batches(Table(tmp_path / name))
        result, unseen = explain.explained(batch)
        assert not unseen
        results.append(result)
    assert results[0].equals(results[1])


def test_unseen_categories_are_counted_over_all_batches(tmp_path: Path) -> None:
    frame = pd.DataFrame({"c": ["a", "b"] * 100, "x": np.arange(200.0)})

    def model(X: pd.DataFrame) -> np.ndarray:
        p = np.where(np.asarray(X["c"]) == "a", 0.9, 0.1)
        return np.stack([1 - p, p], axis=1)

    explainer = l2x.Explainer(model, k=1, training=SHORT).fit(frame)
    frame.loc[::4, "c"] = "new"
    frame.to_csv(tmp_path / "in.csv", index=False)
    with pytest.warns(UserWarning, match=r"c \(50 rows\)") as caught:
        explain_table(
            BatchExplainer(explainer, ["c", "x"]),
            Table(tmp_path / "in.csv"),
            tmp_path / "out.csv",
            batch_rows=30,
        )
    assert len(caught) == 1


class Stop(BaseException):
    """Stands for Ctrl-C or a termination in the middle of a run."""


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
        reported: list[int] = []

        def report(rows: int, share: float) -> None:
            reported.append(rows)
            if rows >= limit:
                raise Stop

        with pytest.raises(Stop):
            explain_table(explain, Table(tmp_path / source), out, batch_rows=50, report=report)
        return reported

    assert stop_at(250) == [0, 50, 100, 150, 200, 250]
    assert out.read_text() == "what was there before"
    # A session that was killed leaves half a result at its end, and half a file.
    segment = parts / "0000.arrows"
    segment.write_bytes(segment.read_bytes()[:-300])
    (parts / ".out.killed").write_text("half")
    resumed = stop_at(350)
    assert resumed[0] == 200
    reported: list[int] = []
    rows = explain_table(
        explain,
        Table(tmp_path / source),
        out,
        batch_rows=50,
        report=lambda done, share: reported.append(done),
    )
    assert (rows, reported[0]) == (600, resumed[-1])
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
    reported: list[int] = []

    def report(rows: int, share: float) -> None:
        reported.append(rows)
        if rows == 300:
            raise OSError(28, "No space left on device")  # as the file itself would

    with pytest.raises(WriteError, match=rf"{target}.*No space left.*300 .*{target}\.parts"):
        explain_table(explain, source, tmp_path / target, batch_rows=100, report=report)
    reported.clear()
    explain_table(
        explain, source, tmp_path / target, batch_rows=100, report=lambda rows, share: reported.append(rows)
    )
    assert reported[0] == 300
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
    reported: list[int] = []
    explain = BatchExplainer(l2x.load(tmp_path / "saved.l2x"), NAMES)
    explain_table(
        explain,
        Table(tmp_path / "in.csv"),
        tmp_path / "out.csv",
        report=lambda rows, share: reported.append(rows),
    )
    assert reported[0] == 300
    found, whole = pd.read_csv(tmp_path / "out.csv"), fitted.explain(frame).to_frame()
    assert found["feature_1"].tolist() == whole["feature_1"].tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv", "saved.l2x"]


def test_an_interruption_names_the_journal(
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


def test_other_options_start_over(fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    source, out = Table(tmp_path / "in.parquet"), tmp_path / "out.parquet"

    def stop(rows: int, share: float) -> None:
        if rows:
            raise Stop

    with pytest.raises(Stop):
        explain_table(BatchExplainer(fitted, NAMES, k=1), source, out, batch_rows=100, report=stop)
    reported: list[int] = []
    other = BatchExplainer(fitted, NAMES, k=2)
    explain_table(other, source, out, batch_rows=100, report=lambda rows, share: reported.append(rows))
    assert reported[0] == 0
    assert list(pd.read_parquet(out).columns) == ["feature_1", "feature_2", "score_1", "score_2"]


def test_only_journals_are_touched(fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    folder = tmp_path / "out.parquet.parts"
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    explain = BatchExplainer(fitted, NAMES)
    with pytest.raises(InputError, match=r"out.parquet.parts' exists"):
        explain_table(explain, Table(tmp_path / "in.parquet"), tmp_path / "out.parquet")
    assert (folder / "thesis.tex").read_text() == "mine"
    source, busy = Table(tmp_path / "in.parquet"), tmp_path / "busy.parquet"
    with (
        Journal(busy, explain.description(source)).opened(),
        pytest.raises(InputError, match="Another run"),
    ):
        explain_table(explain, source, busy)
