"""How many features each row keeps: `explain(X, keep=...)`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import l2x
from l2x.errors import ArtifactError
from l2x.learning._rows import Categorical, Gaussian
from l2x.learning._sizes import (
    Gains,
    Sizes,
    best_sizes,
    cross_fitted,
    score_inputs,
    surrogate_inputs,
)


def switched(X: np.ndarray) -> np.ndarray:
    """Column 0 decides; if it is negative, column 1 matters too."""
    X = np.asarray(X, dtype=float)
    logit = np.where(X[:, 0] > 0, 4.0, -1.0 + 5 * X[:, 1])
    p = 1 / (1 + np.exp(-logit))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def explainer() -> l2x.Explainer:
    X = np.random.default_rng(0).normal(size=(4000, 4))
    plan = l2x.TrainingPlan.quick()
    return l2x.Explainer(switched, 3, training=plan).fit(X)


def test_rows_keep_as_many_features_as_they_need(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(1).normal(size=(1000, 4))
    kept = explainer.explain(X, keep=0.9)
    assert kept.sizes is not None
    assert kept.sizes.min() >= 1
    assert kept.sizes.max() <= 3
    one, two = kept.sizes[X[:, 0] > 0.3], kept.sizes[X[:, 0] < -0.3]
    # One feature decides the first kind of rows; after quick training some keep a second one. In the second
    # kind, rows with a low column 1 have the same class without it.
    assert one.mean() < 1.4
    assert two.mean() > one.mean() + 0.3
    assert (kept.sizes <= 2).mean() > 0.9
    assert np.array_equal(kept.mask.sum(axis=1), kept.sizes)
    assert [len(names) for names in kept.names] == kept.sizes.tolist()
    assert np.array_equal(kept[5:9].sizes, kept.sizes[5:9])
    assert len(kept[5].to_dict()[0]["features"]) == kept.sizes[5]
    assert kept.to_frame()["feature_3"].isna().mean() == (kept.sizes < 3).mean()


def test_a_larger_share_takes_no_fewer_features(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(2).normal(size=(300, 4))
    shares = (0.3, 0.6, 0.9, 0.99)
    sizes = np.stack([explainer.explain(X, keep=share).sizes for share in shares])
    assert (np.diff(sizes, axis=0) >= 0).all()
    ranking = explainer.explain(X, polish=False)
    assert ranking.sizes is None
    assert np.array_equal(explainer.explain(X, keep=0.6).indices, ranking.indices)


def test_sizes_are_saved(explainer: l2x.Explainer, tmp_path: Path) -> None:
    X = np.random.default_rng(4).normal(size=(200, 4))
    loaded = l2x.load(explainer.save(tmp_path / "a.l2x"))
    for keep in (0.6, 0.95):
        assert np.array_equal(loaded.explain(X, keep=keep).sizes, explainer.explain(X, keep=keep).sizes)


def test_the_score_for_a_share(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(9).normal(size=(300, explainer.n_features_in_))
    expected = l2x.evaluation.posthoc_accuracy(explainer.model, X, explainer.explain(X, keep=0.6))
    assert explainer.score(X, keep=0.6) == pytest.approx(expected)


def test_another_k_is_the_maximum(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(5).normal(size=(200, 4))
    three = explainer.explain(X, keep=0.95).sizes
    assert three is not None
    assert np.array_equal(explainer.explain(X, k=2, keep=0.95).sizes, np.minimum(three, 2))
    assert np.array_equal(explainer.explain(X, k=4, keep=0.95).sizes, three)  # sizes up to 3 were learned
    assert explainer.explain(X, k=4, keep=1.0).sizes.tolist() == [4] * 200


def test_different_rows_get_different_sizes() -> None:
    """Scores distinguish two kinds of rows: the first needs one feature, the second two that matter only
    together. The price decides whether the second kind keeps both or one."""
    rng = np.random.default_rng(0)
    kinds = np.arange(1000) % 2
    scores = np.where(kinds[:, None] == 0, [4.0, 0.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0])
    scores = (scores + 0.1 * rng.normal(size=scores.shape)).astype(np.float32)
    worth = np.where(kinds[:, None] == 0, [0.5, 1.0, 1.0, 1.0], [0.5, 0.5, 1.0, 1.0])
    learned = Sizes.learn(scores, worth, worth)
    added = learned.by_scores.expected(score_inputs(scores, 3))
    assert (best_sizes(added, 0.1) == np.where(kinds == 0, 1, 2)).all()
    assert (best_sizes(added, 0.6) == 1).all()
    assert (best_sizes(added, -1.0) == 3).all()
    assert (np.diff(learned.prices) <= 0).all()


def test_a_share_that_no_price_reaches_takes_equally_many_features_in_every_row() -> None:
    """Scores carry no information, and a second feature raises the likelihood but is worth nothing: no price
    keeps it, so more than half of the information takes both features in every row."""
    scores = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    worth, information = np.tile([0.0, 1.0, 1.0, 1.0], (500, 1)), np.tile([-1.0, -0.5, 0.0, 0.0], (500, 1))
    learned = Sizes.learn(scores, worth, information)
    minima = dict(zip(learned.shares, learned.minima, strict=True))
    assert minima[0.5] == 1
    assert minima[0.51] == minima[0.9] == 2


def test_held_out_rows_keep_the_share() -> None:
    """The promise of `keep` holds on the rows that it was learned from, each by regressions on other rows,
    for any worth and information."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 6)).astype(np.float32)
    worth = np.concatenate([np.zeros((400, 1)), rng.normal(0.1, 0.5, size=(400, 4)).cumsum(axis=1)], axis=1)
    gained = rng.normal(0.2, 1.0, size=(400, 4)).cumsum(axis=1)
    information = np.concatenate([np.zeros((400, 1)), gained], axis=1)
    learned = Sizes.learn(scores, worth, information)
    expected = cross_fitted(score_inputs(scores, 4), np.diff(worth, axis=1))
    for share, price, minimum in zip(learned.shares, learned.prices, learned.minima, strict=True):
        sizes = best_sizes(expected, price).clip(minimum)
        assert information[np.arange(400), sizes].mean() >= share * information[:, 4].mean()


def test_the_surrogate_is_used_if_that_takes_fewer_features() -> None:
    """Scores carry no information; the surrogate knows which rows need two features: half need one."""
    rng = np.random.default_rng(0)
    kinds = np.arange(1000) % 2
    scores = rng.normal(size=(1000, 4)).astype(np.float32)
    worth = np.where(kinds[:, None] == 0, [0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0])
    seen = np.diff(worth, axis=1) + 0.01 * rng.normal(size=(1000, 3))
    by_scores, by_both = Sizes.learn(scores, worth, worth), Sizes.learn(scores, worth, worth, seen)
    assert by_scores.surrogate_shares == 0
    assert by_scores.by_surrogate is None
    assert by_both.surrogate_shares == len(by_both.shares) - 1
    explanation = l2x.Explanation(scores, 3, list("abcd"))
    kept = by_both.shortened(explanation, 0.995, lambda rows: seen[rows]).sizes
    assert kept is not None
    assert (kept == kinds + 1).mean() > 0.98  # one row in two hundred may have less than it needs
    alone = by_scores.shortened(
        explanation, 0.995, lambda _: pytest.fail("the surrogate was evaluated")
    ).sizes
    assert alone is not None
    assert alone.mean() > 1.9


def test_an_uninformative_surrogate_is_not_used() -> None:
    """Its inputs are the same in all rows: they would only take time."""
    scores = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    worth = np.tile([0.0, 1.0, 1.5, 1.5], (400, 1))
    assert Sizes.learn(scores, worth, worth, np.zeros((400, 6))).surrogate_shares == 0


def test_sizes_grow_with_the_share_also_where_the_surrogate_is_no_longer_used() -> None:
    """The surrogate knows which rows need two features, and the scores which need a third: with a larger
    share no row has fewer features, on both sides of the last share that uses the surrogate."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2000, 5)).astype(np.float32)
    scores[:1000] += [0, 0, 0, 0, 3]
    added = np.stack([np.ones(2000), rng.random(2000) < 0.5, 0.1 * (np.arange(2000) < 1000)], axis=1)
    worth = np.concatenate([np.zeros((2000, 1)), added.cumsum(axis=1)], axis=1)
    # The surrogate is wrong about the third feature.
    seen = np.concatenate([added[:, :2], rng.normal(size=(2000, 1))], axis=1)
    learned = Sizes.learn(scores, worth, worth, seen)
    explanation = l2x.Explanation(scores, 3, list("abcde"))
    kept = [learned.shortened(explanation, keep, lambda rows: seen[rows]) for keep in learned.shares]
    sizes = np.stack([each.sizes for each in kept])
    assert (np.diff(sizes, axis=0) >= 0).all()
    kept_worth = worth[np.arange(2000), sizes].mean(axis=1)
    assert (kept_worth >= np.array(learned.shares) * worth[:, 3].mean() - 1e-9).all()


def test_too_few_rows_give_no_sizes() -> None:
    X = np.random.default_rng(0).normal(size=(150, 4))
    plan = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=1, progress=False)
    explainer = l2x.Explainer(switched, 2, objective="surrogate", training=plan).fit(X)
    with pytest.raises(l2x.errors.InputError, match=r"keep= .* 20 rows"):
        explainer.explain(X, keep=0.9)


def test_few_held_out_rows_keep_the_promise_on_other_rows() -> None:
    """All inputs are noise: a rule that overfits keeps less on other rows. The mean of 20 draws of 60 rows
    has a standard error of about 0.01."""
    kept = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scores, seen = rng.normal(size=(2060, 8)).astype(np.float32), rng.normal(size=(2060, 12))
        added = rng.random((2060, 4)) < [0.9, 0.5, 0.3, 0.1]
        worth = np.concatenate([np.zeros((2060, 1)), added.cumsum(axis=1)], axis=1)
        learned = Sizes.learn(scores[:60], worth[:60], worth[:60], seen[:60])
        explanation = l2x.Explanation(scores[60:], 4, list("abcdefgh"))
        sizes = learned.shortened(explanation, 0.9, lambda rows, seen=seen[60:]: seen[rows]).sizes
        kept.append(worth[60:][np.arange(2000), sizes].mean() / worth[60:, 4].mean())
    assert np.mean(kept) > 0.87


def test_a_share_may_be_a_float32(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(6).normal(size=(200, 4))
    for share in (0.6, 0.999):
        single, double = (explainer.explain(X, keep=kind(share)).sizes for kind in (np.float32, float))
        assert np.array_equal(single, double)


def test_explaining_does_not_query_the_model() -> None:
    """With objective="model" the surrogate is the model, which `explain` does not need."""
    X = np.random.default_rng(0).normal(size=(1000, 4))
    explainer = l2x.Explainer(switched, 2, objective="model", training=l2x.TrainingPlan.quick()).fit(X)
    assert explainer.sizes_ is not None
    assert explainer.sizes_.by_surrogate is None
    queried = explainer.rows_queried_
    assert explainer.explain(X[:50], keep=0.9).sizes is not None
    assert explainer.rows_queried_ == queried


def test_no_rows_have_no_sizes(explainer: l2x.Explainer) -> None:
    sizes = explainer.explain(np.zeros((0, 4)), keep=0.9).sizes
    assert sizes is not None
    assert len(sizes) == 0


@pytest.mark.parametrize("keep", [0, 1.5, -1, "all", True])
def test_an_invalid_share_is_refused(explainer: l2x.Explainer, keep: object) -> None:
    with pytest.raises(l2x.errors.InputError, match=r"^keep is .*0\.95"):
        explainer.explain(np.zeros((1, 4)), keep=keep)  # type: ignore[arg-type]


def test_tables_and_figures_show_the_sizes(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(3).normal(size=(50, 4))
    kept = explainer.explain(X, keep=np.float32(0.5))
    assert kept.sizes is not None
    # Below each name its value and its effect; below each prediction two others.
    assert kept.to_html(rows=50).count("<br>") == 2 * kept.sizes.sum() + 2 * 50
    more = explainer.explain(X, keep=0.95)
    assert "2nd" in more.to_html(rows=50)
    assert "2nd" not in more[more.sizes == 1].to_html()  # no column without a feature
    assert repr(kept).startswith("Explanation of 50 rows, up to 3 of 4 features")
    short = kept[int(np.argmin(kept.sizes))]
    assert "features" not in short.plot().texts[0].get_text()
    remark = " ".join(t.get_text() for t in kept.plot().texts)
    assert f"({kept.mask.mean():.0%})" in remark
    assert "k up to 3" in remark


def test_a_text_has_at_most_its_own_words() -> None:
    def model(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "good" in text else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    plan = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=1, progress=False)
    texts = ["a good film", "a dull film", "good", "plain"] * 50
    explainer = l2x.Explainer(model, 3, features=l2x.Words(length=6), training=plan).fit(texts)
    for keep in (0.5, 1):
        kept = explainer.explain(["", "good", "a film"], keep=keep)
        assert kept.sizes is not None
        assert kept.sizes.tolist() == kept.mask.sum(axis=1).tolist() == [len(names) for names in kept.names]
    assert "words" not in kept[1].plot().texts[0].get_text()


def test_the_regression_finds_linear_relations() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(2000, 3)) * [1.0, 5.0, 0.1]
    added = np.stack([0.5 + 0.2 * inputs[:, 0], 0.1 - 0.04 * inputs[:, 1]], axis=1)
    learned = Gains.learn(inputs, added)
    # The ridge penalty is worth ten rows of 2,000; inputs are clipped at four standard deviations.
    assert learned.expected(inputs) == pytest.approx(added, abs=0.01)
    far = learned.expected(np.array([[1e9, 0.0, 0.0]]))
    assert far[0, 0] == pytest.approx(0.5 + 0.2 * 4, abs=0.05)


def test_constant_inputs_add_nothing() -> None:
    added = np.random.default_rng(0).normal(size=(50, 2))
    learned = Gains.learn(np.ones((50, 4)), added)
    assert learned.expected(np.ones((3, 4))) == pytest.approx(np.tile(added.mean(axis=0), (3, 1)))


def test_score_inputs_do_not_depend_on_the_level() -> None:
    scores = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    assert score_inputs(scores + 7, 3) == pytest.approx(score_inputs(scores, 3), abs=1e-4)


def test_score_inputs_with_unselectable_features() -> None:
    scores = np.array([[2.0, -np.inf, 1.0, 0.0], [-np.inf] * 4], dtype=np.float32)
    assert np.isfinite(score_inputs(scores, 3)).all()
    whole = score_inputs(scores[:1, [0, 2, 3]], 2)
    assert score_inputs(scores[:1], 2) == pytest.approx(whole)


def test_surrogate_inputs() -> None:
    """Two features: the first changes the class to that of both; the second raises the likelihood."""
    prefixes = np.log(np.array([[[0.6, 0.4], [0.2, 0.8], [0.1, 0.9]]]))
    inputs = surrogate_inputs(prefixes, Categorical(2))
    truth, logs = np.array([0.1, 0.9]), prefixes[0]
    likelier = np.diff(logs @ truth)
    assert inputs[0] == pytest.approx([*likelier, 1.0, 0.0, *likelier**2, 1.0, 0.0])
    assert likelier[0] > likelier[1] > 0


def test_surrogate_inputs_for_regression() -> None:
    prefixes = np.array([[[0.0], [1.5], [2.0]]], dtype=np.float32)
    closer = [2.0 - 0.125, 0.125]
    inputs = surrogate_inputs(prefixes, Gaussian((0.0,), (1.0,)))[0]
    assert inputs == pytest.approx([*closer, *closer, *np.square(closer), *np.square(closer)])


@pytest.fixture
def sizes() -> Sizes:
    """Sizes up to three features, learned from scores and the surrogate."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))

    def model(X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-3 * X[:, 1] - X[:, 2]))
        return np.stack([1 - p, p], axis=1)

    plan = l2x.TrainingPlan(progress=False).with_steps(value=60, selector=30)
    found = l2x.Explainer(model, 3, training=plan).fit(X).sizes_
    assert found is not None
    assert found.by_surrogate is not None
    return found


def restored(header: Any, tensors: dict[str, np.ndarray]) -> Sizes:
    return Sizes.restore(json.loads(json.dumps(header)), tensors, d=5)


def test_saved_sizes_are_restored(sizes: Sizes) -> None:
    again = restored(sizes.header(), sizes.tensors())
    assert again.header() == sizes.header()
    for name, array in sizes.tensors().items():
        np.testing.assert_array_equal(again.tensors()[name], array)


def test_an_explainer_without_sizes_is_saved_without_them(table: np.ndarray, tmp_path: Path) -> None:
    plan = l2x.TrainingPlan(progress=False).with_steps(value=2, selector=2)
    fitted = l2x.Explainer(switched, 2, objective="surrogate", training=plan).fit(table[:60])
    assert fitted.sizes_ is None
    assert l2x.load(fitted.save(tmp_path / "a.l2x")).sizes_ is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prices": []}, "0 prices"),
        ({"surrogate_shares": 99}, "99 of them"),
        ({"surrogate_shares": -1}, "-1 of them"),
        ({"prices": [float("nan")] * 52}, "prices"),
        ({"shares": [0.9] + [0.5] * 51}, "shares"),
    ],
)
def test_an_invalid_header_is_refused(sizes: Sizes, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        restored(sizes.header() | wrong, sizes.tensors())


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("sizes.weights", lambda array: array[:-1], "shapes"),
        ("sizes_surrogate.gains", lambda array: array[:-1], "shapes"),
        ("sizes.mean", lambda array: array * np.nan, "'sizes'"),
        ("sizes.spread", lambda array: array * 0, "'sizes'"),
    ],
)
def test_invalid_tensors_are_refused(sizes: Sizes, name: str, change: Any, message: str) -> None:
    tensors = sizes.tensors()
    with pytest.raises(ArtifactError, match=message):
        restored(sizes.header(), tensors | {name: change(tensors[name])})
