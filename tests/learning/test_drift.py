"""Histograms of training rows, and the population stability index of new ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import l2x
from l2x.features import Measurement
from l2x.learning._drift import Histogram, Reference, selection_measurements

LEVEL = 0.001


def histogram(values: np.ndarray, *, is_category: bool = False) -> Histogram:
    return Histogram.of(Measurement("x", np.asarray(values, dtype=float), is_category), "input")


NUMBERS = st.one_of(st.floats(-1e6, 1e6), st.just(float("nan")), st.sampled_from([0.0, 1.0]))


@given(arrays(float, st.integers(1, 60), elements=NUMBERS), arrays(float, 20, elements=NUMBERS))
def test_every_value_is_counted_once(trained: np.ndarray, new: np.ndarray) -> None:
    made = histogram(trained)
    assert sum(made.counts) == len(trained)
    assert len(made.counts) == made.bins
    assert made.count(new).sum() == len(new)
    assert made.count(new)[-1] == np.isnan(new).sum()


@given(st.lists(st.integers(-1, 8), min_size=1), st.lists(st.integers(-1, 12)))
def test_every_category_is_counted_once(trained: list[int], new: list[int]) -> None:
    made = histogram(np.array(trained), is_category=True)
    counts = made.count(np.array(new, dtype=float))
    assert counts.sum() == len(new)
    assert made.codes is not None
    assert counts[len(made.codes) + 1] == new.count(-1)
    assert all(counts[place] == new.count(code) for place, code in enumerate(made.codes))


def test_a_frequent_number_has_its_own_bin() -> None:
    """Else a column that is 1 in 95 % of the rows could become 0 everywhere, unnoticed."""
    made = histogram(np.array([1.0] * 95 + [0.0] * 5))
    assert made.drift(made.count(np.zeros(100)), LEVEL).changed
    assert made.drift(made.count(np.array([1.0] * 95 + [0.0] * 5)), LEVEL).psi == 0


def test_the_psi_is_symmetric_and_agrees_with_its_formula() -> None:
    p, r = np.array([500, 300, 200]), np.array([200, 300, 500])
    one = Histogram("x", "input", (), (0,), tuple(p.tolist())).drift(r, LEVEL).psi
    other = Histogram("x", "input", (), (0,), tuple(r.tolist())).drift(p, LEVEL).psi
    assert one == pytest.approx(other)
    assert one == pytest.approx(((p - r) / 1000 * np.log(p / r)).sum(), rel=0.01)  # half a row is added


def test_samples_of_the_training_distribution_are_rarely_called_changed() -> None:
    """400 checks of 8 columns at the level 0.01: 4 are expected by chance, and 12 have a chance of 0.001."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        trained, new = rng.normal(size=(8, 500)), rng.normal(size=(8, 200))
        reference = Reference(
            tuple(Histogram.of(Measurement(str(i), x), "input") for i, x in enumerate(trained))
        )
        counts = reference.count({"input": [Measurement(str(i), x) for i, x in enumerate(new)]})
        alarms += any(drift.psi > drift.by_chance for drift in reference.drifts(counts, 0.01))
    assert alarms <= 12


def test_a_shift_and_new_categories_are_noticed_by_name() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=1000), "b": rng.normal(size=1000), "c": rng.choice(["x", "y"], 1000)}
    )
    view = l2x.Columns().fit(frame)
    reference = Reference(tuple(Histogram.of(each, "input") for each in view.measurements(frame)))
    new = frame.assign(b=frame["b"] + 1, c=["z", *["x", "y"] * 2] * 200)
    drifts = reference.drifts(reference.count({"input": view.measurements(new)}), LEVEL)
    assert {drift.name for drift in drifts if drift.changed} == {"b", "c"}
    assert Reference.from_dict(reference.to_dict()) == reference


def test_texts_are_measured_by_length_and_unknown_words() -> None:
    view = l2x.Words(length=6).fit(["good film", "bad film"])
    length, unknown = view.measurements(view.check(["good film", "strange film about a dog", ""]))
    assert length.values.tolist() == [2, 5, 0]
    assert unknown.values.tolist() == [0, 0.8, 0]


def test_images_are_measured_by_brightness_contrast_and_sharpness() -> None:
    board = np.indices((4, 4)).sum(axis=0) % 2 * 255
    images = np.stack([np.zeros((4, 4)), np.full((4, 4), 255), board]).astype(np.uint8)
    view = l2x.Patches(size=2).fit(images)
    found = {each.name: each.values.tolist() for each in view.measurements(images)}
    assert found == {"brightness": [0, 1, 0.5], "contrast": [0, 0, 0.5], "sharpness": [0, 0, 2]}


def test_the_best_feature_is_compared_only_where_features_have_a_meaning_across_rows() -> None:
    scores = np.array([[0.0, 5.0, -np.inf], [1.0, 0.0, 0.0]])
    columns = l2x.Columns().fit(np.zeros((2, 3)))
    share, best = selection_measurements(columns, np.zeros((2, 3)), scores)
    assert best.values.tolist() == [1, 0]
    assert share.values[0] == pytest.approx(1 / (1 + np.exp(-5)))
    words = l2x.Words(length=3).fit(["a good film"])
    texts = words.check(["a good film", "film"])
    assert [each.name for each in selection_measurements(words, texts, scores)] == [share.name]
