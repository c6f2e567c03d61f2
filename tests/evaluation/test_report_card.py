"""The report card as a whole: whom it flags, when it is uncertain, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from toy_models import one_column

import l2x
from l2x.baselines import ByPosition, RandomK
from l2x.errors import InputError
from l2x.evaluation import FittedQ, ReportCard, fit_judge, random_model
from l2x.learning._training import Phase

if TYPE_CHECKING:
    from conftest import Tables


def test_an_honest_explainer_passes(card: ReportCard) -> None:
    assert card.finding == "none"
    assert card.verdict.startswith("No encoding found: the same features are selected in every row")
    assert card.fidelity == card.to_dict()["fidelity"] == "faithful"
    assert " Faithful: the model keeps more with it than with random features (" in card.verdict
    assert (card.task, card.rows, card.features, card.k) == ("classification", 1000, 5, 1)
    assert [part.key for part in card.parts] == [
        "fidelity", "judge", "encoding", "information", "stability", "truth", "cost"
    ]  # fmt: skip


def test_a_cheater_is_flagged(judge: FittedQ, tables: Tables, plan: l2x.TrainingPlan) -> None:
    # Position 1 would be honest: the other columns have no information.
    cheat = ByPosition(one_column, features=l2x.Columns().fit(tables.judge), seed=1)
    card = l2x.report_card(cheat, one_column, tables.judge, tables.test, 1, judge=judge, training=plan)
    assert card.encodes
    assert card.verdict.startswith("ENCODES")
    assert card["encoding"]["mask_only"].value == 1
    assert card.name == "Cheats by position"
    assert "truth" not in card


def test_precomputed_explanations(judge: FittedQ, tables: Tables, plan: l2x.TrainingPlan) -> None:
    explanation = RandomK(seed=1).explain(tables.test, 2)
    card = l2x.report_card(
        explanation, one_column, tables.judge, tables.test, judge=judge, training=plan, name="chance"
    )
    assert card.finding == "none"
    assert card.fidelity in ("chance", "undecided")
    assert card.tone != "good"
    assert card.name == "chance"
    assert card["stability"]["chance"].value == pytest.approx(0.3, abs=0.05)
    assert card["cost"].remark == "precomputed explanations: no cost to report"
    assert {"seeds", "noise", "randomised"}.isdisjoint(entry.key for entry in card["stability"].entries)


def test_as_many_features_as_a_row_needs(judge: FittedQ, tables: Tables, plan: l2x.TrainingPlan) -> None:
    # One column decides: of three, one is all that a row needs, and what is kept beyond it is chance.
    explainer = l2x.Explainer(one_column, 3, training=plan).fit(tables.fit)
    truth, options = np.tile(np.arange(5) == 1, (1000, 1)), {"judge": judge, "training": plan}
    card = l2x.report_card(explainer, one_column, tables.judge, tables.test, keep=0.9, truth=truth, **options)
    explanation = explainer.explain(tables.test, keep=0.9)
    assert explanation.sizes is not None
    assert card.mean_size == explanation.sizes.mean() < 2
    assert f"at most k = 3 of 5 features, {card.mean_size:.2f} on average, 1,000 rows" in str(card)
    assert "at most k = 3" in card.to_html()
    assert card["truth"]["tpr"].value == 1
    # Rows have as many as they need: nothing stands in the way of 0.
    assert "at best 0.000 with this k" in str(card)
    # The curve is of the whole ranking, whatever rows keep.
    assert [k for k, _ in card.curve] == [1, 2, 3, 4, 5]
    half = l2x.report_card(explanation, one_column, tables.judge, tables.test, brief=True, **options)
    assert half.mean_size == card.mean_size
    assert half["judge"]["selection"] == card["judge"]["selection"]


def test_a_share_is_for_an_explainer(judge: FittedQ, tables: Tables, plan: l2x.TrainingPlan) -> None:
    arguments = one_column, tables.judge, tables.test, 2
    with pytest.raises(InputError, match="a RandomK has one k"):
        l2x.report_card(RandomK(), *arguments, keep=0.9, judge=judge, training=plan)
    with pytest.raises(InputError, match="explanations are judged with the sizes that they have"):
        l2x.report_card(RandomK().explain(tables.test, 2), *arguments, keep=0.9, judge=judge, training=plan)


def test_a_brief_card_trains_no_probes(
    card: ReportCard,
    judge: FittedQ,
    fitted: l2x.Explainer,
    tables: Tables,
    plan: l2x.TrainingPlan,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a probe was trained")

    monkeypatch.setattr("l2x.evaluation._encoding.fit_probe", never)
    brief = l2x.report_card(
        fitted, one_column, tables.judge, tables.test, judge=judge, training=plan, brief=True
    )
    assert [part.key for part in brief.parts] == ["fidelity", "judge", "information"]
    for part in brief.parts:
        assert part == card[part.key]
    assert brief.curve == card.curve
    assert brief.finding == "unchecked"
    assert not brief.encodes
    assert "can be gamed" in brief.verdict


def test_a_weak_judge_does_not_accuse(tables: Tables, plan: l2x.TrainingPlan) -> None:
    weak = l2x.TrainingPlan(value=Phase(8, 1e-3), evaluations=1, progress=False)
    barely = fit_judge(one_column, tables.judge, 1, training=weak)
    cheat = ByPosition(one_column, seed=1)
    card = l2x.report_card(cheat, one_column, tables.judge, tables.test, 1, judge=barely, training=plan)
    assert card.finding == "uncertain"
    assert "the judge misses" in card.verdict


def test_two_rows_teach_a_judge_nothing(tables: Tables, short: l2x.TrainingPlan) -> None:
    card = l2x.report_card(
        ByPosition(one_column), one_column, tables.judge[:2], tables.test[:100], 1, training=short
    )
    assert card.finding == "uncertain"


def test_few_rows_say_nothing(judge: FittedQ, tables: Tables, short: l2x.TrainingPlan) -> None:
    card = l2x.report_card(
        RandomK(), one_column, tables.judge[:100], tables.test[:20], 1, judge=judge, training=short
    )
    assert card.finding == "uncertain"
    assert "20 rows are too few" in card.verdict


@pytest.mark.parametrize("constant", [[0.5, 0.5], [1.0, 0.0], [3.0]])
def test_answers_that_do_not_vary(constant: list[float], tables: Tables, short: l2x.TrainingPlan) -> None:
    task = "regression" if len(constant) == 1 else "classification"
    model = l2x.as_black_box(lambda X: np.tile(constant, (len(X), 1)), task=task)
    card = l2x.report_card(RandomK(), model, tables.judge[:200], tables.test[:100], 1, training=short)
    assert card.finding == "uncertain"
    assert "there is no information" in card.verdict
    assert "nan" not in str(card)
    json.dumps(card.to_dict(), allow_nan=False)
    assert ">nan" not in card.to_html()


def test_regression_and_frames(tables: Tables, plan: l2x.TrainingPlan) -> None:
    fit, judged, rows = (
        pd.DataFrame(X, columns=list("abcde")) for X in (tables.fit, tables.judge, tables.test)
    )
    model = LinearRegression().fit(fit, 3 * fit["a"] - fit["b"])
    explainer = l2x.Explainer(model, 2, training=plan).fit(fit)
    card = l2x.report_card(explainer, model, judged, rows, training=plan)
    assert card.task == "regression"
    assert card["fidelity"]["mean"].value > 0.95
    assert card["judge"]["selection"].value > 0.9
    assert card["encoding"]["mask_only"].value < 0.1
    assert card.finding == "none"
    assert "R²" in str(card)


def test_unseen_categories_and_gaps_that_the_judge_never_saw(tables: Tables, short: l2x.TrainingPlan) -> None:
    frame = pd.DataFrame(tables.fit, columns=list("abcde"))
    frame["a"] = np.where(frame["a"] > 0, "high", "low")
    frame.loc[:50, "c"] = np.nan

    def model(rows: pd.DataFrame) -> np.ndarray:
        return one_column(rows[["b", "b"]].to_numpy())

    explainer = l2x.Explainer(model, 1, training=short).fit(frame)
    test = frame[100:200].copy()
    test.iloc[0, 0], test.iloc[1, 2] = "new", np.nan
    with pytest.warns(UserWarning, match="did not have"):
        card = l2x.report_card(explainer, model, frame[200:400], test, training=short)
    assert card["stability"]["noise"].value > 0


def test_the_seed_decides(tables: Tables, short: l2x.TrainingPlan) -> None:
    def card(seed: int) -> dict[str, Any]:
        found = l2x.report_card(
            RandomK(), one_column, tables.judge[:200], tables.test[:100], 1, training=short, seed=seed
        ).to_dict()
        del found["parts"]["cost"]
        return found

    assert card(1) == card(1) != card(2)


def test_arguments_are_checked(
    judge: FittedQ, fitted: l2x.Explainer, tables: Tables, short: l2x.TrainingPlan
) -> None:
    def card(subject: Any, k: int | None = None, **options: Any) -> ReportCard:
        return l2x.report_card(subject, one_column, tables.judge, tables.test, k, training=short, **options)

    explanation = fitted.explain(tables.test)
    assert card(explanation, 2, judge=judge).k == 2
    assert card([explanation, fitted.explain(tables.test, k=3)], judge=judge).k == 1
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (np.ones((1000, 5)), {}, "Cannot judge a ndarray"),
        (explanation, {"truth": np.ones(5)}, r"truth has the shape \(5,\); expected \(1000, 5\)"),
        (explanation, {"exact": fitted.q_}, "pass them too, truth="),
        (explanation, {"randomised": random_model(one_column, tables.fit)}, "not the model"),
        *((explanation, {"seed": seed}, "seed is .*; give a whole number") for seed in (-1, "a", None)),
    ]
    for subject, options, message in wrong:
        with pytest.raises(InputError, match=message):
            card(subject, **options)
    narrow = fit_judge(lambda X: one_column(X[:, :2]), tables.judge[:, :3], 1, training=short)
    with pytest.raises(InputError, match="judge= reads 3 features, the explanation has 5"):
        card(explanation, judge=narrow)
    of_means = fit_judge(lambda X: X[:, 0], tables.judge, 1, training=short)
    with pytest.raises(InputError, match="another kind of model"):
        card(explanation, judge=of_means)


def test_another_model_than_the_explained_one_is_refused(fitted: l2x.Explainer, tables: Tables) -> None:
    def three(X: np.ndarray) -> np.ndarray:
        return np.full((len(X), 3), 1 / 3)

    with pytest.raises(
        InputError, match="three gives 3 numbers for a row, but the explainer was fitted to 2"
    ):
        l2x.report_card(fitted, three, tables.judge, tables.test)


def test_the_model_is_queried_once_per_mask(judge: FittedQ, tables: Tables) -> None:
    rows = 0

    def counting(X: np.ndarray) -> np.ndarray:
        nonlocal rows
        rows += len(X)
        return one_column(X)

    l2x.report_card(RandomK(), counting, tables.judge, tables.test, 1, judge=judge, brief=True)
    removals, masks = 3, 3  # a mean, zeros, draws; the selection, random features, all others
    assert rows == (1 + removals * masks) * len(tables.test)
