"""`explainer.export_onnx`: the graph with its metadata, checked against torch, and only then a file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2x._version import __version__
from l2x.artifact import as_bytes
from l2x.errors import ArtifactError, require
from l2x.explainer import Explainer
from l2x.export.graph import OUTPUTS, build_graph
from l2x.export.inputs import Feed, GraphInputs, graph_inputs
from l2x.export.tokenizer import tokenizer_json
from l2x.features.kinds import kind_of
from l2x.foundations.arrays import Array
from l2x.foundations.atomic import write_atomically
from l2x.plackett_luce import only_selectable
from l2x.ranking import best

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
        "l2x.inputs": json.dumps(inputs.description),
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
