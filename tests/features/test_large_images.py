"""Images of any size and form: layouts, files, memory, and networks that read one vector per patch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

import l2x
from l2x.errors import InputError
from l2x.features import ImageFiles, Patches
from l2x.learning.networks import networks_of
from l2x.learning.networks._tokens import TokenPredictor
from l2x.testing import check_view

SIDE = 96
LEVELS = np.random.default_rng(0).integers(0, 256, size=(60, 6, 6, 3), dtype=np.uint8)
COLOUR = LEVELS.repeat(16, axis=1).repeat(16, axis=2)  # (60, 96, 96, 3), patches of even colour


def redness(X: object) -> np.ndarray:
    """Looks at the red of the patch in row 2, column 3 alone; channels come last."""
    red = np.asarray(X, dtype=float)[:, 16:32, 32:48, 0].mean(axis=(1, 2))
    p = 1 / (1 + np.exp(-(red - 127.5) / 16))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty PNG files."""
    home = tmp_path_factory.mktemp("images")
    for i, image in enumerate(COLOUR):
        PIL.Image.fromarray(image).save(home / f"{i:03}.png")
    return home


def test_a_vector_per_patch() -> None:
    view = Patches(16).fit(COLOUR)
    x = view.encode(COLOUR)
    assert x.shape == (60, 36, 3 * 8 * 8)
    red = x[:, 8, :64]  # row 2, column 3; the first channel
    assert torch.allclose(red, torch.from_numpy(LEVELS[:, 1, 2, 0] / 255).half()[:, None].expand(-1, 64))
    assert x.dtype == torch.float16


@pytest.mark.parametrize(
    ("side", "size", "resolution"), [(32, 4, 0), (224, 16, 8), (512, 16, 3), (448, 32, 8)]
)
def test_what_networks_read_does_not_grow_with_the_pixels(side: int, size: int, resolution: int) -> None:
    view = Patches(size).fit(np.zeros((1, side, side, 3), dtype=np.uint8))
    assert view.resolution == resolution
    assert view.encode(np.zeros((1, side, side, 3), dtype=np.uint8)).numel() <= 40_000


@pytest.mark.parametrize("masking", ["zero", "grey", "mean", "colour", "blur"])
@pytest.mark.parametrize("form", ["last", "first", "grey", "float", "rgba"])
def test_layouts(form: str, masking: str) -> None:
    rgba = np.concatenate([COLOUR, COLOUR[..., :1]], axis=-1)
    X = {
        "last": COLOUR,
        "first": COLOUR.transpose(0, 3, 1, 2),
        "grey": COLOUR[..., 0],
        "float": (COLOUR.transpose(0, 3, 1, 2) / 127.5 - 1).astype(np.float32),
        "rgba": rgba,
    }[form][:20]
    view = Patches(16, masking=masking).fit(X)
    assert (view.d, view.sides, view.channels) == (36, (96, 96), {"grey": 1, "rgba": 4}.get(form, 3))
    mask = np.random.default_rng(1).random((20, 36)) < 0.5
    masked = view.for_model(X, mask)
    assert masked.dtype == X.dtype
    assert np.array_equal(masked, view.filled(X, view.plane(mask)))
    inside = np.broadcast_to(view.pixels(mask), X.shape)
    assert np.array_equal(masked[inside], X[inside])
    outside = masked[~inside]
    if masking == "grey":
        assert np.abs(outside - (0 if form == "float" else 127.5)).max() <= 0.5
    elif masking == "colour":
        assert outside.astype(float).std() < X.std() / 2
        planes = view.planes(masked)[0]
        gaps = planes[:, ~view.plane(mask)[0]]
        expected = view.planes(X)[0].mean(axis=(1, 2))
        assert np.allclose(gaps, expected[:, None], atol=0.51 if X.dtype == np.uint8 else 1e-3)
    elif masking == "blur":
        assert 0 < outside.astype(float).std() < X[~inside].astype(float).std()


def test_layouts_are_read_alike() -> None:
    last, first = Patches(16).fit(COLOUR), Patches(16).fit(COLOUR.transpose(0, 3, 1, 2))
    assert torch.equal(last.encode(COLOUR), first.encode(COLOUR.transpose(0, 3, 1, 2)))
    parts = torch.rand(60, SIDE, SIDE, 3)
    assert torch.allclose(last.units(parts), first.units(parts.permute(0, 3, 1, 2)), rtol=1e-4)


def test_a_coarse_blur_is_close_to_the_gaussian() -> None:
    from scipy.ndimage import gaussian_filter

    noise = np.random.default_rng(0).integers(0, 256, size=(2, SIDE, SIDE, 3)).astype(np.float32)
    noise = gaussian_filter(noise, (0, 4, 4, 0))
    view = Patches(16, masking="blur").fit(noise)
    exact = gaussian_filter(noise, (0, 16, 16, 0))
    blurred = view.for_model(noise, np.zeros((2, 36), dtype=bool))
    assert np.abs(blurred - exact).mean() < 0.1 * np.abs(noise - exact).mean()


def test_files_are_read_as_arrays_are(folder: Path) -> None:
    files = ImageFiles(folder)
    assert files.shape == COLOUR.shape
    assert np.array_equal(np.asarray(files[10:12]), COLOUR[10:12])
    assert np.array_equal(np.asarray(files[np.array([5, 1, 5])]), COLOUR[[5, 1, 5]])
    assert np.array_equal(files[-1], COLOUR[-1])
    view = Patches(16).fit(files)
    assert np.allclose(view.mean_, COLOUR.mean(axis=0))
    assert torch.equal(view.encode(view.check(str(folder))), view.encode(COLOUR))
    pictures = [PIL.Image.fromarray(image) for image in COLOUR[:3]]
    assert torch.equal(view.encode(view.check(pictures)), view.encode(COLOUR[:3]))
    paths = sorted(folder.iterdir())
    assert np.array_equal(view.for_model(view.check(paths[:3])), COLOUR[:3])


def test_files_are_cut_to_one_size() -> None:
    tall = PIL.Image.fromarray(COLOUR[0]).resize((48, 192))
    files = ImageFiles([tall, PIL.Image.new("L", (200, 100), 50)], size=(32, 64))
    assert files.shape == (2, 32, 64, 3)
    assert (np.asarray(files)[1] == 50).all()


def test_files_that_are_no_images(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "note.png").write_text("no image")
    with pytest.raises(InputError, match=r"note\.png' cannot be read"):
        np.asarray(ImageFiles(tmp_path))
    with pytest.raises(InputError, match="missing' is not a folder"):
        Patches(16).fit(str(tmp_path / "missing"))
    (tmp_path / "note.png").unlink()
    with pytest.raises(InputError, match="holds no images"):
        ImageFiles(tmp_path)
    with pytest.raises(InputError, match=r"Image 1 has 8 x 4 pixels.*96 x 96.*size=224"):
        np.asarray(ImageFiles([PIL.Image.fromarray(COLOUR[0]), PIL.Image.new("RGB", (8, 4))]))
    with pytest.raises(InputError, match="size is 0"):
        ImageFiles(folder, size=0)
    with pytest.raises(InputError, match="mode is 'CMYK'"):
        ImageFiles(folder, mode="CMYK")


def test_an_explainer_of_a_folder(folder: Path, tiny: l2x.TrainingPlan, tmp_path: Path) -> None:
    plan = tiny.with_steps(value=6, selector=6)
    from_folder, from_array = (
        l2x.Explainer(redness, k=3, features=Patches(16, masking="grey"), training=plan, queries=300).fit(X)
        for X in (folder, COLOUR)
    )
    explanation = from_folder.explain(folder)
    assert np.array_equal(explanation.scores, from_array.explain(COLOUR).scores)
    loaded = l2x.load(from_folder.save(tmp_path / "folder.l2x"))
    assert np.array_equal(loaded.explain(ImageFiles(folder)[:9]).scores, explanation.scores[:9])
    assert from_folder.score(folder) == from_array.score(COLOUR)
    assert "data:image" in explanation[:1].to_html()


def test_an_explainer_finds_the_patch_that_decides(tiny: l2x.TrainingPlan) -> None:
    levels = np.random.default_rng(1).integers(0, 256, size=(600, 3, 3, 3), dtype=np.uint8)
    X = levels.repeat(16, axis=1).repeat(16, axis=2)
    view = Patches(16, masking="grey")
    explainer = l2x.Explainer(
        redness, k=1, features=view, training=tiny.with_steps(value=100, selector=100), queries=3000
    ).fit(X[:500])
    explanation = explainer.explain(X[500:])
    assert (explanation.indices == 5).all()
    assert explanation.names[0] == ["row 2, column 3"]
    assert explainer.score(X[500:]) == 1.0


@pytest.mark.parametrize("last", [True, False])
def test_the_contract(last: bool) -> None:
    check_view(Patches(16), COLOUR[:30] if last else COLOUR[:30].transpose(0, 3, 1, 2))


def test_masks_share_what_is_computed_per_patch() -> None:
    view = Patches(16).fit(COLOUR)
    network = networks_of(view, 3).predictor().eval()
    assert isinstance(network, TokenPredictor)
    x, masks = view.encode(COLOUR[:5]), (torch.rand(4 * 5, 36) < 0.3).float()
    together = network.read(x, masks)
    alone = network(view.mask(x.repeat(4, 1, 1), masks), masks)
    assert torch.allclose(together, alone, atol=1e-5)
    assert together.std() > 1e-3


def test_options_of_the_published_networks() -> None:
    view = Patches(16).fit(COLOUR)
    with pytest.raises(InputError, match="1,024 pixels have no option 'filters'"):
        networks_of(view, 2).selector(filters=(8, 16))


class Small(torch.nn.Sequential):
    """A torch model that reads images with channels first; its first layer has feature maps of 6 x 6."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__()
        self.maps = torch.nn.Conv2d(3, 5, 16, stride=16)
        self.pooled = torch.nn.Sequential(torch.nn.AdaptiveMaxPool2d(1), torch.nn.Flatten())
        self.last = torch.nn.Linear(5, 2)


FIRST = COLOUR.transpose(0, 3, 1, 2)


@pytest.fixture(scope="module")
def network() -> Small:
    """The model, in training mode, as users may leave it."""
    return Small()


def test_a_backbone_is_read_by_the_selector_alone(network: Small) -> None:
    view = Patches(16, backbone="maps").attach(network).fit(FIRST)
    x = view.encode(FIRST[:4])
    assert x.shape == (4, 36, 192 + 5)
    with torch.no_grad():
        maps = network.maps(torch.from_numpy(FIRST[:4].astype(np.float32)))
    assert torch.allclose(x[:, 8, 192:].float(), maps[:, :, 1, 2], rtol=1e-3)
    assert network.training
    same = Patches(16, backbone=network.maps).fit(FIRST).encode(FIRST[:4])
    assert torch.equal(same, x)
    other = x.clone()
    other[..., 192:] = torch.randn(4, 36, 5)
    selector, predictor = networks_of(view, 2).selector(), networks_of(view, 2).predictor()
    torch.nn.init.normal_(selector.head.weight)
    assert not torch.allclose(selector(x), selector(other), atol=1e-3)
    mask = torch.ones(4, 36)
    assert torch.equal(predictor.read(x, mask), predictor.read(other, mask))


def test_an_explainer_with_a_backbone(network: Small, tiny: l2x.TrainingPlan, tmp_path: Path) -> None:
    model = l2x.as_black_box(network, logits=True)
    plan = tiny.with_steps(value=3, selector=3)
    explainer = l2x.Explainer(
        model,
        k=2,
        features=Patches(16, backbone="maps"),
        training=plan,
        queries=100,
    ).fit(FIRST)
    scores = explainer.explain(FIRST[:5]).scores
    path = explainer.save(tmp_path / "backbone.l2x")
    assert np.array_equal(l2x.load(path, model=model).explain(FIRST[:5]).scores, scores)
    loaded = l2x.load(path)
    with pytest.raises(InputError, match="the model is missing"):
        loaded.explain(FIRST[:5])
    assert np.array_equal(loaded.with_model(model).explain(FIRST[:5]).scores, scores)


def test_backbones_that_cannot_be_read(network: Small, tiny: l2x.TrainingPlan, tmp_path: Path) -> None:
    for backbone, message in [
        ("mops", r"no layer 'mops'; it has maps, pooled"),
        ("last", r"returns \(1, 2\)"),
        (7, "backbone is 7"),
    ]:
        with pytest.raises(InputError, match=message):
            Patches(16, backbone=backbone).attach(network).fit(FIRST)
    with pytest.raises(InputError, match="the model is a function"):
        Patches(16, backbone="maps").attach(redness).fit(COLOUR)
    with pytest.raises(InputError, match="1,024 pixels"):
        Patches(4, backbone=network.maps).fit(np.zeros((3, 28, 28)))
    plan = tiny.with_steps(value=2, selector=2)
    view = Patches(16, backbone=network.maps)
    model = l2x.as_black_box(network, logits=True)
    explainer = l2x.Explainer(model, k=2, features=view, training=plan, queries=0).fit(FIRST)
    with pytest.raises(InputError, match="pass the name of a layer"):
        explainer.save(tmp_path / "module.l2x")


def test_onnx(tiny: l2x.TrainingPlan, tmp_path: Path) -> None:
    plan = tiny.with_steps(value=2, selector=20)
    explainer = l2x.Explainer(redness, k=2, features=Patches(16), training=plan, queries=300).fit(COLOUR)
    assert explainer.export_onnx(tmp_path / "patches.onnx", COLOUR[:10]).exists()


def halves(X: object) -> np.ndarray:
    """Looks at the brightness of the upper left corner."""
    p = 1 / (1 + np.exp(-(np.asarray(X, dtype=float)[:, :8, :8].mean(axis=(1, 2, 3)) - 127.5) / 16))
    return np.stack([1 - p, p], axis=1)


def test_superpixels_follow_the_image() -> None:
    X = np.zeros((12, 64, 64, 3), dtype=np.uint8)
    X[:, :, 20:] = (200, 30, 90)
    X[6:, 40:] = (20, 220, 40)
    view = l2x.Superpixels(segments=12).fit(X)
    labels = view.labels(X)
    assert labels.shape == (12, 64, 64)
    for image, found in zip(X, labels, strict=True):
        for segment in np.unique(found):
            assert image[found == segment].std(axis=0).max() < 30  # no segment crosses a border
    x = view.encode(X)
    allowed = view.selectable(x)
    assert [int(row.sum()) for row in allowed] == [len(np.unique(row)) for row in labels]
    mask = np.zeros((12, 12), dtype=bool)
    mask[:, 0] = True
    masked = view.for_model(X, mask)
    assert np.array_equal(masked[labels == 0], X[labels == 0])
    assert (np.abs(masked[labels != 0].astype(float) - 127.5) <= 0.5).all()


def test_the_contract_of_superpixels() -> None:
    noise = np.random.default_rng(3).integers(0, 60, size=(30, 64, 64, 3)) + COLOUR[:30, :64, :64] // 2
    view = l2x.Superpixels(segments=20)
    check_view(view, noise.astype(np.uint8), halves)
    counts = view.fit(noise.astype(np.uint8)).selectable(view.encode(noise.astype(np.uint8))).sum(dim=1)
    assert len(set(counts.tolist())) > 1  # the number of features differs


def test_superpixels_are_drawn_with_their_exact_shape(tiny: l2x.TrainingPlan) -> None:
    X = COLOUR[:30, :64, :64]
    explainer = l2x.Explainer(
        halves, k=2, features=l2x.Superpixels(20), training=tiny.with_steps(value=2, selector=2), queries=60
    ).fit(X)
    explanation = explainer.explain(X[:2])
    figure = explanation[:1].plot()
    shown = figure.axes[0].images[0].get_array()
    kept = explainer.features_.plane(explanation.mask[:1], X[:1])[0]
    assert np.allclose(shown[kept], X[0][kept] / 255)
    assert not np.allclose(shown[~kept], X[0][~kept] / 255)
    assert "segment" in explanation.names[0][0]
    with pytest.raises(InputError, match="segments is 1"):
        l2x.Superpixels(1).fit(X)
