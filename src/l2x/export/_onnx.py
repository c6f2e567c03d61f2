"""Networks as ONNX can have them: the same numbers, without leaving out what is padding.

Networks of texts skip windows and sentences that hold no word, so that their tensors have other shapes for
other texts; a graph is written down for one text and must hold for all.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array
from l2x._base.atomic import write_atomically
from l2x._base.ranking import best
from l2x._version import __version__
from l2x.errors import ArtifactError, require
from l2x.explainer import Explainer
from l2x.export._artifact import as_bytes
from l2x.export._onnx_inputs import Feed, GraphInputs, graph_inputs, tokenizer_json
from l2x.features import PAD, kind_of
from l2x.learning import (
    Gaussian,
    Likelihood,
    SentenceEncoder,
    WindowConvolution,
    Windows,
    WordEmbedding,
    only_selectable,
    weighted_mean,
)

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


def densely(network: nn.Module) -> nn.Module:
    """A copy on the CPU that computes padding, too."""
    network = copy.deepcopy(network).cpu().eval()
    for parent in list(network.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, WindowConvolution):
                setattr(parent, name, DenseConvolution(part))
            elif isinstance(part, SentenceEncoder):
                setattr(parent, name, DenseEncoder(part))
            elif isinstance(part, WordEmbedding):
                setattr(parent, name, DenseEmbedding(part))
    return network


class DenseWindows(Windows):
    """All windows are there."""

    def maximum(self) -> Tensor:
        return torch.maximum(self.values.reshape(*self.live.shape, -1).amax(dim=1), self.empty)


class DenseConvolution(nn.Module):
    """A window without any word is zeros, of which the convolution makes its bias, as it should be."""

    def __init__(self, convolution: WindowConvolution) -> None:
        super().__init__()
        self.linear = convolution.linear

    def forward(self, x: Tensor, present: Tensor) -> DenseWindows:
        beyond = torch.zeros_like(x[:, :1])
        before, after = torch.cat([beyond, x[:, :-1]], dim=1), torch.cat([x[:, 1:], beyond], dim=1)
        windows = torch.stack([before, x, after], dim=-1).flatten(2)  # (n, length, fan_in * 3)
        values = self.linear(windows).flatten(0, 1)
        return DenseWindows(values, torch.ones_like(present), empty=self.linear.bias)


class DenseEmbedding(nn.Module):
    """Words without weight are looked up, and count for nothing."""

    def __init__(self, embedding: WordEmbedding) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.embedding(ids)
        return vectors

    def average(self, ids: Tensor, weights: Tensor, divisor: float | None = None) -> Tensor:
        return weighted_mean(self(ids) * weights[:, :, None], weights, divisor)


class DenseEncoder(nn.Module):
    """Every sentence is read, and those that are not there come out as zeros."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.embedding, self.convolution = encoder.embedding, DenseConvolution(encoder.convolution)

    def forward(self, ids: Tensor) -> Tensor:
        words = ids.flatten(0, 1)  # (n * sentences, words)
        encoded = torch.relu(self.convolution(self.embedding(words), words != PAD).maximum())
        there = (ids != PAD).any(dim=2, keepdim=True)
        return encoded.reshape(-1, ids.shape[1], encoded.shape[1]) * there


OPSET, ML_OPSET, IR = 18, 3, 9
OUTPUTS = ("scores", "indices", "mask")


class Scoring(nn.Module):
    """Raw inputs, and the model's answers where the selector reads them, -> (n, d) scores."""

    def __init__(self, explainer: Explainer, inputs: GraphInputs) -> None:
        super().__init__()
        self.inputs, self.selector, self.view = inputs, densely(explainer.selector_), explainer.features_
        self.likelihood: Likelihood | None = explainer.q_.likelihood if explainer.sees_answer else None
        if isinstance(
            self.likelihood, Gaussian
        ):  # made here: in `forward` torch warns that they are constants
            self.mean = torch.tensor(self.likelihood.mean, dtype=torch.float64)
            self.scale = torch.tensor(self.likelihood.scale, dtype=torch.float64)

    def forward(self, *raw: Tensor) -> Tensor:
        read: list[Tensor] = []
        if self.likelihood is not None:
            *rest, answers = raw
            if isinstance(self.likelihood, Gaussian):
                answers = (answers - self.mean) / self.scale
            raw, read = tuple(rest), [self.likelihood.told(answers.float())]
        x = self.inputs(*raw)
        return only_selectable(self.selector(x, *read), self.view.selectable(x), never=-torch.inf)


def build_graph(explainer: Explainer, inputs: GraphInputs) -> ModelProto:
    """The whole graph, unchecked and without metadata."""
    onnx: Any = require("onnx", extra="onnx")
    names = [*inputs.names, *(["answers"] if explainer.sees_answer else [])]
    model = _traced(explainer, inputs, names)
    graph = model.graph
    if inputs.codes:
        _read_texts(onnx, graph, inputs)
    _select(onnx, graph, d=explainer.features_.d)
    domains = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    made: ModelProto = onnx.helper.make_model(graph, opset_imports=domains, ir_version=IR)
    return made


def _traced(explainer: Explainer, inputs: GraphInputs, names: list[str]) -> ModelProto:
    """What torch makes of encoding and selector."""
    onnx: Any = require("onnx", extra="onnx")
    feed, _ = inputs.sample(3, np.random.default_rng(0))
    tensors = list(inputs.traced(feed))
    if explainer.sees_answer:
        tensors.append(torch.full((3, explainer.q_.likelihood.outputs), 0.5, dtype=torch.float64))
    module = Scoring(explainer, inputs).eval()
    content: Any = io.BytesIO()  # which the exporter takes, too
    # Networks that take many inputs in chunks do not if a gradient may be wanted: then there is one chunk.
    with torch.enable_grad(), _old_exporter():
        torch.onnx.export(
            module,
            tuple(tensors),
            content,
            dynamo=False,
            input_names=names,
            output_names=["scores"],
            dynamic_axes={name: {0: "n"} for name in [*names, "scores"]},
            opset_version=OPSET,
        )
    traced: ModelProto = onnx.load_from_string(content.getvalue())
    return traced


@contextmanager
def _old_exporter() -> Iterator[None]:
    """Silence what torch says about the age of its TorchScript exporter, and no other warning."""
    with warnings.catch_warnings():
        # Once in the name of the caller, and once for functions that the exporter itself calls.
        warnings.filterwarnings("ignore", "You are using the legacy TorchScript-based", DeprecationWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"torch\.onnx\.")
        yield


def _read_texts(onnx: Any, graph: Any, inputs: GraphInputs) -> None:
    """Texts of categories in place of their codes: one look-up table per column."""
    helper, width = onnx.helper, len(inputs.codes)
    place = next(i for i, given in enumerate(graph.input) if given.name == "categories")
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == "categories":
                node.input[i] = "category_codes"
    columns = [f"category_{j}" for j in range(width)]
    nodes = [helper.make_node("Split", ["categories"], columns, axis=1, num_outputs=width)]
    if width == 1:
        nodes = [helper.make_node("Identity", ["categories"], columns)]
    for column, codes in zip(columns, inputs.codes, strict=True):
        nodes.append(
            helper.make_node(
                "LabelEncoder",
                [column],
                [f"{column}_code"],
                domain="ai.onnx.ml",
                keys_strings=list(codes),
                values_floats=list(codes.values()),
                default_float=-1.0,
            )
        )
    nodes.append(
        helper.make_node("Concat", [f"{column}_code" for column in columns], ["category_codes"], axis=1)
    )
    _prepend(graph, nodes)
    given = helper.make_tensor_value_info("categories", onnx.TensorProto.STRING, ["n", width])
    graph.input[place].CopyFrom(given)


def _prepend(graph: Any, nodes: list[NodeProto]) -> None:
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *rest])


def _select(onnx: Any, graph: Any, *, d: int) -> None:
    """The k best, as indices and as a mask."""
    helper, numpy_helper, types = onnx.helper, onnx.numpy_helper, onnx.TensorProto
    graph.initializer.append(numpy_helper.from_array(np.array([-np.inf], dtype=np.float32), "nothing"))
    none = numpy_helper.from_array(np.array([False]))
    graph.node.extend(
        [
            helper.make_node("TopK", ["scores", "k"], ["best", "indices"], axis=1, largest=1, sorted=1),
            helper.make_node("Greater", ["best", "nothing"], ["selected"]),
            helper.make_node("Shape", ["scores"], ["shape"]),
            helper.make_node("ConstantOfShape", ["shape"], ["empty"], value=none),
            helper.make_node("ScatterElements", ["empty", "indices", "selected"], ["mask"], axis=1),
        ]
    )
    graph.input.append(helper.make_tensor_value_info("k", types.INT64, [1]))
    kinds = {"scores": (types.FLOAT, d), "indices": (types.INT64, "k"), "mask": (types.BOOL, d)}
    del graph.output[:]
    graph.output.extend(
        helper.make_tensor_value_info(name, kind, ["n", width]) for name, (kind, width) in kinds.items()
    )


# Rows that are compared before a file is written.
COMPARED = 1000
# Scores this close are a tie: float32 sums in another order differ by so much.
ROUNDING = 1e-5


def export_onnx(explainer: Explainer, path: str | Path, X: Any = None) -> Path:
    """Write a fitted explainer as an ONNX file: raw inputs in; scores, indices and mask out.

    The graph is compared with torch on made-up rows, or on the rows X: the same selection, or no file. For
    texts the tokenizer is written beside it, as `path` with the ending .tokenizer.json.
    """
    onnx: Any = require("onnx", extra="onnx")
    explainer._check_fitted()
    inputs = graph_inputs(explainer.features_)
    model = build_graph(explainer, inputs)
    onnx.helper.set_model_props(model, metadata(explainer, inputs))
    onnx.checker.check_model(model, full_check=True)
    content = bytes(model.SerializeToString())
    rng = np.random.default_rng(0)
    feed, x = inputs.sample(COMPARED, rng) if X is None else inputs.read(explainer.features_.check(X))
    compare(explainer, content, feed, x, rng)
    path = Path(path)
    if kind_of(explainer.features_) == "text":
        write_atomically(path.with_suffix(".tokenizer.json"), tokenizer_json(explainer.features_).encode())
    return write_atomically(path, content)


def metadata(explainer: Explainer, inputs: GraphInputs) -> dict[str, str]:
    """What a server needs to know, as texts; lists and objects as JSON."""
    classes = explainer.classes_
    return {
        "l2x.version": __version__,
        "l2x.sha256": hashlib.sha256(as_bytes(explainer)).hexdigest(),
        "l2x.k": str(explainer.k),
        "l2x.features": json.dumps([str(name) for name in explainer.features_.names_]),
        "l2x._base.arrays": json.dumps(inputs.description),
        "l2x.classes": json.dumps(None if classes is None else [str(name) for name in classes]),
    }


def compare(explainer: Explainer, content: bytes, feed: Feed, x: Tensor, rng: np.random.Generator) -> None:
    """An ArtifactError unless onnxruntime selects what torch does, for the explainer's k and for all."""
    onnxruntime = require("onnxruntime", extra="onnx")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    read: list[Tensor] = []
    if explainer.sees_answer:
        likelihood = explainer.q_.likelihood
        feed = feed | {"answers": rng.dirichlet(np.ones(likelihood.outputs), size=len(x))}
        read = [likelihood.told(likelihood.targets(feed["answers"]))]
    scores = _scores(explainer, x, read)
    for k in dict.fromkeys([explainer.k, scores.shape[1]]):
        found = session.run(list(OUTPUTS), feed | {"k": np.array([k])})
        wrong = np.flatnonzero(~same_selection(scores, found[1], k))
        if len(wrong):
            raise ArtifactError(
                f"The exported graph selects other features than torch in {len(wrong)} of {len(scores)} rows "
                f"(k = {k}, first row {wrong[0]}); nothing was written."
            )


def _scores(explainer: Explainer, x: Tensor, read: list[Tensor]) -> Array:
    """What torch says of encoded inputs."""
    device = next(explainer.selector_.parameters()).device
    with torch.inference_mode():
        found = explainer.selector_(x.to(device), *(part.to(device) for part in read))
        return np.asarray(only_selectable(found.cpu(), explainer.features_.selectable(x), never=-torch.inf))


def same_selection(scores: Array, indices: Array, k: int) -> Array:
    """(n,) whether `indices` are the k best by `scores`, best first; ties within rounding in any order."""
    mine = best(scores, k)
    same = mine == indices
    if same.all():
        return np.asarray(same.all(axis=1))
    ours, theirs = (np.take_along_axis(scores, chosen, axis=1) for chosen in (mine, indices))
    ours, theirs = (np.nan_to_num(part, neginf=-1e9) for part in (ours, theirs))
    tie = np.abs(ours - theirs) <= ROUNDING * (1 + np.abs(ours))
    return np.asarray((same | tie).all(axis=1))
