"""What raters decided, intervals that hold what they promise, and alpha as Krippendorff computes it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l2x.apps.study._statistics import UNDECIDED, Ratings, alpha, decided, human_accuracy


def counts_of(rows: list[str]) -> np.ndarray:
    """(units, values) of observers' lines; a dot is a missing value."""
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
    item: list[int], method: list[int], rater: list[int], choice: list[int], model: list[int]
) -> Ratings:
    return Ratings(*map(np.array, (item, method, rater, choice, model)), methods=max(method) + 1, classes=2)


def test_accuracy_and_paired_differences_by_hand() -> None:
    found = ratings(
        item=[0, 0, 0, 1, 1, 2, 0, 1],
        method=[0, 0, 0, 0, 0, 0, 1, 1],
        rater=[0, 1, 2, 0, 1, 2, 3, 3],
        choice=[1, 1, 0, 0, 1, -1, 1, 1],  # method 0: right, a tie, neutral; method 1: right, wrong
        model=[1, 0, 0, 1],
    )
    accuracies, differences = human_accuracy(found, draws=50)
    assert [one.value for one in accuracies] == pytest.approx([1 / 3, 1 / 2])
    assert differences[0, 1].value == pytest.approx(0)  # on items 0 and 1, which both methods have
    assert found.agrees.tolist() == [True, True, False, True, False, False, True, False]
    alone = found.without([3])
    assert np.isnan(human_accuracy(alone, draws=5)[0][1].value)
    assert human_accuracy(alone, draws=5)[0][0].value == pytest.approx(1 / 3)


def test_everybody_right_leaves_no_doubt() -> None:
    found = ratings([0, 1, 2], [0, 0, 0], [0, 1, 2], [1, 0, 1], [1, 0, 1])
    (accuracy,), _ = human_accuracy(found, draws=100)
    assert (accuracy.low, accuracy.value, accuracy.high) == (1, 1, 1)


def drawn_study(rng: np.random.Generator, *, items: int = 120, raters: int = 12, each: int = 3) -> Ratings:
    """Two methods, items of different ease, raters of different skill; every rater sees both methods."""
    model = rng.integers(0, 2, items)
    ease, skill = rng.normal(0.9, 0.9, items), rng.normal(0, 0.4, raters)
    rows = []
    for item in range(items):
        who = rng.choice(raters, 2 * each, replace=False)
        for method, group in enumerate((who[:each], who[each:])):
            for rater in group:
                right = rng.random() < 1 / (1 + np.exp(-(ease[item] + skill[rater] - 0.3 * method)))
                neutral = rng.random() < 0.1
                rows.append((item, method, rater, -1 if neutral else int(model[item] == right)))
    columns = np.array(rows).T
    return Ratings(*columns, model=model, methods=2, classes=2)


@pytest.mark.slow
def test_intervals_hold_what_they_promise() -> None:
    """Over other items and raters, 95 % intervals hold the expected value in 95 % of the studies or more: the
    bootstrap over both errs to the wide side."""
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
    # Wide enough, and not so wide that they say nothing.
    assert np.mean([e[0][0].high - e[0][0].low for e in found]) < 0.3
