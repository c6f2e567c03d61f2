"""The ablation in miniature: one setting at a time, records, page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from l2x_experiments import ablation
from l2x_experiments.ablation import RECIPES
from l2x_experiments.runner import run


def test_each_recipe_changes_what_its_name_says() -> None:
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
    """Only XOR: the part with images is the set-up of MNIST, which test_mnist.py runs."""
    monkeypatch.setattr(ablation, "RECIPES", {"xor": RECIPES["xor"]})
    tiny = replace(ablation.QUICK, train_rows=2000, test_rows=100, paper_steps=3)
    monkeypatch.setattr(ablation, "QUICK", tiny)
    monkeypatch.setattr(ablation, "fetch_mnist", lambda *_, **__: None)
    records = run(ablation.experiment(quick=True, seeds=2), tmp_path, progress=False)
    assert len(records) == 2 * len(RECIPES["xor"])
    assert all(0 <= record["share"] <= 1 for record in records)
    page = ablation.report(records)
    page.write(tmp_path)
    written = (tmp_path / "ablation.md").read_text()
    assert all(f"| {ablation.RECIPE_NAMES.get(name, name)} |" in written for name in RECIPES["xor"])
