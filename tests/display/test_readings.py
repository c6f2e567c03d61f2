"""Predictions, directions and amounts are shown alike in print, HTML, JSON, frames and figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shop import CASES, FRAME, PLAN, Shop, shop_explainer, shop_explanation

import l2x
from l2x.display import MEANING, amount, level, readings, row_html
from l2x.explanation import Explanation
from l2x.model import Endpoint

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=CASES)
def explained(request: pytest.FixtureRequest) -> Explanation:
    return shop_explanation(request.param)


@pytest.fixture
def table() -> l2x.Explainer:
    return shop_explainer("table")


def test_every_rendering_has_the_prediction_and_the_signed_effects(explained: Explanation) -> None:
    one = explained[0]
    (reading,) = readings(one)
    assert reading.predicted == f"{reading.explained}, {level(one.predictions.max(), 'probability')}"
    for shown in (repr(one), one.to_html(), row_html(one)):
        for text in reading.amounts:
            assert text.removesuffix(" pp") in shown
    for shown in (repr(one), one.to_html()):
        assert reading.predicted in shown.replace("&gt;", ">").replace("&lt;", "<")
        assert all(text in shown.replace("&gt;", ">").replace("&lt;", "<") for text in reading.levels[1:])
    figure = one.plot()
    assert reading.predicted in figure.get_suptitle()
    assert reading.comparison[1:] in figure.get_supxlabel().replace("\n", " ")


def test_json_and_frames_have_the_three_numbers_and_their_class(explained: Explanation) -> None:
    found = explained.contributions
    frame, rows = explained.to_frame(effects=True), explained.to_dict(effects=True)
    assert json.loads(json.dumps(rows)) == rows
    for name in ("prediction", "alone", "without"):
        np.testing.assert_array_equal(frame[name], getattr(found, name))
        assert [row[name] for row in rows] == frame[name].tolist()
    assert set(frame["class"]) <= {"keep", "leave"}
    assert [row["class"] for row in rows] == frame["class"].tolist()
    assert set(frame["predicted_by"]) == {row["predicted_by"] for row in rows} == {"model"}


def test_a_prediction_of_the_surrogate_is_marked(table: l2x.Explainer, tmp_path: Path) -> None:
    loaded = l2x.load(table.save(tmp_path / "shop.l2x"))
    explanation = loaded.explain(FRAME)[:2]
    for shown in (repr(explanation), explanation.to_html(), explanation[0].plot().get_suptitle()):
        assert "predicted by the surrogate" in shown
    assert "predicted by the surrogate" not in repr(table.explain(FRAME)[:2])
    assert loaded.explain(FRAME).to_frame(effects=True)["predicted_by"][0] == "surrogate"


def test_printing_queries_the_model_for_the_printed_rows_only(table: l2x.Explainer) -> None:
    explanation, model = table.explain(FRAME, polish=False), table.black_box()
    before = model.rows
    assert len(repr(explanation).splitlines()) == 1 + 8 * 2 + 1
    assert model.rows == before + 8
    _ = explanation.effects
    before = model.rows
    _ = repr(explanation), explanation.to_html(), explanation[3].plot()
    assert model.rows == before


def test_a_remote_model_is_not_queried_unasked(table: l2x.Explainer) -> None:
    remote = table.with_model(Endpoint("http://127.0.0.1:9/nobody-listens"))
    explanation = remote.explain(FRAME)
    assert "predicted by the surrogate" in repr(explanation)
    assert "predicted by the surrogate" in explanation[0].plot().get_suptitle()
    explanation.plot()
    known = remote.explain(FRAME, predictions=Shop().predict_proba(FRAME))
    assert "predicted by the surrogate" not in repr(known)


def test_effects_that_take_masked_queries_are_not_printed() -> None:
    model = Shop()
    explainer = l2x.Explainer(model, 1, objective="model", training=PLAN).fit(FRAME)
    explanation = explainer.explain(FRAME)
    before = model.rows
    assert repr(explanation).splitlines()[0] == "Explanation of 200 rows, 1 of 3 features"
    assert model.rows == before
    assert "Prediction: " in explanation[0].plot().get_suptitle()  # asked for: drawn with effects


def test_the_class_that_is_explained_is_named(table: l2x.Explainer) -> None:
    one = table.explain(FRAME)[0]
    other = one.for_class("keep" if one.predictions[0].argmax() else "leave")
    (reading,) = readings(other)
    assert reading.title.endswith(f"effects on {reading.explained}")
    assert reading.directions == (f"towards {reading.explained}", "against it")
    assert f"effects on {reading.explained}" in repr(other)
    np.testing.assert_allclose(other.effects, -one.effects, atol=1e-6)  # two classes


def test_regression_has_the_units_of_the_prediction() -> None:
    def price(X: pd.DataFrame) -> np.ndarray:
        return np.where(X["colour"] == "red", 250_000.0, 150_000.0)

    explanation = l2x.Explainer(price, 1, training=PLAN).fit(FRAME)
    one = explanation.explain(FRAME)[0]
    (reading,) = readings(one)
    assert reading.predicted in ("250,000", "150,000")
    assert reading.directions == ("raises the prediction", "lowers it")
    assert "effects in units of the prediction" in repr(one)
    assert "class" not in one.to_dict(effects=True)[0]


def test_the_meaning_of_scores_is_one_sentence_everywhere(table: l2x.Explainer) -> None:
    def plain(text: str) -> str:
        return re.sub(r"[\s*`]+", " ", text)

    assert MEANING in plain(Explanation.__doc__ or "")
    pages = ("reference/glossary.md", "tutorials/start.md", "reference/http.md", "how-to/effects.md")
    code = ("apps/cli/_explain.py", "apps/serve/_openapi.py")
    for file in [*(ROOT / "docs" / page for page in pages), *(ROOT / "src" / "l2x" / name for name in code)]:
        assert MEANING in plain(file.read_text()), file
    assert MEANING in table.explain(FRAME)[:2].to_html()
    assert MEANING in row_html(table.explain(FRAME))


@pytest.mark.parametrize("value", [-0.5, -0.0004, 0.0, 1e-9, 0.0301, 0.99])
def test_signs_survive_rounding(value: float) -> None:
    text = amount(value, "probability")
    assert text.startswith("−") == (value < -0.0005)
    assert text.startswith("+") == (value > 0.0005)
    assert text.endswith(" pp")
