"""Recipes: the networks take their options, weights are initialised, and chunks bound memory."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from l2x.features import Columns, Patches, Sentences, Words
from l2x.learning._training import TrainingPlan
from l2x.learning.networks import _columns as columns
from l2x.learning.networks import _recipes as chunks
from l2x.learning.networks import _sentences as sentences
from l2x.learning.networks import _words as words
from l2x.learning.networks._patches import PatchPredictor, PatchSelector
from l2x.learning.networks._recipes import CHUNK, Networks, Recipe, Recipes, in_chunks, initialise, recipes_of
from l2x.learning.samplers import ConcreteMax

RECIPES: dict[str, Recipes] = {
    "columns": recipes_of(Columns),
    "patches": recipes_of(Patches),
    "sentences": recipes_of(Sentences),
    "words": recipes_of(Words),
}


def build(kind: str, recipe: Recipe) -> tuple[nn.Module, nn.Module]:
    """Build the two networks of one kind with the options of a recipe."""
    if kind == "columns":
        selector = columns.ColumnSelector(3, **recipe.selector)
        return selector, columns.ColumnPredictor(3, 2, **recipe.predictor)
    if kind == "patches":
        selector = PatchSelector(1, 2, (2, 2), **recipe.selector)
        return selector, PatchPredictor(1, 2, (2, 2), 2, **recipe.predictor)
    if kind == "words":
        return words.word_selector(9, 2, **recipe.selector), words.WordPredictor(9, 2, **recipe.predictor)
    selector = sentences.sentence_selector(9, 2, **recipe.selector)
    return selector, sentences.SentencePredictor(9, 2, **recipe.predictor)


@pytest.mark.parametrize("kind", RECIPES)
def test_networks_take_the_options_of_every_recipe(kind: str) -> None:
    recipes = RECIPES[kind]
    mine, _ = build(kind, recipes.ours)
    for paper in (recipes.released, recipes.published):
        theirs, _ = build(kind, paper)
        assert sum(p.numel() for p in mine.parameters()) != sum(p.numel() for p in theirs.parameters())
        assert recipes.ours.predictor != paper.predictor


@pytest.mark.parametrize("kind", RECIPES)
def test_as_published_means_rmsprop_without_normalisation(kind: str) -> None:
    published = RECIPES[kind].published
    phase = published.plan.selector
    assert (phase.optimizer, phase.learning_rate, phase.schedule) == ("rmsprop", 1e-3, "constant")
    assert (published.sampler, published.divide_by_k, phase.choose, phase.l2) == (None, False, "best", 0.0)
    normalised = [
        m for network in build(kind, published) for m in network.modules() if "Norm" in type(m).__name__
    ]
    assert normalised == []


@pytest.mark.parametrize("kind", RECIPES)
def test_as_released(kind: str) -> None:
    """Normalisation in q for tables and images, a higher temperature for texts, the last weights."""
    released, text = RECIPES[kind].released, kind in ("words", "sentences")
    selector, predictor = build(kind, released)
    assert any("Norm" in type(m).__name__ for m in predictor.modules()) != text
    assert not any("Norm" in type(m).__name__ for m in selector.modules())
    assert (released.sampler, released.divide_by_k) == ((ConcreteMax(0.5), True) if text else (None, False))
    assert (released.plan.selector.choose, released.plan.selector.learning_rate) == ("last", 1e-3)


def test_defaults_of_a_recipe() -> None:
    recipes = Recipes(lambda view, outputs: Networks(nn.Identity, nn.Identity))
    assert recipes.ours == Recipe(TrainingPlan(), selector={}, predictor={})
    assert recipes.released.plan == TrainingPlan.paper()
    assert recipes.published.plan == TrainingPlan.paper(as_published=True)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(20, 30, 3), nn.Embedding(9, 4), nn.Linear(300, 100), nn.BatchNorm1d(100))


def test_glorot() -> None:
    layers = network()
    before = copy.deepcopy(layers)
    initialise(layers, "glorot")
    convolution, embedding, dense, _ = layers.children()
    assert dense.weight.var().item() == pytest.approx(2 / (300 + 100), rel=0.05)
    assert convolution.weight.var().item() == pytest.approx(2 / (3 * 20 + 3 * 30), rel=0.1)
    assert not dense.bias.any()
    assert not convolution.bias.any()
    assert torch.equal(embedding.weight, before[1].weight)  # type: ignore[index]


def test_torch_leaves_the_weights_unchanged() -> None:
    layers = network()
    initialise(layers, "torch")
    for mine, theirs in zip(layers.parameters(), network().parameters(), strict=True):
        assert torch.equal(mine, theirs)


class Recorded(nn.Module):
    """Records how many inputs it gets at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    @in_chunks
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return x.cumsum(dim=1) + y


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 3 * CHUNK + 1))
def test_chunks_give_the_same_result(n: int) -> None:
    x, y, network = torch.rand(n, 3), torch.rand(n, 3), Recorded()
    with torch.no_grad():
        result = network(x, y)
    assert torch.equal(result, x.cumsum(dim=1) + y)
    assert max(network.sizes) <= CHUNK
    assert sum(network.sizes) == n


def test_a_backward_pass_gets_all_inputs_at_once() -> None:
    network = Recorded()
    x = torch.rand(2 * CHUNK, 3, requires_grad=True)
    network(x, x).sum().backward()
    assert network.sizes == [2 * CHUNK]
    assert x.grad is not None


def test_the_size_is_one_number_for_all_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the networks make it small."""
    monkeypatch.setattr(chunks, "CHUNK", 2)
    network = Recorded()
    with torch.no_grad():
        network(torch.rand(5, 3), torch.rand(5, 3))
    assert network.sizes == [2, 2, 1]
