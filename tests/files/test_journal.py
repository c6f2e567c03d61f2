"""Unfinished results survive interruptions and full disks; other runs and other files are not touched."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from l2x.errors import ArtifactError, InputError, WriteError
from l2x.files._journal import Journal


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


def test_any_cut_of_the_last_segment_leaves_whole_results(journal: Journal) -> None:
    with pytest.raises(KeyboardInterrupt):
        session(journal, numbers(0), numbers(10), end=KeyboardInterrupt())
    (segment,) = journal.folder.glob("*.arrows")
    content = segment.read_bytes()
    for size in range(0, len(content) + 1, 5):
        segment.write_bytes(content[:size])
        for mapped in (False, True):
            found = [x for batch in journal.results(mapped=mapped) for x in batch["x"].to_pylist()]
            assert found in ([], list(range(10)), list(range(20)))


def three_segments(journal: Journal) -> list[Path]:
    for start in (0, 20, 40):
        with pytest.raises(KeyboardInterrupt):
            session(journal, numbers(start), numbers(start + 10), end=KeyboardInterrupt())
    return sorted(journal.folder.glob("*.arrows"))


def damage(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[8:40] = b"\xff" * 32  # the schema
    segment.write_bytes(content)


def refused(journal: Journal, name: str) -> None:
    """Resuming is an error that names the segment, and deletes nothing."""
    before = {path.name: path.read_bytes() for path in journal.folder.glob("*.arrows")}
    with pytest.raises(ArtifactError, match=f"{name}'.* delete '{name}'"):
        session(journal)
    assert {path.name: path.read_bytes() for path in journal.folder.glob("*.arrows")} == before


@pytest.mark.parametrize("precious", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_damaged_segment_is_an_error(tmp_path: Path, at: int, precious: bool) -> None:
    journal = Journal(tmp_path / "out.csv", {"k": 2}, precious=precious)
    damaged = three_segments(journal)[at]
    damage(damaged)
    refused(journal, damaged.name)


@pytest.mark.parametrize("size", [None, 0, 100, -8])
@pytest.mark.parametrize("at", [0, 1])
def test_results_missing_before_others_are_an_error(journal: Journal, at: int, size: int | None) -> None:
    """Else the later results would move to other rows."""
    segments = three_segments(journal)
    if size is None:
        segments[at].unlink()
    else:
        segments[at].write_bytes(segments[at].read_bytes()[:size])
    refused(journal, segments[at + 1].name)


def test_what_the_error_says_resumes(journal: Journal) -> None:
    _, second, third = three_segments(journal)
    damage(second)
    refused(journal, second.name)
    second.unlink()
    third.unlink()
    assert session(journal) == list(range(20))


def test_a_segment_that_cannot_be_opened_is_an_error(journal: Journal) -> None:
    first, *_ = three_segments(journal)
    first.unlink()
    first.mkdir()
    with pytest.raises(ArtifactError, match=first.name):
        session(journal)
    assert len(list(journal.folder.glob("*.arrows"))) == 3


def test_segments_are_in_order_however_many_results(journal: Journal) -> None:
    with pytest.raises(KeyboardInterrupt):
        session(journal, *(numbers(i, 1) for i in range(9_999)), end=KeyboardInterrupt())
    for i in (9_999, 10_000):
        with pytest.raises(KeyboardInterrupt):
            session(journal, numbers(i, 1), end=KeyboardInterrupt())
    assert session(journal) == list(range(10_001))


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
        with pytest.raises(InputError, match=r"Another run .*out.csv"):
            session(journal)
        assert journal.folder.exists()


@pytest.mark.parametrize("name", ["out.csv.parts", "out.csv.parts/thesis.tex"])
def test_only_journals_are_touched(journal: Journal, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=r"out.csv.parts' exists"):
        session(journal)
    assert (tmp_path / name).read_text() == "mine"
