"""ONNX graphs select the same features as torch, from raw inputs, without l2x."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import tokenizers
import torch
from toy_models import one_column, people

import l2x
from l2x.errors import ArtifactError
from l2x.export import _onnx as module
from l2x.export._onnx import COMPARED, export_onnx, same_selection
from l2x.export._onnx_parts import densely, graph_inputs, tokenizer_json
from l2x.features import PAD
from l2x.learning._training import Phase
from l2x.learning.networks._sentences import PaperSentenceSelector, SentenceSelector
from l2x.learning.networks._words import PaperWordSelector, PredictionAwareWordSelector, WordSelector

GOLDEN = Path(__file__).parents[1] / "golden"
BRIEF = l2x.TrainingPlan(Phase(30, 5e-3), Phase(30, 1e-2), evaluations=2, progress=False)


def session_of(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "name", ["columns", "frame", "groups", "regression", "patches", "words", "sentences"]
)
def test_every_kind_of_explainer_is_exported_and_compared(name: str, tmp_path: Path) -> None:
    explainer = l2x.load(GOLDEN / f"{name}-surrogate.l2x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = explainer.export_onnx(tmp_path / "e.onnx")
    session = session_of(path)
    feed, _ = graph_inputs(explainer.features_).sample(7, np.random.default_rng(5))
    d = explainer.n_features_in_
    for k in (1, explainer.k, d):
        scores, indices, mask = session.run(None, feed | {"k": np.array([k])})
        assert scores.shape == mask.shape == (7, d)
        assert indices.shape == (7, k)
        assert (mask.sum(axis=1) == np.minimum(k, (scores > -np.inf).sum(axis=1))).all()
    scores, indices, mask = session.run(
        None, {name: x[:0] for name, x in feed.items()} | {"k": np.array([1])}
    )
    assert (scores.shape, indices.shape, mask.shape) == ((0, d), (0, 1), (0, d))
    # onnxruntime-node 1.30 ends the process if TopK gets no rows.
    graph = onnx.load(path).graph
    (top,) = (node for node in graph.node if node.op_type == "TopK")
    (padded,) = (node for node in graph.node if top.input[0] in node.output)
    assert padded.op_type == "Concat"
    props = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(props["l2x.features"]) == [str(feature) for feature in explainer.features_.names_]
    assert (props["l2x.k"], props["l2x.version"]) == (str(explainer.k), l2x.__version__)
    assert len(props["l2x.sha256"]) == 64


@pytest.mark.parametrize(
    "name", ["columns", "frame", "groups", "regression", "patches", "words", "sentences"]
)
def test_effects_are_those_of_python(name: str, tmp_path: Path) -> None:
    """For every class, also if a row has fewer than k features; base + effects is the prediction alone."""
    explainer = l2x.load(GOLDEN / f"{name}-surrogate.l2x")
    session = session_of(explainer.export_onnx(tmp_path / "e.onnx", effects=True))
    view, k = explainer.features_, explainer.k
    X = view.check(view.sample(9, np.random.default_rng(5)))
    feed, _ = graph_inputs(view).read(X)
    names = [output.name for output in session.get_outputs()]
    assert names == ["scores", "indices", "mask", "effects", "base", "prediction", "alone", "without"]
    found = dict(zip(names, session.run(names, feed | {"k": np.array([k])}), strict=True))
    explanation = explainer.explain(X, polish=False)
    outputs = found["base"].shape[1]
    assert found["effects"].shape == (9, k, outputs)
    largest = max(1.0, np.abs(found["prediction"]).max())
    for output in range(outputs):
        name = output if explainer.classes_ is None else explainer.classes_[output]
        expected = explanation.for_class(name).contributions
        np.testing.assert_allclose(found["effects"][:, :, output], expected.effects, atol=1e-5 * largest)
        for part in ("base", "prediction", "alone", "without"):
            wanted = getattr(expected, part)
            np.testing.assert_allclose(found[part][:, output], wanted, atol=1e-5 * largest)
    whole = found["base"] + found["effects"].sum(axis=1)
    np.testing.assert_allclose(whole, found["alone"], atol=1e-6 * largest)


def test_effects_that_a_graph_cannot_have(table: np.ndarray, tmp_path: Path) -> None:
    wide = np.tile(table[:200], 2)
    many = l2x.Explainer(one_column, k=7, training=BRIEF).fit(wide)
    with pytest.raises(l2x.errors.InputError, match=r"k = 7, .* of at most 6"):
        many.export_onnx(tmp_path / "e.onnx", effects=True)
    without = l2x.Explainer(one_column, k=1, objective="model", training=BRIEF).fit(table)
    with pytest.raises(l2x.errors.InputError, match="objective='model'"):
        without.export_onnx(tmp_path / "e.onnx", effects=True)
    assert list(tmp_path.iterdir()) == []


def test_wrong_effects_are_not_written(
    fitted: l2x.Explainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "shapley_values", lambda values, k: l2x.learning.shapley_values(values, k) + 1
    )
    with pytest.raises(ArtifactError, match="'effects'"):
        export_onnx(fitted, tmp_path / "e.onnx", effects=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pooling", ["both", "window", "average"])
def test_words_with_each_pooling(pooling: str, tmp_path: Path) -> None:
    def model(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "good" in text else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = ["a good film", "a dull film", "good film here", "plain bad film"] * 15
    view, plan = l2x.Words(length=6), l2x.TrainingPlan(Phase(3, 1e-2), Phase(3, 1e-2), progress=False)
    explainer = l2x.Explainer(model, 2, features=view, selector={"pooling": pooling}, training=plan)
    path = explainer.fit(texts).export_onnx(tmp_path / "e.onnx")
    assert session_of(path).get_outputs()[0].name == "scores"


@pytest.fixture(scope="module")
def people_explained() -> tuple[l2x.Explainer, pd.DataFrame]:
    """Return an explainer and rows with numbers, categories and missing cells."""
    data = people(600)

    def model(X: pd.DataFrame) -> np.ndarray:
        rich = np.where(X["marital-status"] == "Divorced", X["age"] > 40, X["capital-gain"] > 7000)
        return np.stack([1 - rich, rich], axis=1).astype(float)

    explainer = l2x.Explainer(model, k=3, objective="surrogate", training=BRIEF).fit(data.X)
    return explainer, data.X


def test_raw_columns_in(people_explained: tuple[l2x.Explainer, pd.DataFrame], tmp_path: Path) -> None:
    """Feed numbers and strings as a server does, with an empty string for a missing cell."""
    explainer, X = people_explained
    path = explainer.export_onnx(tmp_path / "e.onnx", X)
    inputs = json.loads(session_of(path).get_modelmeta().custom_metadata_map["l2x.inputs"])
    assert inputs["may_miss"] == ["workclass"]
    rows = X.astype({name: object for name in inputs["categories"]}).fillna("")
    rows.loc[3, "gender"] = "Unheard of"
    feed = {
        "numbers": rows[inputs["numbers"]].to_numpy(dtype=np.float64),
        "categories": rows[inputs["categories"]].to_numpy(dtype=object),
        "k": np.array([3]),
    }
    scores, indices, mask = session_of(path).run(None, feed)
    new = X.astype({"gender": object}).copy()
    new.loc[3, "gender"] = "Unheard of"
    with pytest.warns(UserWarning, match="gender"):
        expected = explainer.explain(new, polish=False)
    assert np.allclose(scores, expected.scores, atol=1e-5)
    assert np.array_equal(indices, expected.indices)
    assert np.array_equal(mask, expected.mask)


def test_pixels_in(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, size=(80, 10, 9)).astype(np.uint8)

    def model(X: np.ndarray) -> np.ndarray:
        p = X[:, :4, :4].mean(axis=(1, 2)) / 255
        return np.stack([1 - p, p], axis=1)

    view = l2x.Patches(4, padding="edge")
    explainer = l2x.Explainer(model, k=2, features=view, objective="surrogate", training=BRIEF).fit(images)
    session = session_of(explainer.export_onnx(tmp_path / "e.onnx", images))
    indices = session.run(["indices"], {"pixels": images.astype(np.float32), "k": np.array([2])})[0]
    assert np.array_equal(indices, explainer.explain(images, polish=False).indices)


def test_texts_with_the_exported_tokenizer(tmp_path: Path) -> None:
    import tokenizers

    explainer = l2x.load(GOLDEN / "words-surrogate.l2x")
    session = session_of(explainer.export_onnx(tmp_path / "e.onnx"))
    known = explainer.features_.vocabulary_
    texts = [f"{known[3]}<br />{known[4].upper()}, {known[2]} zzz", "", " ".join(known[2:] * 3)]
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "e.tokenizer.json"))
    ids = np.array([found.ids for found in tokenizer.encode_batch(texts)], dtype=np.int64)
    assert np.array_equal(ids, explainer.features_.ids(texts).numpy())
    indices, mask = session.run(["indices", "mask"], {"ids": ids, "k": np.array([2])})
    expected = explainer.explain(texts, k=2, polish=False)
    assert np.array_equal(indices, expected.indices)
    assert np.array_equal(mask, expected.mask)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_prediction_aware_explainer_reads_predictions(task: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(300, 4))
    model = one_column if task == "classification" else (lambda X: 3 * X[:, 1] + 1)
    black_box = l2x.as_black_box(model, task=task)
    explainer = l2x.Explainer(
        black_box, k=2, objective="surrogate", uses_prediction=True, training=BRIEF
    ).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = session_of(explainer.export_onnx(tmp_path / "e.onnx"))
    feed = {"numbers": X, "predictions": black_box(X), "k": np.array([2])}
    assert np.array_equal(session.run(["indices"], feed)[0], explainer.explain(X, polish=False).indices)


@pytest.mark.parametrize("category", [UserWarning, DeprecationWarning, torch.jit.TracerWarning])
def test_only_the_deprecation_of_the_exporter_is_silenced(tmp_path: Path, category: type[Warning]) -> None:
    explainer = l2x.load(GOLDEN / "columns-surrogate.l2x")

    def warn(*_: object) -> None:
        if torch.jit.is_tracing():
            warnings.warn("of the network", category, stacklevel=1)

    explainer.selector_.register_forward_hook(warn)
    with pytest.warns(category, match="of the network"):
        explainer.export_onnx(tmp_path / "e.onnx")


def test_a_wrong_graph_is_not_written(
    fitted: l2x.Explainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = module.build_graph

    def wrong(*arguments: object, **options: object) -> onnx.ModelProto:
        model = build(*arguments, **options)
        for weight in model.graph.initializer:
            if weight.data_type != onnx.TensorProto.FLOAT:
                continue  # positions and axes
            weight.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(weight), weight.name))
        return model

    monkeypatch.setattr(module, "build_graph", wrong)
    with pytest.raises(ArtifactError, match=rf"of {COMPARED} rows \(k = 1, first row"):
        export_onnx(fitted, tmp_path / "e.onnx")
    assert list(tmp_path.iterdir()) == []


def test_ties_within_rounding_may_be_exchanged() -> None:
    scores = np.array([[1.0, 1.0 + 1e-7, 0.5, -np.inf]], dtype=np.float32)
    assert same_selection(scores, np.array([[0, 1]]), 2).all()
    assert not same_selection(scores, np.array([[0, 2]]), 2).any()
    assert not same_selection(scores, np.array([[0, 3]]), 2).any()


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["l2x"] = None  # importing them fails
sys.argv = sys.argv[1:]
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"), {"__name__": "__main__"})
"""


def test_the_example_needs_neither_torch_nor_l2x(
    people_explained: tuple[l2x.Explainer, pd.DataFrame], tmp_path: Path
) -> None:
    """Run it in a process that cannot import them."""
    explainer, X = people_explained
    explainer.export_onnx(tmp_path / "e.onnx")
    X.head(4).to_csv(tmp_path / "rows.csv", index=False)
    printed = without_torch("onnx_only.py", tmp_path / "e.onnx", tmp_path / "rows.csv")
    expected = ["; ".join(names) for names in explainer.explain(X.head(4), polish=False).names]
    assert [line.partition("  ")[2] for line in printed] == expected


def test_the_example_of_texts_needs_neither(tmp_path: Path) -> None:
    explainer = l2x.load(GOLDEN / "words-surrogate.l2x")
    explainer.export_onnx(tmp_path / "e.onnx")
    known = explainer.features_.vocabulary_
    texts = [f"{known[4].upper()}, <b>{known[2]}</b> zzz", known[3]]
    assert without_torch("onnx_texts.py", tmp_path / "e.onnx", *texts) == [
        "; ".join(names) for names in explainer.explain(texts, polish=False).names
    ]


def without_torch(example: str, *arguments: object) -> list[str]:
    """Return the lines that an example prints."""
    path = Path(__file__).parents[2] / "examples" / example
    command = [sys.executable, "-c", WITHOUT_TORCH, path, *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_exporting_does_not_change_the_explainer(fitted: l2x.Explainer, tmp_path: Path) -> None:
    before = {name: weight.clone() for name, weight in fitted.selector_.state_dict().items()}
    fitted.export_onnx(tmp_path / "e.onnx")
    assert all(torch.equal(weight, before[name]) for name, weight in fitted.selector_.state_dict().items())


@pytest.mark.parametrize(
    "name", ["columns", "frame", "groups", "regression", "patches", "words", "sentences"]
)
def test_the_first_part_of_a_graph_is_the_views_encoding(name: str) -> None:
    inputs = graph_inputs(l2x.load(GOLDEN / f"{name}-surrogate.l2x").features_)
    feed, x = inputs.sample(200, np.random.default_rng(0))
    assert list(feed) == list(inputs.names)
    assert set(inputs.names) <= set(inputs.description)
    assert torch.equal(inputs(*inputs.traced(feed)).nan_to_num(-99.0).to(x.dtype), x.nan_to_num(-99.0))


def test_an_empty_text_cannot_be_a_category() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": ["", "x"] * 20, "b": np.arange(40.0)})
    with pytest.raises(l2x.errors.InputError, match="'a'"):
        graph_inputs(l2x.Columns().fit(frame))


@pytest.mark.parametrize("kind", [WordSelector, PredictionAwareWordSelector, PaperWordSelector])
@pytest.mark.parametrize("empty", [False, True])
def test_dense_word_selectors_compute_the_same(kind: type[torch.nn.Module], empty: bool) -> None:
    network = kind(20) if kind is PaperWordSelector else kind(20, 2)
    check(
        network.eval(), torch.randint(1, 20, (6, 9)), empty=empty, aware=kind is PredictionAwareWordSelector
    )


@pytest.mark.parametrize("kind", [SentenceSelector, PaperSentenceSelector])
@pytest.mark.parametrize("empty", [False, True])
def test_dense_sentence_selectors_compute_the_same(kind: type[torch.nn.Module], empty: bool) -> None:
    network = SentenceSelector(20, 2) if kind is SentenceSelector else PaperSentenceSelector(20)
    check(network.eval(), torch.randint(1, 20, (6, 4, 5)), empty=empty, aware=False)


def check(network: torch.nn.Module, ids: torch.Tensor, *, empty: bool, aware: bool) -> None:
    for name, parameter in network.named_parameters():  # scores of a new selector are all zero
        torch.nn.init.normal_(parameter, std=0.2)
        if name.endswith("vectors.weight"):
            parameter.data[PAD] = 0  # as in every embedding
    if empty:
        ids[0], ids[1, 2:] = PAD, PAD
    present = ids != PAD if ids.ndim == 2 else (ids != PAD).any(dim=2)
    predictions = [torch.rand(len(ids), 2)] if aware else []
    with torch.no_grad():
        sparse, dense = network(ids, *predictions), densely(network)(ids, *predictions)
    assert torch.allclose(sparse[present], dense[present], rtol=1e-4, atol=1e-4)


TEXTS = ["A <b>GOOD</b> film, don't you think?", "bad", "", "x " * 50]


@pytest.mark.parametrize("lowercase", [True, False])
def test_tokenizer_ids_of_words(lowercase: bool) -> None:
    view = l2x.Words(length=6, lowercase=lowercase).fit(TEXTS)
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json(view))
    found = tokenizer.encode_batch(TEXTS)
    assert np.array_equal([each.ids for each in found], view.ids(TEXTS).numpy())
    start, end = found[0].offsets[1]
    assert TEXTS[0][start:end] == "GOOD"


def test_tokenizer_ids_of_a_sentence() -> None:
    view = l2x.Sentences(length=2, words=4).fit(TEXTS)
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json(view))
    assert np.array_equal(tokenizer.encode("bad").ids, view.ids(["bad"]).numpy()[0, 0])
