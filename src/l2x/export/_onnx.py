"""Export a fitted explainer as an ONNX graph: raw inputs in; scores, indices and mask out.

    raw inputs ── GraphInputs ──► x ── selector ──► scores ── TopK(k) ──► indices, mask
                                  └──── surrogate, 2^k subsets of the k best ──► effects  (on request)

torch traces inputs and selector, which are in `_onnx_parts`. The look-up of categories and the choice of the
k best are added as ONNX nodes.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from l2x._base.arrays import Array, batches, best
from l2x._base.atomic import write_atomically
from l2x._version import __version__
from l2x.errors import ArtifactError, InputError, require
from l2x.explainer import Explainer
from l2x.export._artifact import as_bytes
from l2x.export._onnx_parts import Explaining, Feed, GraphInputs, Scoring, graph_inputs, tokenizer_json
from l2x.features import UNSEEN, TextView
from l2x.learning import (
    CELLS_AT_ONCE,
    Rows,
    SequentialSelector,
    only_selectable,
    shapley_values,
    subset_outputs,
    subsets_of,
)
from l2x.learning.samplers import NEVER

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

OPSET, ML_OPSET, IR = 18, 3, 9
OUTPUTS = ("scores", "indices", "mask")
# Further outputs of a graph with effects; all but the first have the shape (n, outputs).
EFFECTS = ("effects", "base", "prediction", "alone", "without")
# The largest k for which a graph has effects: it evaluates 2^k subsets of every row at once.
MOST_EFFECTS = 6
# Rows on which graph and explainer are compared before a file is written.
COMPARED = 1000
# Scores this close are ties: float32 sums in another order differ by as much.
ROUNDING = 1e-5
# Effects may differ by this share of the largest prediction.
EFFECTS_ROUNDING = 1e-4


def export_onnx(explainer: Explainer, path: str | Path, X: Any = None, *, effects: bool = False) -> Path:
    """Write a fitted explainer as an ONNX file: raw inputs in; scores, indices and mask out.

    With `effects`, the graph also returns `effects` (n, k, outputs), the signed effects of the explainer's k
    best features on every class or predicted value, and `base`, `prediction`, `alone` and `without` (n,
    outputs), all from the surrogate.

    For texts, the tokenizer is written next to it, as `path` with the suffix .tokenizer.json.

    Parameters
    ----------
    explainer : Explainer
        A fitted explainer.
    path : str or Path
        The file.
    X : array, data frame or list, optional
        Rows on which graph and explainer are compared before anything is written; by default 1,000 rows from
        `View.sample`.
    effects : bool
        Whether the graph returns effects; k may then be at most 6.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ArtifactError
        If the graph selects other features than the explainer, or returns other effects.
    MissingExtraError
        If onnx or onnxruntime is not installed.
    """
    explainer.check_fitted()
    view, path = explainer.features_, Path(path)
    tokenizer = tokenizer_json(view) if isinstance(view, TextView) else None
    content = onnx_bytes(explainer, X, effects=effects)
    if tokenizer is not None:
        write_atomically(path.with_suffix(".tokenizer.json"), tokenizer.encode())
    return write_atomically(path, content)


def onnx_bytes(explainer: Explainer, X: Any = None, *, effects: bool = False) -> bytes:
    """Return the content of the ONNX file of a fitted explainer; see `export_onnx`."""
    onnx: Any = require("onnx", extra="onnx")
    explainer.check_fitted()
    if explainer.sampler is not None and explainer.sampler.signed:
        raise InputError(
            f"ONNX export of {type(explainer.sampler).__name__}() is not available: its values also need the "
            "surrogate; use the stream, the service, or another sampler."
        )
    if effects:
        check_effects(explainer)
    inputs, rng = graph_inputs(explainer.features_), np.random.default_rng(0)
    feed, x = inputs.sample(COMPARED, rng) if X is None else inputs.read(explainer.features_.check(X))
    if not len(x):
        raise InputError("X has no rows to compare the graph with the explainer on.")
    model = build_graph(explainer, inputs, feed, effects=effects)
    onnx.helper.set_model_props(model, metadata(explainer, inputs))
    onnx.checker.check_model(model, full_check=True)
    content = bytes(model.SerializeToString())
    compare(explainer, content, feed, x, rng)
    return content


def check_effects(explainer: Explainer) -> None:
    """Raise an InputError if a graph of this explainer cannot return effects."""
    if explainer.k > MOST_EFFECTS:
        raise InputError(
            f"k = {explainer.k}, but a graph with effects evaluates 2^k subsets of every row; export it "
            f"without effects=True, or fit an explainer with k of at most {MOST_EFFECTS}."
        )
    if "predictor" not in explainer.surrogate_.surrogate.networks:
        raise InputError(
            "This explainer has no surrogate network, from which effects come: objective='model' queries the "
            "model instead. Export it without effects=True, or use objective='both'."
        )


def metadata(explainer: Explainer, inputs: GraphInputs) -> dict[str, str]:
    """Return what a server needs to know, as strings; lists and objects are JSON."""
    classes = explainer.classes_
    return {
        "l2x.version": __version__,
        "l2x.sha256": hashlib.sha256(as_bytes(explainer)).hexdigest(),
        "l2x.k": str(explainer.k),
        "l2x.features": json.dumps([str(name) for name in explainer.features_.names_]),
        "l2x.inputs": json.dumps(inputs.description),
        "l2x.classes": json.dumps(None if classes is None else [str(name) for name in classes]),
    }


def compare(explainer: Explainer, content: bytes, feed: Feed, x: Tensor, rng: np.random.Generator) -> None:
    """Raise an ArtifactError unless onnxruntime and torch select the same features, for k and for all."""
    onnxruntime = require("onnxruntime", extra="onnx")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    prediction_input: list[Tensor] = []
    if explainer.uses_prediction:
        likelihood = explainer.surrogate_.likelihood
        feed = feed | {"predictions": rng.dirichlet(np.ones(likelihood.outputs), size=len(x))}
        prediction_input = [likelihood.prediction_input(likelihood.targets(feed["predictions"]))]
    scores = _scores(explainer, x, prediction_input)
    names = [each.name for each in session.get_outputs()]
    for k in dict.fromkeys([explainer.k, scores.shape[1]]):
        found = dict(zip(names, session.run(names, feed | {"k": np.array([k])}), strict=True))
        indices = found["indices"]
        same = same_selection(scores, indices, k)
        if isinstance(selector := explainer.selector_, SequentialSelector):
            same |= same_path(selector, x, indices)
        wrong = np.flatnonzero(~same)
        if len(wrong):
            raise ArtifactError(
                f"The exported graph selects other features than torch in {len(wrong)} of {len(scores)} rows "
                f"(k = {k}, first row {wrong[0]}); nothing was written."
            )
        if k == explainer.k and "effects" in names:
            compare_effects(explainer, x, found)


def compare_effects(explainer: Explainer, x: Tensor, found: dict[str, Array]) -> None:
    """Raise an ArtifactError unless the effects of a graph are those of the surrogate in torch."""
    surrogate, indices = explainer.surrogate_.surrogate, found["indices"]
    subsets, d = subsets_of(explainer.k), found["scores"].shape[1]
    selectable = found["scores"] > -np.inf
    selected = np.take_along_axis(selectable, indices, axis=1)
    values = np.empty((len(subsets) + 1, len(x), surrogate.likelihood.outputs))
    wanted = np.concatenate([subsets, subsets[-1:]])
    for part in batches(len(x), max(1, CELLS_AT_ONCE // (len(wanted) * d))):
        rows = Rows(explainer.features_, None, x[part].to(surrogate.device), target=x[part])
        outputs = subset_outputs(surrogate, rows, indices[part], selected[part], wanted)
        values[:, part] = surrogate.likelihood.predictions(outputs)
    expected = {"base": values[0], "alone": values[-2], "without": values[-1]}
    by_output = [shapley_values(values[:-1, :, output], explainer.k) for output in range(values.shape[2])]
    expected["effects"] = np.where(selected[..., None], np.stack(by_output, axis=2), 0.0)
    for name, numbers in expected.items():
        error = np.abs(found[name] - numbers).max()
        if not error <= EFFECTS_ROUNDING * max(1.0, np.abs(values).max()):
            raise ArtifactError(
                f"The output '{name}' of the exported graph differs from torch by {error:.2g}; nothing was "
                "written."
            )


def _scores(explainer: Explainer, x: Tensor, prediction_input: list[Tensor]) -> Array:
    """Return the selector's scores of encoded inputs, computed by torch."""
    device = next(explainer.selector_.parameters()).device
    with torch.inference_mode():
        scores = explainer.selector_(x.to(device), *(part.to(device) for part in prediction_input))
        return np.asarray(only_selectable(scores.cpu(), explainer.features_.selectable(x), never=-torch.inf))


def same_selection(scores: Array, indices: Array, k: int) -> Array:
    """Return (n,) booleans: whether `indices` are the k best by `scores`, best first, up to ties."""
    mine = best(scores, k)
    same = mine == indices
    if same.all():
        return np.asarray(same.all(axis=1))
    ours, theirs = (np.take_along_axis(scores, chosen, axis=1) for chosen in (mine, indices))
    ours, theirs = (np.nan_to_num(part, neginf=-1e9) for part in (ours, theirs))
    tie = np.abs(ours - theirs) <= ROUNDING * (1 + np.abs(ours))
    return np.asarray((same | tie).all(axis=1))


def same_path(selector: SequentialSelector, x: Tensor, indices: Array) -> Array:
    """Return (n,) booleans: whether each step takes the best feature given those before, up to rounding."""
    same, device = np.ones(len(x), dtype=bool), selector.first.device
    x, mask = x.to(device), torch.zeros(len(x), selector.d, device=device)
    with torch.inference_mode():
        for step, taken in enumerate(torch.from_numpy(indices[:, : selector.k]).to(device).T):
            logits = selector.step_logits(x, mask, step)
            largest = logits.masked_fill(logits <= NEVER, 0.0).abs().amax(dim=1)
            short = logits.amax(dim=1) - logits.gather(1, taken[:, None])[:, 0]
            same &= (short <= ROUNDING * (1 + largest)).cpu().numpy()
            mask = mask.scatter(1, taken[:, None], 1.0)
    return same


def build_graph(
    explainer: Explainer, inputs: GraphInputs, feed: Feed, *, effects: bool = False
) -> ModelProto:
    """Return the whole graph, unchecked and without metadata; it is traced on the first rows of `feed`."""
    onnx: Any = require("onnx", extra="onnx")
    model = _traced(explainer, inputs, feed, effects=effects)
    if inputs.codes:
        _add_category_codes(onnx, model.graph, inputs)
    _add_selection(onnx, model.graph, d=explainer.features_.d)
    domains = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    graph: ModelProto = onnx.helper.make_model(model.graph, opset_imports=domains, ir_version=IR)
    return graph


def _traced(explainer: Explainer, inputs: GraphInputs, feed: Feed, *, effects: bool) -> ModelProto:
    """Return encoding and selector, and on request effects, as torch exports them."""
    onnx: Any = require("onnx", extra="onnx")
    rows = 3  # more than one: a batch of one row would be traced as a constant
    names = list(inputs.names)
    tensors = list(inputs.traced({name: array[np.arange(rows) % len(array)] for name, array in feed.items()}))
    if explainer.uses_prediction:
        names.append("predictions")
        outputs = explainer.surrogate_.likelihood.outputs
        tensors.append(torch.full((rows, outputs), 0.5, dtype=torch.float64))
    outputs_traced = ["scores", *(EFFECTS if effects else ())]
    content: Any = io.BytesIO()  # torch's annotation allows only paths
    # With gradients enabled, networks that split large batches into chunks process them as one.
    with torch.enable_grad(), warnings.catch_warnings():
        # torch warns that its TorchScript exporter is deprecated: once with the caller's module, and once in
        # functions that the exporter calls.
        warnings.filterwarnings("ignore", "You are using the legacy TorchScript-based", DeprecationWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"torch\.onnx\.")
        torch.onnx.export(
            (Explaining if effects else Scoring)(explainer, inputs).eval(),
            tuple(tensors),
            content,
            dynamo=False,
            input_names=names,
            output_names=outputs_traced,
            dynamic_axes={name: {0: "n"} for name in [*names, *outputs_traced]},
            opset_version=OPSET,
        )
    traced: ModelProto = onnx.load_from_string(content.getvalue())
    return traced


def _add_category_codes(onnx: Any, graph: Any, inputs: GraphInputs) -> None:
    """Let the graph read categories as strings instead of codes: one look-up table per column."""
    helper, width = onnx.helper, len(inputs.codes)
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == "categories":
                node.input[i] = "category_codes"
    columns = [f"category_{j}" for j in range(width)]
    codes = [f"{column}_code" for column in columns]
    nodes: list[NodeProto] = [
        helper.make_node("Split", ["categories"], columns, axis=1, num_outputs=width)
        if width > 1
        else helper.make_node("Identity", ["categories"], columns)
    ]
    for column, code, table in zip(columns, codes, inputs.codes, strict=True):
        options = {
            "keys_strings": list(table),
            "values_floats": list(table.values()),
            "default_float": UNSEEN,
        }
        nodes.append(helper.make_node("LabelEncoder", [column], [code], domain="ai.onnx.ml", **options))
    nodes.append(helper.make_node("Concat", codes, ["category_codes"], axis=1))
    nodes.extend(graph.node)
    del graph.node[:]
    graph.node.extend(nodes)
    place = next(i for i, given in enumerate(graph.input) if given.name == "categories")
    strings = helper.make_tensor_value_info("categories", onnx.TensorProto.STRING, ["n", width])
    graph.input[place].CopyFrom(strings)


def _add_selection(onnx: Any, graph: Any, *, d: int) -> None:
    """Add the input k, and the k best features as the outputs indices and mask.

    TopK gets a row of zeros in addition, which is removed afterwards: without any row, onnxruntime-node 1.30
    divides by zero and ends the process.
    """
    helper, numpy_helper, types = onnx.helper, onnx.numpy_helper, onnx.TensorProto
    constants = {
        "nothing": np.array([-np.inf], dtype=np.float32),
        "a_row": np.zeros((1, d), dtype=np.float32),
        "from_one": np.array([1]),
        "to_the_end": np.array([np.iinfo(np.int64).max]),
        "axis_of_rows": np.array([0]),
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    none = numpy_helper.from_array(np.array([False]))
    rest = ["from_one", "to_the_end", "axis_of_rows"]
    graph.node.extend(
        [
            helper.make_node("Concat", ["a_row", "scores"], ["some_scores"], axis=0),
            helper.make_node(
                "TopK", ["some_scores", "k"], ["some_best", "some_indices"], axis=1, largest=1, sorted=1
            ),
            helper.make_node("Slice", ["some_best", *rest], ["best"]),
            helper.make_node("Slice", ["some_indices", *rest], ["indices"]),
            helper.make_node("Greater", ["best", "nothing"], ["selected"]),
            helper.make_node("Shape", ["scores"], ["shape"]),
            helper.make_node("ConstantOfShape", ["shape"], ["empty"], value=none),
            helper.make_node("ScatterElements", ["empty", "indices", "selected"], ["mask"], axis=1),
        ]
    )
    graph.input.append(helper.make_tensor_value_info("k", types.INT64, [1]))
    kinds = {"scores": (types.FLOAT, d), "indices": (types.INT64, "k"), "mask": (types.BOOL, d)}
    others = list(graph.output)[1:]  # effects
    del graph.output[:]
    graph.output.extend(
        helper.make_tensor_value_info(name, kind, ["n", width]) for name, (kind, width) in kinds.items()
    )
    graph.output.extend(others)
