"""The robustness experiment in miniature: every method gives a whole record, the page is drawn from them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from toy_models import people

from l2x_experiments import robustness, robustness_report
from l2x_experiments.robustness import (
    Problem,
    doubted,
    doubted_by_q,
    rest_keeps_more,
    rest_truly_keeps_more,
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
    monkeypatch.setattr(robustness_report, "PROBLEMS", problems)
    monkeypatch.setattr(robustness, "adult", lambda **_: None)
    records = run(robustness.experiment(quick=True, seeds=1), tmp_path, progress=False)
    assert len(records) == len(problems) * len(robustness.METHODS)
    for record in records:
        assert record["check"]["rows"] == (20 if record["problem"] == "people" else 90)
        assert 0 <= record["random"] <= 1
        assert np.isclose(record["advantage"]["value"], record["selection"] - record["random"])
        assert true_finding(record) in robustness_report.FINDINGS
        by_model = record["check"]["by_model"]
        assert (by_model is None) == (record["method"] == "answers out of order")
    page = robustness_report.report(records).write(tmp_path).read_text()
    assert "truly no better than chance" in page
    lines = [line[0] for line in robustness_report.rates(records).rows]
    better = {record["method"] for record in records if true_finding(record) == "better"}
    assert lines[len(robustness_report.FINDINGS) :] == [
        f"of these: {method}" for method in robustness.METHODS if method in better
    ]
    assert (tmp_path / "robustness.md").exists()


def test_columns_have_an_order_of_their_own_in_each_split() -> None:
    problem = small()
    (X, train, test), (other, *_) = (robustness.divided(problem, split) for split in (0, 1))
    assert not set(train) & set(test)
    assert sorted(X.columns) == sorted(other.columns)
    assert list(X.columns) != list(other.columns)


def test_findings() -> None:
    def record(value: float, low: float, by_model: float) -> dict[str, object]:
        estimate = {"value": by_model, "low": by_model - 0.1, "high": by_model + 0.1}
        kept = {"selection": 0.8, "complement": 0.7, "random": 0.7, "one_subset": None}
        kept |= {"over_chance": estimate, "over_complement": {"value": 0.1, "low": 0.0, "high": 0.2}}
        check = {"rows": 50, "k": 2, "features": 9, "classes": True, "varies": True}
        advantage = {"value": value, "low": low, "high": 1.0}
        check |= {"by_model": kept, "by_q": None}
        kept_truly = {"selection": 0.8, "complement": 0.7}
        return {"method": "default", "advantage": advantage, "check": check} | kept_truly

    assert true_finding(record(0.2, 0.1, 0.2)) == "better"
    assert true_finding(record(0.2, -0.1, 0.2)) == "close"
    assert true_finding(record(0.0, -0.1, 0.2)) == "no better"
    assert true_finding(record(0.2, 0.1, 0.2) | {"method": robustness.OUT_OF_ORDER}) == "nothing to find"
    assert doubted(record(0.2, 0.1, 0.05))
    assert not doubted(record(0.2, 0.1, 0.2))
    assert not doubted_by_q(record(0.2, 0.1, 0.05))
    assert not rest_keeps_more(record(0.2, 0.1, 0.2))
    assert not rest_truly_keeps_more(record(0.2, 0.1, 0.2))
    assert rest_truly_keeps_more(record(0.2, 0.1, 0.2) | {"complement": 0.9})
