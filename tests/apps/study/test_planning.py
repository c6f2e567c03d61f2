"""Planning: the power table, confirmed by simulated studies; lexicon readers and careless raters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from studies import joined, small_study

from l2x.apps.study import power_table, results, simulate
from l2x.apps.study._planning import _right, _share
from l2x.apps.study._session import next_task
from l2x.errors import InputError


def test_more_items_and_raters_find_more() -> None:
    table = power_table(items=(100, 500, 2000), raters=(1, 5))
    for row in table:
        chances = [chance for _, chance in row.chances]
        assert chances == sorted(chances)
        assert all(0 < chance <= 1 for chance in chances)
    one, five = table
    assert five.items_needed < one.items_needed
    assert five.accuracy > one.accuracy  # together raters see more
    assert all(b > a for (_, a), (_, b) in zip(one.chances, five.chances, strict=True))
    (large,) = power_table(0.1, items=(500,), raters=(5,))
    assert large.items_needed < five.items_needed / 3
    assert power_table(items=(100,), raters=(3,)) == power_table(items=(100,), raters=(3,))


def test_the_chance_is_that_of_studies_drawn_with_these_settings() -> None:
    """400 studies of 500 items with 3 raters: how many have a paired difference that a z-test finds?"""
    (row,) = power_table(raters=(3,), items=(500,))
    rng = np.random.default_rng(1)
    found, differences = 0, []
    for _ in range(400):
        ease = norm.cdf(rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 500).T)
        right = [
            _right(_share(mean, 0.1, e), 0.1, rng.random((3, 500)))
            for mean, e in zip((0.75, row.worse), ease, strict=True)
        ]
        difference = right[0] - right[1]
        differences.append(difference.mean())
        found += abs(difference.mean()) > 1.96 * difference.std() / np.sqrt(500)
    assert np.mean(differences) == pytest.approx(0.05, abs=0.006)
    assert found / 400 == pytest.approx(row.chances[0][1], abs=0.08)


@pytest.mark.parametrize("wrong", [{"difference": 0.0}, {"accuracy": 0.95}, {"difference": 0.8}])
def test_impossible_numbers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="accuracy is"):
        power_table(**wrong)


def test_the_lexicon_sees_sentiment_where_there_is_some(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", raters=5) as study:
        assert simulate(study, raters=15) == 15 * 6
        found = {one.method: one for one in results(study, simulated=True, draws=20).methods}
    assert found["ours"].accuracy.value >= 0.8
    assert found["theirs"].neutral == 1  # "thing3" says nothing
    assert found["theirs"].accuracy.value == 0


def test_the_careless_fail_checks(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", items=40, per_rater=40, checks=9, raters=9) as study:
        simulate(study, raters=2, careless=4)
        found = results(study, simulated=True, draws=20)
        readers = [one.rater.nickname for one in study.progress(simulated=True)]
    assert readers == ["careless"] * 4 + ["lexicon"] * 2
    assert {one.number for one in found.careless} <= {0, 1, 2, 3}
    assert len(found.careless) >= 3


def test_simulated_raters_are_marked_have_own_quotas_and_are_reproducible(tmp_path: Path) -> None:
    records = []
    for name in ("a.study", "b.study"):
        with small_study(tmp_path / name) as study:
            simulate(study, raters=6, seed=3)
            assert [given for _, given, _ in study.quotas()] == [0, 0, 0]
            assert [given for _, given, _ in study.quotas(simulated=True)] == [12, 12, 12]
            assert study.answers(simulated=False) == []
            assert next_task(study, joined(study)) is not None  # people's quotas are untouched
            records.append(results(study, simulated=True, draws=20).to_records())
    assert records[0] == records[1]


def test_what_the_lexicon_cannot_read(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", classes=("a", "b", "c")) as study:
        with pytest.raises(InputError, match="3 classes"):
            simulate(study, raters=1)
        assert simulate(study, raters=0, careless=2) == 12
        with pytest.raises(InputError, match="--raters or --careless"):
            simulate(study, raters=0)
