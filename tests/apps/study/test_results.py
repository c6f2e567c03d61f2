"""Results, checked by hand on a small study, of people or of simulated raters; intervals and alpha."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from studies import answer_all, joined, small_study

from l2x.apps.study._planning import simulate
from l2x.apps.study._results import UNDECIDED, Ratings, alpha, decided, human_accuracy, results
from l2x.apps.study._session import give_answer, next_task
from l2x.errors import InputError


def test_by_hand(tmp_path: Path) -> None:
    """Three raters always choose "positive", which the model predicts for every other item."""
    with small_study(tmp_path / "a.study", raters=1) as study:
        for _ in range(3):
            answer_all(study, joined(study), 1)
        found = results(study, draws=50)
    assert (found.raters, found.answers, found.simulated, found.careless) == (3, 18, False, [])
    for one in found.methods:
        assert (one.items, one.answers) == (6, 6)
        assert one.accuracy.value == one.careful.value == one.single == 0.5
        assert (one.neutral, one.posthoc, one.evaluator) == (0, 1, 0.5)
        assert one.confusion.tolist() == [[0, 3, 0], [0, 3, 0]]
        assert one.seconds >= 0
    assert [d.difference.value for d in found.differences] == [0, 0, 0]
    assert sum(part.answers for part in found.learning) == 18
    records = found.to_records()
    assert [record["method"] for record in records] == ["ours", "theirs", "whole"]
    assert records[0]["human_accuracy"] == 0.5
    assert records[0]["simulated"] is False


def test_undecided_items_count_as_not_agreed(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", methods=("ours",), raters=2) as study:
        answer_all(study, joined(study), 0)
        answer_all(study, joined(study), 1)
        (one,) = results(study, draws=20).methods
    assert one.accuracy.value == 0
    assert one.confusion[:, -1].tolist() == [3, 3]
    assert one.single == 0.5


def test_careless_raters_are_named_and_left_out(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", methods=("ours",), raters=3, checks=3) as study:
        for wrong in (False, False, True):
            rater = joined(study)
            while (task := next_task(study, rater)) is not None:
                words = "" if task.content is None else task.content["phrases"][0]
                right = (
                    int(words in ("great", "lovely", "superb")) if task.expected is None else task.expected
                )
                give_answer(study, rater, task.position, task.attempt, 1 - right if wrong else right)
        found = results(study, draws=50)
    assert [(one.number, one.passed, one.checks) for one in found.careless] == [(2, 0, 3)]
    assert found.methods[0].careful.value == 1
    assert found.methods[0].single == pytest.approx(2 / 3)
    assert found.methods[0].alpha < 1


def test_people_and_simulated_raters_are_never_counted_together(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study") as study:
        with pytest.raises(InputError, match="no answers of people yet"):
            results(study)
        simulate(study, raters=3)
        with pytest.raises(InputError, match="no answers of people yet"):
            results(study)
        before = results(study, simulated=True, draws=20)
        answer_all(study, joined(study), 0)
        assert results(study, draws=20).answers == 6
        after = results(study, simulated=True, draws=20)
    assert before.to_records() == after.to_records()
    assert np.isnan(after.methods[0].seconds)  # nobody took any time
    assert all(record["simulated"] for record in after.to_records())


def counts_of(rows: list[str]) -> np.ndarray:
    """Return (units, values) counts of observers' lines; a dot is a missing value."""
    values = sorted(set("".join(rows)) - {"."})
    return np.array([[sum(row[u] == v for row in rows) for v in values] for u in range(len(rows[0]))])


# K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), examples A, B and C.
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["0100000010", "1110010000"], 0.095),
        (["aabbdcccedda", "babbbcccedd" + "d"], 0.692),
        (["123321412...", "1233224125.3", ".3332342251.", "12332441251."], 0.743),
    ],
)
def test_krippendorffs_own_examples(rows: list[str], expected: float) -> None:
    assert round(alpha(counts_of(rows)), 3) == expected


def test_alpha_where_there_is_nothing_to_compare() -> None:
    assert np.isnan(alpha(np.array([[1, 0], [0, 1]])))  # one rater each
    assert np.isnan(alpha(np.array([[2, 0], [3, 0]])))  # one answer only
    assert alpha(np.array([[3, 0], [0, 3]])) == 1


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=9))
def test_two_classes_are_decided_by_the_papers_mean(votes: list[int]) -> None:
    """+1 for positive, -1 for negative, 0 for neutral: the sign of the mean."""
    counts = np.array([[votes.count(-1), votes.count(1), votes.count(0)]])
    expected = {1.0: 1, -1.0: 0, 0.0: UNDECIDED}[float(np.sign(np.mean(votes)))]
    assert decided(counts).tolist() == [expected]


def test_any_number_of_classes() -> None:
    assert decided(np.array([[3, 2, 2, 9], [2, 2, 1, 0], [0, 0, 0, 4]])).tolist() == [0, UNDECIDED, UNDECIDED]


def ratings(
    item: list[int], method: list[int], rater: list[int], choice: list[int], predicted: list[int]
) -> Ratings:
    columns = map(np.array, (item, method, rater, choice, predicted))
    return Ratings(*columns, methods=max(method) + 1, classes=2)


def test_accuracy_and_paired_differences_by_hand() -> None:
    found = ratings(
        item=[0, 0, 0, 1, 1, 2, 0, 1],
        method=[0, 0, 0, 0, 0, 0, 1, 1],
        rater=[0, 1, 2, 0, 1, 2, 3, 3],
        choice=[1, 1, 0, 0, 1, -1, 1, 1],  # method 0: right, a tie, neutral; method 1: right, wrong
        predicted=[1, 0, 0, 1],
    )
    accuracies, differences = human_accuracy(found, draws=50)
    assert [one.value for one in accuracies] == pytest.approx([1 / 3, 1 / 2])
    assert differences[0, 1].value == pytest.approx(0)  # on items 0 and 1, which both methods have
    assert found.agrees.tolist() == [True, True, False, True, False, False, True, False]
    alone = found.without([3])
    assert np.isnan(human_accuracy(alone, draws=5)[0][1].value)
    assert human_accuracy(alone, draws=5)[0][0].value == pytest.approx(1 / 3)


def test_no_uncertainty_if_every_answer_is_right() -> None:
    found = ratings([0, 1, 2], [0, 0, 0], [0, 1, 2], [1, 0, 1], [1, 0, 1])
    (accuracy,), _ = human_accuracy(found, draws=100)
    assert (accuracy.low, accuracy.value, accuracy.high) == (1, 1, 1)


def drawn_study(rng: np.random.Generator, *, items: int = 120, raters: int = 12, each: int = 3) -> Ratings:
    """Two methods, items of different ease, raters of different skill; every rater sees both methods."""
    predicted = rng.integers(0, 2, items)
    ease, skill = rng.normal(0.9, 0.9, items), rng.normal(0, 0.4, raters)
    rows = []
    for item in range(items):
        who = rng.choice(raters, 2 * each, replace=False)
        for method, group in enumerate((who[:each], who[each:])):
            for rater in group:
                right = rng.random() < 1 / (1 + np.exp(-(ease[item] + skill[rater] - 0.3 * method)))
                neutral = rng.random() < 0.1
                rows.append((item, method, rater, -1 if neutral else int(predicted[item] == right)))
    columns = np.array(rows).T
    return Ratings(*columns, predicted=predicted, methods=2, classes=2)


@pytest.mark.slow
def test_intervals_hold_what_they_promise() -> None:
    """95 % intervals contain the expected value in at least 95 % of studies; they are conservative."""
    rng = np.random.default_rng(0)
    found = [human_accuracy(drawn_study(rng), draws=150) for _ in range(60)]
    truth = [human_accuracy(drawn_study(rng, items=3000, raters=400), draws=0) for _ in range(3)]
    for method in (0, 1):
        expected = np.mean([t[0][method].value for t in truth])
        held = [e[0][method].low <= expected <= e[0][method].high for e in found]
        assert np.mean(held) >= 0.88
    expected = np.mean([t[1][0, 1].value for t in truth])
    assert expected > 0.02
    held = [e[1][0, 1].low <= expected <= e[1][0, 1].high for e in found]
    assert np.mean(held) >= 0.88
    # Wide enough, and not too wide to be useful.
    assert np.mean([e[0][0].high - e[0][0].low for e in found]) < 0.3
