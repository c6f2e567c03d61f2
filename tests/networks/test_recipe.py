"""Recipes: the networks take their options, and the paper's are trained as section 4 says."""

from __future__ import annotations

import pytest
from torch import nn

from l2x.features import Columns, Patches, Sentences, Words
from l2x.learning._training import TrainingPlan
from l2x.learning.networks import _columns as columns
from l2x.learning.networks import _sentences as sentences
from l2x.learning.networks import _words as words
from l2x.learning.networks._patches import PatchPredictor, PatchSelector
from l2x.learning.networks._recipes import Networks, Recipe, Recipes, recipes_of
from l2x.learning.samplers import ConcreteMax

RECIPES: dict[str, Recipes] = {
    "columns": recipes_of(Columns),
    "patches": recipes_of(Patches),
    "sentences": recipes_of(Sentences),
    "words": recipes_of(Words),
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
def test_networks_take_the_options_of_every_recipe(kind: str) -> None:
    recipes = RECIPES[kind]
    mine, _ = build(kind, recipes.ours)
    for paper in (recipes.paper, recipes.letter):
        theirs, _ = build(kind, paper)
        assert sum(p.numel() for p in mine.parameters()) != sum(p.numel() for p in theirs.parameters())
        assert recipes.ours.predictor != paper.predictor


@pytest.mark.parametrize("kind", RECIPES)
def test_to_the_letter_is_rmsprop_at_a_thousandth_and_the_usual_temperature(kind: str) -> None:
    letter = RECIPES[kind].letter
    phase = letter.plan.selector
    assert (phase.optimizer, phase.learning_rate, phase.schedule) == ("rmsprop", 1e-3, "constant")
    assert (letter.sampler, letter.divide_by_k, phase.choose, phase.l2) == (None, False, "best", 0.0)
    normalised = [
        m for network in build(kind, letter) for m in network.modules() if "Norm" in type(m).__name__
    ]
    assert normalised == []


@pytest.mark.parametrize("kind", RECIPES)
def test_as_its_authors_ran_it(kind: str) -> None:
    """Normalisation in q of tables and images, a higher temperature for texts, the last weights for all."""
    paper, text = RECIPES[kind].paper, kind in ("words", "sentences")
    selector, predictor = build(kind, paper)
    assert any("Norm" in type(m).__name__ for m in predictor.modules()) != text
    assert not any("Norm" in type(m).__name__ for m in selector.modules())
    assert (paper.sampler, paper.divide_by_k) == ((ConcreteMax(0.5), True) if text else (None, False))
    assert (paper.plan.selector.choose, paper.plan.selector.learning_rate) == ("last", 1e-3)


def test_what_a_recipe_does_not_say() -> None:
    recipes = Recipes(lambda view, outputs: Networks(nn.Identity, nn.Identity))
    assert recipes.ours == Recipe(TrainingPlan(), selector={}, predictor={})
    assert recipes.paper.plan == TrainingPlan.paper()
    assert recipes.letter.plan == TrainingPlan.paper(to_the_letter=True)
