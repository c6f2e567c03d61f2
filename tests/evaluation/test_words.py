"""Words that are selected most often: counted whatever their case, and filler is told from reasons."""

from __future__ import annotations

import numpy as np
import pytest

import l2x
from l2x.evaluation import filler, selected_words

TEXTS = ["A great film", "the GREAT plot", "", "Not great"]


def explained(view: l2x.Words | l2x.Sentences, k: int = 2) -> l2x.Explanation:
    """The last k features of each text."""
    view = view.fit(TEXTS)
    scores = np.tile(np.arange(view.d, dtype=float), (len(TEXTS), 1))
    there = view.selectable(view.encode(TEXTS)).numpy()
    return l2x.Explanation(np.where(there, scores, -np.inf), k, view.names_, inputs=TEXTS, view=view)


def test_words_are_counted_whatever_their_case_and_padding_is_none() -> None:
    counts = selected_words(explained(l2x.Words(length=4)))
    assert counts == {"great": 3, "film": 1, "plot": 1, "not": 1}
    assert filler(counts) == []
    assert filler(selected_words(explained(l2x.Words(length=4), k=3))) == ["a", "the"]


def test_negations_are_no_filler() -> None:
    assert filler(["The", "no", "not", "Nothing", "great", "and"]) == ["The", "Nothing", "and"]


def test_only_words_can_be_counted() -> None:
    with pytest.raises(l2x.InputError, match="no words of texts"):
        selected_words(explained(l2x.Sentences(length=2), k=1))
