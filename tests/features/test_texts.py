"""Texts remember their tokens, and only those that were needed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import l2x
from l2x.features._texts import Texts, Tokens


class Lengths(l2x.Words):
    """A view whose only word is the length of the text; it remembers the size of each batch."""

    def _tokens(self, texts: list[str]) -> Tokens:
        self.tokenised = [*getattr(self, "tokenised", []), len(texts)]
        return Tokens(np.array([[len(text)] for text in texts]), np.zeros((len(texts), 1, 2), dtype=int))


def counted() -> tuple[Texts, Lengths]:
    view = Lengths()
    return Texts(["a", "bb", "ccc", "dddd"], view), view


def test_tokens_are_found_once() -> None:
    texts, view = counted()
    assert texts.tokens.ids[:, 0].tolist() == [1, 2, 3, 4]
    assert texts[[2, 0]].tokens.ids[:, 0].tolist() == [3, 1]
    assert texts[1:3].tokens.ids[:, 0].tolist() == [2, 3]
    assert view.tokenised == [4]


def test_rows_of_unread_texts_are_read_alone() -> None:
    texts, view = counted()
    assert list(texts[np.array([True, False, False, True])]) == ["a", "dddd"]
    assert texts[:2].tokens.ids[:, 0].tolist() == [1, 2]
    assert view.tokenised == [2]


def test_another_views_texts_are_read_again() -> None:
    one = l2x.Words(length=2).fit(["good film here"])
    other = l2x.Words(length=3).fit(["good film here"])
    texts = one.check(["good film here"])
    assert one.check(texts) is texts
    assert l2x.Words(length=2, vocabulary=one.vocabulary_).fit(["x"]).check(texts) is texts  # it reads alike
    assert other.check(texts).tokens.ids.shape == (1, 3)
    assert repr(texts) == "Texts(1 texts)"


def test_the_index_of_a_series_comes_back_with_the_results() -> None:
    texts = pd.Series(["good film", "bad film", "a film"], index=["x", "y", "z"])
    view = l2x.Words(length=3).fit(texts)
    explanation = l2x.baselines.RandomK(features=view).explain(texts, k=1)
    assert list(explanation.to_frame().index) == ["x", "y", "z"]
    assert list(explanation[1:].to_frame().index) == ["y", "z"]


def test_frames_that_are_no_column_of_texts_are_refused_with_advice() -> None:
    one = {"text": ["good film", "bad film"]}
    wrong = {
        r"got a LazyFrame; pass X.collect\(\)": pl.LazyFrame(one),
        r"more than one column named 'text'; rename or drop": pd.DataFrame(
            [["a", "b"]], columns=["text"] * 2
        ),
        r"got a table of 2; pass the column": pd.DataFrame(one | {"more": ["a", "b"]}),
    }
    for message, X in wrong.items():
        with pytest.raises(l2x.errors.InputError, match=message):
            l2x.Words(length=3).fit(X)
    for X in (pl.DataFrame(one), pd.DataFrame(one)["text"], pl.DataFrame(one)["text"]):
        assert l2x.Words(length=3).fit(X).check(X).texts == one["text"]


def test_texts_without_a_word_are_refused() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"in the 2 texts, such as '\.\.\.'"):
        l2x.Words().fit(["...", ""])


def test_whole_numbers_of_numpy() -> None:
    assert l2x.Words(length=np.int64(3)).fit(["good film"]).d == 3


def test_ways_of_removing() -> None:
    view = l2x.Words(length=3).fit(["good film here"])
    assert list(view.maskings()) == ["drop", "replace"]
    mask = np.array([[False, True, False]])
    assert view.maskings()["replace"].for_model(["good film here"], mask) == ["[MASK] film [MASK]"]
    assert list(l2x.Words(length=3, reads="ids").maskings()) == ["drop"]


def test_the_figure_of_texts_counts_words() -> None:
    texts = ["good film", "bad film", "a film"]
    view = l2x.Words(length=3).fit(texts)
    explanation = l2x.baselines.RandomK(features=view).explain(texts, k=2)
    (axes,) = explanation.plot().axes
    assert axes.get_yticklabels()[0].get_text() == "film"
