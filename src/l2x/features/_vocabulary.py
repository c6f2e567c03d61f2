"""Words and their ids: what counts as a word, which words networks know, and their pretrained vectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from l2x._base.arrays import Array
from l2x.errors import InputError, require

# Ids of the vocabulary's first two entries: padding, and every word that is not in it.
PAD, UNKNOWN = 0, 1
SPECIAL = ("[PAD]", "[UNK]")
# Letters and digits, with apostrophes inside: "don't" is one word.
WORD = r"\w+(?:['’]\w+)*"
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
# scikit-learn's stop words, except negations, which often decide.
FILLER = ENGLISH_STOP_WORDS - {"no", "not"}

# Words and an array of their vectors, (words, width), or a mapping of words to vectors.
Vectors = tuple[Sequence[str], Array] | Mapping[str, Any]


def learn_vocabulary(texts: Iterable[str], size: int, *, lowercase: bool) -> list[str]:
    """Return the most frequent words, at most `size` entries with the two special ones in front."""
    tokenizers = require("tokenizers", extra="text")
    learner = word_tokenizer(list(SPECIAL), lowercase=lowercase)
    trainer = tokenizers.trainers.WordLevelTrainer(
        vocab_size=size, special_tokens=list(SPECIAL), show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    learned: dict[str, int] = learner.get_vocab()
    return sorted(learned, key=learned.__getitem__)


def checked_vocabulary(given: Sequence[str]) -> list[str]:
    """Return a user's vocabulary, in which positions are ids; raise an InputError if it cannot be one."""
    words = list(given)
    strings = all(isinstance(word, str) for word in words)
    if not strings or tuple(words[:2]) != SPECIAL or len(words) < 3 or len(set(words)) < len(words):
        raise InputError(
            "vocabulary must be a list of different words whose first two entries are '[PAD]' and '[UNK]' "
            "(ids 0 and 1), such as the vocabulary_ of a fitted view."
        )
    return words


def word_tokenizer(vocabulary: list[str], *, lowercase: bool) -> Any:
    """Return a tokenizer that splits texts into words, with their ids and positions in the text."""
    tokenizers = require("tokenizers", extra="text")
    ids = {word: i for i, word in enumerate(vocabulary)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=SPECIAL[UNKNOWN]))
    if lowercase:
        tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(WORD), behavior="removed", invert=True
    )
    return tokenizer


@dataclass(frozen=True)
class Read:
    """The words of one text: their ids, and their starts and ends in characters."""

    ids: Array  # (words,)
    offsets: Array  # (words, 2)

    def __len__(self) -> int:
        return len(self.ids)


# By byte of an ASCII text: whether it is a letter, a digit or an underscore, and its lower case.
_IN_WORD = np.array([chr(byte).isalnum() or byte == ord("_") for byte in range(128)])
_LOWER = np.frombuffer(bytes(range(128)).lower(), dtype=np.uint8)
_APOSTROPHE, _BLANK = ord("'"), np.uint8(ord(" "))


class WordReader:
    """Read texts like `word_tokenizer`, ASCII texts twice as fast: by array operations on their bytes."""

    def __init__(self, vocabulary: list[str], *, lowercase: bool) -> None:
        self._tokenizer = word_tokenizer(vocabulary, lowercase=lowercase)
        self._lowercase = lowercase
        self._ids = {word.encode(): i for i, word in enumerate(vocabulary) if word.isascii()}

    def encode_batch(self, texts: Sequence[str]) -> list[Read]:
        """Return the words of each text."""
        others = iter(self._tokenizer.encode_batch([text for text in texts if not text.isascii()]))
        return [self._of_ascii(text) if text.isascii() else _as_read(next(others)) for text in texts]

    def _of_ascii(self, text: str) -> Read:
        letters = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
        inside = np.zeros(len(letters) + 2, dtype=bool)  # with an end on both sides
        inside[1:-1] = _IN_WORD[letters]
        apostrophes = np.flatnonzero(letters == _APOSTROPHE) + 1
        inside[apostrophes[inside[apostrophes - 1] & inside[apostrophes + 1]]] = True
        offsets = np.flatnonzero(inside[1:] != inside[:-1]).reshape(-1, 2)
        words = np.where(inside[1:-1], _LOWER[letters] if self._lowercase else letters, _BLANK)
        number = self._ids.get
        ids = [number(word, UNKNOWN) for word in words.tobytes().split()]
        return Read(np.array(ids, dtype=np.int64), offsets)


def _as_read(words: Any) -> Read:
    return Read(np.array(words.ids, dtype=np.int64), np.array(words.offsets, dtype=np.int64).reshape(-1, 2))


def without_tags(text: str) -> str:
    """Return the text with blanks instead of tags such as <br />; other characters keep their positions."""
    return TAG.sub(lambda tag: " " * len(tag.group()), text)


def vectors_of(vocabulary: Sequence[str], given: Vectors) -> Array:
    """Return the vector of each word of a vocabulary, (words, width) float32; NaN for words without one.

    If "Good" has no vector, it gets that of "good".
    """
    words, vectors = _as_table(given)
    row = {word: i for i, word in enumerate(words)}
    rows = np.array([row.get(word, row.get(word.lower(), -1)) for word in vocabulary])
    has_vector = rows >= 0
    if not has_vector.any():
        raise InputError(
            f"None of the {len(vocabulary):,} words of the vocabulary has a vector; vectors= has, for "
            f"example, {list(words[:3])}."
        )
    chosen = np.full((len(vocabulary), vectors.shape[1]), np.nan, dtype=np.float32)
    chosen[has_vector] = vectors[rows[has_vector]]
    if not np.isfinite(chosen[has_vector]).all():
        raise InputError("vectors= holds numbers that are not finite.")
    return chosen


def _as_table(given: Any) -> tuple[Sequence[str], Array]:
    """Return the words, and an array with one row per word."""
    if isinstance(given, Mapping):
        given = list(given), list(given.values())
    try:
        words, vectors = given
        vectors = np.asarray(vectors, dtype=np.float32)
        sound = vectors.ndim == 2 and len(words) == len(vectors) > 0 and vectors.shape[1] > 0
    except (TypeError, ValueError) as error:
        raise InputError(
            "vectors must be a mapping of words to vectors of one length, or a pair (words, array) such as "
            f"l2x.datasets.glove(); got a {type(given).__name__} ({error})."
        ) from error
    if not sound:
        raise InputError(
            f"vectors has {len(words):,} words and an array of shape {vectors.shape}; give one row per word."
        )
    return words, vectors
