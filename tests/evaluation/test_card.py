"""The report card: its parts, its verdict, and the ways in which it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from models import one_column
from sklearn.linear_model import LinearRegression

import l2x
from l2x.baselines import ByPosition, RandomK
from l2x.evaluation import ReportCard, random_model
from l2x.evaluation.bootstrap import Estimate
from l2x.evaluation.verdict import finding_of
from l2x.training import Phase
from l2x.values import FittedValue

PLAN = l2x.TrainingPlan(
    value=Phase(400, 5e-3, batch_size=200, averaging=0.9),
    selector=Phase(150, 1e-2, batch_size=200, averaging=0.9),
    evaluations=5,
    progress=False,
)
FIT, JUDGE, TEST = (
    np.random.default_rng(seed).normal(size=(n, 5)) for seed, n in ((0, 600), (1, 3000), (2, 1000))
)
TRUTH = np.tile(np.arange(5) == 1, (1000, 1))


@pytest.fixture(scope="module")
def judge() -> FittedValue:
    return l2x.evaluation.fit_judge(one_column, JUDGE, 1, training=PLAN)


@pytest.fixture(scope="module")
def card(judge: FittedValue, fitted: l2x.Explainer) -> ReportCard:
    other = l2x.Explainer(one_column, 1, training=PLAN, seed=5).fit(FIT)
    lost = l2x.Explainer(random_model(one_column, FIT), 1, training=PLAN).fit(FIT)
    return l2x.report_card(
        [fitted, other], one_column, JUDGE, TEST, truth=TRUTH, judge=judge, randomised=lost, training=PLAN,
        exact=l2x.values.ConditionalModel(one_column, JUDGE[:50]),
    )  # fmt: skip


def test_an_honest_explainer_passes(card: ReportCard) -> None:
    assert card.finding == "none"
    assert card.verdict.startswith("No encoding found")
    assert card["fidelity"]["mean"].value > 0.98
    assert card["fidelity"]["mean_complement"].value < 0.6
    assert card["judge"]["selection"].value > 0.95
    assert card["judge"]["nothing"].value < 0.6
    assert card["information"]["share"].value > 0.9
    assert card["stability"]["seeds"].value > 0.95
    assert card["stability"]["noise"].value > 0.95
    assert card["stability"]["collapse"].value == 1
    assert card["truth"]["exact"].value > 0.95
    assert card["truth"]["fdr"].value < 0.05
    assert card["truth"]["oracle_gap"].value == pytest.approx(0, abs=0.02)
    assert card["cost"]["rows_asked"].value == 600
    assert [k for k, _ in card.curve] == [1, 2, 3, 4, 5]


def test_it_changes_with_the_model(card: ReportCard) -> None:
    assert card["stability"]["randomised"].high < 0.7


def test_every_figure_that_rows_decide_has_an_interval(card: ReportCard) -> None:
    for part in ("fidelity", "judge", "stability", "truth"):
        for entry in card[part].entries:
            if entry.key != "distinct":
                assert entry.estimate.low <= entry.estimate.value <= entry.estimate.high, entry


def test_a_cheater_is_flagged(judge: FittedValue) -> None:
    # Position 1 would be honest: among the other columns nothing is to be seen.
    cheat = ByPosition(one_column, features=l2x.Columns().fit(JUDGE), seed=1)
    card = l2x.report_card(cheat, one_column, JUDGE, TEST, 1, judge=judge, training=PLAN)
    assert card.encodes
    assert card.verdict.startswith("ENCODES")
    assert card["encoding"]["mask_only"].value == 1
    assert card.name == "Cheats by position"
    assert "truth" not in card


def test_explanations_that_are_ready(judge: FittedValue) -> None:
    card = l2x.report_card(
        RandomK(seed=1).explain(TEST, 2), one_column, JUDGE, TEST, judge=judge, training=PLAN, name="chance"
    )
    assert card.finding == "none"
    assert card["stability"]["chance"].value == pytest.approx(0.3, abs=0.05)
    assert card["cost"].remark.startswith("explanations came ready")
    with pytest.raises(KeyError, match="'seeds'; part 'stability' has chance"):
        card["stability"]["seeds"]
    with pytest.raises(KeyError, match="'truth'; this card has fidelity"):
        card["truth"]


@pytest.mark.parametrize(
    ("share", "proven", "missed", "rows", "found"),
    [
        (Estimate(0.01, 0.00, 0.02), False, 0.1, 500, "none"),
        (Estimate(0.20, 0.18, 0.22), True, 0.1, 500, "encodes"),
        (Estimate(0.20, 0.18, 0.22), False, 0.1, 500, "uncertain"),  # noise, or a weak judge, could do that
        (Estimate(0.02, 0.00, 0.05), True, 0.1, 500, "uncertain"),  # too few rows to tell
        (Estimate(0.01, 0.00, 0.02), True, 0.6, 500, "uncertain"),  # a judge that knows little acquits nobody
        (Estimate(0.01, 0.01, 0.01), True, 0.1, 5, "uncertain"),
        (Estimate(float("nan")), False, float("nan"), 500, "uncertain"),  # nothing to know
    ],
)
def test_findings(share: Estimate, proven: bool, missed: float, rows: int, found: str) -> None:
    assert finding_of(share, proven=proven, missed=missed, rows=rows) == found


def test_a_weak_judge_does_not_accuse() -> None:
    weak = l2x.TrainingPlan(value=Phase(8, 1e-3), evaluations=1, progress=False)
    barely = l2x.evaluation.fit_judge(one_column, JUDGE, 1, training=weak)
    cheat = ByPosition(one_column, seed=1)
    card = l2x.report_card(cheat, one_column, JUDGE, TEST, 1, judge=barely, training=PLAN)
    assert card.finding == "uncertain"
    assert "the judge misses" in card.verdict


def test_it_prints_saves_and_draws(card: ReportCard, tmp_path: Path) -> None:
    text = str(card)
    assert "Report card" in text
    assert "encode-meter" in text
    assert card.verdict[:40] in text
    assert json.loads(json.dumps(card.to_dict()))["parts"]["truth"]["exact"]["value"] > 0.95
    page = card.save(tmp_path / "card.html").read_text()
    assert "Independent judge" in page
    assert "<svg" in page
    card.plot(tmp_path / "card.png")
    assert (tmp_path / "card.png").stat().st_size > 10_000


def test_names_are_escaped(judge: FittedValue) -> None:
    bad = "<script>alert(1)</script>"
    card = l2x.report_card(
        RandomK().explain(TEST, 1), one_column, JUDGE, TEST, judge=judge, training=PLAN, name=bad
    )
    assert "<script" not in card.to_html()
    assert "&lt;script" in card.to_html()
    assert bad in str(card)  # not markup for the terminal either


def test_regression_and_frames() -> None:
    names = list("abcde")
    model = LinearRegression().fit(pd.DataFrame(FIT, columns=names), 3 * FIT[:, 0] - FIT[:, 1])
    explainer = l2x.Explainer(model, 2, training=PLAN).fit(pd.DataFrame(FIT, columns=names))
    rows = pd.DataFrame(TEST, columns=names)
    card = l2x.report_card(explainer, model, pd.DataFrame(JUDGE, columns=names), rows, training=PLAN)
    assert card.task == "regression"
    assert card["fidelity"]["mean"].value > 0.95
    assert card["judge"]["selection"].value > 0.9
    assert card["encoding"]["mask_only"].value < 0.1
    assert card.finding == "none"
    assert "R²" in str(card)


def test_images() -> None:
    def bright_corner(X: np.ndarray) -> np.ndarray:
        p = (X[:, :2, :2].mean(axis=(1, 2)) > 127) * 0.9 + 0.05
        return np.stack([1 - p, p], axis=1)

    images = np.random.default_rng(0).integers(0, 256, size=(300, 4, 4)).astype(np.uint8)
    view = l2x.Patches(2).fit(images)
    plan = l2x.TrainingPlan(value=Phase(30, 3e-3, batch_size=64), evaluations=2, progress=False)
    methods = RandomK(features=view), RandomK(features=view, seed=1)
    card = l2x.report_card(list(methods), bright_corner, images[:200], images[200:], 1, training=plan)
    assert {"zero", "mean", "blur"} <= {entry.key for entry in card["fidelity"].entries}
    assert card["stability"]["noise"].value == 1  # the same random numbers for as many rows


def test_texts_of_different_lengths() -> None:
    def likes(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "good" in text.lower() else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    rng = np.random.default_rng(0)
    words = ["film", "plot", "actor", "long", "short", "scene"]
    texts = [" ".join(rng.choice([*words, "good"], size=rng.integers(1, 6))) for _ in range(300)]
    plan = l2x.TrainingPlan(
        value=Phase(40, 3e-3, batch_size=64),
        selector=Phase(20, 3e-3, batch_size=64),
        evaluations=2,
        progress=False,
    )
    view = l2x.Words(length=6, vocabulary=20)
    explainer = l2x.Explainer(likes, 2, features=view, training=plan).fit(texts[:100])
    card = l2x.report_card(explainer, likes, texts[100:200], texts[200:], training=plan)
    assert "drop" in {entry.key for entry in card["fidelity"].entries}
    assert "noise" not in {entry.key for entry in card["stability"].entries}
    cheat = ByPosition(likes, features=explainer.features_)
    there = np.array([len(text.split()) for text in texts[200:]])
    assert (cheat.explain(texts[200:], 2).mask.sum(axis=1) == np.minimum(2, there)).all()  # never padding


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ([], "nothing to judge"),
    "other rows": (RandomK().explain(TEST[:7], 1), "is of 7 rows, X_test has 1000"),
    "no k": (RandomK(), "pass k="),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str, judge: FittedValue) -> None:
    given, sentence = WRONG[case]
    with pytest.raises(l2x.InputError, match=sentence):
        l2x.report_card(given, one_column, JUDGE, TEST, judge=judge)


BRIEF = l2x.TrainingPlan(value=Phase(20, 3e-3), selector=Phase(10, 3e-3), evaluations=1, progress=False)


@pytest.mark.parametrize("constant", [[0.5, 0.5], [1.0, 0.0], [3.0]])
def test_nothing_to_know(constant: list[float]) -> None:
    task = "regression" if len(constant) == 1 else "classification"
    model = l2x.as_black_box(lambda X: np.tile(constant, (len(X), 1)), task=task)
    card = l2x.report_card(RandomK(), model, JUDGE[:200], TEST[:100], 1, training=BRIEF)
    assert card.finding == "uncertain"
    assert "nothing to know" in card.verdict
    assert "nan" not in str(card)
    json.dumps(card.to_dict(), allow_nan=False)
    assert ">nan" not in card.to_html()


def test_two_rows_teach_a_judge_nothing() -> None:
    card = l2x.report_card(ByPosition(one_column), one_column, JUDGE[:2], TEST[:100], 1, training=BRIEF)
    assert card.finding == "uncertain"


def test_few_rows_say_nothing(judge: FittedValue) -> None:
    card = l2x.report_card(RandomK(), one_column, JUDGE[:100], TEST[:20], 1, judge=judge, training=BRIEF)
    assert card.finding == "uncertain"


def test_unseen_categories_and_gaps_that_the_judge_never_saw() -> None:
    frame = pd.DataFrame(FIT, columns=list("abcde"))
    frame["a"] = np.where(frame["a"] > 0, "high", "low")
    frame.loc[:50, "c"] = np.nan

    def model(rows: pd.DataFrame) -> np.ndarray:
        return one_column(rows[["b", "b"]].to_numpy())

    explainer = l2x.Explainer(model, 1, training=BRIEF).fit(frame)
    test = frame[100:200].copy()
    test.iloc[0, 0], test.iloc[1, 2] = "new", np.nan
    with pytest.warns(UserWarning, match="did not have"):
        card = l2x.report_card(explainer, model, frame[200:400], test, training=BRIEF)
    assert card["stability"]["noise"].value > 0


def test_arguments_are_checked(judge: FittedValue, fitted: l2x.Explainer) -> None:
    def card(subject: Any, k: int | None = None, **options: Any) -> ReportCard:
        return l2x.report_card(subject, one_column, JUDGE, TEST, k, training=BRIEF, **options)

    explanation = fitted.explain(TEST)
    assert card(explanation, 2, judge=judge).k == 2
    assert card([explanation, fitted.explain(TEST, k=3)], judge=judge).k == 1
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (np.ones((1000, 5)), {}, "Cannot judge a ndarray"),
        (explanation, {"truth": np.ones(5)}, r"truth has the shape \(5,\); expected \(1000, 5\)"),
        (explanation, {"exact": fitted.q_}, "pass them too, truth="),
        (explanation, {"randomised": random_model(one_column, FIT)}, "not the model"),
    ]
    for subject, options, message in wrong:
        with pytest.raises(l2x.InputError, match=message):
            card(subject, **options)
    narrow = l2x.evaluation.fit_judge(lambda X: one_column(X[:, :2]), JUDGE[:, :3], 1, training=BRIEF)
    with pytest.raises(l2x.InputError, match="judge= reads 3 features, the explanation has 5"):
        card(explanation, judge=narrow)
    of_means = l2x.evaluation.fit_judge(lambda X: X[:, 0], JUDGE, 1, training=BRIEF)
    with pytest.raises(l2x.InputError, match="another kind of model"):
        card(explanation, judge=of_means)


def test_a_code_in_a_text_that_its_networks_cannot_read() -> None:
    # Word networks take the maximum over positions: they do not see which place was selected.
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["good", "bad", "film", "seen"], 8)) for _ in range(600)]

    def model(some: list[str]) -> np.ndarray:
        more = np.array([text.split().count("good") - text.split().count("bad") for text in some])
        p = 1 / (1 + np.exp(-3.0 * more))
        return np.stack([1 - p, p], axis=1)

    view = l2x.Words(length=8).fit(texts)
    cheat = ByPosition(model, features=view, seed=0)
    plan = l2x.TrainingPlan(value=Phase(150, 1e-2, batch_size=100), evaluations=3, progress=False)
    card = l2x.report_card(cheat, model, texts[:400], texts[400:], 1, training=plan)
    assert card["encoding"]["mask_only"].value > 0.99
    assert card["encoding"]["own_reader"].value > 0.99
    assert card["encoding"]["share"].low > 0.2
    assert card.finding != "none"
