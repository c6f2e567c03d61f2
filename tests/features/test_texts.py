"""Texts remember their tokens, and only as far as somebody asked."""

from __future__ import annotations

import numpy as np

import l2x
from l2x.features.texts import Texts, Tokens


def counted() -> tuple[Texts, list[int]]:
    asked: list[int] = []

    def find(texts: list[str]) -> Tokens:
        asked.append(len(texts))
        return Tokens(np.array([[len(text)] for text in texts]), np.zeros((len(texts), 1, 2), dtype=int))

    return Texts(["a", "bb", "ccc", "dddd"], find), asked


def test_tokens_are_found_once() -> None:
    texts, asked = counted()
    assert texts.tokens.ids[:, 0].tolist() == [1, 2, 3, 4]
    assert texts.take([2, 0]).tokens.ids[:, 0].tolist() == [3, 1]
    assert texts[1:3].tokens.ids[:, 0].tolist() == [2, 3]
    assert asked == [4]


def test_rows_of_unread_texts_are_read_alone() -> None:
    texts, asked = counted()
    assert list(texts.take(np.array([True, False, False, True]))) == ["a", "dddd"]
    assert texts.take(slice(0, 2)).tokens.ids[:, 0].tolist() == [1, 2]
    assert asked == [2]


def test_another_views_texts_are_read_again() -> None:
    one = l2x.Words(length=2).fit(["good film here"])
    other = l2x.Words(length=3).fit(["good film here"])
    texts = one.check(["good film here"])
    assert one.check(texts) is texts
    assert other.check(texts).tokens.ids.shape == (1, 3)
    assert repr(texts) == "Texts(1 texts)"
