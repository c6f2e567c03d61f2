"""The table of methods holds every name that an experiment or a results file uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_models import one_column

from l2x.baselines import METHODS as TABULATED
from l2x.features._columns import Columns
from l2x.learning.networks import recipes_of
from l2x.model._black_box import as_black_box
from l2x_experiments import adult, audit, comparison, field, leakage, photos, refine, synthetic
from l2x_experiments.methods import LABELS, METHODS, Budget, Setting, fitted, labels
from l2x_experiments.records import Records

RESULTS = Path(__file__).parents[2] / "results"
# Methods that only one experiment has; its own table lists them. The masking of photographs is chosen on
# validation images.
OWN = {
    "audit": set(audit.LABELS),
    "field": set(field.METHODS),
    "photos": {*photos.METHODS, "centre-validation"},
    "refine": set(refine.METHODS),
}
BUDGET = Budget(value_steps=3, selector_steps=3, paper_steps=3, evaluations=1)


@pytest.fixture
def setting() -> Setting:
    X = np.random.default_rng(0).normal(size=(60, 5))
    return Setting(
        black_box=as_black_box(one_column),
        k=2,
        train=X,
        test=X[:8],
        plans=BUDGET.plans(Columns),
        background=X,
    )


def test_every_method_of_experiments_and_results_is_listed() -> None:
    used = {*adult.COMPARED, *comparison.COMPARED, *leakage.COMPARED, *synthetic.COMPARED["network"]}
    for path in RESULTS.glob("*.json"):
        if path.stem == "robustness":  # compares its own recipes
            continue
        # The human evaluation shows whole reviews for comparison; they are no method's.
        own = OWN.get(path.stem, set())
        used |= set(Records.load(path).distinct("method")) - {"whole"} - own
    assert used <= set(METHODS)


def test_labels_of_baselines_are_those_of_the_papers_table() -> None:
    tabulated = {"taylor", "saliency", "deeplift", "kernel_shap", "lime", "lrp", "parzen", "global", "random"}
    assert {LABELS[name] for name in tabulated} <= {method.name for method in TABULATED.values()}


def test_labels_in_another_order() -> None:
    order = labels(["random", "paper"])
    assert list(order)[:3] == ["random", "paper", "search"]
    assert order == LABELS


def test_a_method_is_fitted_once_for_each_seed(setting: Setting) -> None:
    first = fitted(setting, "l2x", 0)
    assert fitted(setting, "l2x", 0) is first
    assert fitted(setting, "l2x", 1) is not first
    assert (first.objective, first.seed, first.training) == ("both", 0, setting.plans.ours)
    assert fitted(setting, "l2x-model", 0).objective == "model"
    assert fitted(setting, "paper", 0).training == setting.plans.released


def test_signed_settings_rank_by_the_effect_for_the_predicted_class(setting: Setting) -> None:
    assert fitted(setting, "lime", 0).magnitude
    setting.signed = True
    assert not fitted(setting, "lime", 1).magnitude
    assert fitted(setting, "lime-absolute", 1).magnitude


def test_options_of_a_setting(setting: Setting) -> None:
    setting.options = {"LIME": {"samples": 77}, "Greedy search": {"rounds": 2}}
    assert fitted(setting, "lime", 0).samples == 77
    assert fitted(setting, "search", 0).rounds == 2


def test_budgets_scale_the_views_own_plans() -> None:
    plans = BUDGET.plans(Columns)
    assert (plans.ours.value.steps, plans.ours.selector.steps, plans.released.selector.steps) == (3, 3, 3)
    assert plans.ours.evaluations == 1
    assert not plans.ours.progress
    own = Budget().plans(Columns)
    assert own.ours.value == recipes_of(Columns).ours.plan.value
    assert own.released.selector == recipes_of(Columns).released.plan.selector
