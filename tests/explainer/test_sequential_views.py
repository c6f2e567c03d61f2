"""The guarantee of the sequential selector for images and texts, in memory, after loading, and in ONNX."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import l2x
from l2x.export._onnx_parts import graph_inputs
from l2x.features import PAD
from l2x.learning._training import Phase

SHORT = l2x.TrainingPlan(
    Phase(8, 1e-2, batch_size=32), Phase(6, 1e-2, batch_size=32), evaluations=2, progress=False
)
WORDS = ["good", "bad", "fine", "awful", "film", "plot", "actor", "scene", "never", "very"]


def texts(n: int, rng: np.random.Generator) -> list[str]:
    """Reviews of different lengths, with unknown words."""
    return [" ".join(rng.choice([*WORDS, "zzz"], rng.integers(1, 14))) for _ in range(n)]


def reviews(n: int, rng: np.random.Generator) -> list[str]:
    return [" ".join(f"{line.capitalize()}." for line in texts(rng.integers(1, 5), rng)) for _ in range(n)]


def images(n: int, rng: np.random.Generator) -> np.ndarray:
    """Images with patches of 2 x 2 pixels that are bright or dark."""
    patches = rng.choice([-1.0, 1.0], (n, 4, 4)).repeat(2, axis=1).repeat(2, axis=2)
    return np.asarray(patches * rng.random((n, 8, 8)), dtype=np.float32)


def large(n: int, rng: np.random.Generator) -> np.ndarray:
    """More than 1,024 pixels, as read by networks with one vector per patch."""
    blocks = rng.normal(size=(n, 4, 4)).repeat(12, axis=1).repeat(12, axis=2)
    return (blocks + 0.01 * rng.normal(size=blocks.shape)).astype(np.float32)


def bright(X: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-20 * (np.asarray(X)[:, :4].mean(axis=(1, 2)))))
    return np.stack([1 - p, p], axis=1)


def positive(X: list[str]) -> np.ndarray:
    odds = np.array([text.lower().count("good") - text.lower().count("bad") for text in X])
    p = 1 / (1 + np.exp(-2.0 * odds))
    return np.stack([1 - p, p], axis=1)


class Case(NamedTuple):
    """A view, a model and its inputs."""

    view: l2x.View
    model: Callable[[Any], np.ndarray]
    draw: Callable[[int, np.random.Generator], Any]


CASES = {
    "patches": Case(l2x.Patches(size=2), bright, images),
    "large images": Case(l2x.Patches(size=12), bright, large),
    "segments": Case(l2x.Superpixels(6), bright, large),
    "words": Case(l2x.Words(length=10, vocabulary=10), positive, texts),
    "sentences": Case(l2x.Sentences(length=4, words=8, vocabulary=10), positive, reviews),
}


@pytest.fixture(scope="module", params=CASES)
def example(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Case, l2x.Explainer, l2x.Explainer]:
    """Return an explainer of each view, and the same after saving and loading it."""
    case = CASES[request.param]
    X = case.draw(200, np.random.default_rng(0))
    explainer = l2x.Explainer(
        case.model, 3, features=case.view, selector="sequential", training=SHORT, queries=0
    ).fit(X)
    with torch.no_grad():
        for weights in explainer.selector_.common.parameters():
            weights.zero_()
        for seed in range(30):  # the property holds for any weights: find some with which paths differ
            generator = torch.Generator().manual_seed(seed)
            for weights in explainer.selector_.policy.parameters():
                weights.copy_((weights.ndim > 1) * torch.randn(weights.shape, generator=generator))
            for part in explainer.selector_.policy.modules():
                if isinstance(part, torch.nn.Embedding):
                    part.weight[PAD] = 0  # as in training
            if len(np.unique(explainer.explain(X).indices, axis=0)) > 2:
                break
    assert len(np.unique(explainer.explain(X).indices, axis=0)) > 2
    saved = explainer.save(tmp_path_factory.mktemp("sequential") / "view.l2x")
    return case, explainer, l2x.load(saved)


def agreeing(x: torch.Tensor, others: torch.Tensor, indices: np.ndarray) -> torch.Tensor:
    """Return encoded inputs that agree with x at the looked-up positions, and with `others` elsewhere."""
    if x.ndim == 4:  # 4 x 4 patches of 2 x 2 pixels
        mask = torch.zeros(len(x), 16).scatter(1, torch.from_numpy(indices), 1.0).reshape(-1, 1, 4, 4)
        mask = mask.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        return torch.where(mask > 0, x, others)
    mask = torch.zeros(x.shape[:2]).scatter(1, torch.from_numpy(indices), 1.0)
    return torch.where(mask.reshape(*mask.shape, *[1] * (x.ndim - 2)) > 0, x, others)


def path_of(explainer: l2x.Explainer, x: torch.Tensor) -> np.ndarray:
    """Return the positions that the path of encoded inputs looks up, also those without a word."""
    with torch.inference_mode():
        return np.asarray(explainer.selector_(x).topk(3, dim=1).indices)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 30), n=st.integers(1, 20))
def test_inputs_that_agree_on_the_path_have_the_same_path(
    example: tuple[Case, l2x.Explainer, l2x.Explainer], seed: int, n: int
) -> None:
    case, explainer, loaded = example
    rng, view = np.random.default_rng(seed), explainer.features_
    x, others = (view.encode(view.check(case.draw(n, rng))) for _ in range(2))
    expected = path_of(explainer, x)
    changed = agreeing(x, others, expected)
    np.testing.assert_array_equal(path_of(loaded, changed), expected)
    np.testing.assert_array_equal(path_of(loaded, changed[n // 2 :]), expected[n // 2 :])


def test_the_explanation_has_what_the_path_found(
    example: tuple[Case, l2x.Explainer, l2x.Explainer],
) -> None:
    """Positions without a known word are on the path, but are not selected."""
    case, _, loaded = example
    view, X = loaded.features_, case.draw(50, np.random.default_rng(3))
    explanation = loaded.explain(X)
    x = view.encode(view.check(X))
    looked_up = torch.zeros(50, view.d).scatter(1, torch.from_numpy(path_of(loaded, x)), 1.0) > 0
    selectable = view.selectable(x)
    expected = looked_up if selectable is None else looked_up & selectable
    np.testing.assert_array_equal(explanation.mask & (explanation.scores > 0), expected.numpy())
    assert len(explanation.paths()) == 50


def test_equal_preferences_are_resolved_in_double_precision(
    example: tuple[Case, l2x.Explainer, l2x.Explainer],
) -> None:
    """Without any preference, the path takes the features in their order."""
    case, explainer, _ = example
    selector, view = copy.deepcopy(explainer.selector_), explainer.features_
    with torch.no_grad():
        for weights in selector.parameters():
            weights.zero_()
        selector.first.zero_()
        scores = selector(view.encode(view.check(case.draw(5, np.random.default_rng(6)))))
    assert scores.topk(3, dim=1).indices.tolist() == [[0, 1, 2]] * 5


def test_the_onnx_graph_has_the_same_paths(
    example: tuple[Case, l2x.Explainer, l2x.Explainer], tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    case, explainer, _ = example
    X = explainer.features_.check(case.draw(100, np.random.default_rng(4)))
    session = onnxruntime.InferenceSession(explainer.export_onnx(tmp_path / "paths.onnx").read_bytes())
    feed, _ = graph_inputs(explainer.features_).read(X)
    mask = session.run(["mask"], feed | {"k": np.array([3])})[0]
    np.testing.assert_array_equal(mask, explainer.explain(X).mask)
