"""Words that nobody would call a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from torch import Tensor

from l2x.errors import InputError
from l2x.features._texts import PAD, UNKNOWN, TextView, Tokens, without_tags

# scikit-learn's stop words; but negations turn what they stand beside, and may well decide.
FILLER = ENGLISH_STOP_WORDS - {"no", "not"}


@dataclass(eq=False, repr=False)
class Words(TextView):
    """One feature per word of a text: raw strings in, the words that decided out.

    Words are runs of letters, digits and inner apostrophes; tags such as <br /> are skipped. Networks read
    the first `length` words by their ids in a vocabulary of frequent words, which is learned from the
    training texts. Padding and words outside the vocabulary are never selected.

    Parameters
    ----------
    length : int
        Words that are looked at; later ones are never selected.
    vocabulary : int or list of words
        How many words to learn, or the vocabulary itself: entries 0 and 1 are "[PAD]" and "[UNK]", as in the
        `vocabulary_` of a fitted view. A network that reads ids needs the one it was trained with.
    lowercase : bool
        Whether "Good" and "good" are the same word.
    reads : "text" or "ids"
        What the black box reads: texts (any function of a list of strings: a scikit-learn or transformers
        pipeline, a remote model), or a tensor (n, length) of ids, padded with 0 (a torch network).
    removal : "drop" or "replace"
        What a black box that reads texts sees of unselected words: nothing, or `replacement` in the place of
        each. One that reads ids sees padding.
    vectors : (words, array) or a mapping of words to vectors
        Pretrained ones that the embeddings of all networks begin with, such as `l2x.datasets.glove()`; words
        that they do not have begin at random. An artifact keeps what the networks made of them, not these.
    stop_words : "english" or a list of words
        Words that nobody would call a reason, and that are therefore never selected; the networks read them
        all the same. "english" is scikit-learn's list without "no" and "not".

    >>> view = Words(length=4, vocabulary=10).fit(["A good film!", "Not a good film"])
    >>> view.for_model(["Good film, my friend"], np.array([[True, False, True, False]]))
    ['Good my']
    """

    unit: ClassVar[str] = "word"

    length: int = 400
    _: KW_ONLY
    stop_words: Literal["english"] | Sequence[str] | None = None

    def selectable(self, x: Tensor) -> Tensor:
        allowed: Tensor = self._allowed.to(x.device)[x.long()]
        return allowed

    def _know(self, vocabulary: list[str], *learned: Any, **options: Any) -> Self:
        given = FILLER if self.stop_words == "english" else self.stop_words or ()
        never = {word.lower() for word in given}
        # By id: whether a word may be selected.
        self._allowed = torch.tensor([word.lower() not in never for word in vocabulary])
        self._allowed[[PAD, UNKNOWN]] = False
        return super()._know(vocabulary, *learned, **options)

    def _check_options(self) -> None:
        super()._check_options()
        words = self.stop_words
        if isinstance(words, np.ndarray | pd.Series):
            raise InputError("stop_words is an array; give a list of words: stop_words=list(...).")
        listed = isinstance(words, Sequence) and all(isinstance(word, str) for word in words)
        if words not in (None, "english") and (isinstance(words, str) or not listed):
            raise InputError(f"stop_words is {words!r}; choose 'english', or give a list of words.")

    def _tokens(self, texts: list[str]) -> Tokens:
        ids = np.full((len(texts), self.length), PAD, dtype=np.int32)
        spans = np.zeros((len(texts), self.length, 2), dtype=np.int32)
        found = self._tokenizer.encode_batch([without_tags(text) for text in texts])
        for row, words in enumerate(found):
            n = min(len(words), self.length)
            if n:
                ids[row, :n], spans[row, :n] = words.ids[:n], words.offsets[:n]
        return Tokens(ids, spans)
