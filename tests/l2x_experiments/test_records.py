"""Records: a file that grows, queries on its content, and where and how fast something was measured."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

from l2x_experiments.records import NOTHING, Records, machine, measured_here, timed

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def records() -> Records:
    return Records(
        [
            {"method": "a", "seed": 0, "score": 1.0, "parts": {"judge": {"value": 0.5}}, "curve": [1, 2]},
            {"method": "a", "seed": 1, "score": 2.0, "parts": {"judge": None}, "curve": [3, 4]},
            {"method": "b", "seed": 0, "score": 4.0},
        ]
    )


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_the_committed_results_are_read_and_written_byte_for_byte(path: Path, tmp_path: Path) -> None:
    copy = Records(Records.load(path), tmp_path / "copy.json")
    assert len(copy) > 0
    copy.add([])
    assert (tmp_path / "copy.json").read_bytes() == path.read_bytes()


def test_every_addition_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "some.json"
    records = Records.load(path)
    assert not records
    records.add([{"seed": 0}])
    records.add([{"seed": 1}, {"seed": 2}])
    assert list(Records.load(path)) == [{"seed": 0}, {"seed": 1}, {"seed": 2}]


def test_selecting(records: Records) -> None:
    assert records.select(method="a", seed=1)[0]["score"] == 2
    assert records.has(method="b")
    assert not records.has(method="b", seed=1)
    assert not records.has(colour="red")  # an entry that no record has
    assert records.distinct("method") == ["a", "b"]
    groups = [(group[0]["seed"], group[0]["method"]) for group in records.groups(seed=[1, 0], method="ba")]
    assert groups == [(1, "a"), (0, "b"), (0, "a")]


def test_a_selection_does_not_write(records: Records, tmp_path: Path) -> None:
    records.path = tmp_path / "some.json"
    records.select(method="a").add([{"seed": 9}])
    assert not records.path.exists()


def test_numbers(records: Records) -> None:
    assert records.select(method="a").mean_sd("score", digits=2) == "1.50 ± 0.71"
    assert records.select(method="b").mean_sd("score") == "4.000"
    assert records.mean_sd("absent") == NOTHING
    assert records.values("parts", "judge", "value") == [0.5]
    assert records.values("curve", 1) == [2, 4]
    assert records.mean("curve", 0) == 2


def test_machine_and_threads() -> None:
    assert platform.python_version() in machine()
    assert measured_here() == {"threads": torch.get_num_threads(), "machine": machine()}


def test_timed() -> None:
    found, seconds = timed(lambda: "done")
    assert found == "done"
    assert 0 <= seconds < 1
