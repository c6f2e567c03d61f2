"""The experiment on small tables in miniature."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from l2x_experiments import small
from l2x_experiments.runner import run


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightgbm")
    pytest.importorskip("shap")
    monkeypatch.setattr(small, "QUICK", replace(small.QUICK, value_steps=20, selector_steps=10))
    monkeypatch.setattr(small, "PROBLEMS", ["breast cancer, LightGBM"])
    monkeypatch.setattr(small, "COMPARED", ("l2x", "global", "random"))
    records = run(small.experiment(quick=True, seeds=1), tmp_path, progress=False)
    assert [record["method"] for record in records] == ["l2x", "global", "random"]
    for record in records:
        assert (record["k"], record["rows"]) == (5, 269)
        assert 0 <= record["judge_accuracy"] <= 1
    one, random = (records.select(method=method)[0]["subsets"] for method in ("global", "random"))
    assert one == 1 < random
    page = small.report(records).write(tmp_path).read_text()
    assert "Breast cancer, LightGBM" in page


def test_evaluators_are_never_used_on_rows_they_learned_from() -> None:
    pytest.importorskip("lightgbm")
    few = replace(small.QUICK, value_steps=5, selector_steps=5)
    setting = small.set_up("breast cancer, LightGBM", 0, few)
    (first, _), (second, _) = setting.halves
    assert not set(first) & set(second)
    assert len(first) + len(second) == len(setting.test)
    assert not set(setting.train.index) & set(setting.test.index)
