"""A setting: one problem, set up once for all contenders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from l2x.blackbox import BlackBox
from l2x.features.view import View
from l2x.values import FittedValue, SubsetValue
from l2x_experiments.budget import Plans


@dataclass(kw_only=True)
class Setting:
    """A black box, inputs to learn from and inputs to explain.

    Attributes
    ----------
    k : how many features are selected
    train, test : explainers learn from the first and are measured on the second
    features : what one feature is; None leaves it to the contender, whose default is columns
    model : the network or the trees inside the black box, for contenders that look inside
    background : rows that some contenders compare with, or learn from
    judge : fitted on other inputs than the explainers'
    conditional : P_m(y | x_S) itself, by the number of rows it averages over, where features are independent
    signed : rank by how much a feature speaks for the predicted class, in place of how much it matters at all
    options : of baselines, by their name, such as `{"LIME": {"samples": 1000}}`
    learned : contenders that have learned, by name and seed
    """

    black_box: BlackBox
    k: int
    train: Any
    test: Any
    plans: Plans
    features: View | None = None
    model: Any = None
    background: Any = None
    judge: FittedValue | None = None
    conditional: Callable[[int], SubsetValue] | None = None
    signed: bool = False
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    learned: dict[tuple[str, int], Any] = field(default_factory=dict, repr=False)
