"""A setting is one problem, set up once for all contenders; a budget says with how much work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from l2x._base.arrays import Array
from l2x.features import View
from l2x.learning import Conditional, TrainingPlan, recipes_of
from l2x.model import BlackBox
from l2x_experiments.judges import Judge


class Plans(NamedTuple):
    """How explainers are trained: ours, and the judge; the paper's, as it was run and to the letter."""

    ours: TrainingPlan
    paper: TrainingPlan
    letter: TrainingPlan


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much work a run does. None: all rows there are, or as many steps as the view's own plans have."""

    train_rows: int | None = None
    test_rows: int | None = None
    search_rows: int = 0  # explained by the search, which asks the model hundreds of times per row
    sampling_rows: int = 0  # explained by LIME and Kernel SHAP, which ask thousands of times
    model_steps: int = 0  # of the black box; epochs where it is trained by epochs
    value_steps: int | None = None
    selector_steps: int | None = None
    paper_steps: int | None = None
    evaluations: int | None = None  # how often training looks at held-out rows

    def plans(self, view: View | type[View]) -> Plans:
        """The view's own plans with this budget's steps, and without progress bars."""
        recipes, steps = recipes_of(view), self.paper_steps
        ours = recipes.ours.plan.with_steps(value=self.value_steps, selector=self.selector_steps)
        ours = replace(ours, evaluations=self.evaluations or ours.evaluations, progress=False)
        paper, letter = (
            replace(recipe.plan.with_steps(value=steps, selector=steps), progress=False)
            for recipe in (recipes.paper, recipes.letter)
        )
        return Plans(ours, paper, letter)


@dataclass(kw_only=True)
class Setting:
    """A black box, inputs to learn from and inputs to explain."""

    black_box: BlackBox
    k: int
    train: Any  # explainers learn from these
    test: Any  # and are measured on these
    plans: Plans
    features: View | None = None  # None leaves it to the contender, whose default is columns
    # For ours, for the paper's recipe and for its text's own settings, where they have another view than the
    # contenders that do not learn.
    our_features: View | None = None
    paper_features: View | None = None
    letter_features: View | None = None
    model: Any = None  # the network or the trees in the black box, for contenders that look inside
    background: Any = None  # rows that some contenders compare with, or learn from
    judge: Judge | None = None  # fitted on other inputs than the explainers'
    probe_rows: Any = None  # from which the probes of a report card learn
    truth: Array | None = None  # (n, d) booleans: the relevant features of each test row
    # P_m(y | x_S) itself, by how many rows it averages over, where features are independent
    conditional: Callable[[int], Conditional] | None = None
    # Masked inputs that ours may ask the model about: a number, so that records do not depend on how busy the
    # machine was; this one is as good as no limit.
    queries: int = 20_000_000
    signed: bool = False  # rank by what speaks for the predicted class, not by what matters at all
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of baselines, by name
    paper_networks: Mapping[str, Any] = field(
        default_factory=dict
    )  # of both of the paper's, for this problem
    learned: dict[tuple[str, int], Any] = field(default_factory=dict)  # contenders, by name and seed
