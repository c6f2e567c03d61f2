"""The MNIST experiment in miniature: every method gives a complete record; the page is made from records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from l2x.datasets import LabelledData, small_digits
from l2x_experiments import leakage, mnist
from l2x_experiments.methods import fitted
from l2x_experiments.runner import run

KEYS = {"method", "k", "seed", "rows", "posthoc_accuracy", "judge_accuracy", "mask_only_accuracy"} | {"patch",
    "complement_accuracy", "fit_seconds", "explain_seconds", "digits", "model_accuracy", "machine", "threads",
}  # fmt: skip


@pytest.fixture(autouse=True)
def miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use scikit-learn's digits, enlarged to MNIST's size: nothing is downloaded."""

    def enlarged(
        wanted: tuple[int, ...] | None = (3, 8), *, split: str = "train", **_: object
    ) -> LabelledData:
        data = small_digits(wanted)
        X = np.zeros((len(data), 28, 28), dtype=np.uint8)
        X[:, 2:26, 2:26] = data.X.repeat(3, axis=1).repeat(3, axis=2)
        rows = slice(0, 60) if split == "test" else slice(60, None)
        return LabelledData(X[rows], data.y[rows], data.classes)

    mnist._set_up.cache_clear()
    monkeypatch.setattr(mnist, "mnist", enlarged)
    monkeypatch.setattr(mnist, "PROBLEMS", [mnist.THREE_EIGHT])
    short = {"value_steps": 3, "selector_steps": 3, "paper_steps": 3, "model_steps": 6}
    monkeypatch.setattr(mnist, "QUICK", replace(mnist.QUICK, search_rows=4, sampling_rows=2, **short))


def test_every_method_gives_a_complete_record(tmp_path: Path) -> None:
    records = run(mnist.experiment(quick=True, seeds=1), tmp_path, progress=False)
    assert len(records) == 17
    for record in records:
        assert record.keys() >= KEYS
        for name in ("posthoc", "judge", "mask_only", "complement"):
            assert 0 <= record[f"{name}_accuracy"] <= 1
    assert records[0]["method"] == "l2x"
    assert 0 <= records[0]["validation_judge"] <= 1
    by_name = {record["method"]: record for record in records}
    assert by_name["search"]["posthoc_accuracy"] == 1
    assert (by_name["lime"]["rows"], by_name["search"]["rows"], by_name["paper"]["rows"]) == (2, 4, 60)

    page = mnist.report(records).write(tmp_path).read_text()
    assert "search per input" in page
    assert "0.958" in page
    figures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert figures >= {"mnist-examples-38-paper.svg", "mnist-accuracy-38.png"}


def test_the_parts_of_the_training_images_do_not_overlap() -> None:
    setting = mnist.set_up([3, 8], mnist.QUICK)
    parts = [
        {image.tobytes() for image in part} for part in (setting.train, setting.validation, setting.test)
    ]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]


def test_model_and_evaluator_are_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mnist.set_up([3, 8], mnist.QUICK)
    files = sorted((tmp_path / "cache" / "models").iterdir())
    assert [file.name.rpartition("-")[0] for file in files] == ["digits-38", "evaluator-38"]
    mnist._set_up.cache_clear()
    other_rows = replace(mnist.QUICK, search_rows=99, sampling_rows=99)  # no network depends on them
    second = mnist.set_up([3, 8], other_rows)
    assert sorted((tmp_path / "cache" / "models").iterdir()) == files
    X, mask = first.test, np.ones((len(first.test), 49), dtype=bool)
    assert np.array_equal(first.test_predictions, second.test_predictions)
    assert np.array_equal(first.evaluator.predict(X, mask), second.evaluator.predict(X, mask))


def test_the_setting_serves_reports_too() -> None:
    setting = leakage.three_or_eight(0, leakage.QUICK)
    images = mnist.set_up([3, 8], mnist.QUICK)
    assert np.array_equal(setting.probe_rows, images.train)  # fewer than a report would take
    assert len(setting.test) == 60
    control = fitted(setting, "position", 0)
    assert control.explain(setting.test, setting.k).mask.sum() == 60 * mnist.K
