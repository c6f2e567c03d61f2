"""Beside an explanation: what the model, or the explainer's own q, says of the parts."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from service import KINDS, MODELS, file_of, rows_of

import l2x
from l2x.apps.serve._served import Served
from l2x.apps.serve._whynot import MOST_CLASSES, shown


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_model", [True, False])
def test_answers_of_whole_part_and_rest(kind: str, with_model: bool) -> None:
    model = l2x.as_black_box(MODELS[kind]) if with_model else None
    served = Served.load(kind, file_of(kind), model)
    (row,), X = rows_of(kind, 1)
    found = shown(served, row, 1)
    assert found.asked == ("the model" if with_model else "the explainer's own estimate of the model")
    assert 1 <= len(found.answers) <= MOST_CLASSES
    assert all(len(answer) == 4 for answer in found.answers)
    if kind == "regression":
        assert found.same is None
        if with_model:
            assert found.answers[0][1] == f"{MODELS[kind](X)[0]:.4g}"
    else:
        assert found.same in (True, False)


def test_the_others_are_all_features_but_the_selected_ones(tmp_path: Path) -> None:
    """Stop words stay, although they can never be selected: the model looks at one alone."""

    def the_word_the(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "the" in text.split() else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = ["the good film", "a good plot", "the bad plot", "a bad film"] * 10
    view = l2x.Words(length=3, stop_words="english")
    plan = l2x.TrainingPlan.quick().with_steps(value=2, selector=2)
    explainer = l2x.Explainer(the_word_the, 1, features=view, value="surrogate", training=plan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no selectable word decides
        explainer.fit(texts)
    served = Served.load("it", explainer.save(tmp_path / "a.l2x"), l2x.as_black_box(the_word_the))
    found = shown(served, "the good film", 1)
    assert all(whole == others for _, whole, _, others in found.answers)


def test_an_explainer_that_asks_its_model_has_nothing_to_say_without_it() -> None:
    from service import GOLDEN

    served = Served.load("it", GOLDEN / "columns-model.l2x", None)
    found = shown(served, rows_of("columns", 1)[0][0], 2)
    assert found.answers == []
    assert 'class="bars"' in found.html
