"""Unfinished results: kept over interruptions and full disks, dropped with the input, and nobody else's."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from l2x.errors import InputError, WriteError
from l2x.files.journal import Journal


def numbers(start: int, n: int = 10) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": np.arange(start, start + n)})


def session(journal: Journal, *batches: pa.RecordBatch, end: BaseException | None = None) -> list[int]:
    """What an opened journal holds from before; then more is appended, and the session ends."""
    with journal.opened() as append:
        before = [x for batch in journal.results() for x in batch.column("x").to_pylist()]
        for batch in batches:
            append(batch)
        if end is not None:
            raise end
    return before


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "out.csv", {"table": "in.csv", "k": 2})


@pytest.mark.parametrize(
    "end", [KeyboardInterrupt(), SystemExit(143), WriteError("disk full"), OSError(28, "full"), ValueError()]
)
def test_results_outlive_whatever_is_not_about_the_input(journal: Journal, end: BaseException) -> None:
    for start in (0, 20):
        with pytest.raises(type(end)):
            session(journal, numbers(start), numbers(start + 10), end=end)
    assert session(journal) == list(range(40))
    assert not journal.folder.exists()


def test_an_input_that_cannot_be_used_ends_it(journal: Journal) -> None:
    with pytest.raises(InputError):
        session(journal, numbers(0), end=InputError("row 3 has a gap"))
    assert not journal.folder.exists()


def test_nothing_is_left_of_a_session_without_results(journal: Journal) -> None:
    with pytest.raises(KeyboardInterrupt):
        session(journal, end=KeyboardInterrupt())
    assert not journal.folder.exists()


def test_another_question_starts_over(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        session(journal, numbers(0), end=KeyboardInterrupt())
    assert session(Journal(tmp_path / "out.csv", {"table": "in.csv", "k": 3})) == []


@pytest.mark.parametrize("cut", [1, 8, 40, 300])
def test_half_a_result_does_not_count(journal: Journal, cut: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        session(journal, numbers(0), numbers(10, 100), end=KeyboardInterrupt())
    (segment,) = journal.folder.glob("*.arrows")
    segment.write_bytes(segment.read_bytes()[:-cut])
    with pytest.raises(KeyboardInterrupt):
        assert session(journal, numbers(10), end=KeyboardInterrupt()) == list(range(10))
    assert session(journal) == list(range(20))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing more raises an OSError, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_what_was_written(journal: Journal) -> None:
    """Not even the result that was being written may spoil those before it."""
    with pytest.raises(OSError, match="File too large"), files_of_at_most(20_000):
        session(journal, *(numbers(start, 1000) for start in range(0, 10_000, 1000)))
    assert session(journal) == list(range(2000))


def test_two_runs_do_not_share_a_target(journal: Journal) -> None:
    with journal.opened() as append:
        append(numbers(0))
        with pytest.raises(
            InputError, match=r"Another run is at work in .*wait for it, or choose another target"
        ):
            session(journal)
        assert journal.folder.exists()


@pytest.mark.parametrize("name", ["out.csv.parts", "out.csv.parts/thesis.tex"])
def test_only_journals_are_touched(journal: Journal, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=r"out.csv.parts', .* is something else"):
        session(journal)
    assert (tmp_path / name).read_text() == "mine"
