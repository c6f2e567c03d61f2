"""`fit` warns if its selections are no better than random ones, and does not warn if they are."""

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
from l2x.learning._self_check import Agreement, SelfCheck, _paired
from l2x.learning._training import Phase

UNKNOWN = Estimate(float("nan"))
GOOD = Agreement(0.96, 0.8, 0.78, 0.95, Estimate(0.18, 0.1, 0.26), Estimate(0.16, 0.1, 0.22), UNKNOWN)
CHANCE = Agreement(0.71, 0.7, 0.73, 0.9, Estimate(-0.02, -0.1, 0.06), Estimate(0.01, -0.1, 0.1), UNKNOWN)
CLOSE = replace(CHANCE, posthoc_accuracy=0.75, over_random=Estimate(0.03, -0.01, 0.07))
LESS = replace(GOOD, posthoc_accuracy=0.85, removal=0.91, over_removal=Estimate(-0.06, -0.09, -0.03))
CHECK = SelfCheck(100, 5, 30, classes=True, varies=True, by_model=GOOD, by_surrogate=GOOD)


class FirstColumns(torch.nn.Module):
    """Scores that decrease from the first column to the last, so steeply that polishing changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.ignored = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -1000 * torch.arange(x.shape[1], dtype=torch.float32).expand(len(x), -1) + 0 * self.ignored


def warned(explainer: l2x.Explainer, X: object, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        explainer.fit(X, **options)
    return [str(warning.message) for warning in caught]


def test_a_good_selection_is_reported_in_one_line_without_a_warning() -> None:
    assert CHECK.sentence == (
        "On 100 held-out rows, 5 of 30 features reproduce 96 % of the predictions (random features 78 %, "
        "the other 25 features 80 %, one global set 95 %)."
    )
    assert CHECK.warnings == []
    assert "1 of 30 features reproduces 96 %" in replace(CHECK, k=1).sentence
    of_texts = replace(CHECK, by_model=replace(GOOD, global_top_k=None)).sentence
    assert of_texts.endswith("(random features 78 %, all other features 80 %).")


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            replace(CHECK, by_model=CHANCE),
            r"no better than 5 random .* 71 % versus 73 % .* by the model \(.* -0\.02 \[-0\.10, 0\.06\]\)",
        ),
        (replace(CHECK, by_model=CLOSE), r"not clearly better .* 75 % versus 73 % .* by the model"),
        (replace(CHECK, by_model=None, by_surrogate=CHANCE), r"no better .* 71 % versus 73 % .* surrogate"),
        (
            replace(CHECK, by_model=CHANCE, by_surrogate=CHANCE),
            r"by the model .* by the surrogate .*objective=.* larger k",
        ),
        (
            replace(CHECK, by_model=LESS, by_surrogate=LESS),
            r"91 % versus 85 %, .* by the model; 91 % versus 85 %, .* by the surrogate",
        ),
        (replace(CHECK, by_model=LESS, by_surrogate=None), r": 91 % versus 85 %, measured by the model; 100"),
        (replace(CHECK, varies=False), "nothing to explain"),
        (replace(CHECK, rows=1), ": 1 held-out row"),
    ],
)
def test_every_problem_raises_one_warning(check: SelfCheck, message: str) -> None:
    (found,) = check.warnings
    assert re.search(message, found), found


def test_a_global_set_that_does_as_well_is_named() -> None:
    as_good = replace(GOOD, global_top_k=GOOD.posthoc_accuracy)
    check = replace(CHECK, by_model=as_good, global_features=("age", "income"))
    assert check.hint is not None
    assert check.hint.endswith(": age, income.")
    again = SelfCheck.from_dict(json.loads(json.dumps(check.to_dict())))
    assert again.global_features == check.global_features
    assert replace(check, by_model=replace(GOOD, global_top_k=GOOD.posthoc_accuracy - 0.01)).hint is None
    assert replace(check, by_model=replace(CHANCE, global_top_k=1.0)).hint is None  # it warns already


def test_fit_names_a_global_set_that_does_as_well(
    table: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model reads one column."""
    plan = replace(l2x.TrainingPlan.quick(), progress=True)
    explainer = l2x.Explainer(one_column, k=1, training=plan).fit(table)
    assert explainer.check_ is not None
    assert explainer.check_.global_features == ("x1",)
    assert explainer.check_.hint is not None
    assert explainer.check_.hint in " ".join(capsys.readouterr().err.split())


def test_the_models_result_decides_if_it_was_queried() -> None:
    assert replace(CHECK, by_surrogate=CHANCE).warnings == []
    assert replace(CHECK, by_surrogate=CHANCE).finding == "better"
    assert replace(CHECK, by_model=CHANCE).finding == "no better"


@pytest.mark.parametrize(
    ("more", "closer", "finding"),
    [
        (Estimate(0.1, 0.02, 0.18), Estimate(0.0, -0.1, 0.1), "better"),
        (Estimate(0.1, -0.02, 0.22), Estimate(0.1, 0.02, 0.18), "better"),
        (Estimate(0.0, -0.02, 0.02), Estimate(0.1, 0.02, 0.18), "better"),  # as many, and closer
        (Estimate(-1e-17, -0.02, 0.02), Estimate(0.1, 0.02, 0.18), "better"),
        (Estimate(-0.02, -0.1, 0.06), Estimate(0.1, 0.02, 0.18), "no better"),  # closer, but fewer
        (Estimate(0.1, -0.02, 0.22), Estimate(0.1, -0.02, 0.22), "undecided"),
        (Estimate(0.0, 0.0, 0.0), Estimate(0.003, 0.002, 0.004), "undecided"),  # too little to matter
        (Estimate(0.0, 0.0, 0.0), Estimate(0.0, 0.0, 0.0), "no better"),
        (Estimate(0.1, 0.02, 0.18), UNKNOWN, "better"),
    ],
)
def test_better_is_clearly_more_or_no_fewer_and_clearly_closer(
    more: Estimate, closer: Estimate, finding: str
) -> None:
    result = replace(GOOD, over_random=more, closer=closer)
    assert result.finding == finding
    assert Agreement.from_dict(json.loads(json.dumps(result.to_dict()))).finding == finding


def test_the_removal_test_warns_only_if_model_and_surrogate_agree() -> None:
    assert replace(CHECK, by_model=LESS).warnings == []
    assert replace(CHECK, by_surrogate=LESS).warnings == []
    assert "the other 25 features 91 %" in replace(CHECK, by_model=LESS).sentence


def test_without_enough_rows_or_features_there_is_no_conclusion() -> None:
    for check in (
        replace(CHECK, rows=5),
        replace(CHECK, k=30),
        replace(CHECK, by_model=None, by_surrogate=None),
    ):
        assert check.warnings == []
        assert check.finding is None
        assert check.sentence.startswith("Not checked: ")


def test_differences_are_paired() -> None:
    estimate = _paired(np.tile([0.0, 1.0], 50))
    assert estimate.value == 0.5
    assert estimate.low == pytest.approx(0.5 - 1.645 * 0.0503, abs=1e-3)
    assert _paired(np.ones(10)) == Estimate(1.0, 1.0, 1.0)


def test_fit_checks_itself(fitted: l2x.Explainer, tmp_path: Path) -> None:
    check = fitted.check_
    assert check.rows == 60
    for result in (check.by_model, check.by_surrogate):
        assert result.posthoc_accuracy > 0.9
        assert result.random < 0.8
        assert result.finding == "better"
    assert check.by_model.global_top_k == check.by_model.posthoc_accuracy  # the model reads one column
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
    lines = [explainer.check_.sentence, explainer.check_.guarantee, explainer.check_.hint]
    assert " ".join(filter(None, lines)).strip() in printed
    assert re.match(r"On 60 held-out rows, 1 of 5 features reproduces \d+ %", explainer.check_.sentence)
    warned(explainer.set_params(training=replace(plan, progress=False)), table)
    assert capsys.readouterr().err == ""


def test_wording_for_one_feature_and_for_r2() -> None:
    of_values = replace(CHECK, k=1, classes=False, by_model=CHANCE, by_surrogate=None)
    (found,) = of_values.warnings
    assert "no better than 1 random feature: 0.71 versus 0.73 R², measured by the model" in found
    assert "1 of 30 features reproduces the predictions with R² 0.71 (" in of_values.sentence


def test_a_selection_at_chance_raises_a_warning(table: np.ndarray) -> None:
    """A selector that cannot learn selects the first columns of a model that reads the last."""

    def last(X: np.ndarray) -> np.ndarray:
        return one_column(X[:, [0, 4]])

    plan = l2x.TrainingPlan(Phase(50, 5e-3), Phase(2, 1e-2), evaluations=2, progress=False)
    explainer = l2x.Explainer(last, k=2, objective="surrogate", selector=FirstColumns(), training=plan)
    (message,) = warned(explainer, table)
    assert "no better than 2 random features" in message
    assert explainer.check_.by_model.posthoc_accuracy < explainer.check_.by_model.random


def test_a_model_that_predicts_the_same_for_every_row(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(Phase(2, 1e-2), Phase(2, 1e-2), evaluations=1, progress=False)
    for same in (lambda X: np.tile([0.3, 0.7], (len(X), 1)), lambda X: np.ones(len(X))):
        (message,) = warned(l2x.Explainer(same, k=1, training=plan), table)
        assert "nothing to explain" in message


def test_held_out_rows_of_a_single_label(table: np.ndarray) -> None:
    """The other class is rare; labels that do not differ have no R²."""
    plan = l2x.TrainingPlan(Phase(2, 1e-2), Phase(2, 1e-2), evaluations=1, progress=False)
    explainer = l2x.Explainer(one_column, k=1, objective="surrogate", training=plan)
    rare = np.arange(len(table)) == 0  # which this seed does not hold out
    predictions = np.stack([~rare, rare], axis=1).astype(float)
    explainer.fit(table, predictions=predictions)
    assert explainer.check_.classes
    assert np.isfinite(explainer.check_.by_surrogate.closer.value)


def test_with_known_predictions_the_surrogate_is_measured(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(Phase(50, 5e-3), Phase(20, 1e-2), evaluations=2, progress=False)

    def never(_: object) -> None:
        raise AssertionError("queried")

    explainer = l2x.Explainer(never, k=1, objective="surrogate", training=plan)
    explainer.fit(table, predictions=one_column(table))
    assert explainer.check_.by_model is None
    assert "measured by the surrogate" in explainer.check_.sentence


def test_two_rows_raise_a_warning(table: np.ndarray) -> None:
    plan = l2x.TrainingPlan(Phase(2, 1e-2), Phase(2, 1e-2), evaluations=1, progress=False)
    (message,) = warned(l2x.Explainer(one_column, k=1, training=plan), table[:2])
    assert "1 held-out row" in message


def test_a_model_that_fails_on_masked_rows(table: np.ndarray, tmp_path: Path) -> None:
    """The explainer is usable; the failure is in the check, in its line, and in a warning."""

    def whole_rows_only(X: np.ndarray) -> np.ndarray:
        if (X == 0).any():
            raise ValueError("zero is no measurement")
        return one_column(X)

    plan = l2x.TrainingPlan(Phase(150, 5e-3), Phase(150, 1e-2), evaluations=2, progress=False)
    view = l2x.Columns(masking="zero")
    explainer = l2x.Explainer(whole_rows_only, k=1, features=view, objective="surrogate", training=plan)
    (message,) = warned(explainer, table)
    assert "ValueError" in message
    assert "zero is no measurement" in message
    assert explainer.explain(table[:3]).mask.sum() == 3
    check = explainer.check_
    assert check.by_model is None
    assert "zero is no measurement" in check.failure
    assert check.by_surrogate.finding == check.finding == "better"
    assert "the model failed on masked rows" in check.sentence
    assert l2x.load(explainer.save(tmp_path / "a.l2x")).check_ == check


def test_a_check_without_model_and_surrogate_names_the_failure() -> None:
    failed = replace(CHECK, by_model=None, by_surrogate=None, failure="the model raised ValueError: no zeros")
    assert failed.sentence == "Not checked: the model raised ValueError: no zeros."
    assert CHECK.failure is None
