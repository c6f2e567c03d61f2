"""The experiment on planted passages in miniature: the truth is known, and l2x finds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from l2x.datasets import LabelledData
from l2x_experiments import passages
from l2x_experiments.runner import run


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lime")
    pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    words = ["film", "plot", "music", "scene", "ending", "camera"]

    def sentence(first: str) -> str:
        return f"{first} {' '.join(rng.choice(words, 5))}."

    reviews = [" ".join(sentence(rng.choice(["The", "An", "Acting"])) for _ in range(4)) for _ in range(100)]
    monkeypatch.setattr(passages, "imdb", lambda *_, **__: LabelledData(reviews, np.zeros(100), ("a", "b")))
    monkeypatch.setattr(
        passages, "similarities", lambda texts: np.array([0.8 * text.startswith("Acting") for text in texts])
    )
    monkeypatch.setattr(passages, "word_vectors", lambda: (["acting"], np.ones((1, 20), dtype=np.float32)))
    budget = passages.QUICK._replace(train=200, test=40, sampled=2, value=60)
    monkeypatch.setattr(passages, "QUICK", budget)
    monkeypatch.setattr(passages, "SUBSETS", 200)
    passages.set_up.cache_clear()
    records = run(passages.experiment(quick=True, seeds=1), tmp_path, progress=False)
    setting = passages.set_up(budget)
    passages.set_up.cache_clear()
    train, unseen = (
        {text for texts in lists.X for text in texts} for lists in (setting.train, setting.unseen)
    )
    assert not train & unseen
    by_name = {record["method"]: record for record in records}
    assert by_name["l2x"]["found"] > 0.9
    assert by_name["random"]["found"] < 0.5
    assert (by_name["l2x"]["answered"], by_name["l2x"]["answered_without"]) == (1, 0)
    assert by_name["lime"]["rows"] == 2
    assert "Which passage answered" in passages.report(records).write(tmp_path).read_text()
