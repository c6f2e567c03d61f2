"""Words of a text, each one feature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from torch import Tensor

from l2x.features.texts import TextView, Tokens
from l2x.features.vocabulary import PAD, UNKNOWN, without_tags
from l2x.networks.recipe import Networks, Recipes
from l2x.networks.words import RECIPES, WordPredictor, word_selector


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

    >>> view = Words(length=4, vocabulary=10).fit(["A good film!", "Not a good film"])
    >>> view.for_model(["Good film, my friend"], np.array([[True, False, True, False]]))
    ['Good my']
    """

    recipes: ClassVar[Recipes] = RECIPES
    unit: ClassVar[str] = "word"

    length: int = 400

    def selectable(self, x: Tensor) -> Tensor:
        return (x != PAD) & (x != UNKNOWN)

    def networks(self, outputs: int) -> Networks:
        words, options = len(self.vocabulary_), self._embedding_options()
        return Networks(
            partial(word_selector, words, outputs, **options),
            partial(WordPredictor, words, outputs, **options),
        )

    def _tokens(self, texts: list[str]) -> Tokens:
        ids = np.full((len(texts), self.length), PAD, dtype=np.int32)
        spans = np.zeros((len(texts), self.length, 2), dtype=np.int32)
        found = self._tokenizer.encode_batch([without_tags(text) for text in texts])
        for row, words in enumerate(found):
            n = min(len(words), self.length)
            if n:
                ids[row, :n], spans[row, :n] = words.ids[:n], words.offsets[:n]
        return Tokens(ids, spans)
