"""LIME and Kernel SHAP for features that are not columns - patches, words: each present, or removed as the
view says. Their authors' packages do the sampling and the regression."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import numpy as np

from l2x.blackbox import BlackBox
from l2x.errors import require
from l2x.features.view import View
from l2x.foundations.arrays import Array, batches

# Masks (m, d) of one row -> the model's answers for them, (m, classes).
AskMasks = Callable[[Array], Array]

# Copies of a row that the model is asked at a time.
UNIT_BATCH = 1024
# The package's default for images: cosine distances of a few tenths still count.
LIME_KERNEL_WIDTH = 0.25


def ask_masks(black_box: BlackBox, view: View, X: Any, units: Array) -> AskMasks:
    """What the model says of X, a single row, of which only some of the `units` are left."""

    def ask(masks: Array) -> Array:
        parts = []
        for some in batches(len(masks), UNIT_BATCH):
            mask = np.zeros((some.stop - some.start, view.d), dtype=bool)
            mask[:, units] = masks[some] > 0.5
            copies = view.take(X, np.zeros(len(mask), dtype=np.int64))
            parts.append(black_box(view.for_model(copies, mask, rng=np.random.default_rng(0))))
        return np.concatenate(parts)

    return ask


def lime_units(ask: AskMasks, d: int, label: int, *, samples: int, seed: int) -> Array:
    """Weights of a ridge regression on random subsets, near ones weighing more: what lime_image does with
    its segments."""
    lime_base = require("lime.lime_base", extra="baselines")
    random = np.random.RandomState(seed)
    masks = random.randint(0, 2, size=(samples, d))
    masks[0] = 1
    # The cosine distance from "all present": 1 - |S| / (sqrt(|S|) sqrt(d)).
    distances = 1 - np.sqrt(masks.sum(axis=1) / d)
    base = lime_base.LimeBase(lambda x: np.sqrt(np.exp(-(x**2) / LIME_KERNEL_WIDTH**2)), random_state=random)
    found = base.explain_instance_with_data(masks, ask(masks), distances, label, d, feature_selection="none")
    weights = np.zeros(d)
    for unit, weight in found[1]:
        weights[unit] = weight
    return weights


def shap_units(ask: AskMasks, d: int, label: int, *, samples: Any, seed: int) -> Array:
    """Shapley values of the units, by weighted regression against the row with all of them removed."""
    shap = require("shap", extra="baselines")
    kernel = shap.KernelExplainer(lambda masks: ask(masks)[:, label], np.zeros((1, d)))
    with global_seed(seed):
        values = kernel.shap_values(np.ones((1, d)), nsamples=samples, silent=True)
    return np.asarray(values).reshape(d)


def unit_seed(seed: int, row: Any) -> int:
    """A seed for one row: the same for the same content, unrelated for others."""
    content = np.ascontiguousarray(row).tobytes()
    return int(np.random.SeedSequence([seed, crc32(content)]).generate_state(1)[0])


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed numpy's global generator, which shap draws from, and put its state back."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)
