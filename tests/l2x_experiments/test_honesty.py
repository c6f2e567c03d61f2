"""The honesty experiment end to end on a small scale: records, resuming, rates, page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from l2x.cli import app
from l2x_experiments import honesty, honesty_report
from l2x_experiments.honesty import CARD_METHODS, Scale


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = Scale(2000, 200, 5, 5, 5, first_seed=0, verdict_seeds=2, paper_seeds=1, dimensions=(11,))
    monkeypatch.setattr(Scale, "quick", classmethod(lambda cls: scale))


def test_records_resume_rates_and_page(small: None, tmp_path: Path) -> None:
    path = tmp_path / "honesty.json"
    records = honesty.run(path, quick=True, sets=["switch"], with_truth=False, progress=False)
    assert [(r["seed"], r["method"]) for r in records] == [
        *((0, method) for method in CARD_METHODS),
        *((1, method) for method in CARD_METHODS if method != "paper"),
    ]
    assert json.loads(path.read_text()) == records
    assert honesty.rates(records)["l2x"][1] == 2
    assert honesty.rates(records)["paper"][1] == 1

    more = honesty.run(path, quick=True, sets=["switch"], progress=False)
    assert more[: len(records)] == records  # not measured again
    truths = [r for r in more if r["kind"] == "truth"]
    assert len(truths) == 12
    assert next(r for r in truths if r["set"] == "syn4")["best_tpr"] == pytest.approx(0.9, abs=0.03)
    page = honesty_report.write(more, tmp_path).read_text()
    assert "How often the verdict errs" in page
    assert "## Report cards: Switch" in (tmp_path / "honesty.md").read_text()
    assert (tmp_path / "figures" / "honesty.png").exists()


def test_the_command(small: None, tmp_path: Path) -> None:
    folder = ["--folder", str(tmp_path)]
    done = CliRunner().invoke(
        app, ["reproduce", "honesty", "--quick", "--set", "syn4", "--no-truth", *folder]
    )
    assert done.exit_code == 0, done.output
    assert "Report cards" in done.output
    wrong = CliRunner().invoke(app, ["reproduce", "honesty", "--quick", "--set", "syn9", *folder])
    assert wrong.exit_code == 2
    assert "syn9" in wrong.output
