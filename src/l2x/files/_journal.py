"""The results of an unfinished run, next to its target: the same run, started again, resumes from them.

    <target>.parts/
        run.json        the description of the run; a run with another description starts over, or is refused
        0000.arrows     the results of the first session, in order, as an Arrow stream
        0012.arrows     those of the next session, which follow the first 12 results, ...

A session that is killed may leave half a result at the end of its segment. That result is ignored, and the
next session computes it again. Any other segment that cannot be read is an ArtifactError. The folder is
deleted when the run succeeds.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout

from l2x._base.atomic import write_atomically
from l2x.errors import ArtifactError, InputError

Append = Callable[[pa.RecordBatch], None]


class Journal:
    """The results for `target` of the run with this description; those of other runs are deleted.

    `precious` results, such as paid predictions, are never deleted before the run succeeds: a run with
    another description is then an InputError.
    """

    def __init__(self, target: Path, description: dict[str, Any], *, precious: bool = False) -> None:
        self.precious = precious
        self.folder = target.with_name(f"{target.name}.parts")
        self.description = json.dumps(description, indent=1).encode()
        self._described = self.folder / "run.json"

    @contextmanager
    def opened(self) -> Iterator[Append]:
        """Claim the folder for this process until the block ends, and yield `append(result)`.

        The folder is deleted on success, and on an InputError, after which the run would have other inputs,
        unless results are precious. After anything else, such as an interruption or a full disk, it stays,
        unless it holds no results.
        """
        self._check_folder()
        self.folder.mkdir(exist_ok=True)
        with self._claimed():
            try:
                self._tidy()
                write_atomically(self._described, self.description)
                before = sum(1 for _ in self.results(mapped=True))  # mapped: reads no data
                with _segment(self.folder / _segment_name(before)) as append:
                    yield append
            except BaseException as error:
                over = isinstance(error, InputError) and not self.precious
                if over or not self._segments():
                    shutil.rmtree(self.folder, ignore_errors=True)
                raise
            shutil.rmtree(self.folder, ignore_errors=True)

    def results(self, *, mapped: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield all complete results of an opened journal, in order.

        `mapped` results stay on disk until they are used, so that a list of them takes no memory. A segment
        that is damaged or missing is an ArtifactError: without it, later results would move to other rows.
        """
        number = 0
        for path in self._segments():
            if path.name != _segment_name(number):
                before = (
                    f"it follows {path.stem.lstrip('0') or 0} results, but {number} can be read before it"
                )
                raise _damaged(path, f"{before}; a segment is damaged or missing")
            for result in _read_segment(path, mapped=mapped):
                number += 1
                yield result

    def _claimed(self) -> AbstractContextManager[object]:
        """Lock the folder until the process ends: two runs with one target would mix their results."""
        lock = FileLock(self.folder / "lock")
        try:
            return lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(
                f"Another run uses '{self.folder}'; wait for it, or choose another target."
            ) from error

    def _check_folder(self) -> None:
        """Refuse to touch anything that is not a journal."""
        if not self.folder.exists():
            return
        is_journal = self.folder.is_dir() and (
            self._described.exists() or all(path.name == "lock" for path in self.folder.iterdir())
        )
        if not is_journal:
            raise InputError(
                f"'{self.folder}' exists and holds no unfinished results; move it, or choose another output."
            )

    def _tidy(self) -> None:
        """Delete results of another run; of the same run, hidden files that a killed writer left."""
        same_run = self._described.exists() and self._described.read_bytes() == self.description
        if self.precious and not same_run and self._segments():
            other = " ".join(self._described.read_text().split())
            raise InputError(
                f"'{self.folder}' holds the results of another run, {other}; finish that run, delete the "
                "folder, or choose another target."
            )
        for path in self.folder.glob(".*" if same_run else "*"):
            if path.name != "lock":
                path.unlink()

    def _segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.arrows"), key=lambda path: (len(path.name), path.name))


def _segment_name(before: int) -> str:
    """Return the name of the segment that follows `before` results."""
    return f"{before:04}.arrows"


def _read_segment(path: Path, *, mapped: bool) -> Iterator[pa.RecordBatch]:
    """Yield the results of one session, except half a result at its end."""
    try:
        file = pa.memory_map(str(path)) if mapped else pa.OSFile(str(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path, str(error)) from error
    with file:
        try:
            with pa.ipc.open_stream(file) as stream:
                yield from stream
        except (pa.ArrowInvalid, OSError) as error:
            if file.tell() < file.size():  # otherwise the session ended while it wrote its last result
                raise _damaged(path, str(error)) from error


def _damaged(path: Path, reason: str) -> ArtifactError:
    return ArtifactError(
        f"Cannot resume from '{path}': {reason}. Restore the files of its folder from a copy; or delete "
        f"'{path.name}' and the segments after it, and their results are computed again."
    )


@contextmanager
def _segment(path: Path) -> Iterator[Append]:
    """Yield `append(result)` for one session; the file appears with the first result."""
    file = stream = None

    def append(batch: pa.RecordBatch) -> None:
        nonlocal file, stream
        if file is None:
            file = pa.OSFile(str(path), "wb")
            stream = pa.ipc.new_stream(file, batch.schema)
        stream.write_batch(batch)

    try:
        yield append
    finally:
        # The stream gets no end mark, which readers do not need: after half a result, the mark would be read
        # as the rest of it, and on a full disk it cannot be written.
        if file is not None:
            file.close()
