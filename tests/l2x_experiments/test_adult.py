"""The Adult experiment in miniature: every method gives a complete record; the page is made from records."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from toy_models import people

from l2x.datasets import LabelledData
from l2x_experiments import adult
from l2x_experiments.runner import run

pytest.importorskip("lightgbm")
pytest.importorskip("shap")
KEYS = {"method", "seed", "k", "rows", "posthoc_accuracy", "judge_accuracy", "fit_seconds", "explain_seconds"}
EXAMPLE = Path(__file__).parents[2] / "examples" / "adult.py"


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(**_: object) -> LabelledData:
        return people(500)

    rows = {"train_rows": 300, "sampling_rows": 10, "test_rows": 50}
    short = {"value_steps": 5, "selector_steps": 5, "evaluations": 2}
    monkeypatch.setattr(adult, "adult", few)
    monkeypatch.setattr(adult, "EVALUATOR_ROWS", 100)
    monkeypatch.setattr(adult, "QUICK", replace(adult.QUICK, **rows, **short))
    records = run(adult.experiment(quick=True, seeds=2), tmp_path, progress=False)
    methods = [record["method"] for record in records]
    ours = ["l2x", "l2x-told", "l2x-surrogate", "l2x-model"]
    assert methods == [*ours, "tree_shap", "kernel_shap", "random", *ours]
    for record in records:
        assert record.keys() >= KEYS
        assert record["rows"] == 10
        assert record["card"]["k"] == 3
        assert (record.get("all_rows") == 50) == (record["method"] != "kernel_shap")
        for name in ("posthoc_accuracy", "judge_accuracy"):
            assert len(record[name]) == 5
            assert all(0 <= share <= 1 for share in record[name])
    page = adult.report(records).write(tmp_path).read_text()
    assert "Kernel SHAP" in page
    assert page.count("<svg ") == 2
    assert (tmp_path / "figures" / "adult-posthoc.svg").exists()


def test_example() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    spec = importlib.util.spec_from_file_location("adult_example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    explainer, explanation = example.explain_people(people(1500), k=2)
    assert len(explanation) == 1000
    assert explainer.score(explanation.inputs) > 0.9
