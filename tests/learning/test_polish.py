"""Selections that are right for every row: polished, verified, refined, and what they guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

import l2x
from l2x.datasets import synthetic
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.learning import at_least, confirmed_rows, masked_predictions
from l2x.learning._polish import PRIORS, Search, pool_of

PLAN = l2x.TrainingPlan(progress=False).with_steps(value=300, selector=150)


class Counted:
    """A model that counts its rows: two of eight columns decide, and which two depends on the first."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, X: Any) -> np.ndarray:
        X = np.asarray(X, dtype=float)
        self.rows += len(X)
        p = 1 / (1 + np.exp(-4 * np.where(X[:, 0] > 0, X[:, 1], X[:, 2])))
        return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def explainer() -> l2x.Explainer:
    X = np.random.default_rng(0).normal(size=(1500, 8))
    # Trained briefly and without mixed rows, so that some selections are wrong at first.
    return l2x.Explainer(Counted(), k=2, mixed=0, training=PLAN.with_steps(value=120, selector=30)).fit(X)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(300, 8))


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(5, 14), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_no_single_swap_improves_a_polished_selection(seed: int, k: int, d: int, padding: int) -> None:
    """Search with a random additive value plus interactions, some features not selectable."""
    generator = torch.Generator().manual_seed(seed)
    n = 6
    scores = torch.randn(n, d, generator=generator)
    scores[:, d - padding :] = -torch.inf
    weights, pairs = torch.randn(n, d, generator=generator), torch.randn(d, d, generator=generator)

    def value(which: torch.Tensor, masks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values = (masks * weights[which]).sum(-1) + ((masks @ pairs) * masks).sum(-1)
        return values, values

    search = Search(value, scores, k, 0.01, torch.full((n,), -torch.inf), visited=5)
    proposal = search.best.clone()
    for _ in range(20):  # until nothing moves: `run` stops after a few rounds
        search.run()
    chosen = search.chosen()
    assert (search.best >= proposal).all()
    assert all(len(set(row.tolist())) == k for row in chosen)
    enough = min(k, d - padding)
    assert ((scores.gather(1, chosen) > -torch.inf).sum(1) == enough).all()
    log_p = torch.log_softmax(scores, dim=-1).nan_to_num(neginf=0.0)

    def worth(row: int, features: list[int]) -> float:
        mask = torch.zeros(1, 1, d)
        real = [f for f in features if scores[row, f] > -torch.inf]
        mask[0, 0, real] = 1.0
        return float(value(torch.tensor([row]), mask)[0]) + 0.01 * float(log_p[row, real].sum())

    candidates = scores.topk(pool_of(k, d), dim=1).indices
    for row in range(n):
        selected = chosen[row].tolist()
        own = worth(row, selected)
        assert own == pytest.approx(float(search.best[row]), abs=1e-4)
        for leaving in selected:
            for joining in candidates[row].tolist():
                if joining not in selected and scores[row, joining] > -torch.inf:
                    swapped = [f for f in selected if f != leaving] + [joining]
                    assert worth(row, swapped) <= own + 1e-4
    # The memory has distinct subsets, best first, and the best is the selection itself.
    assert (search.worth.clamp_min(-1e9).diff(dim=1) <= 1e-6).all()
    for row in range(n):
        codes = search.codes[row][search.worth[row] > -torch.inf].tolist()
        assert len(set(codes)) == len(codes)
    everyone = torch.arange(n)
    assert (
        search.masks(torch.zeros_like(everyone), everyone) == search.masks_of(search.members).numpy()
    ).all()


def test_polishing_raises_the_surrogate_s_value(explainer: l2x.Explainer, rows: np.ndarray) -> None:
    predictions = explainer.model(rows)
    bare, polished = explainer.explain(rows, polish=False), explainer.explain(rows)
    assert (bare.chosen is None, polished.indices.shape) == (True, (300, 2))
    value = [explainer.surrogate_.log_q(rows, each.mask, predictions) for each in (bare, polished)]
    prior = explainer.prior_ * np.log(np.exp(bare.scores) / np.exp(bare.scores).sum(axis=1, keepdims=True))
    value = [v + (each.mask * prior).sum(axis=1) for v, each in zip(value, (bare, polished), strict=True)]
    assert (value[1] >= value[0] - 1e-5).all()
    assert (polished.mask != bare.mask).any()
    assert explainer.score(rows) >= explainer.score(rows, polish=False)


def test_a_less_certain_model_does_not_turn_selections_to_noise(tiny: l2x.TrainingPlan) -> None:
    """The surrogate learned that column 2 decides with certainty; new rows are predicted with 0.7 to 0.9.

    Features without information would come closest to such a distribution.
    """
    rng = np.random.default_rng(0)

    def model(X: np.ndarray, certainty: float = 0.49) -> np.ndarray:
        p = 0.5 + certainty * np.sign(X[:, 2])
        return np.stack([1 - p, p], axis=1)

    explainer = l2x.Explainer(model, k=1, training=tiny).fit(rng.normal(size=(600, 5)))
    new = rng.normal(size=(300, 5))
    polished = explainer.explain(new, predictions=model(new, certainty=0.2))
    assert (polished.indices[:, 0] == 2).mean() > 0.97


def test_what_is_queried(explainer: l2x.Explainer, rows: np.ndarray, tmp_path: Path) -> None:
    """Rows of queries: none for the forward pass, one to polish, one more to verify, at most n to refine."""
    model = explainer.model
    assert isinstance(model, Counted)

    def queries(**options: Any) -> int:
        before = model.rows
        explainer.explain(rows, **options)
        return model.rows - before

    predictions = model(rows)
    assert queries(polish=False) == 0
    assert queries(predictions=predictions) == 0
    assert queries() == len(rows)
    assert queries(predictions=predictions, verify=True) == len(rows)
    refined = explainer.explain(rows, predictions=predictions, refine=7)
    assert refined.queries is not None
    assert (refined.queries.min(), refined.queries.max() <= 7) == (1, True)
    assert queries(predictions=predictions, refine=7) == refined.queries.sum()
    # Without a model and without predictions the forward pass is all.
    alone = l2x.load(explainer.save(tmp_path / "e.l2x"))
    assert np.array_equal(alone.explain(rows).indices, explainer.explain(rows, polish=False).indices)
    assert np.array_equal(
        alone.explain(rows, predictions=predictions).indices, explainer.explain(rows).indices
    )
    assert alone.prior_ == explainer.prior_ in (*PRIORS, l2x.learning.PRIOR)


def test_confirmed_is_what_the_model_predicts(explainer: l2x.Explainer, rows: np.ndarray) -> None:
    predictions = explainer.model(rows)
    for options in ({"verify": True}, {"verify": True, "polish": False}, {"verify": True, "keep": 0.9}):
        explanation = explainer.explain(rows, **options)
        guesses = masked_predictions(explainer.black_box(), explainer.features_, rows, explanation.mask)
        assert explanation.confirmed is not None
        assert np.array_equal(explanation.confirmed, confirmed_rows(guesses, predictions))
    shares = []
    for most in (1, 3, 20):
        refined = explainer.explain(rows, refine=most)
        guesses = masked_predictions(explainer.black_box(), explainer.features_, rows, refined.mask)
        assert refined.confirmed is not None
        assert np.array_equal(refined.confirmed, confirmed_rows(guesses, predictions))
        shares.append(refined.confirmed.mean())
    assert shares == sorted(shares)
    verified = explainer.explain(rows, verify=True)
    assert verified.confirmed is not None
    assert shares[0] == verified.confirmed.mean()
    assert shares[-1] > shares[0]


def test_parts_of_an_explanation_keep_what_was_confirmed(explainer: l2x.Explainer, rows: np.ndarray) -> None:
    refined = explainer.explain(rows, refine=5)
    part = refined[[3, 1]]
    for name in ("indices", "chosen", "confirmed", "queries"):
        assert np.array_equal(getattr(part, name), getattr(refined, name)[[3, 1]])
    assert part.effects == pytest.approx(refined.effects[[3, 1]], abs=1e-6)
    frame = refined.to_frame()
    assert frame["confirmed"].tolist() == refined.confirmed.tolist()  # type: ignore[union-attr]
    assert [row["confirmed"] for row in refined.to_dict()] == frame["confirmed"].tolist()
    assert "confirmed" not in explainer.explain(rows[:2]).to_frame()


def test_the_same_rows_in_batches_give_the_same(explainer: l2x.Explainer, rows: np.ndarray) -> None:
    whole = explainer.explain(rows, refine=5)
    for part in (slice(0, 1), slice(7, 100), slice(100, 300)):
        assert np.array_equal(explainer.explain(rows[part], refine=5).indices, whole.indices[part])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"refine": -1}, "refine is -1"),
        ({"refine": 2.5}, "refine is 2.5"),
        ({"refine": True}, "refine is True"),
        ({"keep": 0.9, "refine": 3}, "refine=3"),
        ({"keep": 0.9, "polish": True}, "polish=True"),
        ({"polish": False, "refine": 3}, "polish=False"),
        ({"polish": "no"}, "polish is 'no'"),
        ({"verify": "no"}, "verify is 'no'"),
        ({"verify": None}, "verify is None"),
        ({"verify": np.array([True, False])}, "verify is array"),
    ],
)
def test_options_that_exclude_each_other(
    explainer: l2x.Explainer, rows: np.ndarray, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        explainer.explain(rows, **options)


def test_without_a_model_nothing_is_verified(
    explainer: l2x.Explainer, rows: np.ndarray, tmp_path: Path
) -> None:
    alone = l2x.load(explainer.save(tmp_path / "e.l2x"))
    for options in ({"verify": True}, {"refine": 3}, {"polish": True}):
        with pytest.raises(InputError, match="model="):
            alone.explain(rows, **options)


def test_explainers_that_cannot_be_polished(tiny: l2x.TrainingPlan) -> None:
    X = np.random.default_rng(0).normal(size=(400, 4))
    for options, named in (
        ({"objective": "model"}, "objective='model'"),
        ({"sampler": l2x.samplers.Shapley()}, "Shapley"),
    ):
        one = l2x.Explainer(Counted(), 1, training=tiny, **options).fit(X)
        assert one.explain(X[:5]).chosen is None
        assert one.explain(X[:5], verify=True).confirmed is not None
        with pytest.raises(InputError, match=named):
            one.explain(X[:5], polish=True)
        if one.sampler is not None:
            with pytest.raises(InputError, match=named):
                one.explain(X[:5], refine=3)
    joint = l2x.Explainer.paper(Counted(), 1, training=tiny).fit(X)
    assert joint.explain(X[:5]).chosen is None  # the paper's method is the forward pass
    assert joint.explain(X[:5], polish=True).chosen is not None


def test_no_rows_are_verified_and_refined(explainer: l2x.Explainer, rows: np.ndarray) -> None:
    for options in ({"verify": True}, {"refine": 3}):
        explanation = explainer.explain(rows[:0], **options)
        assert explanation.confirmed is not None
        assert explanation.queries is not None
        assert explanation.confirmed.shape == explanation.queries.shape == (0,)
        assert explanation.confirmed.dtype == bool
        assert explanation.effects.shape == (0, 2)


@pytest.mark.parametrize("options", [{"verify": True}, {"refine": 3}])
def test_a_model_that_does_not_fit_is_not_queried_for_masked_rows(
    explainer: l2x.Explainer, rows: np.ndarray, options: dict[str, Any]
) -> None:
    def three(X: np.ndarray) -> np.ndarray:
        return np.full((len(X), 3), 1 / 3)

    def one(X: np.ndarray) -> np.ndarray:
        return np.asarray(Counted()(X)[:, 1])

    known = Counted()(rows)
    with pytest.raises(InputError, match=r"3 outputs.*fitted to 2 classes.*is this the model"):
        explainer.with_model(three).explain(rows, predictions=known, **options)
    with pytest.raises(InputError, match=r"1 output .*task='classification'"):
        explainer.with_model(one).explain(rows, predictions=known, **options)
    probability = l2x.as_black_box(one, task="classification")
    confirmed = explainer.with_model(probability).explain(rows, predictions=known, **options).confirmed
    assert np.array_equal(confirmed, explainer.explain(rows, **options).confirmed)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"verify": True}, {"refine": 3}])
def test_a_model_that_fails_on_masked_rows_is_named(
    explainer: l2x.Explainer, rows: np.ndarray, options: dict[str, Any]
) -> None:
    known = Counted()(rows)

    def picky(X: np.ndarray) -> np.ndarray:
        if not (X[:, 7, None] == rows[:, 7]).any(axis=1).all():
            raise ValueError("this row is not among the customers")
        return Counted()(X)

    attached = explainer.with_model(picky)
    assert attached.explain(rows).chosen is not None
    with pytest.raises(l2x.errors.BlackBoxError, match=r"the customers.*These rows were masked") as raised:
        attached.explain(rows, predictions=known, **options)
    assert isinstance(raised.value.__cause__, ValueError)  # which the service names


def test_what_is_wrong_is_named_before_a_few_rows_are_learned_from() -> None:
    model, X = Counted(), np.zeros((50, 8))
    for options, named in (
        ({"refine": -1}, "refine is -1"),
        ({"refine": None}, "refine is None"),
        ({"features": l2x.Columns}, r"expected a view, such as Columns\(\)"),
        ({"features": "words"}, "features is 'words'"),
    ):
        with pytest.raises(InputError, match=named):
            l2x.explain(model, X, 2, **options)
    assert model.rows == 0


def test_unconfirmed_rows_are_flagged_where_they_are_shown(
    explainer: l2x.Explainer, rows: np.ndarray
) -> None:
    explanation = explainer.explain(rows, polish=False, verify=True)
    assert explanation.confirmed is not None
    wrong, right = explanation[~explanation.confirmed][:3], explanation[explanation.confirmed][:3]
    for shown in (repr, Explanation.to_html):
        assert shown(wrong).count("not confirmed") == 3
        assert "not confirmed" not in shown(right)
    assert "not confirmed" in wrong[0].plot().get_suptitle()


def test_an_endpoint_is_not_queried_unless_asked(explainer: l2x.Explainer, rows: np.ndarray) -> None:
    """Nobody listens at this address: any query would fail."""
    remote = explainer.with_model(l2x.Endpoint("http://127.0.0.1:9/", attempts=1))
    assert remote.explain(rows[:3]).chosen is None
    with pytest.raises(l2x.errors.BlackBoxError):
        remote.explain(rows[:3], polish=True)


def test_regression_within_the_tolerance_of_the_self_check(tiny: l2x.TrainingPlan) -> None:
    def model(X: np.ndarray) -> np.ndarray:
        return 3 * X[:, 0] + X[:, 1] - 0.5 * X[:, 2]

    X = np.random.default_rng(0).normal(size=(1000, 6))
    explainer = l2x.Explainer(model, 2, training=tiny).fit(X)
    tolerance = explainer.check_.by_model.tolerance  # type: ignore[union-attr]
    refined = explainer.explain(X[:200], refine=10)
    guesses = masked_predictions(explainer.black_box(), explainer.features_, X[:200], refined.mask)
    assert np.array_equal(refined.confirmed, np.abs(guesses[:, 0] - model(X[:200])) <= tolerance)  # type: ignore[arg-type]
    assert explainer.score(X[:200], refine=10) >= explainer.score(X[:200]) > 0.8


def test_texts_with_few_words_stay_complete(tiny: l2x.TrainingPlan) -> None:
    """A text of two words has two selected features, polished or not."""
    texts = [f"{a} {b} the film" for a in ("good", "bad") for b in ("very", "so")] * 50 + ["good film"] * 20

    def model(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "good" in text else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    view = l2x.Words(8)
    explainer = l2x.Explainer(model, 3, features=view, training=tiny).fit(texts)
    refined = explainer.explain(["good film", "so bad the film was"], refine=4)
    assert refined.names[0] in (["good", "film"], ["film", "good"])
    assert len(refined.names[1]) == 3


def test_true_features_are_not_lost_where_values_tie() -> None:
    """Additive is barely identifiable: the surrogate's errors alone would choose other features.

    500 test rows; one per cent may differ, because the plan is short.
    """
    data, test = synthetic("nonlinear_additive", 20_000, seed=0), synthetic("nonlinear_additive", 500, seed=9)
    explainer = l2x.Explainer(data.model, 4, training=l2x.TrainingPlan.quick()).fit(data.X)
    exact = {
        polish: float((explainer.explain(test.X, polish=polish).mask == test.truth).all(axis=1).mean())
        for polish in (False, True)
    }
    assert exact[True] >= exact[False] - 0.01


@given(st.integers(0, 60), st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_the_guarantee_is_the_exact_binomial_bound(successes: int, failures: int) -> None:
    n = successes + failures
    bound = binomtest(successes, n, alternative="greater").proportion_ci(0.95, method="exact").low
    assert at_least(successes, n) == pytest.approx(bound, abs=1e-9)


@pytest.mark.parametrize("kind", ["array", "frame", "arrow", "polars"])
def test_a_few_rows_are_explained_without_fit(kind: str) -> None:
    """50 rows; 90 % of them must have the column that decides, and be confirmed: far more than by chance."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"a": rng.normal(size=50), "b": rng.choice(["x", "y"], 50), "c": rng.normal(size=50)}
    )
    frame["d"] = rng.integers(0, 9, 50)

    def model(X: Any) -> np.ndarray:
        number = np.asarray(X["c"] if kind != "array" else X[:, 1], dtype=float)
        p = 1 / (1 + np.exp(-4 * number))
        return np.stack([1 - p, p], axis=1)

    makers = {
        "array": lambda f: f[["a", "c", "d"]].to_numpy(),
        "arrow": pa.Table.from_pandas,
        "polars": pl.from_pandas,
    }
    X = makers.get(kind, lambda f: f)(frame)
    explanation = l2x.explain(model, X, 1, refine=5)
    assert len(explanation) == 50
    right = [names == (["x1"] if kind == "array" else ["c"]) for names in explanation.names]
    assert np.mean(right) >= 0.9
    assert explanation.confirmed is not None
    assert explanation.confirmed.mean() >= 0.9
    assert np.array_equal(l2x.explain(model, X, 1, refine=5).indices, explanation.indices)


def test_fit_states_what_explanations_reproduce(explainer: l2x.Explainer, rows: np.ndarray) -> None:
    found = {one.selection: one for one in explainer.check_.guarantees}
    assert list(found) == ["learned", "polished", "refined"]
    assert all(one.at_least < one.share for one in found.values())
    assert found["refined"].share >= found["polished"].share
    assert found["refined"].queries >= found["polished"].queries == 1.0
    assert f"{found['polished'].at_least:.0%}".removesuffix("%") in (explainer.check_.guarantee or "")
    # The bound holds on these new rows.
    assert explainer.score(rows) >= found["polished"].at_least
    restored = l2x.learning.SelfCheck.from_dict(explainer.check_.to_dict())
    assert restored == explainer.check_
    quiet = l2x.Explainer(Counted(), 2, queries=0, training=PLAN.with_steps(value=20, selector=20))
    assert quiet.fit(rows).check_.guarantees == ()


def test_refining_without_a_surrogate_draws_near_the_proposal(tiny: l2x.TrainingPlan) -> None:
    """The model confirms more rows; the proposal comes first, and the other rows do not matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 12))

    def model(X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-4 * np.where(X[:, 0] > 0, X[:, 1], X[:, 2])))
        return np.stack([1 - p, p], axis=1)

    plan = tiny.with_steps(value=2, selector=5)
    explainer = l2x.Explainer(model, 3, objective="model", training=plan).fit(X)
    proposed = explainer.explain(X[:200], verify=True)
    refined = explainer.explain(X[:200], refine=20)
    assert proposed.confirmed is not None
    assert refined.confirmed is not None
    assert refined.queries is not None
    assert refined.confirmed.mean() > proposed.confirmed.mean() + 0.05
    assert np.array_equal(refined.queries == 1, proposed.confirmed)
    guesses = masked_predictions(explainer.black_box(), explainer.features_, X[:200], refined.mask)
    assert np.array_equal(refined.confirmed, confirmed_rows(guesses, model(X[:200])))
    part = explainer.explain(X[7:20], refine=20)
    assert np.array_equal(part.indices, refined.indices[7:20])


def test_no_subset_is_queried_twice_without_a_surrogate(tiny: l2x.TrainingPlan) -> None:
    """Where the model confirms none of the three subsets, it is queried for each of them once."""
    X = np.random.default_rng(0).normal(size=(300, 3))

    def model(X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-3 * X.prod(axis=1)))
        return np.stack([1 - p, p], axis=1)

    plan = tiny.with_steps(value=2, selector=5)
    explainer = l2x.Explainer(model, 1, objective="model", training=plan).fit(X)
    refined = explainer.explain(X[:40], refine=10**9)
    assert refined.queries is not None
    assert refined.confirmed is not None
    assert refined.queries.max() == 3
    assert (refined.queries[~refined.confirmed] == 3).all()


def test_values_are_refined_until_they_are_confirmed(
    tiny: l2x.TrainingPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tolerance below CLOSE, a nearly equal value does not end the search; `confirmed` stays true."""
    X = np.random.default_rng(0).normal(size=(600, 8))

    def model(X: np.ndarray) -> np.ndarray:
        return np.stack([np.where(X[:, 0] > 0, X[:, 1], X[:, 2]), 100 * X[:, 3] * X[:, 4]], axis=1)

    values = l2x.as_black_box(model, task="regression")
    explainer = l2x.Explainer(values, 3, training=tiny.with_steps(value=60, selector=20)).fit(X)
    monkeypatch.setattr(l2x.Explainer, "_tolerance", 0.5)
    refined = explainer.explain(X[:300], refine=30)
    assert refined.confirmed is not None
    assert refined.queries is not None
    guesses = masked_predictions(explainer.black_box(), explainer.features_, X[:300], refined.mask)
    assert np.array_equal(refined.confirmed, confirmed_rows(guesses, model(X[:300]), 0.5))
    assert 0 < refined.confirmed.mean() < 1
    assert (refined.queries[~refined.confirmed] > 1).all()
