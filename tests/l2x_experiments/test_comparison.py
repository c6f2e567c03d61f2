"""What is compared."""

from __future__ import annotations

import pytest

import l2x
from l2x_experiments import comparison, imdb, mnist
from l2x_experiments.comparison import METHODS, SEEDED


def test_what_is_run() -> None:
    jobs = mnist.experiment(seeds=3).jobs
    assert len(jobs) == 2 * (3 * len(SEEDED) + len(METHODS) - len(SEEDED))
    assert len({job.group for job in jobs}) == len(jobs)  # each may go to another process
    assert {job["seed"] for job in jobs if job["method"] not in SEEDED} == {0}
    assert {job["method"] for job in mnist.experiment(seeds=2, only=["lime"]).jobs} == {"lime"}
    assert "deeplift" not in {job["method"] for job in imdb.experiment("words").jobs}
    with pytest.raises(l2x.L2XError, match="no method 'lim'; choose among l2x"):
        mnist.experiment(only=["lim"])


def test_ours_are_contenders() -> None:
    assert set(comparison.OURS) <= set(METHODS)
