"""The table of contenders: every name that an experiment or a results file uses is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_models import one_column

from l2x.baselines._table import METHODS
from l2x.features._columns import Columns
from l2x.learning.networks import recipes_of
from l2x.model._black_box import as_black_box
from l2x_experiments import adult, comparison, honesty, synthetic
from l2x_experiments.contenders import CONTENDERS, LABELS, labels, learned
from l2x_experiments.records import Records
from l2x_experiments.setting import Budget, Setting

RESULTS = Path(__file__).parents[2] / "results"
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
    used = {*adult.METHODS, *comparison.METHODS, *honesty.CARD_METHODS, *synthetic.METHODS["network"]}
    for path in RESULTS.glob("*.json"):
        if path.stem == "robustness":  # compares recipes of its own
            continue
        # Whole reviews, which the human evaluation shows for comparison, are no contender's.
        used |= set(Records.load(path).distinct("method")) - {"whole"}
    assert used <= set(CONTENDERS)


def test_baselines_are_called_as_the_papers_table_calls_them() -> None:
    tabulated = {"taylor", "saliency", "deeplift", "kernel_shap", "lime", "lrp", "parzen", "global", "random"}
    assert {LABELS[name] for name in tabulated} <= set(METHODS)


def test_labels_in_another_order() -> None:
    order = labels(["random", "paper"])
    assert list(order)[:3] == ["random", "paper", "search"]
    assert order == LABELS


def test_a_contender_learns_once_for_each_seed(setting: Setting) -> None:
    first = learned(setting, "l2x", 0)
    assert learned(setting, "l2x", 0) is first
    assert learned(setting, "l2x", 1) is not first
    assert (first.value, first.seed, first.training) == ("both", 0, setting.plans.ours)
    assert learned(setting, "l2x-model", 0).value == "model"
    assert learned(setting, "paper", 0).training == setting.plans.paper


def test_signed_settings_rank_by_what_speaks_for_the_prediction(setting: Setting) -> None:
    assert learned(setting, "lime", 0).magnitude
    setting.signed = True
    assert not learned(setting, "lime", 1).magnitude
    assert learned(setting, "lime-absolute", 1).magnitude


def test_options_of_a_setting(setting: Setting) -> None:
    setting.options = {"LIME": {"samples": 77}, "Greedy search": {"rounds": 2}}
    assert learned(setting, "lime", 0).samples == 77
    assert learned(setting, "search", 0).rounds == 2


def test_budgets_scale_the_views_own_plans() -> None:
    plans = BUDGET.plans(Columns)
    assert (plans.ours.value.steps, plans.ours.selector.steps, plans.paper.selector.steps) == (3, 3, 3)
    assert plans.ours.evaluations == 1
    assert not plans.ours.progress
    own = Budget().plans(Columns)
    assert own.ours.value == recipes_of(Columns).ours.plan.value
    assert own.paper.selector == recipes_of(Columns).paper.plan.selector
