"""The field in miniature: every task and kind of method gives a record or a reason; the page has no gaps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_models import people

from l2x.datasets import LabelledData, small_digits
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x_experiments import adult, field, imdb, mnist
from l2x_experiments.records import Records
from l2x_experiments.runner import run

for package in ("lightgbm", "shap", "captum", "quantus"):
    pytest.importorskip(package)

WORDS = ["it", "is", "a", "film", "with", "some", "people", "who", "talk", "about", "the", "other"]
TELLING = (("awful", "dull", "poor"), ("great", "lovely", "superb"))


def reviews(n: int, seed: int) -> LabelledData:
    """Make reviews of two to four sentences, of which one has a telling word."""
    rng = np.random.default_rng(seed)
    labels, texts = rng.integers(0, 2, n), []
    for label in labels:
        sentences = [list(rng.choice(WORDS, rng.integers(3, 8))) for _ in range(rng.integers(2, 5))]
        sentences[0].append(str(rng.choice(TELLING[label])))
        texts.append(" ".join(" ".join(words).capitalize() + "." for words in sentences))
    return LabelledData(texts, labels, ("negative", "positive"))


@pytest.fixture(autouse=True)
def miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    def images(wanted: tuple[int, ...] | None = (3, 8), *, split: str = "train", **_: object) -> LabelledData:
        data = small_digits(wanted)
        X = np.zeros((len(data), 28, 28), dtype=np.uint8)
        X[:, 2:26, 2:26] = data.X.repeat(3, axis=1).repeat(3, axis=2)
        rows = slice(0, 40) if split == "test" else slice(40, None)
        return LabelledData(X[rows], data.y[rows], data.classes)

    for cache in (field.set_up, mnist._set_up, imdb.set_up):
        cache.cache_clear()
    monkeypatch.setattr(mnist, "mnist", images)
    monkeypatch.setattr(field, "digit_images", images)
    for module in (adult, field):
        monkeypatch.setattr(module, "adult" if module is adult else "census_rows", lambda **_: people(500))
    monkeypatch.setattr(adult, "EVALUATOR_ROWS", 100)
    for module in (imdb, field):
        monkeypatch.setattr(
            module, "imdb", lambda split, **_: reviews(300 if split == "train" else 40, len(split))
        )
        monkeypatch.setattr(module, "glove", lambda **_: (["film", "great"], np.ones((2, 100), np.float32)))
    short: dict[str, Any] = {
        "value_steps": 3, "selector_steps": 3, "paper_steps": 3, "evaluations": 1, "test_rows": 30,
    }  # fmt: skip
    few = field.QUICK
    budget = replace(
        few,
        sets=replace(few.sets, train_rows=600, **short, **{"model_steps": 20}),
        census=replace(few.census, **short | {"train_rows": 300}),
        digits=replace(few.digits, **short, **{"model_steps": 2}),
        reviews=replace(few.reviews, **short, **{"model_steps": 4}),
        gate_rows=600,
        few={"table": 3, "image": 2, "text": 2},
        reported={"table": (100, 30), "image": (80, 30), "text": (80, 30)},
        quantus=(2, 3, 1),
    )
    monkeypatch.setitem(field.BUDGETS, True, budget)


SOME = ("l2x", "refined", "invase", "realx", "lime-100", "shapiq-100", "tree_shap", "saliency", "random")


@pytest.mark.parametrize("task", ["switch", "Adult", "digits 3 and 8", "ten words", "one sentence"])
def test_every_task_gives_records_or_reasons(task: str, tmp_path: Path) -> None:
    records = run(field.experiment(quick=True, tasks=[task], only=SOME), tmp_path, progress=False)
    assert [record["method"] for record in records] == list(SOME)
    by_name = {record["method"]: record for record in records}
    assert all(("all" in record) != bool(record.get("reason")) for record in records)
    for name in ("l2x", "refined", "invase", "realx", "random"):
        record = by_name[name]
        assert all(0 <= share <= 1 for share in record["all"].values())
        assert ("boosted" in record["all"]) == (task in field.TABLES)
        assert record["leakage"]["finding"] in {"none", "encodes", "uncertain", "unchecked"}
        assert (record["noise"] is None) == (task in ("ten words", "one sentence"))
    assert by_name["refined"]["setup_seconds"] >= by_name["l2x"]["setup_seconds"] > 0
    assert by_name["shapiq-100"]["rows"] == by_name["l2x"]["few"]
    assert 2 <= by_name["shapiq-100"]["queries"] <= 101
    assert "tree ensemble" in by_name["tree_shap"]["reason"] if task != "Adult" else True
    if task in ("switch", "digits 3 and 8"):
        assert np.isfinite(list(by_name["l2x"]["quantus"].values())).all()
    page = field.report(records).write(tmp_path).read_text()
    assert "INVASE" in page
    assert "first of the learned methods" in page


def test_more_seeds_are_for_methods_that_learn() -> None:
    jobs = field.experiment(quick=True, seeds=2, tasks=["nested gate"]).jobs
    second = {job["method"] for job in jobs if job["seed"] == 1}
    assert "l2x" in second
    assert "kernel_shap-100" not in second
    with pytest.raises(InputError, match="no task 'gate'"):
        field.experiment(tasks=["gate"])


def test_the_nested_gate_depends_on_four_columns() -> None:
    gate, X = field.NestedGate(), np.random.default_rng(0).normal(size=(200, 25))
    truth = gate.truth(X)
    assert (truth.sum(axis=1) == 4).all()
    others = np.where(truth, X, np.random.default_rng(1).normal(size=X.shape))
    assert np.allclose(gate(X), gate(others))


def test_selected_features_rank_first() -> None:
    scores = np.array([[0.1, 3.0, -np.inf, 2.0]])
    explanation = Explanation(scores, 1, list("abcd"), chosen=np.array([[3]]))
    assert field.rank_of(explanation).tolist() == [[2, 1, 3, 0]]


def test_break_even_and_goals_come_from_the_records() -> None:
    def record(method: str, setup: float, each: float, queries: float, posthoc: float) -> dict[str, Any]:
        share = {"posthoc": posthoc, "evaluator": posthoc}
        return {"task": "switch", "method": method, "seed": 0, "setup_seconds": setup, "milliseconds": each,
                "setup_queries": 1000, "queries": queries, "all": share, "first": share,
                "rows": 100}  # fmt: skip

    records = Records(
        [record("l2x", 10.0, 1.0, 0, 0.9), record("kernel_shap-1000", 0.0, 101.0, 1000, 0.8),
         record("paper", 5.0, 1.0, 0, 0.99)]
    )  # fmt: skip
    assert field.break_even(records).rows[0] == ["switch", "l2x", "100", "1"]
    assert [goal["holds"] for goal in field.goals(records)] == [False, False]
    assert field.first_paragraph(records)[0].startswith("Missed: switch")
