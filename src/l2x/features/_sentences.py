"""Sentences of a text, each one feature."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from l2x._base.arrays import is_whole
from l2x.errors import InputError, require
from l2x.features._texts import PAD, TextView, Tokens, without_tags


@dataclass(eq=False, repr=False)
class Sentences(TextView):
    """One feature per sentence of a text: raw strings in, the sentences that decided out.

    Texts are split by `sentencex`, after tags such as <br /> were blanked. Networks read the first `length`
    sentences and of each its first `words` words, by their ids in a vocabulary of the training texts.

    Parameters
    ----------
    length : int
        Sentences that are looked at; later ones are never selected.
    words : int
        Words of a sentence that networks read.
    vocabulary, lowercase, vectors : as for `Words`
    reads : "text" or "ids"
        What the black box reads: texts, or a tensor (n, length, words) of ids, padded with 0.
    removal : "drop" or "replace"
        What a black box that reads texts sees of unselected sentences: nothing, or `replacement` in the place
        of each. One that reads ids sees padding.
    language : str
        For the splitter, as ISO 639-1 has it.

    >>> view = Sentences(length=3).fit(["A good film. Mr. Bean is in it!"])
    >>> view.names_in(["A good film. Mr. Bean is in it!"], np.array([[1, 0]])).tolist()
    [['Mr. Bean is in it!', 'A good film.']]
    """

    unit: ClassVar[str] = "sentence"

    length: int = 15
    _: KW_ONLY
    words: int = 50
    replacement: str = "..."
    language: str = "en"

    def selectable(self, x: Tensor) -> Tensor:
        return (x != PAD).any(dim=2)

    def _tokens(self, texts: list[str]) -> Tokens:
        segment = require("sentencex", extra="text").segment
        ids = np.full((len(texts), self.length, self.words), PAD, dtype=np.int32)
        spans = np.zeros((len(texts), self.length, 2), dtype=np.int32)
        plain = [without_tags(text) for text in texts]
        found = self._tokenizer.encode_batch(plain)
        for row, (text, words) in enumerate(zip(plain, found, strict=True)):
            if not len(words):
                continue
            letters = np.asarray(words.offsets)[:, 0]
            ends = np.cumsum([len(sentence) for sentence in segment(self.language, text)])
            # Only what holds a word is a sentence: number those, and the words in each.
            there, sentence = np.unique(np.searchsorted(ends, letters, side="right"), return_inverse=True)
            position = np.arange(len(letters)) - np.searchsorted(sentence, sentence)
            kept = (sentence < self.length) & (position < self.words)
            ids[row, sentence[kept], position[kept]] = np.asarray(words.ids)[kept]
            starts = np.concatenate([[0], ends])
            for i, part in enumerate(there[: self.length].tolist()):
                spans[row, i] = _stripped(text, int(starts[part]), int(starts[part + 1]))
        return Tokens(ids, spans)

    def _check_options(self) -> None:
        super()._check_options()
        if not is_whole(self.words):
            raise InputError(
                f"words is {self.words!r}; give a whole number of words per sentence, such as 50."
            )


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without white space around it."""
    sentence = text[start:end]
    return start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip())
