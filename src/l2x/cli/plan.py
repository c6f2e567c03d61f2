"""From --paper and --quick to the plan of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from l2x.features.texts import TextView
    from l2x.training import TrainingPlan


def training_plan(view: TextView | None, *, paper: bool, quick: bool, progress: bool) -> TrainingPlan:
    """`view`: of texts, which have plans of their own; None for columns."""
    from dataclasses import replace

    from l2x.training import TrainingPlan

    if view is not None:
        plan = replace(view.paper_plan if paper else view.plan, progress=progress)
        if not quick:
            return plan
        return plan.with_steps(value=plan.value.steps // 10, selector=plan.selector.steps // 10)
    if not paper:
        return TrainingPlan.quick(progress=progress) if quick else TrainingPlan(progress=progress)
    plan = TrainingPlan.paper(progress=progress)
    if not quick:
        return plan
    return replace(plan, selector=replace(plan.selector, steps=plan.selector.steps // 10), evaluations=10)
