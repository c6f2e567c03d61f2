"""Words by a tokenizer of Hugging Face: whole words, in any script, with their positions in the text."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from l2x._base.arrays import Array, batches
from l2x.errors import InputError, require
from l2x.features._vocabulary import SPECIAL, UNKNOWN

# Scripts without blanks between words: only the tokenizer can tell where a word ends.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
LETTER = rf"(?:(?![{UNSPACED}])\w)"
# What a word is made of and never ends inside of: a run of letters and digits with inner apostrophes, or one
# character as a reader sees it (\X), such as a Thai letter with its vowel signs or a family of emoji.
ATOM = rf"(?=[{UNSPACED}])\X|{LETTER}+(?:['’]{LETTER}+)*|(?!\s)\X"
# Words that occur less often in training are read by their longest piece: too rare to learn a vector.
OFTEN = 2
# Marks a piece of a rare word in the vocabulary; a word has no blank.
PIECE = "piece "
TEXTS_AT_ONCE = 1024


@dataclass(frozen=True)
class Segments:
    """The words of one text."""

    offsets: list[list[int]]  # where each word begins and ends, in characters
    words: list[str]
    pieces: list[Sequence[str]]  # the tokens of each word

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class ReadWords:
    """The words of one text by their ids in a vocabulary; like an encoding of `tokenizers`."""

    ids: list[int]
    offsets: list[list[int]]

    def __len__(self) -> int:
        return len(self.ids)


class Segmenter:
    """Splits texts into words by a tokenizer.

    A word is the smallest run of whole tokens that ends inside no atom (`ATOM`): pieces of a word are joined,
    "don't" is one word whatever the tokenizer does, and Chinese or Thai is split where the tokenizer does.
    Runs without a letter, a digit or a symbol such as an emoji are no words.

    Parameters
    ----------
    given : tokenizer
        As `Words(tokenizer=...)`.
    """

    def __init__(self, given: Any) -> None:
        tokenizers = require("tokenizers", extra="text")
        self.json = tokenizer_as_json(given)
        self._tokenizer = tokenizers.Tokenizer.from_str(self.json)
        self._atoms = tokenizers.Tokenizer(
            tokenizers.models.WordLevel({SPECIAL[UNKNOWN]: 0}, unk_token=SPECIAL[UNKNOWN])
        )
        self._atoms.pre_tokenizer = tokenizers.pre_tokenizers.Split(
            tokenizers.Regex(ATOM), behavior="removed", invert=True
        )

    def segment(self, texts: Sequence[str]) -> list[Segments]:
        """Return the words of texts."""
        tokenised = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        atoms = self._atoms.encode_batch(texts)
        return [
            _segments(text, tokens.tokens, np.array(tokens.offsets), np.array(parts.offsets))
            for text, tokens, parts in zip(texts, tokenised, atoms, strict=True)
        ]


def _segments(text: str, tokens: Sequence[str], spans: Array, atoms: Array) -> Segments:
    found = Segments([], [], [])
    if not len(spans) or not len(atoms):
        return found
    starts, ends = _outside(spans[:, 0], atoms, 0), _outside(spans[:, 1], atoms, 1)
    # Tokens that overlap after that belong to one word: a word begins where all tokens before have ended.
    ended = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.concatenate([[True], starts[1:] >= ended[:-1]]))
    last = np.concatenate([first[1:], [len(starts)]])
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        start = int(starts[begin])
        word = text[start : int(ended[end - 1])]
        start += len(word) - len(word.lstrip())
        word = word.strip()
        if is_word(word):
            found.offsets.append([start, start + len(word)])
            found.words.append(word)
            found.pieces.append(tokens[begin:end])
    return found


def _outside(positions: Array, atoms: Array, side: int) -> Array:
    """Return positions in a text, with those inside an atom moved to its start (side 0) or its end (1)."""
    atom = atoms[np.maximum(np.searchsorted(atoms[:, 0], positions, side="right") - 1, 0)]
    inside = (atom[:, 0] < positions) & (positions < atom[:, 1])
    return np.where(inside, atom[:, side], positions)


@lru_cache(maxsize=1 << 16)
def is_word(text: str) -> bool:
    """Return whether a run of characters has a letter, a digit or a symbol such as an emoji.

    >>> is_word("!"), is_word("é"), is_word("👍"), is_word("2")
    (False, True, True, True)
    """
    return any(unicodedata.category(character)[0] in "LN" or _is_sign(character) for character in text)


def _is_sign(character: str) -> bool:
    return unicodedata.category(character) == "So"


class VocabularyReader:
    """Reads texts as ids in a vocabulary of words, and of pieces for words that are not in it."""

    def __init__(self, segmenter: Segmenter, vocabulary: Sequence[str], *, lowercase: bool) -> None:
        self.segmenter, self.lowercase = segmenter, lowercase
        self.ids = {word: i for i, word in enumerate(vocabulary)}

    def encode_batch(self, texts: Sequence[str]) -> list[ReadWords]:
        """Return the ids of the words of each text, and their positions."""
        return [
            ReadWords(list(map(self._id, found.words, found.pieces)), found.offsets)
            for found in self.segmenter.segment(texts)
        ]

    def _id(self, word: str, pieces: Sequence[str]) -> int:
        own = self.ids.get(entry_of(word, lowercase=self.lowercase))
        if own is not None:
            return own
        entries = [entry for entry in map(piece_entry, pieces) if entry in self.ids]
        return self.ids[max(entries, key=len)] if entries else UNKNOWN


def learn_words(texts: Iterable[str], segmenter: Segmenter, size: int, *, lowercase: bool) -> list[str]:
    """Return a vocabulary of at most `size` entries: frequent words, and pieces of rare ones."""
    counts: Counter[str] = Counter()
    longest: dict[str, str] = {}
    texts = list(texts)
    for rows in batches(len(texts), TEXTS_AT_ONCE):
        for found in segmenter.segment(texts[rows]):
            for word, pieces in zip(found.words, found.pieces, strict=True):
                entry = entry_of(word, lowercase=lowercase)
                counts[entry] += 1
                longest.setdefault(entry, piece_entry(max(pieces, key=len)))
    frequent = Counter({entry: count for entry, count in counts.items() if count >= OFTEN})
    for entry in counts.keys() - frequent.keys():
        frequent[longest[entry]] += counts[entry]
    ranked = sorted(frequent, key=lambda entry: (-frequent[entry], entry))
    return [*SPECIAL, *ranked[: size - len(SPECIAL)]]


@lru_cache(maxsize=1 << 17)
def entry_of(word: str, *, lowercase: bool) -> str:
    """Return a word's entry in a vocabulary: composed, so that é is one letter, and perhaps in lower case."""
    composed = unicodedata.normalize("NFC", word)
    return composed.lower() if lowercase else composed


def piece_entry(token: str) -> str:
    """Return the entry of a token that stands for rare words."""
    return PIECE + token


def tokenizer_as_json(given: Any) -> str:
    """Return a tokenizer as the JSON of `tokenizers`, without truncation and padding.

    Raises an InputError unless it is a tokenizer of `tokenizers`, a fast tokenizer of `transformers`, the
    JSON of one, or the path of a tokenizer.json.
    """
    tokenizers = require("tokenizers", extra="text")
    backend = getattr(given, "backend_tokenizer", given)
    try:
        if isinstance(backend, str | Path):
            content = str(backend)
            content = content if content.lstrip().startswith("{") else Path(content).read_text("utf-8")
            backend = tokenizers.Tokenizer.from_str(content)
        elif not isinstance(backend, tokenizers.Tokenizer):
            raise TypeError("it has no `backend_tokenizer`")
        settings = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
        return json.dumps(settings, ensure_ascii=False)
    except Exception as error:  # tokenizers raises bare exceptions
        name = f"{given!r}"[:80] if isinstance(given, str | Path) else f"a {type(given).__name__}"
        raise InputError(
            f"tokenizer is {name}, which cannot be read ({error}); give a fast tokenizer of transformers, a "
            "tokenizers.Tokenizer, or the path of its tokenizer.json."
        ) from error
