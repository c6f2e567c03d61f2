"""The IMDB experiments in miniature: every method gives a complete record; pages are made from records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l2x.datasets import LabelledData
from l2x_experiments import imdb
from l2x_experiments.runner import run

KEYS = {"method", "k", "seed", "rows", "posthoc_accuracy", "judge_accuracy", "mask_only_accuracy"} | {
    "complement_accuracy", "fit_seconds", "explain_seconds", "model_accuracy", "machine", "threads",
}  # fmt: skip
TELLING = (("awful", "dull", "poor"), ("great", "lovely", "superb"))
FILLING = ["it", "is", "a", "film", "with", "some", "people", "who", "talk", "about", "the", "other"]


def fabricated(n: int, seed: int) -> LabelledData:
    """Make reviews of a few sentences with one or two telling words among neutral ones."""
    rng = np.random.default_rng(seed)
    texts, labels = [], rng.integers(0, 2, n)
    for label in labels:
        sentences = [list(rng.choice(FILLING, rng.integers(3, 9))) for _ in range(rng.integers(2, 6))]
        for _ in range(rng.integers(1, 3)):
            sentences[rng.integers(len(sentences))].append(str(rng.choice(TELLING[label])))
        texts.append(" ".join(" ".join(words).capitalize() + "." for words in sentences))
    return LabelledData(texts, labels, ("negative", "positive"))


@pytest.fixture(autouse=True)
def miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(split: str, **_: object) -> LabelledData:
        return fabricated(400, 0) if split == "train" else fabricated(60, 1)

    def vectors(**_: object) -> tuple[list[str], np.ndarray]:
        return ["film", "great"], np.ones((2, 100), dtype=np.float32)

    imdb.set_up.cache_clear()
    monkeypatch.setattr(imdb, "imdb", small)
    monkeypatch.setattr(imdb, "glove", vectors)
    short = {"value_steps": 3, "selector_steps": 3, "paper_steps": 3, "model_steps": 12}
    monkeypatch.setattr(imdb, "QUICK", replace(imdb.QUICK, search_rows=4, sampling_rows=2, **short))


@pytest.mark.parametrize("problem", ["words", "sentences"])
def test_every_method_gives_a_complete_record(problem: Any, tmp_path: Path) -> None:
    records = run(imdb.experiment(problem, quick=True, seeds=1), tmp_path, progress=False)
    for record in records:
        assert record.keys() >= KEYS
        for name in ("posthoc", "judge", "mask_only", "complement"):
            assert 0 <= record[f"{name}_accuracy"] <= 1
    assert records[0]["method"] == "l2x"
    by_name = {record["method"]: record for record in records}
    assert by_name["taylor"]["model_accuracy"] > 0.9
    # A prediction-aware search finds a telling word, and so does Taylor on so simple a model.
    assert by_name["search"]["posthoc_accuracy"] == 1
    assert by_name["taylor"]["posthoc_accuracy"] > 0.9
    assert (by_name["lime"]["rows"], by_name["search"]["rows"], by_name["paper"]["rows"]) == (2, 4, 60)

    # For studies with people: the selections, and three classes of each review.
    k = imdb.K[problem]
    for record in records:
        items = record["items"]
        assert len(items["selections"]) == record["rows"]
        assert all(0 < len(selected) <= k for selected in items["selections"])
        same = [a == b for a, b in zip(items["answers"], items["posthoc"], strict=True)]
        assert np.mean(same) == pytest.approx(record["posthoc_accuracy"])
        same = [a == b for a, b in zip(items["answers"], items["judge"], strict=True)]
        assert np.mean(same) == pytest.approx(record["judge_accuracy"])

    assert (by_name["taylor"]["common_words"] is None) == (problem == "sentences")
    page = imdb.report(records).write(tmp_path).read_text()
    assert "L2X as released" in page
    assert {"words": "0.908", "sentences": "0.849"}[problem] in page
    assert ("selected most often" in page) == (problem == "words")
    assert (tmp_path / "figures" / f"imdb-{problem}.png").exists()


def test_negations_are_no_filler() -> None:
    assert imdb.filler(["The", "no", "not", "Nothing", "great", "and"]) == 3
