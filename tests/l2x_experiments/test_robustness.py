"""The robustness experiment in miniature: complete records, and a page made from them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from toy_models import people

from l2x_experiments import robustness
from l2x_experiments.robustness import (
    Problem,
    doubted,
    doubted_by_surrogate,
    removal_truly_better,
    removal_warned,
    true_finding,
)
from l2x_experiments.runner import run


def small() -> Problem:
    data = people(300)
    X = data.X[["age", "education-num", "capital-gain", "hours-per-week"]]
    return Problem(X, data.y, partial(LogisticRegression, max_iter=200), k=2, train_rows=200)


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = {
        "people": small,
        "digits, logistic regression": robustness.PROBLEMS["digits, logistic regression"],
    }
    monkeypatch.setattr(robustness, "PROBLEMS", problems)
    monkeypatch.setattr(robustness, "adult", lambda **_: None)
    records = run(robustness.experiment(quick=True, seeds=1), tmp_path, progress=False)
    assert len(records) == len(problems) * len(robustness.COMPARED)
    for record in records:
        assert record["check"]["rows"] == (20 if record["problem"] == "people" else 90)
        assert 0 <= record["random"] <= 1
        assert np.isclose(record["advantage"]["value"], record["selection"] - record["random"])
        assert true_finding(record) in robustness.FINDINGS
        by_model = record["check"]["by_model"]
        assert (by_model is None) == (record["method"] == "answers out of order")
    page = robustness.report(records).write(tmp_path).read_text()
    assert "truly no better than chance" in page
    lines = [line[0] for line in robustness.rates(records).rows]
    better = {record["method"] for record in records if true_finding(record) == "better"}
    assert lines[len(robustness.FINDINGS) :] == [
        f"of these: {robustness.NAMES[method]}" for method in robustness.COMPARED if method in better
    ]
    assert (tmp_path / "robustness.md").exists()


def test_each_split_has_its_own_order_of_columns() -> None:
    problem = small()
    (X, train, test), (other, *_) = (robustness.divided(problem, split) for split in (0, 1))
    assert not set(train) & set(test)
    assert sorted(X.columns) == sorted(other.columns)
    assert list(X.columns) != list(other.columns)


def test_findings() -> None:
    def record(value: float, low: float, by_model: float) -> dict[str, object]:
        estimate = {"value": by_model, "low": by_model - 0.1, "high": by_model + 0.1}
        accuracies = {"selection": 0.8, "complement": 0.7, "random": 0.7, "one_subset": None}
        accuracies |= {"over_chance": estimate, "over_complement": {"value": 0.1, "low": 0.0, "high": 0.2}}
        check = {"rows": 50, "k": 2, "features": 9, "classes": True, "varies": True}
        advantage = {"value": value, "low": low, "high": 1.0}
        check |= {"by_model": accuracies, "by_q": None}
        on_test_rows = {"selection": 0.8, "complement": 0.7}
        return {"method": "default", "advantage": advantage, "check": check} | on_test_rows

    assert true_finding(record(0.2, 0.1, 0.2)) == "better"
    assert true_finding(record(0.2, -0.1, 0.2)) == "close"
    assert true_finding(record(0.0, -0.1, 0.2)) == "no better"
    assert true_finding(record(0.2, 0.1, 0.2) | {"method": robustness.OUT_OF_ORDER}) == "nothing to find"
    assert doubted(record(0.2, 0.1, 0.05))
    assert not doubted(record(0.2, 0.1, 0.2))
    assert not doubted_by_surrogate(record(0.2, 0.1, 0.05))
    assert not removal_warned(record(0.2, 0.1, 0.2))
    assert not removal_truly_better(record(0.2, 0.1, 0.2))
    assert removal_truly_better(record(0.2, 0.1, 0.2) | {"complement": 0.9})
