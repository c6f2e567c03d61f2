"""The IMDB experiments in miniature: every method gives a whole record, and the pages are drawn from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import l2x.values
from l2x.datasets.imdb import TextData
from l2x_experiments import bench, imdb, imdb_report, reviews

KEYS = {"method", "k", "seed", "rows", "posthoc_accuracy", "judge_accuracy", "mask_only_accuracy"} | {
    "complement_accuracy", "fit_seconds", "explain_seconds", "model_accuracy", "machine", "threads",
}  # fmt: skip
TELLING = (("awful", "dull", "poor"), ("great", "lovely", "superb"))
FILLING = ["it", "is", "a", "film", "with", "some", "people", "who", "talk", "about", "the", "other"]


def fabricated(n: int, seed: int) -> TextData:
    """Reviews of a few sentences with one or two telling words among others that say nothing."""
    rng = np.random.default_rng(seed)
    texts, labels = [], rng.integers(0, 2, n)
    for label in labels:
        sentences = [list(rng.choice(FILLING, rng.integers(3, 9))) for _ in range(rng.integers(2, 6))]
        for _ in range(rng.integers(1, 3)):
            sentences[rng.integers(len(sentences))].append(str(rng.choice(TELLING[label])))
        texts.append(" ".join(" ".join(words).capitalize() + "." for words in sentences))
    return TextData(texts, labels, ("negative", "positive"))


@pytest.fixture
def miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> imdb.Scale:
    def small(split: str, **_: object) -> TextData:
        return fabricated(400, 0) if split == "train" else fabricated(60, 1)

    def vectors(**_: object) -> tuple[list[str], np.ndarray]:
        return ["film", "great"], np.ones((2, 100), dtype=np.float32)

    imdb.set_up.cache_clear()
    monkeypatch.setenv("L2X_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(l2x.values, "HELD_MASKS", 200)
    for module in (imdb, imdb_report):
        monkeypatch.setattr(module, "imdb", small)
    monkeypatch.setattr(imdb, "glove", vectors)
    return imdb.Scale(steps=3, some_rows=4, slow_rows=2, epochs=50)


@pytest.mark.parametrize("problem", ["words", "sentences"])
def test_every_method_gives_a_whole_record(problem: Any, miniature: imdb.Scale, tmp_path: Path) -> None:
    records = [imdb.run_task(task, miniature, threads=1) for task in imdb.tasks(problem, seeds=1)]
    for record in records:
        assert record.keys() >= KEYS
        for name in ("posthoc", "judge", "mask_only", "complement"):
            assert 0 <= record[f"{name}_accuracy"] <= 1
    by_name = {record["method"]: record for record in records}
    assert by_name["taylor"]["model_accuracy"] > 0.9
    # A search that is told the answer finds a telling word, and so does Taylor on so simple a model.
    assert by_name["search"]["posthoc_accuracy"] == 1
    assert by_name["taylor"]["posthoc_accuracy"] > 0.9
    assert (by_name["lime"]["rows"], by_name["search"]["rows"], by_name["paper"]["rows"]) == (2, 4, 60)

    records = bench.with_chosen(json.loads(json.dumps(records)), "problem")
    assert records[0]["method"] == "l2x"
    page = imdb_report.write(records, problem, tmp_path / "results").read_text()
    assert "L2X, as in the paper" in page
    assert {"words": "0.908", "sentences": "0.849"}[problem] in page
    assert (tmp_path / "results" / "figures" / f"imdb-{problem}.png").exists()


def test_what_is_run() -> None:
    todo = imdb.tasks("words", seeds=3)
    assert len(todo) == 3 * len(imdb.LEARNED) + len(imdb.FIXED) == len(set(todo))
    assert {task.seed for task in todo if task.method in imdb.FIXED} == {0}


def test_an_interrupted_run_goes_on_where_it_stopped(miniature: imdb.Scale, tmp_path: Path) -> None:
    done = [imdb.Task("words", 0, method) for method in imdb.LEARNED]
    output = tmp_path / "imdb-words.json"
    output.write_text(json.dumps([task.key for task in done]))
    records = bench.run_tasks(output, done, lambda _: {}, first=[], problem="problem", label="")
    assert [record["method"] for record in records] == list(imdb.LEARNED)


def test_empty_sentences_are_skipped() -> None:
    """A review of which one sentence is left reads like that sentence alone."""
    torch.manual_seed(0)
    network = reviews.SentenceNetwork(20).eval()
    ids = torch.randint(1, 20, (3, 4, 6))
    one = torch.zeros_like(ids)
    one[:, 2] = ids[:, 2]
    alone = torch.zeros_like(ids)
    alone[:, 0] = ids[:, 2]
    with torch.no_grad():
        assert torch.allclose(network(one), network(alone), atol=1e-6)
        assert torch.isfinite(network(torch.zeros_like(ids))).all()


def test_only_windows_that_hold_a_word_are_computed() -> None:
    """The word network equals the plain convolution over all positions, where there is padding."""
    torch.manual_seed(0)
    network = reviews.WordNetwork(30).eval()
    ids = torch.randint(1, 30, (5, 12))
    ids[:, 8:] = 0
    ids[0, 2:5] = 0
    with torch.no_grad():
        x, linear = network.embedding(ids), network.convolution.linear
        filters = linear.weight.view(-1, x.shape[2], 3)
        plain = torch.nn.functional.conv1d(x.transpose(1, 2), filters, linear.bias, padding=1).amax(dim=2)
        assert torch.allclose(network.convolution(x, ids != 0).maximum(), plain, atol=1e-6)
