"""Recipes: for each view, how its networks are built, with which options, and how they are trained."""

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
from l2x.learning._rows import Target
from l2x.learning._training import Phase, TrainingPlan
from l2x.learning.samplers import Sampler

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Networks:
    """Builders of the two networks for one fitted view; their keyword arguments are the networks' options.

    Attributes
    ----------
    selector : callable
        Returns w_θ: encoded inputs -> (n, d) scores. With the option `prediction_size` = outputs, w_θ reads
        the model's prediction (n, outputs) as its second argument.
    predictor : callable
        Returns g_α: (masked inputs, mask (n, d)) -> (n, outputs).
    """

    selector: Callable[..., nn.Module]
    predictor: Callable[..., nn.Module]


@dataclass(frozen=True)
class Recipe:
    """Options of the networks, how they are trained, and what the selected features preserve.

    Attributes
    ----------
    plan : TrainingPlan
    selector, predictor : mapping
        Options of the two networks.
    target : "distribution" or "class"
    sampler : Sampler or None
        None means `PlackettLuce()` in our recipe and `ConcreteMax()` in the paper's.
    divide_by_k : bool
        Whether the predictor's option `divisor` is k.
    thorough : TrainingPlan or None
        A longer plan, for `TrainingPlan.thorough(view)`; None for that of tables.
    """

    plan: TrainingPlan = field(default_factory=TrainingPlan)
    selector: Options = field(default_factory=dict)
    predictor: Options = field(default_factory=dict)
    target: Target = "distribution"
    sampler: Sampler | None = None
    divide_by_k: bool = False
    thorough: TrainingPlan | None = None


@dataclass(frozen=True)
class Recipes:
    """Our recipe and the paper's two for one kind of input.

    Attributes
    ----------
    networks : callable
        Returns `Networks` for a fitted view and a number of outputs.
    ours : Recipe
    released : Recipe
        L2X as released, which reaches the published figures; docs/benchmarks/reproduce.md explains each
        deviation from the text.
    published : Recipe
        L2X as published.
    queries : int, or callable
        Default limit of masked rows that the model is queried for; a function returns it for a fitted view.
        It is a number, not a time, so that the result does not depend on how busy the machine is.
    """

    networks: Callable[[Any, int], Networks]
    ours: Recipe = field(default_factory=Recipe)
    released: Recipe = field(default_factory=lambda: Recipe(TrainingPlan.paper()))
    published: Recipe = field(default_factory=lambda: Recipe(TrainingPlan.paper(as_published=True)))
    queries: int | Callable[[Any], int] = 1 << 20

    def default_queries(self, view: View) -> int:
        """Return the default limit of masked rows for a fitted view."""
        return self.queries(view) if callable(self.queries) else self.queries


_REGISTERED: dict[type[View], Recipes] = {}


def register(view: type[View], recipes: Recipes) -> None:
    """Register how explainers for this class of views are built and trained.

    Subclasses share the recipes of their base class unless they are registered themselves.
    """
    _REGISTERED[view] = recipes


def recipes_of(view: View | type[View]) -> Recipes:
    """Return the recipes of a view; raise an InputError if none are registered."""
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
    """Return our plan for texts and images, with these steps and this learning rate of the selector.

    Batches are smaller than for tables: inputs cost more, and each carries more information than a row.
    """
    return TrainingPlan(
        value=Phase(value, 3e-3, batch_size=128, averaging=0.99, patience=6),
        selector=Phase(selector, rate, batch_size=128, averaging=0.99, choose="latest"),
        evaluations=10,
        validation_rows=2000,
    )


def paper_plan(
    steps: int, *, batch_size: int, evaluations: int = 10, as_published: bool = False
) -> TrainingPlan:
    """Return the paper's plan for texts and images.

    The text does not specify which weights to use. As published, these are the weights with the best held-out
    loss; otherwise the last, because q's held-out loss does not predict how well its selections preserve the
    model's predictions.
    """
    joint = Phase(
        steps,
        1e-3,
        batch_size=batch_size,
        optimizer="rmsprop",
        schedule="constant",
        choose="best" if as_published else "last",
    )
    return TrainingPlan(selector=joint, evaluations=evaluations, validation_rows=2000)


class HasTextEncoder(nn.Module):
    """A selector whose text encoder, (inputs, mask) -> (n, outputs), is trained first and then frozen.

    Attributes
    ----------
    text_encoder : torch module
        Fitted to predictions for whole inputs and random subsets, by `fit_text_encoder`.
    encoder_steps : float
        Its training steps, as a multiple of the surrogate's.
    """

    text_encoder: nn.Module
    encoder_steps: ClassVar[float] = 1.0


class ReadsSelected(nn.Module):
    """A predictor that can read encoded rows without masking them first, if `reads_rows` is True."""

    reads_rows: bool = True

    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the outputs for masked rows, (m n, outputs), for m masks of each row, (m n, d)."""
        raise NotImplementedError


InitialWeights = Literal["torch", "glorot"]


def initialise(network: nn.Module, weights: InitialWeights) -> None:
    """Initialise the dense and convolutional layers of a network.

    "torch" leaves them unchanged. "glorot" is the default of Keras: uniform, with the variance 2 / (fan in +
    fan out) of Glorot and Bengio (2010), and zero biases; torch's default has the variance 1 / (3 fan in).
    """
    if weights == "torch":
        return
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


# Inputs per chunk without gradients: one hidden layer for 8,192 images would need a gigabyte.
CHUNK = 512


def in_chunks(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap a `forward` so that it runs in chunks without gradients: memory does not grow with the inputs."""

    @wraps(forward)
    def chunked(network: nn.Module, *inputs: Tensor) -> Tensor:
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return forward(network, *inputs)
        parts = batches(len(inputs[0]), CHUNK)
        return torch.cat([forward(network, *(tensor[rows] for tensor in inputs)) for rows in parts])

    return chunked
