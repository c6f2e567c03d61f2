"""Stand-ins: the lexicon reads words, the careless do not, and both stay marked."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import joined, small_study

from l2x.apps.study._results import results
from l2x.apps.study._session import next_task
from l2x.apps.study._simulation import simulate
from l2x.errors import InputError


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


def test_they_are_marked_have_quotas_of_their_own_and_repeat(tmp_path: Path) -> None:
    records = []
    for name in ("a.study", "b.study"):
        with small_study(tmp_path / name) as study:
            simulate(study, raters=6, seed=3)
            assert [given for _, given, _ in study.quotas()] == [0, 0, 0]
            assert [given for _, given, _ in study.quotas(simulated=True)] == [12, 12, 12]
            assert study.answers(simulated=False) == []
            assert next_task(study, joined(study)) is not None  # everything is still wanted of people
            records.append(results(study, simulated=True, draws=20).to_records())
    assert records[0] == records[1]


def test_what_the_lexicon_cannot_read(tmp_path: Path) -> None:
    with small_study(tmp_path / "a.study", classes=("a", "b", "c")) as study:
        with pytest.raises(InputError, match="texts of two classes"):
            simulate(study, raters=1)
        assert simulate(study, raters=0, careless=2) == 12
        with pytest.raises(InputError, match="nobody to simulate"):
            simulate(study, raters=0)
