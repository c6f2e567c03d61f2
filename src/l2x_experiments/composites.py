"""Colour pictures of 224 x 224 with a known truth: a small picture on a texture decides the class.

With 5,000 images, networks that start from random weights do not learn to recognise parts of pictures. What
the model knows replaces the missing images: the selector reads the model's own feature maps and learns from
queries alone, and the evaluator is a copy of the model that is trained further on masked images, as in
ViT-Shapley (Covert et al. 2023).
"""

from __future__ import annotations

import copy
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import l2x
from l2x import baselines
from l2x._base.arrays import Array, batches
from l2x.datasets import Composites, composites
from l2x.datasets._composites import CLASSES
from l2x.explanation import Explanation
from l2x.features import Patches, upsample
from l2x.learning import (
    FittedSurrogate,
    Networks,
    Phase,
    PlackettLuce,
    Recipes,
    TrainingPlan,
    masked_predictions,
    recipes_of,
    register,
)
from l2x.model import as_black_box
from l2x_experiments.black_boxes import Trained, picture_network
from l2x_experiments.cache import cached_evaluator, evaluator_accuracy
from l2x_experiments.records import Record, Records, measured_here
from l2x_experiments.report import Report, Table, measured_on
from l2x_experiments.runner import Experiment, Job, only_methods

K, SIZE = 12, 16
# Chosen on other images than those of test: the network keeps most of its predictions if only the object is
# shown, and has no class that it prefers if nothing is.
MASKING = "colour"
# The last feature maps of the network, one vector per patch of 16 pixels.
LAYERS = 16
# Images that a network reads at a time: more would not fit into the processor's cache.
AT_ONCE = 32
# What the evaluator reads of a masked pixel.
GREY = 128
# Seeds of the images: the network learns from the first, explainers, the evaluator and test have their own.
NETWORK, EXPLAINER, EVALUATOR, TEST = 1, 3, 4, 5


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Numbers of images, epochs of the network, and steps of l2x and of the evaluator."""

    network_images: int = 12_000
    epochs: int = 6
    images: int = 5000
    evaluator_images: int = 2000
    test_images: int = 500
    steps: int = 250
    evaluator_steps: int = 300

    @property
    def plan(self) -> TrainingPlan:
        """Return the plan of the explainer: every step queries the model, so batches are small."""
        return plan_of(self.steps, rate=3e-3)


FULL = Budget()
QUICK = Budget(images=1000, evaluator_images=1000, test_images=200, steps=150, evaluator_steps=150)


def plan_of(steps: int, *, rate: float) -> TrainingPlan:
    """Return a plan for networks that cost as much as the model, or that query it."""
    phase = Phase(steps, rate, batch_size=32, averaging=0.97, choose="last")
    return TrainingPlan(value=phase, selector=phase, evaluations=2, validation_rows=100, progress=False)


class Network:
    """A network as a callable, (n, side, side, 3) bytes -> probabilities, that counts its images and time."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.network, self.rows, self.seconds = network, 0, 0.0

    def __call__(self, X: Array) -> Array:
        """Return the probabilities, (n, classes)."""
        started = time.process_time()
        with torch.inference_mode():
            parts = [
                torch.softmax(self.network(torch.from_numpy(X[rows]).float()), dim=1)
                for rows in batches(len(X), AT_ONCE)
            ]
        self.rows, self.seconds = self.rows + len(X), self.seconds + time.process_time() - started
        return torch.cat(parts).numpy()


class Setting:
    """The network, the images, and the evaluator."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.view = Patches(SIZE, masking=MASKING)  # type: ignore[arg-type]
        made = {"composites": budget.network_images, "composites_seed": NETWORK}
        self.trained: Trained = picture_network(
            made,
            lambda: composites(made["composites"], seed=made["composites_seed"], progress=False),
            classes=len(CLASSES),
            epochs=budget.epochs,
        )
        self.model = Network(self.trained.network)
        self.test: Composites = composites(budget.test_images, seed=TEST, progress=False)
        self.predictions = self.model(self.test.X)

    @cached_property
    def train(self) -> Array:
        """The images that explainers learn from."""
        return np.asarray(composites(self.budget.images, seed=EXPLAINER, progress=False).X)

    @cached_property
    def evaluator(self) -> FittedSurrogate:
        """The evaluator, which learns from other images than explainers do."""
        X = composites(self.budget.evaluator_images, seed=EVALUATOR, progress=False).X
        return cached_evaluator(
            "pictures",
            {"model": dict(self.trained.key), "patch": SIZE, "start": "model"},
            as_black_box(self.model),
            Pixels(SIZE).fit(X[:AT_ONCE]),
            X,
            k=K,
            classes=len(self.test.classes),
            plan=plan_of(self.budget.evaluator_steps, rate=1e-3),
            options={"start": self.trained.network},
        )


class Pixels(Patches):
    """Patches whose networks read every pixel; unselected ones are grey, which depends on no other pixel."""

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Return the images as they are."""
        return torch.from_numpy(np.ascontiguousarray(X))

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the images with grey in unselected patches."""
        return x.where(upsample(mask, self.grid_, self.size).permute(0, 2, 3, 1) > 0, GREY)


class Further(nn.Module):
    """g_α: a copy of the network, which is trained further on masked images."""

    def __init__(self, *, start: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(start).requires_grad_(requires_grad=True)

    def train(self, mode: bool = True) -> Further:
        """Keep the statistics of batch normalisation: batches are small."""
        return super().train(mode=False)

    def forward(self, masked: Tensor, mask: Tensor) -> Tensor:
        """Return the logits of masked images."""
        at_once = len(masked) if torch.is_grad_enabled() else AT_ONCE
        return torch.cat([self.network(masked[rows].float()) for rows in batches(len(masked), at_once)])


def _further(view: Pixels, outputs: int) -> Networks:
    """Return the builder of the evaluator's network; there is no selector that reads every pixel."""
    return Networks(selector=nn.Identity, predictor=Further)


register(Pixels, Recipes(_further))


def replace_view(view: Patches) -> Patches:
    """Return a view with the same options that is not fitted."""
    return Patches(**view.get_params(deep=False))


@lru_cache(maxsize=1)
def set_up(budget: Budget) -> Setting:
    """Return the setting of a budget; it is set up only once."""
    return Setting(budget)


Explained = tuple[Explanation, Record]


@lru_cache(maxsize=1)
def fitted(setting: Setting, seed: int) -> tuple[l2x.Explainer, Record]:
    """Fit l2x with the feature maps of the model; return also what that cost."""
    model, train = Network(setting.trained.network), setting.train
    maps = nn.Sequential(*list(setting.trained.network.children())[:LAYERS])
    view = Patches(SIZE, masking=MASKING, backbone=maps)  # type: ignore[arg-type]
    started = time.process_time()
    explainer = l2x.Explainer(
        model, K, features=view, objective="model", target="class", sampler=PlackettLuce(samples=4),
        training=setting.budget.plan, seed=seed,
    ).fit(train)  # fmt: skip
    return explainer, {
        "images": len(train),
        "steps": setting.budget.steps,
        "fit_cpu_seconds": time.process_time() - started,
        "model_cpu_seconds": model.seconds,
        "fit_queries": explainer.rows_queried_,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def learned(setting: Setting, seed: int) -> Explained:
    """Explain by the learned selector alone."""
    explainer, cost = fitted(setting, seed)
    started = time.process_time()
    explanation = explainer.explain(setting.test.X)
    return explanation, cost | {"seconds": (time.process_time() - started) / len(setting.test), "queries": 0}


def refined(setting: Setting, seed: int, *, queries: int) -> Explained:
    """Explain by the learned selector, and query the model until it confirms a selection."""
    explainer, cost = fitted(setting, seed)
    started = time.process_time()
    explanation = explainer.explain(setting.test.X, predictions=setting.predictions, refine=queries)
    return explanation, cost | {
        "seconds": (time.process_time() - started) / len(setting.test),
        "queries": queries,
        "mean_queries": float(np.mean(np.asarray(explanation.queries))),
    }


def surrogate_from_pixels(setting: Setting, seed: int) -> Explained:
    """Fit l2x with a surrogate that has only the small vector per patch, and explain the test images."""
    plan = recipes_of(Patches).ours.plan.with_steps(value=setting.budget.steps, selector=setting.budget.steps)
    model = Network(setting.trained.network)
    started = time.process_time()
    explainer = l2x.Explainer(
        model, K, features=replace_view(setting.view), training=replace(plan, progress=False), seed=seed,
    ).fit(setting.train)  # fmt: skip
    cost = {"fit_cpu_seconds": time.process_time() - started, "model_cpu_seconds": model.seconds}
    started = time.process_time()
    explanation = explainer.explain(setting.test.X, polish=False)
    seconds = (time.process_time() - started) / len(setting.test)
    return explanation, cost | {"seconds": seconds, "queries": 0, "fit_queries": explainer.rows_queried_}


def by_gradient(setting: Setting, seed: int, *, name: str) -> Explained:
    """Explain by a gradient method of the registry."""
    view = replace_view(setting.view).fit(setting.test.X)
    method = baselines.make_method(
        name, model=setting.trained.network, features=view, background=setting.test.X[:1], seed=seed,
        progress=False,
    )  # fmt: skip
    started = time.process_time()
    explanation = method.explain(setting.test.X, K)
    return explanation, {"seconds": (time.process_time() - started) / len(setting.test)}


def by_scores(setting: Setting, seed: int, *, scores: Callable[[Setting, int], Array]) -> Explained:
    """Explain by scores that need no model: the truth, the centre, random numbers."""
    view = replace_view(setting.view).fit(setting.test.X)
    return Explanation(scores(setting, seed), K, view.names_, inputs=setting.test.X, view=view), {
        "queries": 0
    }


def of_truth(setting: Setting, seed: int) -> Array:
    """Return the share of the object in each patch."""
    return setting.test.covered(SIZE)


def of_centre(setting: Setting, seed: int) -> Array:
    """Return scores that fall with the distance from the centre."""
    side = int(setting.test.covered(SIZE).shape[1] ** 0.5)
    rows, columns = np.mgrid[0:side, 0:side] - (side - 1) / 2
    return np.tile(-(rows**2 + columns**2).ravel(), (len(setting.test), 1))


def of_chance(setting: Setting, seed: int) -> Array:
    """Return random scores."""
    return np.random.default_rng(seed).random((len(setting.test), setting.test.covered(SIZE).shape[1]))


METHODS: dict[str, tuple[str, Callable[[Setting, int], Explained]]] = {
    "l2x": ("l2x, with the model's feature maps", learned),
    "l2x-refined": ("the same, refined with at most 50 queries", partial(refined, queries=50)),
    "l2x-pixels": ("l2x, from a vector per patch", surrogate_from_pixels),
    "taylor": ("gradient times input", partial(by_gradient, name="taylor")),
    "saliency": ("saliency", partial(by_gradient, name="saliency")),
    "truth": ("the patches with most of the object", partial(by_scores, scores=of_truth)),
    "centre": ("the central patches", partial(by_scores, scores=of_centre)),
    "random": ("random patches", partial(by_scores, scores=of_chance)),
}


def experiment(*, quick: bool = False, seeds: int = 3, only: Sequence[str] | None = None) -> Experiment:
    """Return the jobs: every method, and each seed of those that depend on it."""
    jobs = [
        Job({"method": method, "seed": seed, "quick": quick}, f"{method}, seed {seed}", group=seed)
        for seed in range(seeds)
        for method in METHODS
        if seed == 0 or method in ("l2x", "l2x-refined", "random")
    ]
    return Experiment(
        "composites",
        only_methods(jobs, only),
        partial(measure_all, budget=QUICK if quick else FULL),
        fetch=lambda progress: composites(1, progress=progress),
        belongs={"quick": quick},
    )


def measure_all(jobs: Sequence[Job], budget: Budget) -> Iterator[Record]:
    """Measure the jobs of one group."""
    setting = set_up(budget)
    for job in jobs:
        explanation, cost = METHODS[job["method"]][1](setting, job["seed"])
        yield {**job.key, **measures(setting, explanation), **cost, **measured_here()}


def measures(setting: Setting, explanation: Explanation) -> Record:
    """Return the record of an explanation of the test images."""
    mask, test, view = explanation.mask, setting.test, explanation.view
    assert view is not None
    classes = setting.predictions.argmax(axis=1)
    covered = test.covered(SIZE)
    black_box = as_black_box(setting.model)

    def share(mask: Array) -> float:
        guesses = masked_predictions(black_box, view, test.X, mask)
        return float((guesses.argmax(axis=1) == classes).mean())

    return {
        "k": K,
        "patches": view.d,
        "rows": len(test),
        "masking": view.masking,
        "model_accuracy": float((classes == test.y).mean()),
        "posthoc_accuracy": share(mask),
        "judge_accuracy": evaluator_accuracy(setting.evaluator, test.X, explanation, classes),
        "complement_accuracy": share(~mask),
        "on_object": float((covered > 0)[mask].mean()),
        "object_found": float((covered * mask).sum(axis=1).mean()),
    }


def report(records: Records) -> Report:
    """Return the page: a table."""
    first = records[0]
    page = Report(
        "composites",
        title="Where is the object?",
        subtitle=f"{first['k']} of {first['patches']} patches of 224 x 224 images with a known truth",
    )
    names = {name: label for name, (label, _) in METHODS.items()}
    table = Table.of(
        records.groups(method=METHODS),
        {
            "method": lambda group: names[group[0]["method"]],
            "post-hoc accuracy": lambda group: group.mean_sd("posthoc_accuracy"),
            "evaluator": lambda group: group.mean_sd("judge_accuracy"),
            "all other patches": lambda group: group.mean_sd("complement_accuracy"),
            "patches on the object": lambda group: group.mean_sd("on_object"),
            "object found": lambda group: group.mean_sd("object_found"),
            "CPU seconds per image": lambda group: group.mean_sd("seconds", digits=4),
        },
    )
    page.add("", _introduction(records), table=table)
    return page


def _introduction(records: Records) -> list[str]:
    first = records[0]
    fits = records.select(method="l2x")
    accuracy, masking = 100 * first["model_accuracy"], first["masking"]
    text = [
        f"A small network of our own is right on {accuracy:.1f} % of {first['rows']} test images: a texture "
        "with one of about 650 small pictures in ten categories. Only the picture decides the class. Masked "
        f"patches have the mean colour of the image (masking={masking!r}). The evaluator learned from other "
        "images than the explainers.",
    ]
    if fits:
        own = fits.mean("fit_cpu_seconds") - fits.mean("model_cpu_seconds")
        queries, peak = fits.mean("fit_queries"), max(fits.values("peak_mib"))
        text.append(
            f"Fitting l2x on {fits[0]['images']:,} images took {own:.0f} s of CPU time, and the model's "
            f"{queries:,.0f} queries {fits.mean('model_cpu_seconds'):.0f} s more. The process had at most "
            f"{peak:,} MiB in memory."
        )
    return [*text, measured_on(records)]
