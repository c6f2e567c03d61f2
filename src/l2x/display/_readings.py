"""The prediction and the signed effects of a row as words, which every rendering of an explanation shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from l2x._base.arrays import Array
from l2x.display._style import amount, level, percent, shortened
from l2x.explanation import Explanation, Scale

# One sentence, the same in docstrings, documentation and HTML (tests/display/test_readings.py).
MEANING = (
    "Scores rank the features of a row; "
    "effects quantify how much each selected feature adds to the prediction."
)
REST = "all other features"
UNITS: dict[Scale, str] = {
    "probability": "percentage points (pp)",
    "log-odds": "log-odds",
    "value": "units of the prediction",
}


@dataclass(frozen=True)
class Reading:
    """What the model predicts for one row, and how each selected feature contributes.

    Attributes
    ----------
    predicted : str
        The predicted class with its probability, or the predicted value.
    by : "model" or "surrogate"
        What made the prediction.
    explained : str
        The class that effects refer to; empty for regression.
    is_predicted : bool
        Whether this is the predicted class.
    base, rest, prediction, alone, without : float
        As in `l2x.explanation.Effects`.
    effects : (k,) array
        The effects of the selected features, best first.
    scale : "probability", "log-odds" or "value"
    confirmed : bool or None
        Whether the model confirmed the selected features; None if it was not queried for that.
    """

    predicted: str
    by: Literal["model", "surrogate"]
    explained: str
    is_predicted: bool
    base: float
    effects: Array
    rest: float
    prediction: float
    alone: float
    without: float
    scale: Scale
    confirmed: bool | None = None

    @property
    def headline(self) -> str:
        """The prediction; marked if it is the surrogate's."""
        return self.predicted if self.by == "model" else f"{self.predicted} (predicted by the surrogate)"

    @property
    def title(self) -> str:
        """The prediction and, if it is not the predicted class, the explained class."""
        text = f"Prediction: {self.headline}{', not confirmed' * (self.confirmed is False)}"
        return text if self.is_predicted else f"{text}; effects on {self.explained}"

    @property
    def levels(self) -> tuple[str, str, str]:
        """Predictions from all features, from only the selected ones, and from all others."""
        all_features, only_these, all_others = (
            level(value, self.scale) for value in (self.prediction, self.alone, self.without)
        )
        return all_features, only_these, all_others

    @property
    def comparison(self) -> str:
        """What remains of the prediction with only the selected features, and without them."""
        _, only_these, all_others = self.levels
        k = len(self.effects)
        these = f"these {k}" if k > 1 else "this one"
        return f"with only {these}: {only_these}; without {'them' if k > 1 else 'it'}: {all_others}"

    @property
    def amounts(self) -> list[str]:
        """The effects as signed texts."""
        return [amount(effect, self.scale) for effect in self.effects]

    @property
    def rest_amount(self) -> str:
        """What all other features add, as a signed text."""
        return amount(self.rest, self.scale)

    @property
    def directions(self) -> tuple[str, str]:
        """What a positive and a negative effect mean."""
        return direction_words(self.explained if not self.is_predicted else None, self.scale)

    @cached_property
    def shades(self) -> list[int]:
        """The shade of each effect: 1 for more than two thirds of the largest, 2, 3 for less than a third."""
        sizes = np.abs(self.effects)
        largest = float(sizes.max(initial=0.0)) or 1.0
        return [1 if size > 2 / 3 else 2 if size > 1 / 3 else 3 for size in sizes / largest]


def direction_words(explained: str | None, scale: Scale) -> tuple[str, str]:
    """Return what a positive and a negative effect mean; `explained` is a class, or None for the predicted.

    >>> direction_words(None, "probability"), direction_words(None, "value")
    (('towards the prediction', 'against it'), ('raises the prediction', 'lowers it'))
    """
    if scale == "value":
        return "raises the prediction", "lowers it"
    return f"towards {explained or 'the prediction'}", "against it"


def readings(explanation: Explanation) -> list[Reading]:
    """Return the reading of every row; the model is queried if its predictions are not known yet."""
    found, predictions = explanation.contributions, explanation.predictions
    assert explanation.source is not None  # `contributions` would have raised an error
    classes = explanation.source.classes
    return [
        Reading(
            predicted=_predicted(predictions[row], classes, int(found.outputs[row])),
            by=explanation.predicted_by,
            explained=class_name(classes, int(found.outputs[row])),
            is_predicted=classes is None or int(found.outputs[row]) == int(predictions[row].argmax()),
            base=float(found.base[row]),
            effects=found.effects[row][explanation.selected[row]],
            rest=float(found.rest[row]),
            prediction=float(found.prediction[row]),
            alone=float(found.alone[row]),
            without=float(found.without[row]),
            scale=found.scale,
            confirmed=None if explanation.confirmed is None else bool(explanation.confirmed[row]),
        )
        for row in range(len(explanation))
    ]


def affordable(explanation: Explanation) -> Explanation | None:
    """Return the explanation if its effects can be shown by default, at little cost; otherwise None.

    The result never queries a remote model: its predictions are then the surrogate's.
    """
    if explanation.source is None or explanation.inputs is None or not len(explanation):
        return None
    if "contributions" in explanation.__dict__:
        return explanation
    source = explanation.source.affordable()
    if source is None:
        return None
    if source is explanation.source:
        return explanation
    return replace(explanation[:], source=source)


def readings_if_affordable(explanation: Explanation) -> Sequence[Reading | None]:
    """Return the reading of every row, or None for every row if effects are unknown or costly."""
    shown = affordable(explanation)
    return [None] * len(explanation) if shown is None else readings(shown)


def has_effects(explanation: Explanation) -> bool:
    """Return whether effects can be computed at all, which figures draw instead of scores."""
    return explanation.source is not None and explanation.inputs is not None and explanation.source.available


def class_name(classes: Sequence[object] | None, output: int) -> str:
    """Return a class as it is written: names as they are, numbers as "class 3"; empty for regression."""
    if classes is None:
        return ""
    name = classes[output]
    return shortened(name) if isinstance(name, str) else f"class {name}"


def _predicted(predictions: Array, classes: Sequence[object] | None, output: int) -> str:
    if classes is None:
        return level(float(predictions[output]), "value")
    best = int(predictions.argmax())
    return f"{class_name(classes, best)}, {percent(float(predictions[best]))}"
