"""What a view says about its networks: how they are built, with which options, and how they are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from l2x._base.arrays import batches
from l2x.errors import InputError
from l2x.features import View
from l2x.learning._training import Phase, TrainingPlan
from l2x.learning.samplers import Sampler

Options = Mapping[str, Any]
# What the selected features are to keep: all that the model says, or which class it names.
Answer = Literal["distribution", "class"]


@dataclass(frozen=True)
class Networks:
    """Builders of the two networks for one fitted view; keyword arguments are the networks' options.

    selector : -> w_θ, encoded inputs -> (n, d) scores; with the option `told` = outputs it reads the model's
        answer (n, outputs) as a second argument
    predictor : -> g_α, (masked inputs, mask (n, d)) -> (n, outputs)
    """

    selector: Callable[..., nn.Module]
    predictor: Callable[..., nn.Module]


@dataclass(frozen=True)
class Recipe:
    """Options of the networks, how they are trained, and what a selection is to keep.

    sampler : None: `PlackettLuce()` in our recipe, `ConcreteMax()` in the paper's
    divide_by_k : the predictor takes k as its `divisor`
    """

    plan: TrainingPlan = field(default_factory=TrainingPlan)
    selector: Options = field(default_factory=dict)
    predictor: Options = field(default_factory=dict)
    answer: Answer = "distribution"
    sampler: Sampler | None = None
    divide_by_k: bool = False


@dataclass(frozen=True)
class Recipes:
    """Our recipe and the paper's for one kind of input.

    paper : as its authors ran it, which reaches their figures; each deviation from the text has its reason in
        docs/reproduce.md
    letter : as the text has it
    networks : builders of the two networks for a fitted view and a number of outputs
    queries : masked rows that the model is queried for by default, at most. A number, and not a time: what is
        learned must not depend on how busy the machine is
    """

    networks: Callable[[Any, int], Networks]
    ours: Recipe = field(default_factory=Recipe)
    paper: Recipe = field(default_factory=lambda: Recipe(TrainingPlan.paper()))
    letter: Recipe = field(default_factory=lambda: Recipe(TrainingPlan.paper(to_the_letter=True)))
    queries: int = 1 << 20


_REGISTERED: dict[type[View], Recipes] = {}


def register(view: type[View], recipes: Recipes) -> None:
    """Say how explainers of inputs that this class of views reads are built and trained.

    Subclasses share the recipes of their base unless they are registered themselves.
    """
    _REGISTERED[view] = recipes


def recipes_of(view: View | type[View]) -> Recipes:
    """Return the recipes of a view, or an InputError that names the missing registration."""
    kind: type = view if isinstance(view, type) else type(view)
    for base in kind.mro():
        if base in _REGISTERED:
            return _REGISTERED[base]
    raise InputError(
        f"No networks are registered for {kind.__name__}; call "
        f"l2x.learning.register({kind.__name__}, l2x.learning.Recipes(networks=...)) once."
    )


def networks_of(view: View, outputs: int) -> Networks:
    """Return the builders of the selector and the predictor for a fitted view."""
    return recipes_of(view).networks(view, outputs)


def plan_in_small_batches(*, value: int, selector: int, rate: float = 3e-3) -> TrainingPlan:
    """Our plan for texts and images, by the steps of its phases and the selector's rate: they cost more than
    rows of a table, and one says more than a row does."""
    return TrainingPlan(
        value=Phase(value, 3e-3, batch_size=128, averaging=0.99, patience=6),
        selector=Phase(selector, rate, batch_size=128, averaging=0.99, choose="latest"),
        evaluations=10,
        validation_rows=2000,
    )


def paper_plan(
    steps: int, *, batch_size: int, evaluations: int = 10, to_the_letter: bool = False
) -> TrainingPlan:
    """The paper's plan for texts and images.

    It does not say which weights are kept: with the text's own settings those that q finds best, otherwise
    the last, because q's held-out loss is no guide to what its selections are worth to the model.
    """
    joint = Phase(
        steps,
        1e-3,
        batch_size=batch_size,
        optimizer="rmsprop",
        schedule="constant",
        choose="best" if to_the_letter else "last",
    )
    return TrainingPlan(selector=joint, evaluations=evaluations, validation_rows=2000)


class ReadsFirst(nn.Module):
    """A selector whose part `reader`, (inputs, mask) -> (n, outputs), learns before the rest.

    It learns what q says of whole inputs and of random subsets, and is then frozen (`fitting.fit_reader`).

    reading : how many times as many steps as a surrogate it learns
    """

    reader: nn.Module
    reading: ClassVar[float] = 1.0


class ReadsSelected(nn.Module):
    """A predictor that may need no masked inputs: if it `reads_rows`, `read` takes encoded ones."""

    reads_rows: bool = True

    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        """What it says of `view.mask(x, mask)` and the mask, (m n, outputs), for masks (m n, d): those
        of the n rows, m times."""
        raise NotImplementedError


InitialWeights = Literal["torch", "glorot"]


def initialise(network: nn.Module, weights: InitialWeights) -> None:
    """Give the dense and convolutional layers of a network these initial weights.

    "torch" leaves them as they are. "glorot" is Keras' default: uniform, with the variance 2 / (fan in + fan
    out) of Glorot and Bengio (2010), and zero biases; torch's own have the variance 1 / (3 fan in).
    """
    if weights == "torch":
        return
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


# Inputs at a time where no gradient is needed: 8,192 images would take a gigabyte for one hidden layer.
CHUNK = 512


def in_chunks(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A `forward` whose memory does not grow with the number of inputs: without a backward pass to prepare
    for, it takes some at a time."""

    @wraps(forward)
    def chunked(network: nn.Module, *inputs: Tensor) -> Tensor:
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return forward(network, *inputs)
        parts = batches(len(inputs[0]), CHUNK)
        return torch.cat([forward(network, *(tensor[rows] for tensor in inputs)) for rows in parts])

    return chunked
