"""Small classifiers of a table, of texts and of images, with named classes, explained within a second."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import l2x
from l2x.learning import Phase

COLOURS = ("red", "blue")
rng = np.random.default_rng(0)
FRAME = pd.DataFrame({"colour": rng.choice(COLOURS, 200), "size": rng.normal(size=200), "noise": 1.0})
TEXTS = ["a good film", "a bad film", "good and good", "bad and bad"] * 15
IMAGES = rng.random((60, 4, 4)).astype(np.float32)


class Shop:
    """A classifier with named classes that counts its rows."""

    classes_ = np.array(["keep", "leave"])
    rows = 0

    def predict_proba(self, X: Any) -> np.ndarray:
        self.rows += len(X)
        if isinstance(X, pd.DataFrame):
            p = np.where(X["colour"] == "red", 0.9, 0.2)
        elif isinstance(X, list):
            p = np.array([0.5 + 0.15 * (text.count("good") - text.count("bad")) for text in X]).clip(
                0.05, 0.95
            )
        else:
            p = 0.1 + 0.8 * X[:, 0, 0]
        return np.stack([1 - p, p], axis=1)


CASES: dict[str, tuple[Any, Any, int]] = {
    "table": (FRAME, None, 2),
    "words": (TEXTS, l2x.Words(length=4), 2),
    "patches": (IMAGES, l2x.Patches(2), 2),
}


PLAN = l2x.TrainingPlan(
    value=Phase(60, 5e-3, batch_size=100, averaging=0.9),
    selector=Phase(30, 1e-2, batch_size=100, averaging=0.9),
    evaluations=2,
    progress=False,
)


@cache
def shop_explainer(name: str) -> l2x.Explainer:
    """Return the explainer of a case, fitted once. Do not change it."""
    X, view, k = CASES[name]
    return l2x.Explainer(Shop(), k, features=view, training=PLAN).fit(X)


def shop_explanation(name: str) -> l2x.Explanation:
    """Return the explanation of all inputs of a case."""
    return shop_explainer(name).explain(CASES[name][0])
