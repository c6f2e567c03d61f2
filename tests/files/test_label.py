"""Labelling: every row is labelled once, whatever interrupts the run."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toy_models import one_column

import l2x
from l2x.files._labelling import label
from l2x.files._predictions import read_predictions, row_checksums

X = np.random.default_rng(0).normal(size=(500, 3))


class Counting:
    """A model that records its queries, and fails on request."""

    def __init__(self, fails_after: float = np.inf, error: BaseException | None = None) -> None:
        self.queried: list[np.ndarray] = []
        self.fails_after, self.error = fails_after, error or ConnectionError("gone")

    @property
    def rows(self) -> int:
        return sum(map(len, self.queried))

    def __call__(self, part: np.ndarray) -> np.ndarray:
        if self.rows + len(part) > self.fails_after:
            raise self.error
        self.queried.append(np.asarray(part))
        return one_column(np.asarray(part))


def test_predictions_are_those_of_the_model_with_checksums_of_the_rows(tmp_path: Path) -> None:
    predictions = l2x.label(one_column, X, tmp_path / "a.parquet", progress=False)
    assert np.array_equal(predictions.values, one_column(X))
    assert np.array_equal(predictions.checksums, row_checksums(X))
    assert (predictions.origin.model, predictions.origin.task) == ("one_column", "classification")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("error", [ConnectionError("gone"), KeyboardInterrupt()])
def test_a_run_that_stops_resumes_and_queries_no_row_twice(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.parquet"
    first = Counting(fails_after=200, error=error)
    with pytest.raises(
        (l2x.errors.BlackBoxError, KeyboardInterrupt), match=r"predictions are stored in .*resume"
    ) as stop:
        label(l2x.as_black_box(first), X, path, progress=False)
    assert not path.exists()
    assert 0 < first.rows <= 200
    if isinstance(stop.value, l2x.errors.BlackBoxError):
        assert f"Rows {first.rows} to " in str(stop.value)
    second = Counting()
    predictions = label(l2x.as_black_box(second), X, path, progress=False)
    assert np.array_equal(np.concatenate([*first.queried, *second.queried]), X)
    assert np.array_equal(predictions.values, one_column(X))
    third = Counting()
    label(l2x.as_black_box(third), X, path, progress=False)
    assert third.rows == 0


def test_the_file_does_not_depend_on_interruptions(tmp_path: Path) -> None:
    label(l2x.as_black_box(Counting()), X, tmp_path / "straight.parquet", progress=False)
    for limit in (100, 150, 130):
        with pytest.raises(l2x.errors.BlackBoxError):
            label(l2x.as_black_box(Counting(limit)), X, tmp_path / "a.parquet", progress=False)
    label(l2x.as_black_box(Counting()), X, tmp_path / "a.parquet", progress=False)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "straight.parquet").read_bytes()


def test_rows_that_were_added_are_queried_and_rows_that_were_changed_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    label(one_column, X[:300], path, progress=False)
    more = Counting()
    black_box = l2x.as_black_box(more)
    black_box.name = "one_column"
    assert np.array_equal(label(black_box, X, path, progress=False).values, one_column(X))
    assert more.rows == 200
    changed = X.copy()
    changed[123, 0] += 1
    before = path.read_bytes()
    with pytest.raises(l2x.errors.InputError, match="Row 123 is not the row"):
        label(one_column, changed, path, progress=False)
    with pytest.raises(l2x.errors.InputError, match=r"500 rows, .* only 100"):
        label(one_column, X[:100], path, progress=False)
    with pytest.raises(l2x.errors.InputError, match="of one_column, not of Counting"):
        label(Counting(), X, path, progress=False)
    assert path.read_bytes() == before


def test_killed_after_the_file_was_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    model = Counting(300)
    with pytest.raises(l2x.errors.BlackBoxError):
        label(l2x.as_black_box(model), X, path, progress=False)
    shutil.copytree(tmp_path / "a.parquet.parts", tmp_path / "kept")
    label(l2x.as_black_box(Counting()), X, path, progress=False)
    before = path.read_bytes()
    (tmp_path / "kept").rename(tmp_path / "a.parquet.parts")
    again = Counting()
    label(l2x.as_black_box(again), X, path, progress=False)
    assert again.rows == 0
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.parquet"]


def test_predictions_of_another_unfinished_run_are_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(l2x.errors.BlackBoxError):
        label(l2x.as_black_box(Counting(100)), X, path, progress=False)
    before = sorted(part.read_bytes() for part in (tmp_path / "a.parquet.parts").glob("*.arrows"))
    with pytest.raises(l2x.errors.InputError, match="results of another run"):
        label(one_column, X, path, progress=False)
    assert sorted(part.read_bytes() for part in (tmp_path / "a.parquet.parts").glob("*.arrows")) == before


def test_files_that_are_something_else_stay(tmp_path: Path) -> None:
    (tmp_path / "thesis.parquet").write_text("mine")
    with pytest.raises(l2x.errors.InputError, match="something else"):
        label(one_column, X, tmp_path / "thesis.parquet", progress=False)
    with pytest.raises(l2x.errors.InputError, match=r"\.parquet file, not in"):
        label(one_column, X, tmp_path / "a.csv", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.parquet"]
    assert (tmp_path / "thesis.parquet").read_text() == "mine"


def test_a_full_disk_keeps_what_was_labelled(tmp_path: Path) -> None:
    def full(part: np.ndarray) -> np.ndarray:
        if len(part) > 64:  # later, so that something is labelled before
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        return one_column(part)

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    many = np.concatenate([X] * 4)
    try:
        with pytest.raises(l2x.errors.WriteError, match="predictions are stored in"):
            label(full, many, tmp_path / "a.parquet", progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    rest = Counting()
    black_box = l2x.as_black_box(rest)
    black_box.name = l2x.as_black_box(full).name
    predictions = label(black_box, many, tmp_path / "a.parquet", progress=False)
    assert 0 < rest.rows < len(many)
    assert np.array_equal(predictions.values, one_column(many))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_tables_on_disk_and_in_memory_have_the_same_predictions(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "n": np.arange(500), "city": ["Oslo", None] * 250})
    if ending == "csv":
        frame.to_csv(tmp_path / "t.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "t.parquet")
    seen: list[list[str]] = []

    def model(rows: pd.DataFrame) -> np.ndarray:
        seen.append(list(rows.columns))
        return one_column(rows[["a", "b"]].to_numpy())

    predictions = l2x.label(
        model, tmp_path / f"t.{ending}", tmp_path / "a.parquet", drop=["city"], progress=False
    )
    assert seen[0] == ["a", "b", "n"]
    assert np.array_equal(predictions.values, one_column(X))
    predictions.check(frame[["a", "b", "n"]])


def test_texts(tmp_path: Path) -> None:
    texts = ["good film", "bad film", "good, long\nfilm"] * 20
    pd.DataFrame({"id": range(60), "text": texts, "also": texts}).to_csv(tmp_path / "t.csv", index=False)

    def model(given: list[str]) -> np.ndarray:
        assert isinstance(given, list)
        return np.array([float("good" in text) for text in given])

    predictions = l2x.label(model, tmp_path / "t.csv", tmp_path / "a.parquet", column="text", progress=False)
    assert predictions.origin.task == "regression"
    assert predictions.values[:3, 0].tolist() == [1, 0, 1]
    predictions.check(texts)


def test_processes(tmp_path: Path) -> None:
    def model(part: np.ndarray) -> np.ndarray:
        return np.stack([one_column(part)[:, 0], np.full(len(part), os.getpid())], axis=1)

    black_box = l2x.as_black_box(model, task="regression")
    predictions = label(black_box, X, tmp_path / "a.parquet", processes=2, progress=False)
    assert np.array_equal(predictions.values[:, 0], one_column(X)[:, 0])
    assert os.getpid() not in predictions.values[:, 1]
    assert black_box.rows == 500


def test_a_process_that_dies_is_an_error_and_what_was_labelled_stays(tmp_path: Path) -> None:
    def model(part: np.ndarray) -> np.ndarray:
        if len(part) > 8:
            os.kill(os.getpid(), signal.SIGKILL)
        return one_column(part)

    with pytest.raises(l2x.errors.BlackBoxError, match=r"process .* died.*predictions are stored"):
        label(model, X, tmp_path / "a.parquet", processes=2, progress=False)


def slow_labelling(folder: Path, name: str, seconds_per_row: float) -> None:
    """What the processes do that are killed: a slow model that logs its queries."""

    def model(part: np.ndarray) -> np.ndarray:
        with open(folder / "queried.txt", "a") as log:
            log.write(" ".join(str(int(row[0])) for row in part) + "\n")
        time.sleep(seconds_per_row * len(part))
        return one_column(part)

    label(model, np.load(folder / "X.npy"), folder / name, progress=False)


@pytest.mark.slow
def test_killed_fifty_times_the_file_is_that_of_an_uninterrupted_run(tmp_path: Path) -> None:
    """kill -9 at random moments over 20,000 rows, also while a run begins or writes."""
    kills, rows = 50, 20_000
    X = np.random.default_rng(0).normal(size=(rows, 3))
    X[:, 0] = np.arange(rows)
    np.save(tmp_path / "X.npy", X)
    rng = random.Random(0)
    fork = multiprocessing.get_context("fork")  # a new interpreter would spend most of the time on imports

    def started(name: str, seconds_per_row: float) -> multiprocessing.process.BaseProcess:
        process = fork.Process(target=slow_labelling, args=(tmp_path, name, seconds_per_row))
        process.start()
        return process

    log = tmp_path / "queried.txt"
    log.touch()
    killed = 0
    while killed < kills:
        process, size = started("a.parquet", 0.0005), log.stat().st_size
        if killed % 5:  # the others may not have begun
            while process.is_alive() and log.stat().st_size == size:
                time.sleep(0.002)
        time.sleep(rng.random() * 0.3)
        assert process.is_alive(), "the model is too fast to be interrupted that often"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        killed += 1
    last = started("a.parquet", 0.0)
    last.join()
    assert last.exitcode == 0
    queried = [line.split() for line in log.read_text().splitlines()]
    straight = started("straight.parquet", 0.0)
    straight.join()
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "straight.parquet").read_bytes()
    read_predictions(tmp_path / "a.parquet").check(X)
    times = Counter(row for batch in queried for row in batch)
    assert len(times) == rows
    # At most the batch that was under way is queried again after each interruption.
    assert sum(times.values()) - rows <= sum(sorted((len(batch) for batch in queried), reverse=True)[:kills])
    firsts = Counter(batch[0] for batch in queried)
    assert sum(count - 1 for count in firsts.values()) <= kills
