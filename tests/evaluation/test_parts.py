"""The parts of a report, each by its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.baselines import PositionLeak, RandomK
from l2x.evaluation import FittedSurrogate, Reference, Report, information, posthoc_accuracy
from l2x.learning._training import Phase

if TYPE_CHECKING:
    from conftest import Tables

FEW_STEPS = l2x.TrainingPlan(
    value=Phase(40, 3e-3, batch_size=64),
    selector=Phase(20, 3e-3, batch_size=64),
    evaluations=2,
    progress=False,
)


def test_fidelity(found: Report) -> None:
    part = found["fidelity"]
    assert part["mean"].value > 0.98
    assert part["mean_removal"].value < 0.6
    assert part["mean_kl"].value < 0.1
    keys = [entry.key for entry in part.entries]
    assert keys[:4] == ["median", "median_kl", "median_removal", "random"]  # the view's own masking first
    for masking in ("mean", "resample"):  # with removal test and chance
        assert part[f"{masking}_removal"].value < part[masking].value
        assert part[f"{masking}_random"].value < part[masking].value


def test_the_evaluator(found: Report) -> None:
    assert found["evaluator"]["selection"].value > 0.95
    assert found["evaluator"]["nothing"].value < 0.6
    assert found["evaluator"]["everything"].value > found["evaluator"]["random"].value
    assert found["evaluator"]["removal"].value < 0.6
    assert found["evaluator"]["selection_loss"].value < found["evaluator"]["nothing_loss"].value


def test_information(found: Report) -> None:
    part = found["information"]
    assert part["share"].value > 0.9
    assert part["share"].value == pytest.approx(part["captured"].value / part["available"].value)
    assert [k for k, _ in found.curve] == [1, 2, 3, 4, 5]
    assert found.curve[0][1] == part["captured"]  # k is 1


def test_leakage(found: Report) -> None:
    part = found["leakage"]
    assert part["own_probe"].value > 0.95
    assert part["mask_only"].value < 0.6
    assert part["majority"].value == pytest.approx(0.5, abs=0.05)
    assert part["share"].high < 0.03
    assert 0 <= part["missed"].value < 0.1


def test_stability(found: Report) -> None:
    part = found["stability"]
    assert part["chance"].value == pytest.approx(0.2, abs=0.05)
    assert part["seeds"].value > 0.95
    assert part["noise"].value > 0.95
    assert part["randomised"].high < 0.7  # it changes with the model
    assert part["collapse"].value == 1
    assert part["distinct"].value == 1


def test_an_explanation_that_does_not_change_with_the_model_is_flagged(
    found: Report, evaluator: FittedSurrogate, fitted: l2x.Explainer, tables: Tables, short: l2x.TrainingPlan
) -> None:
    X = tables.test
    same = l2x.report(
        fitted.explain(X),
        one_column,
        X,
        X,
        evaluator=evaluator,
        reference=Reference(randomised=fitted.explain(X, k=2)),
        training=short,
    )
    meanings = [
        next(entry.meaning for entry in each["stability"].entries if entry.key == "randomised")
        for each in (found, same)
    ]
    assert meanings == ["changes with the model", "DOES NOT CHANGE WITH THE MODEL"]
    assert same["stability"]["randomised"].value == 1  # both are cut after the same k


def test_truth(found: Report) -> None:
    part = found["truth"]
    assert part["median_rank"].value == pytest.approx(1, abs=0.05)
    assert part["exact"].value > 0.95
    assert part["tpr"].value > 0.95
    assert part["fdr"].value < 0.05
    assert part["oracle_gap"].value == pytest.approx(0, abs=0.02)


def test_cost(found: Report) -> None:
    part = found["cost"]
    assert part["rows_queried"].value > 600
    assert part["fit_seconds"].value > 0
    assert part["break_even"].value > 0
    times = (2**5 - 2) * 100  # queries of Kernel SHAP for one row: subsets, each on 100 background rows
    assert part["break_even_calls"].value == part["rows_queried"].value / times
    labels = {entry.key: entry.label for entry in part.entries}
    assert labels["break_even"] == "rows until training pays off, by time"
    assert labels["break_even_calls"].strip() == "by model queries"
    speed = next(entry.meaning for entry in part.entries if entry.key == "microseconds")
    assert speed == f"{1e6 / part['microseconds'].value:,.0f} rows per second"


def test_every_number_that_rows_decide_has_an_interval(found: Report) -> None:
    for part in ("fidelity", "evaluator", "stability", "truth"):
        for entry in found[part].entries:
            if entry.key != "distinct":
                assert entry.estimate.low <= entry.estimate.value <= entry.estimate.high, entry


def test_every_part_has_a_description(found: Report) -> None:
    assert all(part.about for part in found.parts)


def test_the_numbers_are_those_of_the_public_metrics(
    found: Report, evaluator: FittedSurrogate, fitted: l2x.Explainer, tables: Tables
) -> None:
    X = tables.test
    explanation = fitted.explain(X)
    fidelity, bits = found["fidelity"], information(evaluator, X, explanation)
    assert fidelity["mean"].value == posthoc_accuracy(one_column, X, explanation)
    removal = posthoc_accuracy(one_column, X, explanation, removal=True)
    assert fidelity["mean_removal"].value == removal
    assert found["information"]["captured"].value == pytest.approx(bits.captured)
    assert found["information"]["available"].value == pytest.approx(bits.available)


def test_images() -> None:
    def bright_corner(X: np.ndarray) -> np.ndarray:
        p = (X[:, :2, :2].mean(axis=(1, 2)) > 127) * 0.9 + 0.05
        return np.stack([1 - p, p], axis=1)

    images = np.random.default_rng(0).integers(0, 256, size=(300, 4, 4)).astype(np.uint8)
    view = l2x.Patches(2).fit(images)
    methods = RandomK(features=view), RandomK(features=view, seed=1)
    found = l2x.report(list(methods), bright_corner, images[:200], images[200:], 1, training=FEW_STEPS)
    assert {"zero", "mean", "blur"} <= {entry.key for entry in found["fidelity"].entries}
    assert found["stability"]["noise"].value == 1  # the same random numbers for as many rows


def test_texts_of_different_lengths() -> None:
    def likes(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "good" in text.lower() else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    rng = np.random.default_rng(0)
    words = ["film", "plot", "actor", "long", "short", "scene"]
    texts = [" ".join(rng.choice([*words, "good"], size=rng.integers(1, 6))) for _ in range(300)]
    view = l2x.Words(length=6, vocabulary=20)
    explainer = l2x.Explainer(likes, 2, features=view, training=FEW_STEPS).fit(texts[:100])
    found = l2x.report(explainer, likes, texts[100:200], texts[200:], training=FEW_STEPS)
    assert "drop" in {entry.key for entry in found["fidelity"].entries}
    assert "noise" not in {entry.key for entry in found["stability"].entries}
    adversary = PositionLeak(likes, features=explainer.features_)
    there = np.array([len(text.split()) for text in texts[200:]])
    assert (adversary.explain(texts[200:], 2).mask.sum(axis=1) == np.minimum(2, there)).all()  # never padding


def test_chance_overlaps_with_all_of_a_text_that_has_no_other_words(short: l2x.TrainingPlan) -> None:
    def longer(texts: list[str]) -> np.ndarray:
        p = np.array([0.1 + 0.8 * (len(text) % 2) for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = ["one two", "a bc"] * 30
    method = RandomK(features=l2x.Words(length=6).fit(texts))
    found = l2x.report(method, longer, texts, texts, 3, training=short)
    assert found["stability"]["chance"].value == 1


def test_leakage_in_a_text_that_its_networks_cannot_see() -> None:
    # Word networks take the maximum over positions: they do not see which position was selected.
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["good", "bad", "film", "seen"], 8)) for _ in range(600)]

    def model(given: list[str]) -> np.ndarray:
        more = np.array([text.split().count("good") - text.split().count("bad") for text in given])
        p = 1 / (1 + np.exp(-3.0 * more))
        return np.stack([1 - p, p], axis=1)

    view = l2x.Words(length=8).fit(texts)
    adversary = PositionLeak(model, features=view, seed=0)
    plan = l2x.TrainingPlan(value=Phase(150, 1e-2, batch_size=100), evaluations=3, progress=False)
    found = l2x.report(adversary, model, texts[:400], texts[400:], 1, training=plan)
    assert found["leakage"]["mask_only"].value > 0.99
    assert found["leakage"]["own_probe"].value > 0.99
    assert found["leakage"]["share"].low > 0.2
    assert found.finding != "none"
