"""Words of a text, each one feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from l2x.features.texts import Reads, Removal, TextView, Tokens
from l2x.features.vocabulary import PAD, UNKNOWN, without_tags
from l2x.networks.words import PaperWordSelector, WordPredictor, WordSelector
from l2x.training import Phase, TrainingPlan


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

    >>> view = Words(length=4, vocabulary=10).fit(["A good film!", "Not a good film"])
    >>> view.remove(["Good film, my friend"], np.array([[True, False, True, False]]))
    ['Good my']
    """

    paper_selector: ClassVar[dict[str, Any]] = {"paper": True}
    paper_predictor: ClassVar[dict[str, Any]] = {"pooling": "average", "gain": 1.0}
    plan: ClassVar[TrainingPlan] = TrainingPlan(
        value=Phase(2000, 3e-3, batch_size=128, averaging=0.99, patience=6),
        selector=Phase(300, 3e-3, batch_size=128, averaging=0.99, choose="latest"),
        evaluations=10,
        validation_rows=2000,
    )
    paper_plan: ClassVar[TrainingPlan] = TrainingPlan(
        selector=Phase(1200, 1e-3, batch_size=64, optimizer="rmsprop", schedule="constant"),
        evaluations=10,
        validation_rows=2000,
    )
    unit: ClassVar[str] = "word"

    def __init__(
        self,
        length: int = 400,
        *,
        vocabulary: int | Sequence[str] = 20_000,
        lowercase: bool = True,
        reads: Reads = "text",
        removal: Removal = "drop",
        replacement: str = "[MASK]",
    ) -> None:
        self.length = length
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        self.reads = reads
        self.removal = removal
        self.replacement = replacement

    def selectable(self, x: Tensor) -> Tensor:
        return (x != PAD) & (x != UNKNOWN)

    def selector(self, outputs: int, *, paper: bool = False, **options: Any) -> nn.Module:
        if paper:
            return PaperWordSelector(len(self.vocabulary_), **options)
        return WordSelector(len(self.vocabulary_), outputs, **options)

    def predictor(self, outputs: int, **options: Any) -> nn.Module:
        return WordPredictor(len(self.vocabulary_), outputs, **options)

    def _tokens(self, texts: list[str]) -> Tokens:
        ids = np.full((len(texts), self.length), PAD, dtype=np.int32)
        spans = np.zeros((len(texts), self.length, 2), dtype=np.int32)
        found = self._tokenizer.encode_batch([without_tags(text) for text in texts])
        for row, words in enumerate(found):
            n = min(len(words), self.length)
            if n:
                ids[row, :n], spans[row, :n] = words.ids[:n], words.offsets[:n]
        return Tokens(ids, spans)
