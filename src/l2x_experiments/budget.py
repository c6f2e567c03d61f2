"""Budgets: how much work a run does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from l2x.features.view import View
from l2x.training import TrainingPlan


class Plans(NamedTuple):
    """How explainers are trained: ours and the judge, and the paper's."""

    ours: TrainingPlan
    paper: TrainingPlan


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Rows and training steps. None: all rows there are, or as many steps as the view's own plan has.

    Attributes
    ----------
    train_rows, test_rows : of the data, before they are split further
    search_rows : explained by the search, which asks the model hundreds of times per row
    sampling_rows : explained by LIME and Kernel SHAP, which ask thousands of times
    model_steps : of the black box; epochs where it is trained by epochs
    value_steps, selector_steps : of our explainers; the judge is trained as a value is
    paper_steps : of the paper's
    evaluations : how often training looks at held-out rows
    """

    train_rows: int | None = None
    test_rows: int | None = None
    search_rows: int = 0
    sampling_rows: int = 0
    model_steps: int = 0
    value_steps: int | None = None
    selector_steps: int | None = None
    paper_steps: int | None = None
    evaluations: int | None = None

    def plans(self, view: View | type[View]) -> Plans:
        """The view's own plans with this budget's steps, and without progress bars."""
        ours = view.plan.with_steps(value=self.value_steps, selector=self.selector_steps)
        paper = view.paper_plan.with_steps(value=self.paper_steps, selector=self.paper_steps)
        evaluations = self.evaluations or ours.evaluations
        return Plans(replace(ours, evaluations=evaluations, progress=False), replace(paper, progress=False))
