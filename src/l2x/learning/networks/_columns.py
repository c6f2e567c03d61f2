"""Networks for tables: multilayer perceptrons."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

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

# The networks of the released code.
RELEASED = Recipe(
    TrainingPlan.paper(),
    selector={"hidden": (100, 100), "activation": "relu", "prior": False, "initial": "glorot"},
    predictor={"hidden": (200, 200), "activation": "relu", "normalise": True, "initial": "glorot"},
)
# Section 4.1: all layers have dimension 200; two hidden layers for the explainer, three for the variational
# family.
PUBLISHED = Recipe(
    TrainingPlan.paper(as_published=True),
    selector={"hidden": (200, 200), "activation": "relu", "prior": False},
    predictor={"hidden": (200, 200, 200), "activation": "relu"},
)


def perceptron(sizes: Sequence[int], activation: str, *, normalise: bool = False) -> nn.Sequential:
    """Build dense layers of these sizes, with activations and optional batch normalisation in between."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes[:-1]):
        layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
        layers += [nn.BatchNorm1d(fan_out)] if normalise else []
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class ColumnSelector(nn.Module):
    """The selector w_θ for tables: rows -> (n, d) importance scores.

    With `prior`, the scores are g(x) plus a vector shared by all rows. The shared part learns PRIOR_SPEED
    times faster and g starts at zero, so that rows without a preference (ties: 97 % of nonlinear additive)
    fall back on the features that help everywhere. Without it, this is the paper's plain network.

    Parameters
    ----------
    d : int
        The number of features.
    hidden : sequence of int
        Sizes of the hidden layers.
    activation : "relu", "selu" or "silu"
        Their activation.
    prior : bool
        Whether to add a vector that is shared by all rows.
    initial : "torch" or "glorot"
        How weights are initialised.
    inputs : TableInput or None
        Reads tables with categories or missing values.
    columns : int or None
        The number of columns, if the d features are groups of columns.
    prediction_size : int
        How many numbers of the model's prediction are read with the columns.
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
        prediction_size: int = 0,
    ) -> None:
        super().__init__()
        self.inputs = copy.deepcopy(inputs)  # the view's own must not move to the network's device
        width = (columns or d) if inputs is None else inputs.width
        self.layers = perceptron([width + prediction_size, *hidden, d], activation)
        initialise(self.layers, initial)
        self.prior = nn.Parameter(torch.zeros(d)) if prior else None
        if prior:
            last = self.layers[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            last.bias.requires_grad_(False).zero_()  # replaced by `prior`

    @property
    def without_l2(self) -> list[Tensor]:
        """The last layer, which has no penalty in the released code: scores may become certain."""
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        return [last.weight]

    def forward(self, x: Tensor, prediction: Tensor | None = None) -> Tensor:
        """Return the scores, (n, d)."""
        x = x if self.inputs is None else self.inputs(x)
        scores: Tensor = self.layers(x if prediction is None else torch.cat([x, prediction], dim=1))
        # Adam's steps do not depend on the gradient's scale: a factor here is a factor of the learning rate.
        return scores if self.prior is None else scores + self.PRIOR_SPEED * self.prior


class ColumnPredictor(ReadsSelected):
    """g_α: x̃_S and, with `sees_mask`, the mask -> (n, outputs) logits or predicted values.

    Parameters
    ----------
    d, outputs : int
    hidden : sequence of int
    activation : "relu", "selu" or "silu"
    normalise : bool
        Batch normalisation after hidden layers.
    initial : "torch" or "glorot"
    sees_mask : bool
    width : int or None
        Numbers in x̃_S; default d.
    table : MaskedTable or None
        Computes x̃_S from encoded rows; in wide tables it looks up only the selected cells.
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
        self.table = copy.deepcopy(table)  # as in ColumnSelector
        self.reads_rows = table is not None
        sizes = [(width or d) + d * sees_mask, *hidden, outputs]
        self.layers = perceptron(sizes, activation, normalise=normalise)
        initialise(self.layers, initial)
        self.looks_up = table is not None and table.columns > WIDE
        if self.looks_up:
            first = self.layers[0]
            assert isinstance(first, nn.Linear)
            self.layers[0] = ByInput(first)

    def forward(self, masked: Tensor, mask: Tensor) -> Tensor:
        """Return logits or predicted values, (n, outputs)."""
        logits: Tensor = self.layers(torch.cat([masked, mask], dim=-1) if self.sees_mask else masked)
        return logits

    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the outputs for encoded rows; see `ReadsSelected.read`."""
        assert self.table is not None
        if self.looks_up and not mask.requires_grad:
            return self.look_up(x, mask)
        if mask.requires_grad or len(mask) == len(x):
            logits: Tensor = self(self.table(x.repeat(len(mask) // len(x), 1), mask), mask)
            return logits
        return self._after(self.table.shared_first_layer, x, mask)

    def look_up(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return `read` from the selected cells alone, without a gradient for the mask.

        It is faster for many rows in each of which few cells are selected.
        """
        assert self.table is not None
        return self._after(self.table.first_layer, x, mask)

    def _after(self, first_layer: Callable[..., Tensor], x: Tensor, mask: Tensor) -> Tensor:
        """Return the outputs if `first_layer` computes the first layer."""
        first, *others = self.layers
        logits: Tensor = nn.Sequential(*others)(first_layer(first, x, mask, sees_mask=self.sees_mask))
        return logits


def _networks(view: Columns, outputs: int) -> Networks:
    return Networks(
        partial(ColumnSelector, view.d, columns=len(view.column_names_), inputs=view.inputs_),
        partial(ColumnPredictor, view.d, outputs, width=view.masked_.width, table=view.masked_),
    )


register(Columns, Recipes(_networks, released=RELEASED, published=PUBLISHED))
