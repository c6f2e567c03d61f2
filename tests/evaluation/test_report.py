"""The report: which explanations it flags, when it is inconclusive, what it refuses, and how it is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from toy_models import one_column

import l2x
from l2x.baselines import PositionLeak, RandomK
from l2x.display._pages import FINDINGS
from l2x.errors import InputError
from l2x.evaluation import Estimate, FittedSurrogate, Reference, Report, fit_evaluator, random_model
from l2x.evaluation._parts import Entry, Part
from l2x.learning._training import Phase

if TYPE_CHECKING:
    from conftest import Tables


def test_a_sound_explainer_passes(found: Report) -> None:
    assert found.finding == "none"
    assert found.verdict.startswith("No leakage found: every row has the same selected features")
    assert found.fidelity == found.to_dict()["fidelity"] == "faithful"
    assert " Faithful: post-hoc accuracy is " in found.verdict
    assert (found.task, found.rows, found.features, found.k) == ("classification", 1000, 5, 1)
    assert [part.key for part in found.parts] == [
        "fidelity", "evaluator", "leakage", "information", "stability", "truth", "cost"
    ]  # fmt: skip


def test_an_adversary_is_flagged(evaluator: FittedSurrogate, tables: Tables, plan: l2x.TrainingPlan) -> None:
    # With position 1 the selection would be sound: the other columns have no information.
    adversary = PositionLeak(one_column, features=l2x.Columns().fit(tables.evaluator), seed=1)
    found = l2x.report(
        adversary, one_column, tables.evaluator, tables.test, 1, evaluator=evaluator, training=plan
    )
    assert found.leaks
    assert found.verdict.startswith("LEAKS")
    assert found["leakage"]["mask_only"].value == 1
    assert found.name == "Leaks by position"
    assert "truth" not in found


def test_precomputed_explanations(evaluator: FittedSurrogate, tables: Tables, plan: l2x.TrainingPlan) -> None:
    explanation = RandomK(seed=1).explain(tables.test, 2)
    found = l2x.report(
        explanation,
        one_column,
        tables.evaluator,
        tables.test,
        evaluator=evaluator,
        training=plan,
        name="chance",
    )
    assert found.finding == "none"
    assert found.fidelity in ("chance", "undecided")
    assert found.tone != "good"
    assert found.name == "chance"
    assert found["stability"]["chance"].value == pytest.approx(0.3, abs=0.05)
    assert found["cost"].remark == "precomputed explanations: no cost to report"
    assert {"seeds", "noise", "randomised"}.isdisjoint(entry.key for entry in found["stability"].entries)


def test_as_many_features_as_a_row_needs(
    evaluator: FittedSurrogate, tables: Tables, plan: l2x.TrainingPlan
) -> None:
    # One column decides: of three, one is all that a row needs, and further features are chance.
    explainer = l2x.Explainer(one_column, 3, training=l2x.TrainingPlan(progress=False)).fit(tables.fit)
    truth, options = np.tile(np.arange(5) == 1, (1000, 1)), {"evaluator": evaluator, "training": plan}
    found = l2x.report(
        explainer,
        one_column,
        tables.evaluator,
        tables.test,
        keep=0.9,
        reference=Reference(truth=truth),
        **options,
    )
    explanation = explainer.explain(tables.test, keep=0.9)
    assert explanation.sizes is not None
    assert found.mean_size == explanation.sizes.mean() < 2
    assert f"at most k = 3 of 5 features, {found.mean_size:.2f} on average, 1,000 rows" in str(found)
    assert "at most k = 3" in found.to_html()
    assert found["truth"]["tpr"].value == 1
    # Rows have as many as they need: nothing stands in the way of 0.
    assert "at best 0.000 with this k" in str(found)
    # The curve shows the whole ranking, however many features rows keep.
    assert [k for k, _ in found.curve] == [1, 2, 3, 4, 5]
    half = l2x.report(explanation, one_column, tables.evaluator, tables.test, brief=True, **options)
    assert half.mean_size == found.mean_size
    assert half["evaluator"]["selection"] == found["evaluator"]["selection"]


def test_refined_and_learned_selections_are_reported_on(
    fitted: l2x.Explainer, evaluator: FittedSurrogate, tables: Tables, plan: l2x.TrainingPlan
) -> None:
    X, options = tables.test, {"evaluator": evaluator, "training": plan, "brief": True}
    for how in ({"polish": False}, {"refine": 5}):
        found = l2x.report(fitted, one_column, tables.evaluator, X, **how, **options)
        alone = l2x.report(fitted.explain(X, **how), one_column, tables.evaluator, X, **options)
        assert found["evaluator"]["selection"] == alone["evaluator"]["selection"]
    with pytest.raises(InputError, match="refine= needs an explainer"):
        l2x.report(fitted.explain(X), one_column, tables.evaluator, X, refine=5, **options)


def test_a_share_is_for_an_explainer(
    evaluator: FittedSurrogate, tables: Tables, plan: l2x.TrainingPlan
) -> None:
    arguments = one_column, tables.evaluator, tables.test, 2
    with pytest.raises(InputError, match="a RandomK "):
        l2x.report(RandomK(), *arguments, keep=0.9, evaluator=evaluator, training=plan)
    with pytest.raises(InputError, match="keep= needs an explainer"):
        l2x.report(
            RandomK().explain(tables.test, 2), *arguments, keep=0.9, evaluator=evaluator, training=plan
        )


def test_a_brief_report_trains_no_probes(
    found: Report,
    evaluator: FittedSurrogate,
    fitted: l2x.Explainer,
    tables: Tables,
    plan: l2x.TrainingPlan,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a probe was trained")

    monkeypatch.setattr("l2x.evaluation._leakage.fit_probe", never)
    brief = l2x.report(
        fitted, one_column, tables.evaluator, tables.test, evaluator=evaluator, training=plan, brief=True
    )
    assert [part.key for part in brief.parts] == ["fidelity", "evaluator", "information"]
    for part in brief.parts:
        assert part == found[part.key]
    assert brief.curve == found.curve
    assert brief.finding == "untested"
    assert not brief.leaks
    assert "can be gamed" in brief.verdict


def test_a_weak_evaluator_is_inconclusive(tables: Tables, plan: l2x.TrainingPlan) -> None:
    weak = l2x.TrainingPlan(value=Phase(8, 1e-3), evaluations=1, progress=False)
    barely = fit_evaluator(one_column, tables.evaluator, 1, training=weak)
    adversary = PositionLeak(one_column, seed=1)
    found = l2x.report(
        adversary, one_column, tables.evaluator, tables.test, 1, evaluator=barely, training=plan
    )
    assert found.finding == "inconclusive"
    assert "the evaluator misses" in found.verdict


def test_two_rows_are_too_few_for_an_evaluator(tables: Tables, short: l2x.TrainingPlan) -> None:
    found = l2x.report(
        PositionLeak(one_column), one_column, tables.evaluator[:2], tables.test[:100], 1, training=short
    )
    assert found.finding == "inconclusive"


def test_few_rows_say_nothing(evaluator: FittedSurrogate, tables: Tables, short: l2x.TrainingPlan) -> None:
    found = l2x.report(
        RandomK(),
        one_column,
        tables.evaluator[:100],
        tables.test[:20],
        1,
        evaluator=evaluator,
        training=short,
    )
    assert found.finding == "inconclusive"
    assert "20 rows are too few" in found.verdict


@pytest.mark.parametrize("constant", [[0.5, 0.5], [1.0, 0.0], [3.0]])
def test_predictions_that_do_not_vary(constant: list[float], tables: Tables, short: l2x.TrainingPlan) -> None:
    task = "regression" if len(constant) == 1 else "classification"
    model = l2x.as_black_box(lambda X: np.tile(constant, (len(X), 1)), task=task)
    found = l2x.report(RandomK(), model, tables.evaluator[:200], tables.test[:100], 1, training=short)
    assert found.finding == "inconclusive"
    assert "there is no information" in found.verdict
    assert "nan" not in str(found)
    json.dumps(found.to_dict(), allow_nan=False)
    assert ">nan" not in found.to_html()


def test_regression_and_frames(tables: Tables, plan: l2x.TrainingPlan) -> None:
    fit, evaluated, rows = (
        pd.DataFrame(X, columns=list("abcde")) for X in (tables.fit, tables.evaluator, tables.test)
    )
    model = LinearRegression().fit(fit, 3 * fit["a"] - fit["b"])
    explainer = l2x.Explainer(model, 2, training=plan).fit(fit)
    found = l2x.report(explainer, model, evaluated, rows, training=plan)
    assert found.task == "regression"
    assert found["fidelity"]["mean"].value > 0.95
    assert found["evaluator"]["selection"].value > 0.9
    assert found["leakage"]["mask_only"].value < 0.1
    assert found.finding == "none"
    assert "R²" in str(found)


def test_unseen_categories_and_gaps_that_the_evaluator_never_saw(
    tables: Tables, short: l2x.TrainingPlan
) -> None:
    frame = pd.DataFrame(tables.fit, columns=list("abcde"))
    frame["a"] = np.where(frame["a"] > 0, "high", "low")
    frame.loc[:50, "c"] = np.nan

    def model(rows: pd.DataFrame) -> np.ndarray:
        return one_column(rows[["b", "b"]].to_numpy())

    explainer = l2x.Explainer(model, 1, training=short).fit(frame)
    test = frame[100:200].copy()
    test.iloc[0, 0], test.iloc[1, 2] = "new", np.nan
    with pytest.warns(UserWarning, match=r"a \(1 rows\)"):
        found = l2x.report(explainer, model, frame[200:400], test, training=short)
    assert found["stability"]["noise"].value > 0


def test_the_seed_decides(tables: Tables, short: l2x.TrainingPlan) -> None:
    def made(seed: int) -> dict[str, Any]:
        found = l2x.report(
            RandomK(), one_column, tables.evaluator[:200], tables.test[:100], 1, training=short, seed=seed
        ).to_dict()
        del found["parts"]["cost"]
        return found

    assert made(1) == made(1) != made(2)


def test_arguments_are_checked(
    evaluator: FittedSurrogate, fitted: l2x.Explainer, tables: Tables, short: l2x.TrainingPlan
) -> None:
    def made(subject: Any, k: int | None = None, **options: Any) -> Report:
        return l2x.report(subject, one_column, tables.evaluator, tables.test, k, training=short, **options)

    explanation = fitted.explain(tables.test)
    assert made(explanation, 2, evaluator=evaluator).k == 2
    assert made([explanation, fitted.explain(tables.test, k=3)], evaluator=evaluator).k == 1
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (np.ones((1000, 5)), {}, "a ndarray"),
        (
            explanation,
            {"reference": Reference(truth=np.ones(5))},
            r"truth has the shape \(5,\); expected \(1000, 5\)",
        ),
        *((explanation, {"seed": seed}, "seed is ") for seed in (-1, "a", None)),
    ]
    with pytest.raises(InputError, match="needs truth="):
        Reference(exact=fitted.surrogate_)
    with pytest.raises(InputError, match="randomised is a BlackBox"):
        Reference(randomised=random_model(one_column, tables.fit))
    for subject, options, message in wrong:
        with pytest.raises(InputError, match=message):
            made(subject, **options)
    narrow = fit_evaluator(lambda X: one_column(X[:, :2]), tables.evaluator[:, :3], 1, training=short)
    with pytest.raises(InputError, match="has 3 features, the explanation has 5"):
        made(explanation, evaluator=narrow)
    of_means = fit_evaluator(lambda X: X[:, 0], tables.evaluator, 1, training=short)
    with pytest.raises(InputError, match="another kind of model"):
        made(explanation, evaluator=of_means)


def test_another_model_than_the_explained_one_is_refused(fitted: l2x.Explainer, tables: Tables) -> None:
    def three(X: np.ndarray) -> np.ndarray:
        return np.full((len(X), 3), 1 / 3)

    with pytest.raises(InputError, match="three has 3 outputs, but the explainer was fitted to 2"):
        l2x.report(fitted, three, tables.evaluator, tables.test)


def test_the_model_is_queried_once_per_mask(evaluator: FittedSurrogate, tables: Tables) -> None:
    rows = 0

    def counting(X: np.ndarray) -> np.ndarray:
        nonlocal rows
        rows += len(X)
        return one_column(X)

    l2x.report(RandomK(), counting, tables.evaluator, tables.test, 1, evaluator=evaluator, brief=True)
    maskings, masks = 1 + 1 + 20, 3  # a mean, a median, draws; the selection, random features, all others
    assert rows == (1 + maskings * masks) * len(tables.test)


NEW = Part(
    "novelty",
    "A part that nobody knew",
    [Entry("surprise", "surprise", Estimate(0.5, 0.4, 0.6), "high is high")],
    about="A sentence about it.",
)


def test_numbers_are_found_by_their_keys(found: Report) -> None:
    assert found["evaluator"]["selection"] is found.parts[1].entries[0].estimate
    with pytest.raises(KeyError, match="'surprise'; part 'cost' has rows_queried"):
        found["cost"]["surprise"]
    with pytest.raises(KeyError, match="'novelty'; this report has fidelity"):
        found["novelty"]
    assert "novelty" not in found
    assert "truth" in found


def test_it_prints_saves_and_draws(found: Report, tmp_path: Path) -> None:
    text = str(found)
    assert "Report card" in text
    assert "Leakage test" in text
    assert found.verdict[:40] in text
    assert json.loads(json.dumps(found.to_dict()))["parts"]["truth"]["exact"]["value"] > 0.95
    page = found.save(tmp_path / "found.html").read_text()
    assert "Independent evaluator" in page
    assert "<svg" in page
    found.plot(tmp_path / "found.png")
    assert (tmp_path / "found.png").stat().st_size > 10_000


def test_names_are_escaped(found: Report) -> None:
    bad = "<script>alert(1)</script>"
    named = replace(found, name=bad)
    assert "<script" not in named.to_html()
    assert "&lt;script" in named.to_html()
    assert bad in str(named)  # not markup for the terminal either
    assert "[red]" in str(replace(found, name="[red]"))


def test_a_new_part_is_shown_everywhere(found: Report) -> None:
    more = replace(found, parts=[*found.parts, NEW])
    assert more["novelty"]["surprise"].value == 0.5
    assert more.to_dict()["parts"]["novelty"]["surprise"] == {"value": 0.5, "low": 0.4, "high": 0.6}
    for shown in (str(more), more.to_html()):
        assert "A part that nobody knew" in shown
        assert "0.500 [0.400, 0.600]" in shown
    assert "A sentence about it." in more.to_html()


@pytest.mark.parametrize("finding", ["leaks", "none", "inconclusive", "untested"])
def test_every_finding_can_be_shown(found: Report, finding: str) -> None:
    shown = replace(found, finding=finding)
    assert shown.leaks == (finding == "leaks")
    assert found.verdict[:30] in str(shown)
    assert f"Leakage test: {FINDINGS.get(finding, finding)}." in shown.to_html()


def test_a_part_without_numbers_has_a_remark(found: Report) -> None:
    empty = replace(found, parts=[*found.parts, Part("empty", "Empty", [], remark="nothing to report")])
    assert "nothing to report" in str(empty)
    assert "nothing to report" in empty.to_html()


def test_digits() -> None:
    assert Entry("rows", "rows", Estimate(1234567.0), digits=0).text == "1,234,567"
    assert Entry("rows", "rows", Estimate(float("nan"))).text == "–"


def test_what_users_meet_is_exported() -> None:
    """What public functions return, and what `reference=` and `evaluator=` take."""
    names = {"ConditionalModel", "FittedSurrogate", "Reference", "Report", "SizeChoice"}
    assert names <= set(l2x.evaluation.__all__)
