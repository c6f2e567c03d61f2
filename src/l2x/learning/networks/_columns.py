"""Networks for tables: multilayer perceptrons."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from l2x.features import WIDE, ByInput, Columns, MaskedTable, TableInput
from l2x.learning._training import TrainingPlan
from l2x.learning.networks._recipes import (
    InitialWeights,
    Networks,
    ReadsSelected,
    Recipe,
    Recipes,
    initialise,
    register,
)

ACTIVATIONS = {"relu": nn.ReLU, "selu": nn.SELU, "silu": nn.SiLU}

# The networks of the authors' code.
PAPER = Recipe(
    TrainingPlan.paper(),
    selector={"hidden": (100, 100), "activation": "relu", "prior": False, "initial": "glorot"},
    predictor={"hidden": (200, 200), "activation": "relu", "normalise": True, "initial": "glorot"},
)
# Section 4.1: all layers are of dimension 200, two hidden for the explainer, three for the family.
LETTER = Recipe(
    TrainingPlan.paper(to_the_letter=True),
    selector={"hidden": (200, 200), "activation": "relu", "prior": False},
    predictor={"hidden": (200, 200, 200), "activation": "relu"},
)


def perceptron(sizes: Sequence[int], activation: str, *, normalise: bool = False) -> nn.Sequential:
    """Dense layers of the given sizes, each hidden one followed by an activation and, where asked for, by
    batch normalisation."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes[:-1]):
        layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
        layers += [nn.BatchNorm1d(fan_out)] if normalise else []
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class ColumnSelector(nn.Module):
    """w_θ: (n, d) -> (n, d) importance scores.

    `inputs` reads tables with categories or missing values; `columns` is their number where the d features
    are groups of them; `told` is how many numbers of the model's answer are read beside them.

    With `prior` the scores are a vector common to all rows plus g(x). The common part learns PRIOR_SPEED
    times faster and g starts at zero, so that rows which say nothing about the choice (ties: 97 % of
    nonlinear additive) fall back on what helps everywhere. Without it, the plain network of the paper.
    """

    PRIOR_SPEED = 5.0

    def __init__(
        self,
        d: int,
        *,
        hidden: Sequence[int] = (128, 128),
        activation: str = "silu",
        prior: bool = True,
        initial: InitialWeights = "torch",
        inputs: TableInput | None = None,
        columns: int | None = None,
        told: int = 0,
    ) -> None:
        super().__init__()
        self.inputs = copy.deepcopy(inputs)  # the view's own stays where it is when the network moves
        width = (columns or d) if inputs is None else inputs.width
        self.layers = perceptron([width + told, *hidden, d], activation)
        initialise(self.layers, initial)
        self.prior = nn.Parameter(torch.zeros(d)) if prior else None
        if prior:
            last = self.layers[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            last.bias.requires_grad_(False).zero_()  # `prior` takes its place

    @property
    def without_l2(self) -> list[Tensor]:
        """The layer that scores has no penalty in the authors' code: it may become certain."""
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        return [last.weight]

    def forward(self, x: Tensor, told: Tensor | None = None) -> Tensor:
        x = x if self.inputs is None else self.inputs(x)
        scores: Tensor = self.layers(x if told is None else torch.cat([x, told], dim=1))
        # Adam's steps do not depend on a gradient's scale: a factor here is a factor of the learning rate.
        return scores if self.prior is None else scores + self.PRIOR_SPEED * self.prior

    def bare(self) -> BarePass:
        """Return `forward` without gradients, for callers that explain a row at a time."""
        return BarePass(self)


class BarePass:
    """`ColumnSelector.forward`, to the bit, without gradients and without the calls of modules.

    For a single row these take longer than the arithmetic. Every call reads the weights that the selector has
    at that moment: nothing is kept that could become stale.
    """

    def __init__(self, selector: ColumnSelector) -> None:
        self._selector = selector

    @property
    def elsewhere(self) -> torch.device | None:
        """Where x has to be; None for the processor."""
        first: Any = self._selector.layers[0]
        device = first.weight.device
        return None if device.type == "cpu" else device

    def __call__(self, x: Tensor, told: Tensor | None = None) -> Tensor:
        selector = self._selector
        with torch.no_grad():
            x = x if selector.inputs is None else selector.inputs(x)
            x = x if told is None else torch.cat([x, told], dim=1)
            layers: dict[str, Any] = selector.layers._modules
            for layer in layers.values():
                if type(layer) is nn.Linear:  # its own `forward`, but for two slow look-ups
                    weights: dict[str, Any] = layer._parameters
                    x = F.linear(x, weights["weight"], weights["bias"])
                else:
                    x = layer.forward(x)
            prior = selector.prior
            return x if prior is None else x + selector.PRIOR_SPEED * prior


class ColumnPredictor(ReadsSelected):
    """g_α: x̃_S, `width` numbers, and the mask where asked for, -> (n, outputs) logits or means.

    `table` makes x̃_S of encoded rows; in a wide one only the selected cells are looked at.
    """

    def __init__(
        self,
        d: int,
        outputs: int,
        *,
        hidden: Sequence[int] = (128, 128, 128),
        activation: str = "silu",
        normalise: bool = False,
        initial: InitialWeights = "torch",
        sees_mask: bool = True,
        width: int | None = None,
        table: MaskedTable | None = None,
    ) -> None:
        super().__init__()
        self.sees_mask = sees_mask
        self.table = copy.deepcopy(table)  # as the selector's inputs
        self.reads_rows = table is not None and table.columns > WIDE
        sizes = [(width or d) + d * sees_mask, *hidden, outputs]
        self.layers = perceptron(sizes, activation, normalise=normalise)
        initialise(self.layers, initial)
        if self.reads_rows:
            first = self.layers[0]
            assert isinstance(first, nn.Linear)
            self.layers[0] = ByInput(first)

    def forward(self, masked: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.layers(torch.cat([masked, mask], dim=-1) if self.sees_mask else masked)
        return logits

    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        assert self.table is not None
        if mask.requires_grad:
            logits: Tensor = self(self.table(x.repeat(len(mask) // len(x), 1), mask), mask)
            return logits
        first, *others = self.layers
        assert isinstance(first, nn.Linear)
        logits = nn.Sequential(*others)(self.table.first_layer(first, x, mask, sees_mask=self.sees_mask))
        return logits


def _networks(view: Columns, outputs: int) -> Networks:
    return Networks(
        partial(ColumnSelector, view.d, columns=len(view.column_names_), inputs=view.inputs_),
        partial(ColumnPredictor, view.d, outputs, width=view.masked_.width, table=view.masked_),
    )


register(Columns, Recipes(_networks, paper=PAPER, letter=LETTER))
