"""The experiment on explanations that cannot leak, in miniature."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from l2x_experiments import audit
from l2x_experiments.runner import run


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(audit.QUICK, train_rows=1000, value_steps=10, selector_steps=5, bits_rows=20, background=10)
    monkeypatch.setattr(audit, "QUICK", few)
    problems = {"set": [("xor", "code")], "truth": [("syn4", "code")], "small": [("syn4", "code")]}
    monkeypatch.setattr(audit, "PROBLEMS", problems)
    records = run(audit.experiment(quick=True, seeds=1), tmp_path, progress=False)
    found = [(record["kind"], record["method"]) for record in records]
    assert found == [("set", "sequential"), ("set", "l2x"), ("truth", "sequential"), ("small", "sequential")]
    assert [record["k"] for record in records.select(kind="truth")] == [5]
    assert records.select(kind="small")[0]["finding"] == "none"
    page = audit.report(records).write(tmp_path).read_text()
    assert "which is too small" in page
