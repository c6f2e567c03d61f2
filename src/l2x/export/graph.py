"""One ONNX graph from raw inputs to the selection: encoding, the selector, and the k best of its scores.

numbers, categories | pixels | ids,  answers (of explainers that read them),  k
    -> scores (n, d) floats, -inf for what cannot be selected
       indices (n, k), best first; ties go to the lower index
       mask (n, d), true for what is selected
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x.errors import require
from l2x.explainer import Explainer
from l2x.export.dense import densely
from l2x.export.inputs import GraphInputs
from l2x.likelihood import Gaussian, Likelihood
from l2x.plackett_luce import only_selectable

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

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
