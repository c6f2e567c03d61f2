"""What a view says about its networks: how they are built, with which options, and how they are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from l2x.training import TrainingPlan

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Networks:
    """Builders of the two networks for one fitted view; keyword arguments are the networks' options.

    selector : -> w_θ, encoded inputs -> (n, d) scores
    predictor : -> g_α, (masked inputs, mask (n, d)) -> (n, outputs)
    """

    selector: Callable[..., nn.Module]
    predictor: Callable[..., nn.Module]


@dataclass(frozen=True)
class Recipe:
    """Options of the networks, and the plan by which they are trained."""

    plan: TrainingPlan = field(default_factory=TrainingPlan)
    selector: Options = field(default_factory=dict)
    predictor: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Recipes:
    """Our recipe and the paper's for one kind of input.

    rows_at_once : inputs that are encoded, explained or asked at a time, so that memory does not grow with
        their number
    """

    ours: Recipe = field(default_factory=Recipe)
    paper: Recipe = field(default_factory=lambda: Recipe(TrainingPlan.paper()))
    rows_at_once: int = 8192


class ReadsFirst(nn.Module):
    """A selector whose part `reader`, (inputs, mask) -> (n, outputs), learns before the rest.

    It learns what q says of whole inputs and of random subsets, and is then frozen (`fitting.fit_reader`).
    """

    reader: nn.Module
