"""The experiment on sizes in miniature: sizes differ, and the page is made from the records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from l2x_experiments import sizes
from l2x_experiments.runner import run


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(sizes.QUICK, train_rows=3000, test_rows=400, value_steps=60, selector_steps=60)
    monkeypatch.setattr(sizes, "QUICK", few)
    records = run(sizes.experiment(quick=True, seeds=1, sets=["syn4"]), tmp_path, progress=False)
    (record,) = records
    assert (record["set"], record["d"], record["k"], record["rows"]) == ("syn4", 11, 5, 400)
    assert all(1 <= size <= 5 for size in record["mean_size"])
    assert record["mean_size"] == sorted(record["mean_size"])
    for name in ("posthoc_accuracy", "judge_accuracy", "complement_accuracy"):
        assert all(0 <= share <= 1 for share in record[name] + record[f"fixed_{name}"])
    assert record["card"]["mean_size"] == record["mean_size"][sizes.KEEP.index(sizes.REPORTED)]
    page = sizes.report(records).write(tmp_path).read_text()
    assert "Syn4, 11 columns" in page
    assert "Leakage with keep=0.95, seed by seed: " in page
    assert (tmp_path / "figures" / "sizes-syn4-evaluator.png").exists()


def test_what_is_run() -> None:
    assert len(sizes.experiment(seeds=3).jobs) == 3 * 14
    assert len(sizes.experiment(quick=True, seeds=1).jobs) == 8


def test_between_two_sizes_lies_their_mixture() -> None:
    assert sizes.at_size([0.5, 0.7, 0.9], 1.5) == pytest.approx(0.6)
    assert sizes.at_size([0.5, 0.7, 0.9], 3) == pytest.approx(0.9)
