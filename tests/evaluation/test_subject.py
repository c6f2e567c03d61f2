"""Who is judged: an explainer, a method, explanations, or several of a kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import l2x
from l2x.baselines import RandomK
from l2x.errors import InputError
from l2x.evaluation.evidence import SET_UP, selections_of, subject_of

X = np.zeros((7, 4))


def test_an_explainer_brings_its_k_and_its_speed(fitted: l2x.Explainer, table: np.ndarray) -> None:
    subject = subject_of(fitted, table, None, None)
    assert subject.explanation.k == 1
    assert subject.name == "l2x, value='surrogate'"
    assert subject.source is fitted
    assert 0 < (subject.explain_seconds or 0) < SET_UP


def test_a_method_and_others_with_other_seeds() -> None:
    subject = subject_of((RandomK(), RandomK(seed=1), RandomK(seed=2)), X, 2, None)
    assert subject.name == "Random k"
    assert [len(other) for other in subject.others] == [7, 7]


def test_a_quick_first_call_is_timed_again() -> None:
    class Counted(RandomK):
        calls = 0

        def explain(self, X: Any, k: int) -> l2x.Explanation:
            type(self).calls += 1
            return super().explain(X, k)

    subject_of(Counted(), X, 2, None)
    assert Counted.calls == 2


def test_precomputed_explanations_are_cut_after_k() -> None:
    first, second = RandomK().explain(X, 1), RandomK(seed=1).explain(X, 3)
    subject = subject_of([first, second], X, None, "mine")
    assert (subject.name, subject.source, subject.explain_seconds) == ("mine", None, None)
    assert [e.k for e in (subject.explanation, *subject.others)] == [1, 1]
    assert subject_of(first, X, 2, None).explanation.k == 2
    assert selections_of(second, X, 2).k == selections_of(RandomK(), X, 2).k == 2


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ([], "nothing to judge"),
    "an array": (X, "Cannot judge a ndarray"),
    "an array among others": ([RandomK().explain(X, 1), X], "Cannot judge a ndarray"),
    "other rows": (RandomK().explain(X[:5], 1), "is of 5 rows, X_test has 7"),
    "other rows among others": ([RandomK().explain(X, 1), RandomK().explain(X[:5], 1)], "X_test has 7"),
    "no k": (RandomK(), "pass k="),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str) -> None:
    given, sentence = WRONG[case]
    with pytest.raises(InputError, match=sentence):
        subject_of(given, X, None, None)
