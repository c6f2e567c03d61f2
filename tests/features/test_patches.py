"""The patch view: grids, masks on pixels, masking, padding, saving, and errors that say what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import l2x
from l2x.features import Patches
from l2x.learning.networks import networks_of
from l2x.learning.networks._recipes import CHUNK

GREY = np.random.default_rng(0).integers(0, 256, size=(20, 12, 8), dtype=np.uint8)
COLOUR = np.random.default_rng(1).normal(size=(10, 3, 8, 8)).astype(np.float32)


def brightness(X: np.ndarray) -> np.ndarray:
    """Looks at the upper left patch of 4 x 4 alone."""
    p = 1 / (1 + np.exp(-(np.asarray(X, dtype=float)[..., :4, :4].mean(axis=(-1, -2)) - 127.5) / 8))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Patches of even brightness, 2 x 2 of them."""
    levels = np.random.default_rng(0).integers(0, 256, size=(600, 2, 2), dtype=np.uint8)
    return levels.repeat(4, axis=1).repeat(4, axis=2)


def test_the_grid() -> None:
    view = Patches(size=4).fit(GREY)
    assert view.grid_ == (3, 2)
    assert view.names_[3] == "row 2, column 2"
    x = view.encode(view.check(GREY))
    assert x.shape == (20, 1, 12, 8)
    assert np.allclose(x.numpy()[:, 0] * 255, GREY)
    assert Patches(size=2).fit(COLOUR).encode(COLOUR).abs().max() == 1


def test_a_mask_is_repeated_over_the_pixels() -> None:
    view = Patches(size=4).fit(GREY)
    mask = np.zeros((20, 6), dtype=bool)
    mask[:, 3] = True  # row 2, column 2
    masked = view.mask(view.encode(GREY), torch.from_numpy(mask).float()).numpy()[:, 0]
    assert np.allclose(masked[:, 4:8, 4:8] * 255, GREY[:, 4:8, 4:8])
    masked[:, 4:8, 4:8] = 0
    assert not masked.any()


@pytest.mark.parametrize("X", [GREY, COLOUR, GREY.astype(float)], ids=["grey", "colour", "float"])
@pytest.mark.parametrize("masking", ["zero", "mean", "blur"])
def test_masking_keeps_what_is_selected(X: np.ndarray, masking: str) -> None:
    view = Patches(size=4, masking=masking).fit(X)
    mask = np.random.default_rng(2).random((len(X), view.d)) < 0.5
    masked = view.for_model(X, mask)
    assert masked.dtype == X.dtype
    assert masked.shape == X.shape
    selected = np.broadcast_to(view.pixels(mask), X.shape)
    assert np.array_equal(masked[selected], X[selected])
    if masking == "zero":
        assert not masked[~selected].any()
    elif masking == "mean":
        mean = np.broadcast_to(X.mean(axis=0), X.shape)
        assert np.allclose(masked[~selected], mean[~selected], atol=0.5 if X.dtype == np.uint8 else 1e-5)
    else:
        assert masked[~selected].std() < X[~selected].std()
    assert np.array_equal(view.for_model(X, np.ones_like(mask)), X)


@pytest.mark.parametrize("padding", ["zero", "edge"])
def test_padding(padding: str) -> None:
    X = GREY[:, :11, :7]
    view = Patches(size=4, padding=padding).fit(X)
    assert view.grid_ == (3, 2)
    x = view.encode(X)
    assert x.shape == (20, 1, 12, 8)
    assert torch.equal(x[..., 11, :7], x[..., 10, :7] if padding == "edge" else torch.zeros(20, 1, 7))
    assert view.for_model(X, np.ones((20, 6), dtype=bool)).shape == X.shape
    assert view.units(torch.ones(20, 11, 7)).sum() == 20 * 11 * 7


def test_gradients_are_summed_over_patches() -> None:
    view = Patches(size=4).fit(GREY)
    parts = torch.from_numpy(GREY.astype(np.float32))
    assert view.units(parts)[:, 3].tolist() == GREY[:, 4:8, 4:8].sum(axis=(1, 2)).tolist()
    colour = Patches(size=8).fit(COLOUR)
    assert np.allclose(colour.units(torch.from_numpy(COLOUR))[:, 0], COLOUR.sum(axis=(1, 2, 3)), atol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 4, 3, 7, 8])
@pytest.mark.parametrize("head", ["conv", "dense"])
def test_networks_fit_every_grid(size: int, head: str) -> None:
    view = Patches(size=size, padding="zero").fit(GREY)
    x = view.encode(GREY)
    scores = networks_of(view, 2).selector(head=head)(x)
    assert scores.shape == (20, view.d)
    for sees_mask in (True, False):
        assert networks_of(view, 3).predictor(sees_mask=sees_mask)(x, torch.ones(20, view.d)).shape == (20, 3)


def test_chunks_change_nothing() -> None:
    X = np.random.default_rng(0).integers(0, 256, size=(CHUNK + 5, 8, 8), dtype=np.uint8)
    view = Patches(size=4).fit(X)
    x, network = view.encode(X), networks_of(view, 2).selector(head="conv")
    whole = network(x)
    with torch.no_grad():
        assert torch.allclose(network(x), whole, atol=1e-6)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((8, 8)), r"shape \(8, 8\).*pass x\[None\]"),
        (np.zeros((0, 8, 8)), "no images"),
        (np.zeros((5, 10, 8)), "do not divide images of 10 x 8; choose size among 1, 2, or padding"),
        ([["a"]], "arrays of numbers"),
        (np.full((2, 8, 8), np.nan), r"Image 0, pixel \(0, 0\) is nan"),
    ],
)
def test_bad_images(X: object, message: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=message):
        Patches(size=4).fit(X)


def test_wrong_options() -> None:
    for options, message in [
        ({"size": 0}, "size is 0"),
        ({"masking": "black"}, "masking is 'black'"),
        ({"padding": "wrap"}, "padding is 'wrap'"),
    ]:
        with pytest.raises(l2x.errors.InputError, match=message):
            Patches(**options).fit(GREY)
    with pytest.raises(
        l2x.errors.InputError, match=r"shape \(8, 8\), but the explainer was fitted on \(12, 8\)"
    ):
        Patches().fit(GREY).check(GREY[:, :8])


@pytest.mark.parametrize("value", ["surrogate", "model", "joint"])
def test_explainers_find_the_patch_that_decides(
    images: np.ndarray, tiny: l2x.TrainingPlan, tmp_path: Path, value: str
) -> None:
    make = l2x.Explainer.paper if value == "joint" else l2x.Explainer
    options = {} if value == "joint" else {"objective": value}
    view = Patches(size=4, masking="mean")
    explainer = make(brightness, k=1, features=view, training=tiny, **options).fit(images)
    explanation = explainer.explain(images[:50])
    assert explanation.names[0] == ["row 1, column 1"]
    assert explanation.mask[:, 0].mean() > 0.9
    assert explainer.score(images) > 0.9
    loaded = l2x.load(explainer.save(tmp_path / "a.l2x"), model=brightness)
    assert np.array_equal(loaded.explain(images).scores, explainer.explain(images).scores)
    assert loaded.score(images) == explainer.score(images)


def test_noise_keeps_the_kind_of_image() -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(5, 4, 4)).astype(np.uint8)
    view = l2x.Patches(2).fit(images)
    noisy = view.jitter(images, np.random.default_rng(1))
    assert noisy.dtype == np.uint8
    assert 0 < np.abs(noisy.astype(int) - images).mean() < 10
    floats = images / 255
    assert l2x.Patches(2).fit(floats).jitter(floats, np.random.default_rng(1)).dtype == floats.dtype
