"""--paper and --quick: the view's own plans, and a fraction of their steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

import l2x
from l2x.apps.cli._plan import training_plan
from l2x.features._view import View
from l2x.learning.networks import _recipes, recipes_of
from l2x.learning.networks._recipes import Recipe


@pytest.mark.parametrize("view", [l2x.Columns(), l2x.Words(), l2x.Sentences()])
@pytest.mark.parametrize("paper", [False, True])
def test_a_plan_is_the_view_s_own(view: View, paper: bool) -> None:
    own = recipes_of(view).paper.plan if paper else recipes_of(view).ours.plan
    plan = training_plan(view, paper=paper, quick=False, progress=False)
    assert plan == replace(own, progress=False)
    short = training_plan(view, paper=paper, quick=True, progress=False)
    assert short.selector.steps <= plan.selector.steps / 2
    assert short.evaluations == min(10, plan.evaluations)
    assert replace(short.selector, steps=plan.selector.steps) == plan.selector


def test_columns_are_the_default() -> None:
    for paper, quick in ((False, False), (False, True), (True, False), (True, True)):
        plans = [training_plan(v, paper=paper, quick=quick, progress=True) for v in (None, l2x.Columns())]
        assert plans[0] == plans[1]
        assert plans[0].progress


def test_quick_plans_in_numbers() -> None:
    """These are what --quick takes in docs and tests."""
    steps = {}
    for view in (l2x.Columns(), l2x.Words(), l2x.Sentences()):
        quick = training_plan(view, paper=False, quick=True, progress=False)
        paper = training_plan(view, paper=True, quick=True, progress=False)
        steps[type(view).__name__] = (quick.value.steps, quick.selector.steps, paper.selector.steps)
    assert steps == {"Columns": (500, 300, 100), "Words": (250, 150, 100), "Sentences": (150, 100, 120)}


def test_a_change_of_the_columns_plan_reaches_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    other = recipes_of(l2x.Columns).ours.plan.with_steps(value=50, selector=40)
    monkeypatch.setitem(
        _recipes._REGISTERED, l2x.Columns, replace(recipes_of(l2x.Columns), ours=Recipe(other))
    )
    assert training_plan(None, paper=False, quick=False, progress=True) == other
    quick = training_plan(None, paper=False, quick=True, progress=True)
    assert (quick.value.steps, quick.selector.steps) == (6, 20)
