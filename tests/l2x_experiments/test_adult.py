"""The Adult experiment in miniature: every method gives a whole record, and the page is drawn from them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from models import people

import l2x
import l2x.values
from l2x_experiments import adult, adult_report

pytest.importorskip("lightgbm")
pytest.importorskip("shap")
KEYS = {"method", "seed", "k", "rows", "posthoc_accuracy", "judge_accuracy", "fit_seconds", "explain_seconds"}
EXAMPLE = Path(__file__).parents[2] / "examples" / "adult.py"


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l2x.values, "HELD_MASKS", 200)
    plan = l2x.TrainingPlan(l2x.Phase(5, 1e-2), l2x.Phase(5, 1e-2), evaluations=2, progress=False)
    scale = adult.Scale(plan, learn=300, judge=100, rows=10, all_rows=50)
    output = tmp_path / "adult.json"
    records = adult.run(output, scale=scale, seeds=2, data=people(500), progress=False)
    methods = [record["method"] for record in records]
    assert methods == ["l2x", "l2x-model", "tree_shap", "kernel_shap", "random", "l2x", "l2x-model"]
    for record in records:
        assert record.keys() >= KEYS
        assert record["rows"] == 10
        assert record["card"]["k"] == 3
        assert (record.get("all_rows") == 50) == (record["method"] != "kernel_shap")
        for name in ("posthoc_accuracy", "judge_accuracy"):
            assert len(record[name]) == 5
            assert all(0 <= share <= 1 for share in record[name])
    assert adult.run(output, scale=scale, seeds=2, progress=False) == records  # nothing is run again
    page = adult_report.write(records, tmp_path).read_text()
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
