"""Words and their ids: what counts as a word, and which ones networks know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from l2x.errors import InputError, require
from l2x.networks.words import PAD as PAD

# Ids of the vocabulary's first two entries: padding, and every word that is not in it.
UNKNOWN = PAD + 1
SPECIAL = ("[PAD]", "[UNK]")
# Letters and digits, with apostrophes inside: "don't" is one word.
WORD = r"\w+(?:['’]\w+)*"
TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def learn_vocabulary(texts: Iterable[str], size: int, *, lowercase: bool) -> list[str]:
    """The most frequent words, at most `size` entries with the two special ones in front."""
    tokenizers = require("tokenizers", extra="text")
    learner = word_tokenizer(list(SPECIAL), lowercase=lowercase)
    trainer = tokenizers.trainers.WordLevelTrainer(
        vocab_size=size, special_tokens=list(SPECIAL), show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    learned: dict[str, int] = learner.get_vocab()
    return sorted(learned, key=learned.__getitem__)


def checked_vocabulary(given: Sequence[str]) -> list[str]:
    """A vocabulary that the user brings: a word's position is its id."""
    words = list(given)
    strings = all(isinstance(word, str) for word in words)
    if not strings or tuple(words[:2]) != SPECIAL or len(words) < 3 or len(set(words)) < len(words):
        raise InputError(
            "vocabulary must be a list of different words whose first two entries are '[PAD]' and '[UNK]' "
            "(ids 0 and 1), such as the vocabulary_ of a fitted view."
        )
    return words


def word_tokenizer(vocabulary: list[str], *, lowercase: bool) -> Any:
    """Splits texts into words, with their ids and the characters that each came from."""
    tokenizers = require("tokenizers", extra="text")
    ids = {word: i for i, word in enumerate(vocabulary)}
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=SPECIAL[UNKNOWN]))
    if lowercase:
        found.normalizer = tokenizers.normalizers.Lowercase()
    found.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(WORD), behavior="removed", invert=True
    )
    return found


def without_tags(text: str) -> str:
    """The text with blanks in place of tags such as <br />: every other character keeps its position."""
    return TAG.sub(lambda tag: " " * len(tag.group()), text)
