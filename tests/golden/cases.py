"""What the golden test trains: every view with every objective, 20 steps each, fixed seeds and inputs."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import l2x
from l2x.learning._training import Phase

STEPS = 20
OBJECTIVES = ("surrogate", "model", "joint")
WORDS = ["good", "bad", "film", "plot", "fine", "dull", "actor", "the", "a", "of", "night", "love"]
WORDS += ["hate", "boring", "great", "scene"]


def plan() -> l2x.TrainingPlan:
    phase = Phase(STEPS, 5e-3, batch_size=32, averaging=0.9, choose="latest")
    return l2x.TrainingPlan(value=phase, selector=phase, evaluations=4, progress=False)


def numbers() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(120, 5))


def frame() -> pd.DataFrame:
    """Numbers and categories, both with missing cells."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "age": rng.normal(size=120),
            "income": rng.normal(size=120),
            "town": rng.choice(["Ulm", "Bonn", "Jena"], 120),
            "owner": rng.choice([True, False], 120),
        }
    )
    table.loc[rng.random(120) < 0.2, "income"] = np.nan
    table.loc[rng.random(120) < 0.2, "town"] = None
    return table


def texts() -> list[str]:
    rng = np.random.default_rng(3)
    sentences = [" ".join(rng.choice(WORDS, rng.integers(2, 6))).capitalize() + "." for _ in range(240)]
    return [" ".join(sentences[2 * i : 2 * i + 2]) for i in range(120)]


def images() -> np.ndarray:
    return np.random.default_rng(4).random((120, 8, 8)).astype(np.float32)


def _two(score: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-score))
    return np.stack([1 - p, p], axis=1)


def of_numbers(X: Any) -> np.ndarray:
    X = np.asarray(X, dtype=float)
    return _two(3 * X[:, 1] * X[:, 2])


def of_frame(X: pd.DataFrame) -> np.ndarray:
    town = (X["town"] == "Ulm").to_numpy() * 2.0 - 1
    return _two(town * X["age"].to_numpy() + X["income"].fillna(1.0).to_numpy())


def of_texts(X: list[str]) -> np.ndarray:
    return _two(np.array([2.0 * text.lower().count("good") - text.lower().count("bad") for text in X]))


def of_images(X: np.ndarray) -> np.ndarray:
    return _two(20 * (X[:, :4, :4].mean(axis=(1, 2)) - 0.5))


def mean_of_numbers(X: Any) -> np.ndarray:
    """A regression."""
    return np.asarray(X, dtype=float)[:, 0] * 3 + 1


def problems() -> dict[str, tuple[Any, Any, Any, int]]:
    """Name -> (view, inputs, model, k)."""
    words = {"vocabulary": 30}
    return {
        "columns": (None, numbers(), of_numbers, 2),
        "regression": (None, numbers(), mean_of_numbers, 2),
        "frame": (l2x.Columns(masking="resample"), frame(), of_frame, 2),
        "groups": (l2x.ColumnGroups({"place": ["town", "owner"]}), frame(), of_frame, 2),
        "words": (l2x.Words(length=10, **words), texts(), of_texts, 3),
        "sentences": (l2x.Sentences(length=3, words=6, **words), texts(), of_texts, 1),
        "patches": (l2x.Patches(size=4), images(), of_images, 1),
    }


def explainers() -> Iterator[tuple[str, l2x.Explainer, Any]]:
    """Yield every case, fitted, with its inputs."""
    for name, (view, X, model, k) in problems().items():
        for objective in OBJECTIVES:
            explainer = l2x.Explainer(model, k, features=view, objective=objective, training=plan(), seed=5)
            yield f"{name}/{objective}", explainer.fit(X), X
        relaxed = l2x.samplers.ConcreteMax(temperature=0.1)
        for recipe, as_published in (("paper", False), ("paper-letter", True)):
            paper = l2x.Explainer.paper(
                model, k, features=view, as_published=as_published, training=plan(), sampler=relaxed, seed=5
            )
            yield f"{name}/{recipe}", paper.fit(X), X


def outcomes() -> dict[str, np.ndarray]:
    """Return scores of 20 rows and held-out losses of every case, computed with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = {}
        for name, explainer, X in explainers():
            found[f"{name}/scores"] = explainer.explain(X[:20]).scores
            found[f"{name}/losses"] = np.array([line["validation_loss"] for line in explainer.history_])
        return found
    finally:
        torch.set_num_threads(threads)


def reports() -> dict[str, dict[str, float | None]]:
    """Return every number of the reports of four explainers, except the seconds."""
    found = {}
    for name, (view, X, model, k) in problems().items():
        if name in ("columns", "regression", "frame", "words"):
            explainer = l2x.Explainer(model, k, features=view, objective="surrogate", training=plan(), seed=5)
            explainer.fit(X)
            parts = l2x.report(explainer, model, X[:60], X[60:], training=plan()).to_dict()["parts"]
            found[name] = {
                f"{part}/{key}": estimate["value"]
                for part, entries in parts.items()
                for key, estimate in entries.items()
                if part != "cost"
            }
    return found


def processor() -> str:
    """Describe the processor: bits depend on its instructions, and on torch's version."""
    model = platform.processor()
    if (file := Path("/proc/cpuinfo")).exists():
        lines = [line.partition(":") for line in file.read_text().splitlines()]
        model = next((value.strip() for key, _, value in lines if key.startswith("model name")), model)
    return json.dumps([model, torch.backends.cpu.get_cpu_capability(), torch.__version__])
