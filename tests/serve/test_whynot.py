"""Beside an explanation: what the model, or the explainer's own q, says of the parts."""

from __future__ import annotations

import pytest
from service import KINDS, MODELS, file_of, rows_of

import l2x
from l2x.serve.served import Served
from l2x.serve.whynot import MOST_CLASSES, shown


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


def test_an_explainer_that_asks_its_model_has_nothing_to_say_without_it() -> None:
    from service import GOLDEN

    served = Served.load("it", GOLDEN / "columns-model.l2x", None)
    found = shown(served, rows_of("columns", 1)[0][0], 2)
    assert found.answers == []
    assert 'class="bars"' in found.html
