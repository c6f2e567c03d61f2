"""Networks that were trained once: their weights are kept, under a key that says what they depend on."""

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
from l2x.datasets._fetching import data_folder
from l2x.learning import TrainingPlan

# Of all keys. Raise it when the code of a network or of its training changes what the same settings give.
VERSION = 1

Key = Mapping[str, Any]

# What a judge's weights depend on in a plan, and what they do not.
PHASE = ("steps", "batch_size", "learning_rate", "optimizer", "schedule", "averaging", "patience", "choose")
PLAN = ("evaluations", "validation_rows")
IRRELEVANT = ("value", "selector", "progress", "threads")


def remembered(name: str, key: Key, network: nn.Module, train: Callable[[], nn.Module]) -> nn.Module:
    """`network` with the weights that `train` once gave for this key, or else what `train` gives now.

    `key` names every setting that the weights depend on: the data (their `fingerprint`, and which part or
    variant of them), the seed, the steps or epochs, batch size, learning rate and other options of training,
    the options of the network and, for a judge, the key of the model that it learned from. It holds values
    that JSON knows, never the repr of an object: a class that is renamed, or that gets a field, must not
    train everything again.
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
    """Of arrays and texts, for a key: any other content or order gives another one."""
    digest = hashlib.sha256()
    for part in data:
        for piece in [part.tobytes()] if isinstance(part, np.ndarray) else (text.encode() for text in part):
            digest.update(piece)
    return digest.hexdigest()


def value_key(plan: TrainingPlan) -> Key:
    """The settings by which a plan trains a judge, its first phase, for a key.

    Settings that are not listed above count only where they are not at their defaults, so that a field that
    is added later leaves the keys of plans without it as they are.
    """
    key = {name: getattr(plan.value, name) for name in PHASE} | {name: getattr(plan, name) for name in PLAN}
    for settings, known in ((plan.value, PHASE), (plan, (*PLAN, *IRRELEVANT))):
        for field in fields(settings):
            value = getattr(settings, field.name)
            if field.name not in known and value != field.default:
                key[field.name] = value
    return key
