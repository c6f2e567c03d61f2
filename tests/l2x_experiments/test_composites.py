"""Composites and photographs in miniature: the truth of the generator, complete records, pages."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest
import torch

from l2x.datasets import _composites
from l2x.datasets import composites as make
from l2x.datasets._fetching import DataFile, DataSet
from l2x.errors import InputError
from l2x_experiments import composites, photos
from l2x_experiments.runner import run

RESULTS = Path(__file__).parents[2] / "results"
STEP = _composites.CELL + 2 * _composites.MARGIN


@pytest.fixture(autouse=True)
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as the real one, with two drawn pictures per class: nothing is downloaded."""
    folder = tmp_path / "package" / "img" / "google" / "sheets-256"
    folder.mkdir(parents=True)
    sheet, index = PIL.Image.new("RGBA", (10 * STEP, 2 * STEP)), []
    pencil = PIL.ImageDraw.Draw(sheet)
    for column, beginnings in enumerate(_composites.CLASSES.values()):
        for row in range(2):
            x, y = column * STEP + 1, row * STEP + 1
            colour = (25 * column, 255 - 25 * column, 120 * row)
            pencil.rectangle((x + 4, y + 4 + 2 * column, x + 59, y + 59), fill=colour)
            entry = {"sheet_x": column, "sheet_y": row, "has_img_google": True, "subcategory": beginnings[0]}
            index.append(entry)
    sheet.save(folder / "64.png")
    (tmp_path / "package" / "emoji.json").write_text(json.dumps(index))
    files = [
        DataFile(path.name, hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest())
        for path in (folder / "64.png", tmp_path / "package" / "emoji.json")
    ]
    pictures = DataSet("emoji", files, [])
    pictures.fetch(local=tmp_path / "package", progress=False)
    monkeypatch.setattr(_composites, "PICTURES", pictures)
    _composites._pictures.cache_clear()
    composites.set_up.cache_clear()
    composites.fitted.cache_clear()
    return tmp_path


def test_the_truth() -> None:
    data, again = (make(20, seed=3, side=96, progress=False) for _ in range(2))
    assert data.X.shape == (20, 96, 96, 3)
    assert np.array_equal(data.X, again.X)
    assert set(data.y) <= set(range(10))
    covered = data.covered(16)
    assert covered.shape == (20, 36)
    assert np.allclose(covered.sum(axis=1), 1)
    for i in range(20):
        inside = data.pixels(i)
        assert 300 < inside.sum() < 1300  # at most 0.36 of the side
        colours = data.X[i][inside].astype(int)
        column = data.y[i]
        assert np.abs(np.median(colours, axis=0)[0] - 25 * column) <= 4
    assert not np.array_equal(make(20, seed=4, side=96, progress=False).X, data.X)
    with pytest.raises(InputError, match="n is 0"):
        make(0, progress=False)


@pytest.mark.filterwarnings("ignore:The ")
def test_every_method_gives_a_complete_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = composites.Budget(
        network_images=64, epochs=1, images=40, evaluator_images=40, test_images=12, steps=3,
        evaluator_steps=3,
    )  # fmt: skip
    monkeypatch.setattr(composites, "QUICK", tiny)
    monkeypatch.setattr(composites, "composites", lambda n, **options: make(n, side=64, **options))
    monkeypatch.setattr(composites, "K", 3)
    records = run(composites.experiment(quick=True, seeds=1), tmp_path, progress=False)
    assert [record["method"] for record in records] == list(composites.METHODS)
    keys = {"posthoc_accuracy", "judge_accuracy", "complement_accuracy", "on_object", "object_found"}
    for record in records:
        assert record.keys() >= keys | {"k", "seed", "rows", "masking", "machine", "threads"}
        assert all(0 <= record[key] <= 1 for key in keys)
    by_name = {record["method"]: record for record in records}
    assert by_name["truth"]["object_found"] >= max(record["object_found"] for record in records)
    assert by_name["l2x"]["fit_queries"] > 40
    assert by_name["l2x"]["model_cpu_seconds"] < by_name["l2x"]["fit_cpu_seconds"]
    page = composites.report(records).write(tmp_path).read_text()
    assert "the central patches" in page
    assert "colour" in page


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Noise in the shape of photographs."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(24):
        noise = np.random.default_rng(i).integers(0, 256, size=(70, 80 + i, 3), dtype=np.uint8)
        PIL.Image.fromarray(noise).save(folder / f"n{i:08}_noise.jpg")
    return folder


class Tiny(torch.nn.Module):
    """A small network with the layers of the real classifier, whose weights are in a package."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Module()
        self.network._conv_stem = torch.nn.Conv2d(3, 8, 3, stride=4, padding=1)
        self.network._bn0, self.network._bn1 = torch.nn.BatchNorm2d(8), torch.nn.BatchNorm2d(16)
        self.network._swish = torch.nn.ReLU()
        self.network._blocks = torch.nn.ModuleList([torch.nn.Conv2d(8, 8, 3, stride=4, padding=1)])
        self.network._conv_head = torch.nn.Conv2d(8, 16, 1)
        self.network._fc = torch.nn.Linear(16, 10)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        network = self.network
        maps = network._swish(network._bn0(network._conv_stem(photos.standardised(x))))
        last = network._swish(network._bn1(network._conv_head(network._blocks[0](maps))))
        return network._fc(last.mean(dim=(2, 3)))


def test_evidence_has_the_same_spread_in_every_photograph() -> None:
    torch.manual_seed(0)
    classifier, x = Tiny(), torch.randint(0, 256, (3, 64, 64, 3)).float()
    maps = photos.Evidence(classifier)(x)  # type: ignore[arg-type]
    assert maps.shape == (3, 8 + 4, 4, 4)
    spread = maps[:, 8:].std(dim=(2, 3)) / maps[:, :8].std()
    assert torch.allclose(spread, torch.full((3, 4), photos.STRENGTH), rtol=1e-2)
    assert torch.allclose(maps[:, 8:].mean(dim=(2, 3)), torch.zeros(3, 4), atol=1e-4)


@pytest.mark.filterwarnings("ignore:The ")
def test_photographs(photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SIDE": 64, "LEARN": 8, "VALIDATE": 4, "ALL": 12, "K": 3, "STEPS": 4}.items():
        monkeypatch.setattr(photos, name, value)
    torch.manual_seed(0)
    monkeypatch.setattr(photos, "PhotoNetwork", Tiny)
    small = {
        name: (label, 4, explain)
        for name, (label, _, explain) in photos.METHODS.items()
        if name in ("centre", "random", "integrated-gradients", "l2x", "l2x-refined")
    }
    monkeypatch.setattr(photos, "METHODS", small)
    photos.set_up.cache_clear()
    photos.fitted.cache_clear()
    records = run(photos.experiment(images=photographs), tmp_path, progress=False)
    assert [record["method"] for record in records] == [photos.VALIDATION] * 3 + list(small)
    for record in records:
        assert 0 <= record["posthoc_accuracy"] <= 1
        assert record["rows"] == 4
    assert "the central patches" in photos.report(records).write(tmp_path).read_text()


def test_a_folder_without_photographs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds 0 photographs"):
        photos.Setting(tmp_path)
