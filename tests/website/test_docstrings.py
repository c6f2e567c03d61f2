"""Docstrings of the house, as the reference's parser expects them."""

from __future__ import annotations

import pytest

docstrings = pytest.importorskip("website.docstrings", reason="the group docs is not installed")

FUNCTION = """Do it.

X : the rows
    to read
k, d : numbers

Returns
-------
A share. It has
two lines.

>>> 1
1"""
EXPECTED = """Do it.

Parameters
----------
X
    the rows
    to read
k, d
    numbers

Returns
-------
float
    A share. It has
    two lines.

Examples
--------
>>> 1
1"""


def test_lists_returns_and_examples_get_their_headings() -> None:
    assert docstrings.tidy(FUNCTION, in_class=False, returns="float") == EXPECTED


def test_a_class_has_attributes() -> None:
    assert docstrings.tidy("A thing.\n\nk : its size", in_class=True).split("\n")[2] == "Attributes"


def test_numpydoc_stays_numpydoc() -> None:
    text = "Do it.\n\nParameters\n----------\nX\n    the rows\n\nExamples\n--------\n>>> 1\n1"
    assert docstrings.tidy(text, in_class=False) == text


def test_prose_stays_prose() -> None:
    text = "Do it: 3 : 4 is a ratio.\n\nAnd a paragraph."
    assert docstrings.tidy(text, in_class=False) == text


def test_a_type_is_kept_apart_from_its_description() -> None:
    text = "Do it.\n\nParameters\n----------\nX : rows\n    To read.\nk : int\n    How many."
    tidied = "Do it.\n\nParameters\n----------\nX\n    rows.\n    To read.\nk\n    How many."
    assert docstrings.tidy(text, in_class=False) == tidied
