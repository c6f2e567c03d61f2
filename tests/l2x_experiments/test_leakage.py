"""The leakage experiment in miniature, end to end: records, rates, page."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from l2x.apps.cli import app
from l2x_experiments import leakage
from l2x_experiments.leakage import COMPARED, UNKNOWN, LeakageBudget
from l2x_experiments.runner import run

SMALL = LeakageBudget(
    train_rows=2000, test_rows=200, value_steps=5, selector_steps=5, paper_steps=5,
    quick=True, first_seed=0, verdict_seeds=2, unknown_seeds=1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leakage, "QUICK", SMALL)


def test_records_rates_and_page(tmp_path: Path) -> None:
    cards = leakage.experiment(quick=True, seeds=1, sets=["switch"], truth=False)
    records = run(cards, tmp_path, progress=False)
    assert [(r["seed"], r["method"]) for r in records] == [
        *((0, method) for method in COMPARED),
        *((1, method) for method in COMPARED if method not in UNKNOWN),
    ]
    rates = leakage.rates(records)
    assert (rates["l2x"][1], rates["paper-letter"][1]) == (2, 1)

    more = run(leakage.experiment(quick=True, seeds=1, sets=["switch"]), tmp_path, progress=False)
    assert more[: len(records)] == records[:]  # not measured again
    truths = more.select(kind="truth")
    assert len(truths) == 18
    assert truths.select(set="syn4")[0]["best_tpr"] == pytest.approx(0.9, abs=0.03)
    page = leakage.report(more).write(tmp_path).read_text()
    assert "How often the verdict errs" in page
    tables = (tmp_path / "leakage.md").read_text()
    assert tables.startswith(
        "## Switch\n\n|  | l2x | l2x, prediction-aware | L2X as released | L2X as published |"
    )
    assert (tmp_path / "figures" / "leakage.png").exists()


def test_the_command(tmp_path: Path) -> None:
    command = ["reproduce", "leakage", "--quick", "--no-truth", "--folder", str(tmp_path), "--set"]
    done = CliRunner().invoke(app, [*command, "syn4"])
    assert done.exit_code == 0, done.output
    assert "Syn4" in done.output
    wrong = CliRunner().invoke(app, [*command, "syn9"])
    assert wrong.exit_code == 1
    assert "no set 'syn9'; choose among switch, syn4" in " ".join(wrong.output.split())
