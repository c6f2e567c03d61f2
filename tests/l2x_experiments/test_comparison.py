"""What is compared, and which of our recipes is called l2x."""

from __future__ import annotations

import pytest

import l2x
from l2x_experiments import comparison, imdb, mnist
from l2x_experiments.comparison import METHODS, SEEDED, with_chosen


def test_what_is_run() -> None:
    jobs = mnist.experiment(seeds=3).jobs
    assert len(jobs) == 2 * (3 * len(SEEDED) + len(METHODS) - len(SEEDED))
    assert len({job.group for job in jobs}) == len(jobs)  # each may go to another process
    assert {job["seed"] for job in jobs if job["method"] not in SEEDED} == {0}
    assert {job["method"] for job in mnist.experiment(seeds=2, only=["lime"]).jobs} == {"lime"}
    assert "deeplift" not in {job["method"] for job in imdb.experiment("words").jobs}
    with pytest.raises(l2x.L2XError, match="no method 'lim'; choose among l2x-model"):
        mnist.experiment(only=["lim"])


def test_our_recipe_is_chosen_on_validation_inputs() -> None:
    def record(method: str, seed: int, validation: float, test: float) -> dict[str, object]:
        return {"digits": [3, 8], "method": method, "seed": seed} | {
            "validation_posthoc": validation,
            "posthoc_accuracy": test,
        }

    records = [record("l2x-model", s, 0.9, 0.5) for s in (0, 1)]
    records += [record("l2x-surrogate", s, 0.8, 0.9) for s in (0, 1)]
    chosen = with_chosen(with_chosen(records, "digits"), "digits")
    ours = [(r["recipe"], r["seed"]) for r in chosen if r["method"] == "l2x"]
    assert ours == [("l2x-model", 0), ("l2x-model", 1)]
    assert len(chosen) == 6
    assert with_chosen(records[:2], "digits") == records[:2]  # one recipe alone: nothing to choose


def test_ours_are_contenders() -> None:
    assert set(comparison.OURS) <= set(METHODS)
