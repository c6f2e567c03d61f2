"""`fit` says so when its selection is no better than chance, and keeps quiet when it is good."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.learning._agreement import Estimate
from l2x.learning._self_check import Kept, SelfCheck, _paired
from l2x.learning._training import Phase

GOOD = Kept(0.96, 0.8, 0.78, 0.95, Estimate(0.18, 0.1, 0.26), Estimate(0.16, 0.1, 0.22))
CHANCE = Kept(0.71, 0.7, 0.73, 0.9, Estimate(-0.02, -0.1, 0.06), Estimate(0.01, -0.1, 0.1))
CLOSE = replace(CHANCE, selection=0.75, over_chance=Estimate(0.03, -0.01, 0.07))
LESS = replace(GOOD, selection=0.85, complement=0.91, over_complement=Estimate(-0.06, -0.09, -0.03))
CHECK = SelfCheck(100, 5, 30, classes=True, varies=True, by_model=GOOD, by_q=GOOD)


class FirstColumns(torch.nn.Module):
    """Scores that fall from the first column to the last, whatever is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.ignored = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -torch.arange(x.shape[1], dtype=torch.float32).expand(len(x), -1) + 0 * self.ignored


def warned(explainer: l2x.Explainer, X: object, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        explainer.fit(X, **options)
    return [str(warning.message) for warning in caught]


def test_a_good_selection_is_said_in_a_line_and_not_warned_of() -> None:
    assert CHECK.sentence == (
        "keeps 96 % of the answers with 5 of 30 features; random 78 %, all but these 80 %, one subset for "
        "all 95 % (100 held-out rows)"
    )
    assert CHECK.warnings == []


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            replace(CHECK, by_model=CHANCE),
            r"is no better than 5 random .* by the model 71 % against 73 % of the answers are kept, "
            r"-0\.02 \[-0\.10, 0\.06\] more",
        ),
        (replace(CHECK, by_model=CLOSE), r"is not clearly better .* by the model 75 % against 73 %"),
        (replace(CHECK, by_model=None, by_q=CHANCE), r"is no better .* by q 71 % against 73 %"),
        (
            replace(CHECK, by_model=CHANCE, by_q=CHANCE),
            r"by the model .* and by q .* another value .* larger k",
        ),
        (
            replace(CHECK, by_model=LESS, by_q=LESS),
            r"Everything but the selected .* by the model 91 % against 85 % and by q 91 % against 85 %",
        ),
        (replace(CHECK, by_model=LESS, by_q=None), r"Everything but .* than they do: by the model 91 %"),
        (replace(CHECK, varies=False), "says the same of every row: there is nothing to explain"),
        (replace(CHECK, rows=1), "too few rows to be checked: 1 held-out row"),
    ],
)
def test_what_is_not_good_is_one_warning(check: SelfCheck, message: str) -> None:
    (found,) = check.warnings
    assert re.search(message, found), found


def test_one_subset_that_serves_as_well_is_named() -> None:
    as_good = replace(GOOD, one_subset=GOOD.selection)
    check = replace(CHECK, by_model=as_good, subset=("age", "income"))
    assert check.hint == "a single subset serves all of these rows as well: age, income"
    assert SelfCheck.from_dict(json.loads(json.dumps(check.to_dict()))).subset == check.subset
    assert replace(check, by_model=replace(GOOD, one_subset=GOOD.selection - 0.01)).hint is None
    assert replace(check, by_model=replace(CHANCE, one_subset=1.0)).hint is None  # it warns already


def test_fit_names_a_subset_that_serves_all(table: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    """One column decides everywhere."""
    plan = replace(l2x.TrainingPlan.quick(), progress=True)
    explainer = l2x.Explainer(one_column, k=1, training=plan).fit(table)
    assert explainer.check_ is not None
    assert explainer.check_.subset == ("x1",)
    assert "a single subset serves all of these rows as well: x1" in " ".join(capsys.readouterr().err.split())


def test_the_models_word_decides_where_it_was_asked() -> None:
    assert replace(CHECK, by_q=CHANCE).warnings == []
    assert replace(CHECK, by_q=CHANCE).finding == "better"
    assert replace(CHECK, by_model=CHANCE).finding == "no better"


@pytest.mark.parametrize(
    ("more", "nearer", "finding"),
    [
        (Estimate(0.1, 0.02, 0.18), Estimate(0.0, -0.1, 0.1), "better"),
        (Estimate(0.1, -0.02, 0.22), Estimate(0.1, 0.02, 0.18), "better"),
        (Estimate(0.0, -0.02, 0.02), Estimate(0.1, 0.02, 0.18), "better"),  # as many, and nearer
        (Estimate(-1e-17, -0.02, 0.02), Estimate(0.1, 0.02, 0.18), "better"),
        (Estimate(-0.02, -0.1, 0.06), Estimate(0.1, 0.02, 0.18), "no better"),  # nearer, but fewer
        (Estimate(0.1, -0.02, 0.22), Estimate(0.1, -0.02, 0.22), "undecided"),
        (Estimate(0.0, 0.0, 0.0), Estimate(0.003, 0.002, 0.004), "undecided"),  # too little to matter
        (Estimate(0.0, 0.0, 0.0), Estimate(0.0, 0.0, 0.0), "no better"),
        (Estimate(0.1, 0.02, 0.18), Estimate(float("nan")), "better"),  # a file of before
    ],
)
def test_better_is_clearly_more_or_no_fewer_and_clearly_nearer(
    more: Estimate, nearer: Estimate, finding: str
) -> None:
    kept = replace(GOOD, over_chance=more, nearer=nearer)
    assert kept.finding == finding
    assert Kept.from_dict(json.loads(json.dumps(kept.to_dict()))).finding == finding


def test_that_the_rest_keeps_more_is_a_warning_if_the_model_and_q_say_so() -> None:
    assert replace(CHECK, by_model=LESS).warnings == []
    assert replace(CHECK, by_q=LESS).warnings == []
    assert "all but these 91 %" in replace(CHECK, by_model=LESS).sentence


def test_nothing_is_concluded_from_nothing() -> None:
    for check in (replace(CHECK, rows=5), replace(CHECK, k=30), replace(CHECK, by_model=None, by_q=None)):
        assert check.warnings == []
        assert check.finding is None
        assert check.sentence.startswith("not checked: ")


def test_differences_are_paired() -> None:
    estimate = _paired(np.tile([0.0, 1.0], 50))
    assert estimate.value == 0.5
    assert estimate.low == pytest.approx(0.5 - 1.645 * 0.0503, abs=1e-3)
    assert _paired(np.ones(10)) == Estimate(1.0, 1.0, 1.0)


def test_fit_checks_itself(fitted: l2x.Explainer, tmp_path: Path) -> None:
    check = fitted.check_
    assert check.rows == 60
    for kept in (check.by_model, check.by_q):
        assert kept.selection > 0.9
        assert kept.random < 0.8
        assert kept.finding == "better"
    assert check.by_model.one_subset == check.by_model.selection  # the model looks at one column
    assert check.warnings == []
    loaded = l2x.load(fitted.save(tmp_path / "a.l2x"))
    assert loaded.check_ == check


def test_the_line_comes_after_the_progress_bars(
    table: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = l2x.TrainingPlan(Phase(20, 5e-3), Phase(20, 1e-2), evaluations=2)
    explainer = l2x.Explainer(one_column, k=1, training=plan)
    warned(explainer, table)
    printed = " ".join(capsys.readouterr().err.split())  # a narrow terminal breaks the line
    few = "540 inputs are few to learn from; l2x.baselines.KernelShap asks the model about each by itself"
    lines = [explainer.check_.sentence, explainer.check_.hint, few]
    assert printed.endswith(" ".join(filter(None, lines)))
    assert re.match(
        r"keeps \d+ % of the answers with 1 of 5 features; random \d+ %", explainer.check_.sentence
    )
    warned(explainer.set_params(training=replace(plan, progress=False)), table)
    assert capsys.readouterr().err == ""


def test_one_feature_and_r2_are_worded_as_such() -> None:
    (found,) = replace(CHECK, k=1, classes=False, by_model=CHANCE, by_q=None).warnings
    assert (
        "is no better than 1 random feature: by the model 0.71 against 0.73 as R² of the answers, " in found
    )


def test_a_selection_at_chance_is_warned_of(table: np.ndarray) -> None:
    """A selector that cannot learn: it selects the first columns of a model that looks at the last."""

    def last(X: np.ndarray) -> np.ndarray:
        return one_column(X[:, [0, 4]])

    plan = l2x.TrainingPlan(Phase(50, 5e-3), Phase(2, 1e-2), evaluations=2, progress=False)
    explainer = l2x.Explainer(last, k=2, value="surrogate", selector=FirstColumns(), training=plan)
    (message,) = warned(explainer, table)
    assert "The selection is no better than 2 random features: by the model" in message
    assert explainer.check_.by_model.selection < explainer.check_.by_model.random


def test_a_model_that_says_the_same_of_every_row(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(Phase(2, 1e-2), Phase(2, 1e-2), evaluations=1, progress=False)
    for same in (lambda X: np.tile([0.3, 0.7], (len(X), 1)), lambda X: np.ones(len(X))):
        (message,) = warned(l2x.Explainer(same, k=1, training=plan), table)
        assert "says the same of every row" in message


def test_held_out_rows_of_a_single_label(table: np.ndarray) -> None:
    """As of a rare class: labels that do not differ have no R²."""

    plan = l2x.TrainingPlan(Phase(2, 1e-2), Phase(2, 1e-2), evaluations=1, progress=False)
    explainer = l2x.Explainer(one_column, k=1, value="surrogate", training=plan)
    rare = np.arange(len(table)) == 0  # which this seed does not hold out
    responses = np.stack([~rare, rare], axis=1).astype(float)
    explainer.fit(table, responses=responses)
    assert explainer.check_.classes
    assert np.isfinite(explainer.check_.by_q.nearer.value)


def test_answers_that_were_brought_and_models_that_may_not_be_asked(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(Phase(50, 5e-3), Phase(20, 1e-2), evaluations=2, progress=False)

    def never(_: object) -> None:
        raise AssertionError("asked")

    explainer = l2x.Explainer(never, k=1, value="surrogate", training=plan)
    explainer.fit(table, responses=one_column(table))
    assert explainer.check_.by_model is None
    assert " by q with 1 of 5 features" in explainer.check_.sentence


def test_two_rows_are_warned_of(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(Phase(2, 1e-2), Phase(2, 1e-2), evaluations=1, progress=False)
    (message,) = warned(l2x.Explainer(one_column, k=1, training=plan), table[:2])
    assert "too few rows to be checked: 1 held-out row" in message


def test_a_model_that_fails_on_masked_rows(table: np.ndarray, tmp_path: Path) -> None:
    """What was learned is kept; that the model failed is in the check, in its line, and in a warning."""

    def whole_rows_only(X: np.ndarray) -> np.ndarray:
        if (X == 0).any():
            raise ValueError("zero is no measurement")
        return one_column(X)

    plan = l2x.TrainingPlan(Phase(150, 5e-3), Phase(150, 1e-2), evaluations=2, progress=False)
    view = l2x.Columns(removal="zero")
    explainer = l2x.Explainer(whole_rows_only, k=1, features=view, value="surrogate", training=plan)
    (message,) = warned(explainer, table)
    assert "ValueError" in message
    assert "zero is no measurement" in message
    assert explainer.explain(table[:3]).mask.sum() == 3
    check = explainer.check_
    assert check.by_model is None
    assert "zero is no measurement" in check.failure
    assert check.by_q.finding == check.finding == "better"
    assert "the model failed on masked rows" in check.sentence
    assert l2x.load(explainer.save(tmp_path / "a.l2x")).check_ == check


def test_a_check_without_model_and_surrogate_names_the_failure() -> None:
    failed = replace(CHECK, by_model=None, by_q=None, failure="the model raised ValueError: no zeros")
    assert failed.sentence == "not checked: the model raised ValueError: no zeros"
    assert CHECK.failure is None
