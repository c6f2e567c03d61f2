"""What a long run has done so far, beside its target: started again, the same run goes on from there.

    <target>.parts/
        run.json        what was asked: a run that asks anything else starts anew
        0000.arrows     the results of the first session, in order: an Arrow stream
        0001.arrows     those of the next, ...

A result of which only a part reached the disk does not count. The folder goes when the run succeeds.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from l2x.errors import InputError
from l2x.foundations.atomic import write_atomically

Append = Callable[[pa.RecordBatch], None]


class Journal:
    """Results of the run that `asked` describes, for `target`; an older run's are forgotten."""

    def __init__(self, target: Path, asked: dict[str, Any]) -> None:
        self.folder = target.with_name(f"{target.name}.parts")
        self.description = self.folder / "run.json"
        self.asked = json.loads(json.dumps(asked))

    @contextmanager
    def opened(self) -> Iterator[Append]:
        """The folder is this process's own, and `append(result)` adds to it, until the block ends.

        It stays if the block is interrupted, and goes if it ends well, or because the input has to be mended,
        which makes another run of it.
        """
        self._check_place()
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            _claim(lock, self.folder)
            for path in self.folder.glob(".*" if self._is_ours() else "*"):  # hidden: a killed writer's
                if path.name != "lock":
                    path.unlink()
            write_atomically(self.description, json.dumps(self.asked, indent=1).encode())
            try:
                with _Segment(self.folder / f"{len(self._segments()):04}.arrows") as segment:
                    yield segment.append
            except BaseException as error:
                if isinstance(error, InputError) or not self._segments():
                    self._discard()
                raise
            self._discard()

    def results(self) -> Iterator[pa.RecordBatch]:
        """Everything that earlier sessions of an opened journal finished, in order."""
        for path in self._segments():
            try:
                with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
                    yield from stream
            except (pa.ArrowInvalid, OSError):
                continue  # the end that was being written when the session was killed

    def _check_place(self) -> None:
        """Nothing that is not a journal is touched."""
        strange = self.folder.exists() and not self.folder.is_dir()
        if not strange and self.folder.is_dir() and not self.description.exists():
            strange = any(path.name != "lock" for path in self.folder.iterdir())
        if strange:
            raise InputError(
                f"'{self.folder}', where unfinished results are kept, is something else; move it."
            )

    def _discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.arrows"))

    def _is_ours(self) -> bool:
        try:
            return bool(json.loads(self.description.read_text()) == self.asked)
        except (OSError, ValueError):
            return False


class _Segment:
    """One session's results; the file appears with the first of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: Any = None
        self.stream: Any = None

    def __enter__(self) -> _Segment:
        return self

    def append(self, batch: pa.RecordBatch) -> None:
        if self.file is None:
            self.file = pa.OSFile(str(self.path), "wb")
            self.stream = pa.ipc.new_stream(self.file, batch.schema)
        self.stream.write_batch(batch)

    def __exit__(self, *error: object) -> None:
        if self.file is not None:
            self.stream.close()
            self.file.close()


def _claim(lock: IO[str], folder: Path) -> None:
    """Two runs into one target would mix their results; the lock ends with its process."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(
            f"Another run is at work in '{folder}'; wait for it, or choose another OUT."
        ) from error
