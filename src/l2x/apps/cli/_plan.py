"""From --paper and --quick to the plan of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from l2x.features import View
    from l2x.learning import TrainingPlan


def training_plan(view: View | None, *, paper: bool, quick: bool, progress: bool) -> TrainingPlan:
    """The view's own plan, ours or the paper's, or a short one; None is `Columns()`, as for an explainer."""
    from dataclasses import replace

    from l2x.features import Columns
    from l2x.learning import TrainingPlan, recipes_of

    view = view or Columns()
    recipe = recipes_of(view).paper if paper else recipes_of(view).ours
    plan = replace(recipe.plan, progress=progress)
    if not quick:
        return plan
    if not paper:
        return TrainingPlan.quick(view, progress=progress)
    shorter = plan.with_steps(
        value=max(1, plan.value.steps // 10), selector=max(1, plan.selector.steps // 10)
    )
    return replace(shorter, evaluations=min(plan.evaluations, 10))
