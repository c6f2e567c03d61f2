"""Recipes: the networks take their options, and the paper's are trained as section 4 says."""

from __future__ import annotations

import pytest
from torch import nn

from l2x.networks import columns, patches, sentences, words
from l2x.networks.patches import PatchPredictor, PatchSelector
from l2x.networks.recipe import Recipe, Recipes
from l2x.training import TrainingPlan

RECIPES: dict[str, Recipes] = {
    module.__name__.rpartition(".")[2]: module.RECIPES for module in (columns, patches, sentences, words)
}


def build(kind: str, recipe: Recipe) -> tuple[nn.Module, nn.Module]:
    """The two networks of one kind, as a recipe has them."""
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
def test_networks_take_the_options_of_both_recipes(kind: str) -> None:
    recipes = RECIPES[kind]
    (mine, _), (theirs, _) = build(kind, recipes.ours), build(kind, recipes.paper)
    assert sum(p.numel() for p in mine.parameters()) != sum(p.numel() for p in theirs.parameters())
    assert recipes.ours.predictor != recipes.paper.predictor


@pytest.mark.parametrize("kind", RECIPES)
def test_the_papers_are_trained_by_rmsprop_at_a_thousandth(kind: str) -> None:
    phase = RECIPES[kind].paper.plan.selector
    assert (phase.optimizer, phase.learning_rate, phase.schedule) == ("rmsprop", 1e-3, "constant")


def test_what_a_recipe_does_not_say() -> None:
    assert Recipes().ours == Recipe(TrainingPlan(), {}, {})
    assert Recipes().paper.plan == TrainingPlan.paper()
