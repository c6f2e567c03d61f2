"""Explaining in batches is explaining in one go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import l2x
from l2x.errors import InputError
from l2x.files.journal import Journal
from l2x.files.tables import Table
from l2x.scale.stream import BatchExplainer, explain_table, match_columns, selection_columns

NAMES = ["x0", "x1", "x2", "x3", "x4"]


@pytest.fixture
def frame(table: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(table, columns=NAMES)


def test_arrow_columns_are_those_of_to_frame(fitted: l2x.Explainer, frame: pd.DataFrame) -> None:
    explanation = fitted.explain(frame, k=3)
    columns = pa.table(selection_columns(explanation)).to_pandas()
    texts = columns.astype({f"feature_{j}": str for j in (1, 2, 3)})
    pd.testing.assert_frame_equal(texts, explanation.to_frame(), check_dtype=False, check_exact=True)


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
    assert heard[0] == (0, 0.0)
    assert heard[-1] == (len(frame), 1.0)
    assert len(heard) == 1 + -(-len(frame) // batch_rows)
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


class Stop(BaseException):
    """As Ctrl-C or a termination, in the middle of a run."""


@pytest.mark.parametrize(("source", "target"), [("in.parquet", "out.parquet"), ("in.csv", "out.csv")])
def test_an_interrupted_run_goes_on_where_it_stopped(
    fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path, source: str, target: str
) -> None:
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=130)
    frame.to_csv(tmp_path / "in.csv", index=False)
    out, parts = tmp_path / target, tmp_path / f"{target}.parts"
    explain = BatchExplainer(fitted, NAMES, keep=["x4"], k=2)
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


def test_another_question_starts_anew(fitted: l2x.Explainer, frame: pd.DataFrame, tmp_path: Path) -> None:
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

    plan = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=2, progress=False)
    view = l2x.ColumnGroups(groups, columns=l2x.Columns(categorical=["branch"]))
    explainer = l2x.Explainer(model, k=2, features=view, training=plan).fit(frame)
    frame.to_csv(tmp_path / "in.csv", index=False)
    frame.to_parquet(tmp_path / "in.parquet")
    results = []
    for name in ("in.csv", "in.parquet"):
        (batch,) = (explain := BatchExplainer(explainer, list(frame))).batches(Table(tmp_path / name))
        result, unseen = explain.explained(batch)
        assert not unseen
        results.append(result)
    assert results[0].equals(results[1])


def test_unseen_categories_are_counted_over_all_batches(tiny: l2x.TrainingPlan, tmp_path: Path) -> None:
    frame = pd.DataFrame({"c": ["a", "b"] * 100, "x": np.arange(200.0)})

    def model(X: pd.DataFrame) -> np.ndarray:
        p = np.where(np.asarray(X["c"]) == "a", 0.9, 0.1)
        return np.stack([1 - p, p], axis=1)

    plan = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=2, progress=False)
    explainer = l2x.Explainer(model, k=1, training=plan).fit(frame)
    frame.loc[::4, "c"] = "new"
    frame.to_csv(tmp_path / "in.csv", index=False)
    with pytest.warns(UserWarning, match=r"did not have: c \(50 rows\)") as caught:
        explain_table(
            BatchExplainer(explainer, ["c", "x"]),
            Table(tmp_path / "in.csv"),
            tmp_path / "out.csv",
            batch_rows=30,
        )
    assert len(caught) == 1
