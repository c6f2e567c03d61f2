"""The cache of trained networks: black boxes and evaluators, under keys of everything they depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from safetensors.torch import load as read_weights
from safetensors.torch import save as weight_bytes
from torch import nn

from l2x._base.arrays import Array
from l2x._base.atomic import write_atomically
from l2x.datasets import data_folder
from l2x.evaluation import fit_evaluator
from l2x.explanation import Explanation
from l2x.features import View
from l2x.learning import Categorical, FittedSurrogate, NetworkSurrogate, Options, TrainingPlan, networks_of
from l2x.model import BlackBox

# Part of every key. Raise it when a change of the code changes the weights that the same settings give.
VERSION = 1

Key = Mapping[str, Any]

# Fields of a plan that an evaluator's weights depend on, and fields that they do not depend on.
PHASE = ("steps", "batch_size", "learning_rate", "optimizer", "schedule", "averaging", "patience", "choose")
PLAN = ("evaluations", "validation_rows")
IRRELEVANT = ("value", "selector", "progress", "threads")


def cached_network(name: str, key: Key, network: nn.Module, train: Callable[[], nn.Module]) -> nn.Module:
    """Return `network` with the cached weights for this key; without any, call `train` and cache its result.

    `key` names every setting that the weights depend on: the data (their `fingerprint`, and which part or
    variant of them), the seed, steps or epochs, batch size, learning rate and other options of training,
    the options of the network and, for an evaluator, the key of the model that it learned from. Its values
    are plain JSON, never the repr of an object: renaming a class or adding a field must not invalidate it.
    """
    text = json.dumps({**key, "version": VERSION}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = data_folder() / "models" / f"{name}-{digest}.safetensors"
    if path.exists():
        network.load_state_dict(read_weights(path.read_bytes()))
        return network.eval().requires_grad_(requires_grad=False)
    network = train()
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {entry: tensor.contiguous() for entry, tensor in network.state_dict().items()}
    write_atomically(path, weight_bytes(weights, metadata={"key": text}))
    return network


def fingerprint(*data: Array | Sequence[str]) -> str:
    """Return a hash of arrays and texts, for a key; it changes with their content and their order."""
    digest = hashlib.sha256()
    for part in data:
        for piece in [part.tobytes()] if isinstance(part, np.ndarray) else (text.encode() for text in part):
            digest.update(piece)
    return digest.hexdigest()


def plan_key(plan: TrainingPlan) -> Key:
    """Return the settings by which the first phase of a plan trains an evaluator, for a key.

    Fields that are not listed above count only where they differ from their defaults, so that a field added
    later leaves existing keys unchanged.
    """
    key = {name: getattr(plan.value, name) for name in PHASE} | {name: getattr(plan, name) for name in PLAN}
    for settings, listed in ((plan.value, PHASE), (plan, (*PLAN, *IRRELEVANT))):
        for field in fields(settings):
            value = getattr(settings, field.name)
            if field.name not in listed and value != field.default:
                key[field.name] = value
    return key


def cached_evaluator(
    name: str,
    key: Key,
    black_box: BlackBox,
    view: View,
    X: Any,
    *,
    k: int,
    classes: int,
    plan: TrainingPlan,
    options: Options,
) -> FittedSurrogate:
    """Return an evaluator fitted on these inputs, from the cache if it is there.

    `key` describes the black box and the view; `options` are those of the evaluator's network.
    """

    def fit() -> nn.Module:
        evaluator = fit_evaluator(black_box, X, k, features=view, training=plan, predictor=options)
        return evaluator.surrogate.networks["predictor"]

    network = networks_of(view, classes).predictor(**options)
    shapes = {entry: list(tensor.shape) for entry, tensor in network.state_dict().items()}
    key = {**key, "data": fingerprint(X), "k": k, "network": shapes, **plan_key(plan)}
    predictor = cached_network(f"evaluator-{name}", key, network, fit)
    return FittedSurrogate(view, NetworkSurrogate(predictor, Categorical(classes)), black_box)


def evaluator_accuracy(evaluator: FittedSurrogate, X: Any, explanation: Explanation, classes: Array) -> float:
    """Return how often an evaluator predicts the model's class from the selected features alone."""
    return float((evaluator.outputs(X, explanation.mask).argmax(axis=1) == classes).mean())
