"""explain(X, keep=...): as many features as a row needs, k at most."""

from __future__ import annotations

import numpy as np
import pytest

import l2x


def switched(X: np.ndarray) -> np.ndarray:
    """Column 0 decides; where it is negative, column 1 has a say too."""
    X = np.asarray(X, dtype=float)
    logit = np.where(X[:, 0] > 0, 4.0, -1.0 + 5 * X[:, 1])
    p = 1 / (1 + np.exp(-logit))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def explainer() -> l2x.Explainer:
    X = np.random.default_rng(0).normal(size=(4000, 4))
    plan = l2x.TrainingPlan.quick()
    return l2x.Explainer(switched, 3, training=plan).fit(X)


def test_rows_keep_as_much_as_they_need(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(1).normal(size=(1000, 4))
    kept = explainer.explain(X, keep=0.9)
    assert kept.sizes is not None
    assert kept.sizes.min() >= 1
    assert kept.sizes.max() <= 3
    one, two = kept.sizes[X[:, 0] > 0.3], kept.sizes[X[:, 0] < -0.3]
    # The truth is one and two features; after a quick training some rows of the first kind keep a second.
    assert one.mean() < 1.4
    assert two.mean() > one.mean() + 0.4
    assert (kept.sizes <= 2).mean() > 0.9
    assert np.array_equal(kept.mask.sum(axis=1), kept.sizes)
    assert [len(names) for names in kept.names] == kept.sizes.tolist()
    assert np.array_equal(kept[5:9].sizes, kept.sizes[5:9])
    assert len(kept[5].to_dict()[0]["features"]) == kept.sizes[5]
    assert kept.to_frame()["feature_3"].isna().mean() == (kept.sizes < 3).mean()


def test_more_to_keep_takes_no_fewer_features(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(2).normal(size=(300, 4))
    shares = (0.3, 0.6, 0.9, 0.99)
    sizes = np.stack([explainer.explain(X, keep=share).sizes for share in shares])
    assert (np.diff(sizes, axis=0) >= 0).all()
    ranking = explainer.explain(X)
    assert ranking.sizes is None
    assert np.array_equal(explainer.explain(X, keep=0.6).indices, ranking.indices)


@pytest.mark.parametrize("keep", [0, 1.5, -1, "all", True])
def test_a_share_that_is_none_is_refused(explainer: l2x.Explainer, keep: object) -> None:
    with pytest.raises(l2x.InputError, match=r"keep is .*; expected the share of the information"):
        explainer.explain(np.zeros((1, 4)), keep=keep)  # type: ignore[arg-type]
