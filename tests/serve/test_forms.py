"""Forms and rows: what a browser sends is the row that the API takes."""

from __future__ import annotations

from typing import Any

import pytest
from service import KINDS, file_of

from l2x.apps.serve._forms import TableForm, form_of
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve._served import Served
from l2x.errors import InputError


def served(kind: str) -> Served:
    return Served.load(kind, file_of(kind), None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_form_is_a_row_that_can_be_explained(kind: str) -> None:
    one = served(kind)
    form = form_of(one)
    fields = form.fields()
    assert form.k(fields) == one.explainer.k
    assert len(one.reader.parse([form.row(fields)])) == 1


def test_cells_of_a_form() -> None:
    form = form_of(served("frame"))
    row = form.row({"c0": "1.5", "c1": "3", "m1": "on", "c2": "", "c3": "1"})
    assert row["age"] == 1.5
    assert row["income"] is None
    assert row["town"] is None
    assert isinstance(row["owner"], bool)


@pytest.mark.parametrize(
    "fields",
    [
        {"c0": "x"},
        {"c0": ""},
        {"c3": "9"},
        {"c3": "0" * 9 + "9"},
        {"c3": "-1"},
        {"c3": "²"},
        {"c3": ""},
        {"k": "x"},
        {"k": "0"},
    ],
)
def test_nonsense_in_a_form_is_told(fields: dict[str, Any]) -> None:
    form = form_of(served("frame"))
    read = form.k if "k" in fields else form.row
    with pytest.raises((ServiceError, InputError)):
        read(form.fields() | fields)


def test_sliders_cover_the_range_in_round_steps() -> None:
    about = {"range": [-0.1234, 3.21], "whole": False}
    slider = TableForm.slider(about)
    assert slider["min"] <= -0.1234
    assert slider["max"] >= 3.21
    assert slider["step"] == 0.01
    assert TableForm.slider({"range": [1.0, 90.0], "whole": True}) == {"min": 1, "max": 90, "step": 1}
    constant = TableForm.slider({"range": [2.0, 2.0], "whole": False})
    assert constant["step"] == 1.0
