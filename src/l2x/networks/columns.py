"""Networks for tables: multilayer perceptrons."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from l2x.networks.recipe import Recipe, Recipes
from l2x.training import TrainingPlan

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU}

# Section 4.1: all layers are of dimension 200, two hidden for the explainer, three for the family.
PAPER = Recipe(
    TrainingPlan.paper(),
    selector={"hidden": (200, 200), "activation": "relu", "prior": False},
    predictor={"hidden": (200, 200, 200), "activation": "relu"},
)
RECIPES = Recipes(paper=PAPER)


def perceptron(sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Dense layers of the given sizes with an activation between them."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


class TableInput(nn.Module):
    """Encoded columns with categories or missing values -> (n, width) numbers that a network can read.

    numbers     the numeric columns, zero where missing
    slots       one per category (1 where the cell has it), one per column that may miss (1 where it does)

    Times the first dense layer's weights a slot is an embedding vector; all slots of a column that is not
    selected are zero (section 3.1), while a missing cell has a vector of its own.

    Parameters
    ----------
    numeric, gaps : indices of the numeric columns, and of those that may have missing cells
    categories : for each categorical column its index, and how many codes 0, 1, ... it has
    """

    def __init__(
        self, numeric: Sequence[int], gaps: Sequence[int], categories: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__()
        slots = [(column, code) for column, codes in categories for code in range(codes)]
        # Not persistent: the view keeps them.
        self.numeric = nn.Buffer(torch.tensor(numeric, dtype=torch.long), persistent=False)
        self.gaps = nn.Buffer(torch.tensor(gaps, dtype=torch.long), persistent=False)
        columns = torch.tensor([column for column, _ in slots], dtype=torch.long)
        self.column = nn.Buffer(columns, persistent=False)
        self.code = nn.Buffer(torch.tensor([float(code) for _, code in slots]), persistent=False)
        self.width = len(numeric) + len(slots) + len(gaps)

    def slots(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, slots); an unseen category has none."""
        return torch.cat([x[:, self.column] == self.code, x[:, self.gaps].isnan()], dim=1).float()

    def slot_columns(self) -> Tensor:
        """The column of each slot."""
        return torch.cat([self.column, self.gaps])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, self.numeric].nan_to_num(0.0), self.slots(x)], dim=1)


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
        inputs: TableInput | None = None,
        columns: int | None = None,
        told: int = 0,
    ) -> None:
        super().__init__()
        self.inputs = copy.deepcopy(inputs)  # the view's own stays where it is when the network moves
        width = (columns or d) if inputs is None else inputs.width
        self.layers = perceptron([width + told, *hidden, d], activation)
        self.prior = nn.Parameter(torch.zeros(d)) if prior else None
        if prior:
            last = self.layers[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            last.bias.requires_grad_(False).zero_()  # `prior` takes its place

    def forward(self, x: Tensor, told: Tensor | None = None) -> Tensor:
        x = x if self.inputs is None else self.inputs(x)
        scores: Tensor = self.layers(x if told is None else torch.cat([x, told], dim=1))
        # Adam's steps do not depend on a gradient's scale: a factor here is a factor of the learning rate.
        return scores if self.prior is None else scores + self.PRIOR_SPEED * self.prior


class ColumnPredictor(nn.Module):
    """g_α: x̃_S, `width` numbers, and the mask where asked for, -> (n, outputs) logits or means."""

    def __init__(
        self,
        d: int,
        outputs: int,
        *,
        hidden: Sequence[int] = (128, 128, 128),
        activation: str = "silu",
        sees_mask: bool = True,
        width: int | None = None,
    ) -> None:
        super().__init__()
        self.sees_mask = sees_mask
        self.layers = perceptron([(width or d) + d * sees_mask, *hidden, outputs], activation)

    def forward(self, masked: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.layers(torch.cat([masked, mask], dim=-1) if self.sees_mask else masked)
        return logits
