"""The service's own way to score a few rows of a table gives what `explain` gives."""

from __future__ import annotations

import numpy as np
import pytest
from service import file_of, rows_of

import l2x
from l2x.apps.serve._scoring import table_scores
from l2x.apps.serve.rows import _images as images  # noqa: F401  (each says how its rows are read)
from l2x.apps.serve.rows._reader import reader_of


@pytest.mark.parametrize("kind", ["columns", "regression", "frame", "groups"])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_scores_are_those_of_explain_to_the_bit(kind: str, n: int) -> None:
    explainer = l2x.load(file_of(kind))
    reader = reader_of(explainer.features_)
    scores = table_scores(explainer, reader)
    assert scores is not None
    rows, X = rows_of(kind, n)
    np.testing.assert_array_equal(scores(reader.parse(rows).cells), explainer.explain(X).scores)


def test_unseen_categories_and_gaps_are_scored_as_explain_does() -> None:
    explainer = l2x.load(file_of("frame"))
    reader = reader_of(explainer.features_)
    scores = table_scores(explainer, reader)
    assert scores is not None
    rows, X = rows_of("frame", 3)
    rows = [row | {"town": "Köln", "income": None} for row in rows]
    with pytest.warns(UserWarning, match="town"):
        wanted = explainer.explain(X.assign(town="Köln", income=np.nan)).scores
    np.testing.assert_array_equal(scores(reader.parse(rows).cells), wanted)


@pytest.mark.parametrize("kind", ["words", "patches"])
def test_others_are_left_to_explain(kind: str) -> None:
    explainer = l2x.load(file_of(kind))
    assert table_scores(explainer, reader_of(explainer.features_)) is None
