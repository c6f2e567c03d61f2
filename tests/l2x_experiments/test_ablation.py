"""The ablation on a small scale: one piece at a time, records, page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from l2x_experiments import ablation, ablation_report
from l2x_experiments.ablation import RECIPES
from l2x_experiments.runner import run


def test_each_line_puts_in_what_it_says() -> None:
    text = RECIPES["xor"]["the text"]
    normalised = RECIPES["xor"]["+ batch normalisation in q"]
    assert normalised.predictor == {**text.predictor, "normalise": True}
    assert (normalised.selector, normalised.plan) == (text.selector, text.plan)
    adam = RECIPES["xor"]["+ Adam"]
    assert adam.plan.selector == replace(text.plan.selector, optimizer="adam")
    both = RECIPES["mnist"]["+ both"]
    assert both.plan.selector.choose == "last"
    assert both.predictor["normalise"]


def test_records_and_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XOR alone: the images' part is the experiment's own set-up, which test_mnist.py runs."""
    monkeypatch.setattr(ablation, "RECIPES", {"xor": RECIPES["xor"]})
    tiny = replace(ablation.QUICK, train_rows=2000, test_rows=100, paper_steps=3)
    monkeypatch.setattr(ablation, "QUICK", tiny)
    monkeypatch.setattr(ablation, "fetch_mnist", lambda *_, **__: None)
    records = run(ablation.experiment(quick=True, seeds=2), tmp_path, progress=False)
    assert len(records) == 2 * len(RECIPES["xor"])
    assert all(0 <= record["share"] <= 1 for record in records)
    page = ablation_report.report(records)
    page.write(tmp_path)
    written = (tmp_path / "ablation.md").read_text()
    assert all(f"| {name} |" in written for name in RECIPES["xor"])
