"""`still_valid`: a swapped model is stale, shifted inputs drift, and the rest is valid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest
from toy_models import first_column, one_column

import l2x
from l2x.errors import InputError
from l2x.learning import Estimate, Expectation, Tally, exact_interval


@pytest.fixture(scope="module")
def new() -> np.ndarray:
    return np.random.default_rng(7).normal(size=(400, 5))


def test_an_unchanged_model_and_the_same_distribution_are_valid(
    fitted: l2x.Explainer, new: np.ndarray
) -> None:
    validity = fitted.still_valid(new)
    assert validity.status == "valid"
    assert validity.columns == ()
    assert validity.rows == len(new)
    assert validity.confirmed is not None
    assert validity.confirmed.low <= fitted.score(new) <= validity.confirmed.high
    assert str(validity).startswith("valid\n")
    assert "400 new rows" in str(validity)


def test_a_swapped_model_is_stale(fitted: l2x.Explainer, new: np.ndarray) -> None:
    validity = fitted.with_model(first_column).still_valid(new)
    assert validity.status == "stale"
    assert validity.columns == ()
    assert validity.chance is not None
    assert validity.chance < 1e-9
    assert "stale: fit" in str(validity)


def test_shifted_columns_drift_and_are_named(fitted: l2x.Explainer, new: np.ndarray) -> None:
    validity = fitted.still_valid(new + np.array([0, 0, 0, 2, -2]))
    assert validity.status == "drifting"
    assert set(validity.columns) == {"x3", "x4"}
    assert all(f"{name} (PSI " in str(validity) for name in validity.columns)


def test_the_queries_are_limited(fitted: l2x.Explainer, new: np.ndarray) -> None:
    queried = 0

    def model(X: np.ndarray) -> np.ndarray:
        nonlocal queried
        queried += len(X)
        return one_column(X)

    validity = fitted.with_model(model).still_valid(new, rows=50)
    assert validity.rows == 50
    assert queried <= 2 * 50 + 2  # the adapter may try a row


def test_it_survives_saving_and_is_json(fitted: l2x.Explainer, new: np.ndarray, tmp_path: Path) -> None:
    loaded = l2x.load(fitted.save(tmp_path / "x.l2x"), model=one_column)
    assert loaded.fitted_at_ == fitted.fitted_at_
    one, two = (json.loads(json.dumps(each.still_valid(new).to_dict())) for each in (fitted, loaded))
    assert one == two
    assert one["status"] == "valid"
    assert {drift["role"] for drift in one["drifts"]} == {"input", "prediction", "selection"}


def test_a_regression_is_verified_within_the_error_of_fit(tiny: l2x.TrainingPlan, new: np.ndarray) -> None:
    X = np.random.default_rng(0).normal(size=(600, 5))
    explainer = l2x.Explainer(lambda X: 3 * X[:, 0] + X[:, 1], k=1, training=tiny).fit(X)
    check = explainer.check_.by_model
    assert check is not None
    assert check.confirmed is not None
    assert 0.9 <= check.confirmed < 0.95
    validity = explainer.still_valid(new)
    assert validity.status == "valid"
    assert f"within {check.tolerance:.3g}" in str(validity)
    assert explainer.with_model(lambda X: 3 * X[:, 4] + X[:, 1]).still_valid(new).status == "stale"


def test_texts_without_a_change_in_the_model(tiny: l2x.TrainingPlan) -> None:
    rng = np.random.default_rng(0)

    def texts(words: list[str], n: int) -> list[str]:
        return [" ".join(rng.choice(words, 5)) for _ in range(n)]

    def mood(texts: list[str]) -> np.ndarray:
        p = np.array([0.5 + 0.45 * np.sign(text.count("good") - text.count("bad")) for text in texts])
        return np.stack([1 - p, p], axis=1)

    words = ["good", "bad", "film", "actor", "plot"]
    explainer = l2x.Explainer(mood, k=2, features=l2x.Words(length=5), training=tiny).fit(texts(words, 400))
    same = explainer.still_valid(texts(words, 200))
    assert same.status == "valid"
    assert any("not by meaning" in note for note in same.notes)
    foreign = explainer.still_valid(texts([*words, "Schauspieler", "Handlung", "Regie", "und"], 200))
    assert "share of unknown words" in foreign.columns


def test_without_queries_in_fit_the_user_gives_the_expected_share(
    table: np.ndarray, tiny: l2x.TrainingPlan, new: np.ndarray
) -> None:
    explainer = l2x.Explainer(one_column, k=1, training=tiny, queries=0).fit(table)
    unknown = explainer.still_valid(new)
    assert unknown.expected is None
    assert any("expected=" in note for note in unknown.notes)
    assert explainer.still_valid(new, expected=0.9).status == "valid"
    swapped = explainer.with_model(first_column)
    assert swapped.still_valid(new).status != "stale"  # cannot be known
    assert swapped.still_valid(new, expected=0.9).status == "stale"


def test_too_few_rows_and_wrong_shares_are_errors(fitted: l2x.Explainer, new: np.ndarray) -> None:
    with pytest.raises(InputError, match="12 rows"):
        fitted.still_valid(new[:12])
    with pytest.raises(InputError, match=r"rows is 5\b"):
        fitted.still_valid(new, rows=5)
    with pytest.raises(InputError, match=r"expected is 90\b"):
        fitted.still_valid(new, expected=90)
    with pytest.raises(InputError, match="no model"):
        fitted.with_model(None).still_valid(new)


def test_a_small_loss_is_drifting_and_no_loss_by_chance_is_an_alarm(fitted: l2x.Explainer) -> None:
    examiner = replace(fitted.examiner(), expectation=Expectation(0.95, 1000, None, True))
    statuses = {
        confirmed: examiner.conclude(Tally(10_000, confirmed)).status
        for confirmed in (9500, 9400, 9200, 8900)
    }
    assert statuses == {9500: "valid", 9400: "valid", 9200: "drifting", 8900: "stale"}
    assert examiner.conclude(Tally(40, 35)).status == "valid"  # seven points, but by chance


def test_false_alarms_are_as_rare_as_stated(fitted: l2x.Explainer) -> None:
    """Exact: the sum over all outcomes of 200 rows, where fit found 950 of 1,000, of those called stale."""
    from scipy.stats import binom

    examiner = replace(fitted.examiner(), expectation=Expectation(0.95, 1000, None, True))
    alarmed = [c for c in range(201) if examiner.conclude(Tally(200, c)).status != "valid"]
    assert 0 < binom.pmf(alarmed, 200, 0.95).sum() <= 0.001


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (7, 10), (10, 10), (95, 100)])
def test_the_interval_is_that_of_clopper_and_pearson(successes: int, n: int) -> None:
    found, expected = exact_interval(successes, n), binomtest(successes, n).proportion_ci(0.95, "exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert np.isnan(exact_interval(0, 0).value)


def test_tallies_add_up(fitted: l2x.Explainer, new: np.ndarray) -> None:
    examiner = fitted.examiner()
    parts = [examiner.count(part) + examiner.verify(part) for part in (new[:150], new[150:])]
    both, whole = parts[0] + parts[1], examiner.count(new) + examiner.verify(new)
    assert (both.rows, both.confirmed) == (whole.rows, whole.confirmed)
    assert both.counts.keys() == whole.counts.keys()
    assert all((both.counts[key] == whole.counts[key]).all() for key in whole.counts)
    assert isinstance(examiner.conclude(both).confirmed, Estimate)


def test_a_model_that_is_more_certain_about_its_own_rows_is_no_alarm(tiny: l2x.TrainingPlan) -> None:
    """Explainers are often fitted on the rows that trained the model, about which it is too certain."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=(600, 5))
    seen = {row.tobytes() for row in own}

    def model(X: np.ndarray) -> np.ndarray:
        known = np.array([row.tobytes() in seen for row in np.ascontiguousarray(X)])
        p = 0.5 + np.sign(X[:, 2]) * np.where(known, 0.49, 0.3 + 0.1 * np.tanh(X[:, 1]))
        return np.stack([1 - p, p], axis=1)

    explainer = l2x.Explainer(model, k=1, training=tiny).fit(own)
    validity = explainer.still_valid(rng.normal(size=(400, 5)))
    certainty = validity.drifts[0]
    assert certainty.name == "probability of the predicted class"
    assert certainty.psi > 1
    assert (validity.status, validity.changed) == ("valid", ())
    assert f"PSI {certainty.psi:.2f}" in str(validity)
