"""The MNIST experiment in miniature: every method gives a whole record, and the page is drawn from them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import l2x
import l2x.values
from l2x.datasets import ImageData, small_digits
from l2x_experiments import bench, digits, mnist, mnist_report

KEYS = {"method", "k", "seed", "rows", "posthoc_accuracy", "judge_accuracy", "mask_only_accuracy"} | {
    "complement_accuracy", "fit_seconds", "explain_seconds", "digits", "model_accuracy", "machine", "threads",
}  # fmt: skip


@pytest.fixture
def miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mnist.Scale:
    """scikit-learn's digits, enlarged to MNIST's size, in its place: nothing is fetched."""

    def enlarged(wanted: tuple[int, ...] | None = (3, 8), *, split: str = "train", **_: object) -> ImageData:
        data = small_digits(wanted)
        X = np.zeros((len(data), 28, 28), dtype=np.uint8)
        X[:, 2:26, 2:26] = data.X.repeat(3, axis=1).repeat(3, axis=2)
        rows = slice(0, 60) if split == "test" else slice(60, None)
        return ImageData(X[rows], data.y[rows], data.digits)

    mnist.set_up.cache_clear()
    monkeypatch.setenv("L2X_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(l2x.values, "HELD_MASKS", 200)
    for module in (mnist, mnist_report):
        monkeypatch.setattr(module, "mnist", enlarged)
    return mnist.Scale(steps=3, some_rows=4, slow_rows=2, network_epochs=6)


def test_every_method_gives_a_whole_record(miniature: mnist.Scale, tmp_path: Path) -> None:
    todo = mnist.tasks([(3, 8)], seeds=1, only=None)
    records = [mnist.run_task(task, miniature, threads=1) for task in todo]
    assert len(records) == 14
    for record in records:
        assert record.keys() >= KEYS
        for name in ("posthoc", "judge", "mask_only", "complement"):
            assert 0 <= record[f"{name}_accuracy"] <= 1
    by_name = {record["method"]: record for record in records}
    assert by_name["search"]["posthoc_accuracy"] == 1
    assert (by_name["lime"]["rows"], by_name["search"]["rows"], by_name["paper"]["rows"]) == (2, 4, 60)

    records = bench.with_chosen(json.loads(json.dumps(records)), "digits")
    assert records[0]["method"] == "l2x"
    assert records[0]["recipe"] in ("l2x-model", "l2x-surrogate")
    page = mnist_report.write(records, tmp_path / "results").read_text()
    assert "search per input" in page
    assert "0.958" in page
    figures = sorted(path.name for path in (tmp_path / "results" / "figures").iterdir())
    assert "mnist-examples-38-paper.svg" in figures
    assert "mnist-accuracy-38.png" in figures


def test_what_is_run() -> None:
    todo = mnist.tasks([(3, 8), (0, 1)], seeds=3, only=None)
    assert len(todo) == 2 * (3 * len(mnist.LEARNED) + len(mnist.FIXED)) == len(set(todo))
    assert {task.seed for task in todo if task.method in mnist.FIXED} == {0}
    assert {task.method for task in mnist.tasks([(3, 8)], seeds=2, only=["lime"])} == {"lime"}
    with pytest.raises(l2x.InputError, match="no method 'lim'; choose among l2x-model"):
        mnist.tasks([(3, 8)], seeds=1, only=["lim"])


def test_our_recipe_is_chosen_on_validation_images() -> None:
    def record(method: str, seed: int, validation: float, test: float) -> dict[str, object]:
        return {"digits": [3, 8], "method": method, "seed": seed} | {
            "validation_posthoc": validation,
            "posthoc_accuracy": test,
        }

    records = [record("l2x-model", s, 0.9, 0.5) for s in (0, 1)]
    records += [record("l2x-surrogate", s, 0.8, 0.9) for s in (0, 1)]
    chosen = bench.with_chosen(bench.with_chosen(records, "digits"), "digits")
    ours = [(r["recipe"], r["seed"]) for r in chosen if r["method"] == "l2x"]
    assert ours == [("l2x-model", 0), ("l2x-model", 1)]
    assert len(chosen) == 6
    assert bench.with_chosen(records[:2], "digits") == records[:2]  # one recipe alone: nothing to choose


def test_the_parts_of_the_training_images_do_not_overlap(miniature: mnist.Scale) -> None:
    digits = mnist.set_up((3, 8), miniature)
    parts = [{image.tobytes() for image in part} for part in (digits.train, digits.validation, digits.test)]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]


def test_the_network_is_trained_once(miniature: mnist.Scale, tmp_path: Path) -> None:
    data = mnist.mnist()
    first = digits.digit_network(data, epochs=1)
    (file,) = (tmp_path / "cache" / "models").iterdir()
    written = file.stat().st_mtime_ns
    second = digits.digit_network(data, epochs=1)
    assert file.stat().st_mtime_ns == written
    x = torch.from_numpy(data.X[:5]).float()
    assert torch.equal(first(x), second(x))


def test_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import images

    def unreachable(*_: object, **__: object) -> ImageData:
        raise l2x.DataError("MNIST cannot be had here")

    monkeypatch.setattr(images, "mnist", unreachable)
    explainer, explanation = images.explain_digits(*images.digit_images())
    monkeypatch.setattr(images, "explain_digits", lambda *_: (explainer, explanation))
    images.main(str(tmp_path / "digits.png"))
    said = capsys.readouterr()
    assert "4 of 16 patches keep" in said.out
    assert "scikit-learn's small digits take their place" in said.err
    assert (tmp_path / "digits.png").exists()
    random = l2x.baselines.RandomK(features=explainer.features_).explain(explanation.inputs, 4)
    ask = explainer.model
    kept = l2x.evaluation.posthoc_accuracy(ask, explanation.inputs, explanation)
    assert kept > l2x.evaluation.posthoc_accuracy(ask, explanation.inputs, random) + 0.2
    del sys.modules["images"]
