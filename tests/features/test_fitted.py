"""A fitted view from whatever there is, and what may be selected."""

from __future__ import annotations

import numpy as np

import l2x
from l2x.features._kinds import fitted_view, selectable_units

X = np.random.default_rng(0).normal(size=(20, 3))


def test_a_fitted_view_stays_a_new_one_is_copied_and_none_means_columns() -> None:
    fitted, new = l2x.Columns().fit(X), l2x.Columns(removal="zero")
    assert fitted_view(fitted, X[:2]) is fitted
    view = fitted_view(new, X)
    assert view is not new
    assert not hasattr(new, "names_")
    assert (view.names_, view.removal) == (["x0", "x1", "x2"], "zero")
    assert isinstance(fitted_view(None, X), l2x.Columns)


def test_what_may_be_selected() -> None:
    assert selectable_units(l2x.Columns().fit(X), X) is None
    texts = ["a good film", "good", "a film that is good"]
    view = l2x.Words(length=4).fit(texts)
    found = selectable_units(view, view.check(texts))
    assert found is not None
    assert found.sum(axis=1).tolist() == [3, 1, 4]
