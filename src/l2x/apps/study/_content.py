"""What raters are shown of an input: the selected words in their order, columns with values, patches on grey.

Content is plain data that JSON holds and templates escape; every method's has the same shape, so that nothing
in it tells which method made the selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from l2x._base.arrays import Array, cells
from l2x.display import JOINT, cell_text, image_uri, plain, shown_text
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import Columns, Patches, TextView, View

# "kind" is "text" (with "phrases"), "table" (with "cells", names and values) or "image" (with "source").
Content = dict[str, Any]

GREY = 0.5


def selected_content(explanation: Explanation, row: int) -> Content:
    """What was selected in a row, in the order of the input, and nothing else."""
    one = explanation[row]
    return _content(_view(explanation), one, sorted(one.indices[0][one.selected[0]].tolist()))


def whole_content(explanation: Explanation, row: int) -> Content:
    """The whole input of a row: what the selections are compared with."""
    one = explanation[row]
    return _content(_view(explanation), one, None)


def shown_words(content: Content) -> str:
    """The words of a text's content, as a reader takes them in."""
    return " ".join(content["phrases"])


def _view(explanation: Explanation) -> View:
    if explanation.view is None or explanation.inputs is None:
        raise InputError("This explanation holds no inputs to show; make it with explain(X, k).")
    return explanation.view


@singledispatch
def _content(view: View, one: Explanation, features: Sequence[int] | None) -> Content:
    """The content of the only row of `one`; no features are all of them."""
    raise InputError(f"A study shows texts, tables and images, not features of a {type(view).__name__}.")


@_content.register
def _of_text(view: TextView, one: Explanation, features: Sequence[int] | None) -> Content:
    texts = view.check(one.inputs)
    text = texts[0]
    if features is None:
        return {"kind": "text", "phrases": [shown_text(text).strip()]}
    return {"kind": "text", "phrases": phrases(text, texts.tokens.spans[0], features)}


def phrases(text: str, spans: Array, features: Sequence[int]) -> list[str]:
    """Selected words in reading order, those that are adjacent in the text together.

    >>> phrases("a well-made film", np.array([[0, 1], [2, 6], [7, 11], [12, 16]]), [1, 2])
    ['well-made']
    """
    found: list[str] = []
    last, end = -2, 0
    for feature in sorted(features):
        start, stop = (int(position) for position in spans[feature])
        word = shown_text(text[start:stop])
        if feature == last + 1:
            # "well-made" stays as it is; anything else between them is a blank: only selected words are seen.
            found[-1] += (shown_text(text[end:start]) if JOINT.fullmatch(text, end, start) else " ") + word
        else:
            found.append(word)
        last, end = feature, stop
    return found


@_content.register
def _of_table(view: Columns, one: Explanation, features: Sequence[int] | None) -> Content:
    row = cells(one.inputs, 0)
    # With groups, a feature is several columns.
    feature_of = np.arange(len(row)) if view.group_ is None else view.group_
    kept = [column for column in range(len(row)) if features is None or int(feature_of[column]) in features]
    names = view.column_names_
    return {"kind": "table", "cells": [[str(names[column]), cell_text(row[column])] for column in kept]}


@_content.register
def _of_image(view: Patches, one: Explanation, features: Sequence[int] | None) -> Content:
    height, width = view.image_shape_[-2:]
    colours = plain(view, one.inputs[0])
    if features is not None:
        mask = np.isin(np.arange(view.d), features)[None]
        colours = np.where(view.pixels(mask).reshape(height, width, 1), colours, GREY)
    return {"kind": "image", "source": image_uri(colours), "width": int(width), "height": int(height)}
