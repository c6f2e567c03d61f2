"""explain(X, keep=...): as many features as a row needs, k at most."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.learning._sizes import Sizes, best_sizes, cross_fitted, seen_in_scores


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
    # One feature decides the first kind of rows, and after a quick training some keep a second; of the second
    # kind, those with a low column 1 have the same class without it.
    assert one.mean() < 1.4
    assert two.mean() > one.mean() + 0.3
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


def test_sizes_are_saved(explainer: l2x.Explainer, tmp_path: Path) -> None:
    X = np.random.default_rng(4).normal(size=(200, 4))
    loaded = l2x.load(explainer.save(tmp_path / "a.l2x"))
    for keep in (0.6, 0.95):
        assert np.array_equal(loaded.explain(X, keep=keep).sizes, explainer.explain(X, keep=keep).sizes)


def test_the_score_of_what_rows_keep(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(9).normal(size=(300, explainer.n_features_in_))
    expected = l2x.evaluation.posthoc_accuracy(explainer.model, X, explainer.explain(X, keep=0.6))
    assert explainer.score(X, keep=0.6) == pytest.approx(expected)


def test_another_k_is_the_most(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(5).normal(size=(200, 4))
    three = explainer.explain(X, keep=0.95).sizes
    assert three is not None
    assert np.array_equal(explainer.explain(X, k=2, keep=0.95).sizes, np.minimum(three, 2))
    assert np.array_equal(explainer.explain(X, k=4, keep=0.95).sizes, three)  # of a fourth nothing is known
    assert explainer.explain(X, k=4, keep=1.0).sizes.tolist() == [4] * 200


def test_rows_that_are_unlike_get_their_own_sizes() -> None:
    """Rows of two kinds, told apart by their scores: the first gains by one feature alone, the second by two
    that only count together. A price keeps one of the first, and of the second both or the first alone."""
    rng = np.random.default_rng(0)
    kinds = np.arange(1000) % 2
    scores = np.where(kinds[:, None] == 0, [4.0, 0.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0])
    scores = (scores + 0.1 * rng.normal(size=scores.shape)).astype(np.float32)
    worth = np.where(kinds[:, None] == 0, [0.5, 1.0, 1.0, 1.0], [0.5, 0.5, 1.0, 1.0])
    learned = Sizes.learn(scores, worth, told=worth)
    added = learned.by_scores.expected(seen_in_scores(scores, 3))
    assert (best_sizes(added, 0.1) == np.where(kinds == 0, 1, 2)).all()
    assert (best_sizes(added, 0.6) == 1).all()
    assert (best_sizes(added, -1.0) == 3).all()
    assert (np.diff(learned.prices) <= 0).all()


def test_a_share_that_no_price_reaches_takes_as_many_features_in_every_row() -> None:
    """Scores that tell nothing, and a second feature that makes q surer but is worth nothing: no price keeps
    it, and more than half of what is told takes both in every row."""
    scores = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    worth, told = np.tile([0.0, 1.0, 1.0, 1.0], (500, 1)), np.tile([-1.0, -0.5, 0.0, 0.0], (500, 1))
    learned = Sizes.learn(scores, worth, told)
    least = dict(zip(learned.shares, learned.least, strict=True))
    assert least[0.5] == 1
    assert least[0.51] == least[0.9] == 2


def test_held_out_rows_keep_the_share() -> None:
    """What `keep` promises, on the rows that it was learned from, each seen by regressions of the others,
    whatever is worth and told."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 6)).astype(np.float32)
    worth = np.concatenate([np.zeros((400, 1)), rng.normal(0.1, 0.5, size=(400, 4)).cumsum(axis=1)], axis=1)
    told = np.concatenate([np.zeros((400, 1)), rng.normal(0.2, 1.0, size=(400, 4)).cumsum(axis=1)], axis=1)
    learned = Sizes.learn(scores, worth, told)
    expected = cross_fitted(seen_in_scores(scores, 4), np.diff(worth, axis=1))
    for share, price, least in zip(learned.shares, learned.prices, learned.least, strict=True):
        sizes = best_sizes(expected, price).clip(least)
        assert told[np.arange(400), sizes].mean() >= share * told[:, 4].mean()


def test_q_is_asked_where_that_takes_fewer_features() -> None:
    """Scores say nothing, and q sees which rows need two features: asked, half of the rows have one."""
    rng = np.random.default_rng(0)
    kinds = np.arange(1000) % 2
    scores = rng.normal(size=(1000, 4)).astype(np.float32)
    worth = np.where(kinds[:, None] == 0, [0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0])
    seen = np.diff(worth, axis=1) + 0.01 * rng.normal(size=(1000, 3))
    by_scores, by_q = Sizes.learn(scores, worth, worth), Sizes.learn(scores, worth, worth, seen)
    assert by_scores.asking == 0
    assert by_scores.by_q is None
    assert by_q.asking == len(by_q.shares) - 1
    explanation = l2x.Explanation(scores, 3, list("abcd"))
    kept = by_q.shortened(explanation, 0.995, ask=lambda rows: seen[rows]).sizes
    assert kept is not None
    assert (kept == kinds + 1).mean() > 0.98  # one row in two hundred may have less than it needs
    alone = by_scores.shortened(explanation, 0.995, ask=lambda _: pytest.fail("q was asked")).sizes
    assert alone is not None
    assert alone.mean() > 1.9


def test_q_that_sees_nothing_is_not_asked() -> None:
    """What q sees is the same in all rows: asking would only take time."""
    scores = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    worth = np.tile([0.0, 1.0, 1.5, 1.5], (400, 1))
    assert Sizes.learn(scores, worth, worth, np.zeros((400, 6))).asking == 0


def test_rows_lose_nothing_where_q_is_no_longer_asked() -> None:
    """q knows what rows need up to two features, and the scores what the third is for: the larger the share,
    the more features of every row, on both sides of where q is asked."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2000, 5)).astype(np.float32)
    scores[:1000] += [0, 0, 0, 0, 3]
    added = np.stack([np.ones(2000), rng.random(2000) < 0.5, 0.1 * (np.arange(2000) < 1000)], axis=1)
    worth = np.concatenate([np.zeros((2000, 1)), added.cumsum(axis=1)], axis=1)
    # Of the third feature q believes what is not so.
    seen = np.concatenate([added[:, :2], rng.normal(size=(2000, 1))], axis=1)
    learned = Sizes.learn(scores, worth, worth, seen)
    explanation = l2x.Explanation(scores, 3, list("abcde"))
    kept = [learned.shortened(explanation, keep, lambda rows: seen[rows]) for keep in learned.shares]
    sizes = np.stack([each.sizes for each in kept])
    assert (np.diff(sizes, axis=0) >= 0).all()
    told = worth[np.arange(2000), sizes].mean(axis=1)
    assert (told >= np.array(learned.shares) * worth[:, 3].mean() - 1e-9).all()


def test_from_too_few_rows_nothing_is_learned() -> None:
    X = np.random.default_rng(0).normal(size=(150, 4))
    plan = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=1, progress=False)
    explainer = l2x.Explainer(switched, 2, value="surrogate", training=plan).fit(X)
    with pytest.raises(l2x.InputError, match="held out fewer than 20 rows"):
        explainer.explain(X, keep=0.9)


def test_few_held_out_rows_keep_the_promise_on_others() -> None:
    """What q and scores say of these rows is noise: a rule that trusts what it learned by heart keeps less on
    other rows. The mean of 20 draws of 60 rows; its standard error is about .01."""
    kept = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scores, seen = rng.normal(size=(2060, 8)).astype(np.float32), rng.normal(size=(2060, 12))
        added = rng.random((2060, 4)) < [0.9, 0.5, 0.3, 0.1]
        worth = np.concatenate([np.zeros((2060, 1)), added.cumsum(axis=1)], axis=1)
        learned = Sizes.learn(scores[:60], worth[:60], worth[:60], seen[:60])
        explanation = l2x.Explanation(scores[60:], 4, list("abcdefgh"))
        sizes = learned.shortened(explanation, 0.9, ask=lambda rows, seen=seen[60:]: seen[rows]).sizes
        kept.append(worth[60:][np.arange(2000), sizes].mean() / worth[60:, 4].mean())
    assert np.mean(kept) > 0.87


def test_float32_is_the_share_that_it_was_meant_to_be(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(6).normal(size=(200, 4))
    for share in (0.6, 0.999):
        single, double = (explainer.explain(X, keep=kind(share)).sizes for kind in (np.float32, float))
        assert np.array_equal(single, double)


def test_the_model_alone_is_not_asked_to_explain() -> None:
    """With value="model" q is the black box, which `explain` does without."""
    X = np.random.default_rng(0).normal(size=(1000, 4))
    explainer = l2x.Explainer(switched, 2, value="model", training=l2x.TrainingPlan.quick()).fit(X)
    assert explainer.sizes_ is not None
    assert explainer.sizes_.by_q is None
    asked = explainer.rows_asked_
    assert explainer.explain(X[:50], keep=0.9).sizes is not None
    assert explainer.rows_asked_ == asked


def test_no_rows_have_no_sizes(explainer: l2x.Explainer) -> None:
    sizes = explainer.explain(np.zeros((0, 4)), keep=0.9).sizes
    assert sizes is not None
    assert len(sizes) == 0


@pytest.mark.parametrize("keep", [0, 1.5, -1, "all", True])
def test_a_share_that_is_none_is_refused(explainer: l2x.Explainer, keep: object) -> None:
    with pytest.raises(l2x.InputError, match=r"keep is .*; expected the share of the information"):
        explainer.explain(np.zeros((1, 4)), keep=keep)  # type: ignore[arg-type]


def test_tables_and_figures_show_what_rows_keep(explainer: l2x.Explainer) -> None:
    X = np.random.default_rng(3).normal(size=(50, 4))
    kept = explainer.explain(X, keep=np.float32(0.5))
    assert kept.sizes is not None
    assert kept.to_html(rows=50).count("<br>") == kept.sizes.sum()  # a value below each name
    more = explainer.explain(X, keep=0.95)
    assert "2nd" in more.to_html(rows=50)
    assert "2nd" not in more[more.sizes == 1].to_html()  # no column without a feature
    assert repr(kept).startswith("Explanation of 50 rows, up to 3 of 4 features")
    short = kept[int(np.argmin(kept.sizes))]
    assert short.plot().texts[0].get_text() == "The feature that decided this row"
    remark = " ".join(t.get_text() for t in kept.plot().texts)
    assert f"a random choice ({kept.mask.mean():.0%})" in remark
    assert "k up to 3" in remark


def test_a_text_has_no_more_than_its_words() -> None:
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
    assert kept[1].plot().texts[0].get_text() == "The word that decided this text"
