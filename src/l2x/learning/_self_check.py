"""The self-check at the end of `fit`: do the selections for held-out rows beat random ones?

Four selections are compared, by the model's predictions and by the surrogate's: the explainer's own, the
removal test, random features of the same number, and the best global set of k features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch

from l2x._base.arrays import Array, batches
from l2x.errors import BlackBoxError, InputError, some
from l2x.explanation import Explanation, own_names
from l2x.features import selectable_units
from l2x.learning._agreement import (
    Estimate,
    RemovalTest,
    at_least,
    confirmed_rows,
    distances,
    losses,
    masked_predictions,
    removal_test,
)
from l2x.learning._rows import Gaussian, Likelihood, TrainingRows
from l2x.learning._surrogate import (
    BaseSurrogate,
    FittedSurrogate,
    MixedSurrogate,
    ModelSurrogate,
    NetworkSurrogate,
)

# Maximum number of held-out rows, and random selections for each; fewer rows if queries are limited.
CHECK_ROWS = 1000
DRAWS = 5
QUERIES = 3 + DRAWS  # per row
# The guarantee: queries per refined row, and held-out rows at most.
REFINED = 30
GUARANTEED: dict[str, int] = {"learned": 500, "polished": 500, "refined": 200}
# Fewer rows than this allow no conclusion.
FEWEST_ROWS = 10
# One-sided 95 %: a selection at chance passes one time in twenty.
CONFIDENCE = 1.6449
# The smallest advantage that matters, as a share of rows, a probability or R²; a surrogate that has learned
# nothing shows less.
MARGIN = 0.01
# Share of held-out rows whose error is within the tolerance of a regression.
WITHIN = 0.9
# Rows that the search for a global set may evaluate in total, and the minimum and maximum per set.
SEARCH_ROWS, SEARCH_LEAST, SEARCH_MOST = 100_000, 20, 300

Predict = Callable[[Array], Array]
Finding = Literal["better", "undecided", "no better"]
Selected = Literal["learned", "polished", "refined"]


@dataclass(frozen=True)
class Agreement:
    """How well each selection preserves the model's predictions: post-hoc accuracy for classes, else R².

    Attributes
    ----------
    posthoc_accuracy : float
        With the selected features alone.
    removal : float
        With all other features: the removal test.
    random : float
        With as many random features.
    global_top_k : float or None
        With the best set of k features for all rows; None if features have no meaning across rows, as in
        texts.
    over_random : Estimate
        `posthoc_accuracy` minus `random`.
    over_removal : Estimate
        How much closer predictions stay to those for whole rows than in the removal test: in total variation,
        which needs fewer rows than the share of equal classes, or in R².
    closer : Estimate
        How much closer they stay than with random features, in the same units.
    confirmed : float or None
        Share of rows that `confirmed_rows` confirms: the same class, or predictions within `tolerance`.
    tolerance : float or None
        If the measure is R²: the largest error among the best WITHIN of the rows. None for classes.

    Differences are paired over rows; low and high are the ends of one-sided 95 % intervals.
    """

    posthoc_accuracy: float
    removal: float
    random: float
    global_top_k: float | None
    over_random: Estimate
    over_removal: Estimate
    closer: Estimate
    confirmed: float | None = None
    tolerance: float | None = None

    @property
    def finding(self) -> Finding:
        """Better than random: clearly more predictions are preserved, or no fewer and clearly closer."""
        more = round(self.over_random.value, 9)  # rounding must not decide
        if self.over_random.low > MARGIN or (more >= 0 and self.closer.low > MARGIN):
            return "better"
        return "undecided" if more > 0 or (more == 0 and self.closer.value > 0) else "no better"

    @property
    def removal_is_better(self) -> bool:
        """Whether the other features clearly preserve more predictions than the selected ones."""
        return self.removal > self.posthoc_accuracy and self.over_removal.high < 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, for JSON."""
        return {name: v.to_dict() if isinstance(v, Estimate) else v for name, v in vars(self).items()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Invert `to_dict`."""
        values: dict[str, Any] = {
            name: Estimate.from_dict(v) if isinstance(v, Mapping) else v for name, v in saved.items()
        }
        return cls(**values)


@dataclass(frozen=True)
class Guarantee:
    """The share of predictions for new rows that explanations reproduce, with 95 % confidence.

    It assumes new rows from the same distribution. Held-out rows have also chosen when training stopped and
    how much is polished, which makes the share optimistic, by an amount that was not measured; for regression
    they have chosen the tolerance as well.

    Attributes
    ----------
    selection : "learned", "polished" or "refined"
        What `explain` does with `polish=False`, by default, or with `refine=REFINED`.
    rows : int
        Held-out rows that were verified.
    share : float
        The share of them for which the model predicts the same from the selected features alone.
    at_least : float
        The lower end of the exact binomial interval, one-sided.
    queries : float
        Masked rows that the model is queried for, per row, on average.
    """

    selection: Selected
    rows: int
    share: float
    at_least: float
    queries: float


@dataclass(frozen=True)
class SelfCheck:
    """The result of the self-check.

    Attributes
    ----------
    rows : int
        Held-out rows that were checked.
    k, features : int
        Selected features, and the maximum number of selectable features of a row.
    classes : bool
        Whether the measure is the share of rows with the same class; otherwise R².
    varies : bool
        Whether the model's predictions for training rows differ at all.
    by_model : Agreement or None
        Measured by the model; None if it was not queried: predictions were passed, `queries=0`, or it failed.
    by_surrogate : Agreement or None
        Measured by the surrogate; None if the surrogate is the model.
    global_features : tuple of str
        The best set of k features for all rows; empty if it was not searched for.
    failure : str or None
        The error message of a model that failed on masked rows.
    guarantees : tuple of Guarantee
        What share of new predictions the explanations reproduce; empty if the model was not queried.
    """

    rows: int
    k: int
    features: int
    classes: bool
    varies: bool
    by_model: Agreement | None = None
    by_surrogate: Agreement | None = None
    global_features: tuple[str, ...] = ()
    failure: str | None = None
    guarantees: tuple[Guarantee, ...] = ()

    @property
    def decisive(self) -> Agreement | None:
        """The model's result if it was queried, else the surrogate's."""
        return self.by_model or self.by_surrogate

    @property
    def checked(self) -> bool:
        """Whether there were enough rows, and features to choose from, for a conclusion."""
        return self.varies and self.rows >= FEWEST_ROWS and self.features > self.k

    @property
    def finding(self) -> Finding | None:
        """Whether the selections are better than random ones; None if that could not be checked."""
        return self.decisive.finding if self.decisive and self.checked else None

    @property
    def removal_is_better(self) -> bool:
        """Whether the other features clearly preserve more predictions, by the model and by the surrogate."""
        results = [result for result in (self.by_model, self.by_surrogate) if result]
        return self.finding == "better" and all(result.removal_is_better for result in results)

    @property
    def sentence(self) -> str:
        """One line: "On 100 held-out rows, 5 of 30 features reproduce 96 % of the predictions (...)."."""
        result = self.decisive
        if result is None or not self.checked:
            return f"Not checked: {self._reason}."
        comparable = result.global_top_k is not None
        others = f"the other {self.features - self.k} features" if comparable else "all other features"
        controls = [
            f"random features {self._text(result.random)}",
            f"{others} {self._text(result.removal)}",
        ]
        if result.global_top_k is not None:
            controls.append(f"one global set {self._text(result.global_top_k)}")
        accuracy = self._text(result.posthoc_accuracy)
        share = f"{accuracy} of the predictions" if self.classes else f"the predictions with R² {accuracy}"
        source = "" if self.by_model else ", measured by the surrogate"
        failed = "; the model failed on masked rows" if self.failure else ""
        return (
            f"On {self.rows:,} held-out rows, {self.k} of {self.features} features "
            f"reproduce{'s' * (self.k == 1)} {share}{source} ({', '.join(controls)}{failed})."
        )

    @property
    def guarantee(self) -> str | None:
        """One line: "With 95 % confidence, at least 93 % of new predictions are reproduced: ..."."""
        if not self.guarantees:
            return None
        shares = [f"{one.selection} {self._percent(one.at_least)}" for one in self.guarantees]
        return f"For new rows like these, with 95 % confidence at least: {', '.join(shares)}."

    @property
    def hint(self) -> str | None:
        """The global set of features, if it is as good as explanations of single rows."""
        result = self.decisive
        if result is None or not self.global_features or self.finding != "better":
            return None
        if result.global_top_k is None or result.global_top_k < result.posthoc_accuracy:
            return None
        return f"One global set of features does as well on these rows: {some(list(self.global_features))}."

    @property
    def warnings(self) -> list[str]:
        """What a user should know before relying on the explanations."""
        if not self.varies:
            return [
                "The model predicts the same for every row: there is nothing to explain. Is it the right "
                "model, and are these the inputs that it expects?"
            ]
        if not self.checked:
            few = f"There are too few rows to check the explainer: {self._reason}. Fit on more rows."
            return [few] if self.rows < 2 else []
        return [*self._failure_warnings, *self._selection_warnings]

    @property
    def _failure_warnings(self) -> list[str]:
        if self.failure is None:
            return []
        result = "uses the surrogate alone" if self.by_surrogate else "has no result"
        return [
            f"The model failed on masked rows, so the self-check {result}: {self.failure.rstrip('.')}. "
            "Choose a masking that the model accepts, or set queries=0 if it accepts whole rows only."
        ]

    @property
    def _selection_warnings(self) -> list[str]:
        # If the model was queried, its result decides; the surrogate's is reported as well.
        results = {"the model": self.by_model, "the surrogate": self.by_surrogate}
        available = {name: result for name, result in results.items() if result}
        if self.finding in ("no better", "undecided"):
            return [self._random_warning({n: r for n, r in available.items() if r.finding != "better"})]
        return [self._removal_warning(available)] if self.removal_is_better else []

    def _random_warning(self, doubtful: Mapping[str, Agreement]) -> str:
        what = "of the predictions" if self.classes else "R²"
        figures = "; ".join(
            f"{self._text(result.posthoc_accuracy)} versus {self._text(result.random)} {what}, measured by "
            f"{name} (difference {result.over_random.text(2)})"
            for name, result in doubtful.items()
        )
        verdict = "not clearly better" if self.finding == "undecided" else "no better"
        return (
            f"The selection is {verdict} than {self.k} random feature{'s' * (self.k != 1)}: {figures}; "
            f"{self.rows:,} held-out rows. Do not rely on these explanations. Try another objective "
            "(objective='model', 'surrogate'), another masking, a larger k, or more rows."
        )

    def _removal_warning(self, results: Mapping[str, Agreement]) -> str:
        figures = "; ".join(
            f"{self._text(result.removal)} versus {self._text(result.posthoc_accuracy)}, measured by {name}"
            for name, result in results.items()
        )
        return (
            f"The other features preserve the predictions better than the selected ones: {figures}; "
            f"{self.rows:,} held-out rows. The predictions do not depend on so few features, or masked rows "
            "are unlike the model's training data. Try a larger k, or another masking."
        )

    @property
    def _reason(self) -> str:
        if not self.varies:
            return "the model predicts the same for every row"
        if self.features <= self.k:
            return "every feature is selected"
        if self.rows < FEWEST_ROWS:
            return f"{self.rows} held-out row{'s' * (self.rows != 1)}"
        return (self.failure or "the model was not queried").rstrip(".")

    def _text(self, accuracy: float) -> str:
        return self._percent(accuracy) if self.classes else f"{accuracy:.2f}"

    @staticmethod
    def _percent(share: float) -> str:
        return f"{share:.0%}".replace("%", " %")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects, for JSON."""
        plain = {name: v.to_dict() if isinstance(v, Agreement) else v for name, v in vars(self).items()}
        return plain | {"guarantees": [asdict(one) for one in self.guarantees]}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Invert `to_dict`."""
        values: dict[str, Any] = {
            name: Agreement.from_dict(v) if isinstance(v, Mapping) else v for name, v in saved.items()
        }
        guarantees = tuple(Guarantee(**one) for one in saved.get("guarantees", ()))
        return cls(**values | {"global_features": tuple(saved["global_features"]), "guarantees": guarantees})


def self_check(
    explain: Callable[[Any, Array], Explanation],
    surrogate: FittedSurrogate,
    data: TrainingRows,
    *,
    queries: float,
    seed: int,
) -> SelfCheck:
    """Compare selections for held-out rows with random features, the removal test and a global set.

    Parameters
    ----------
    explain : callable
        Returns the explanation of raw inputs, given the model's predictions for them.
    surrogate : FittedSurrogate
        The explainer's own.
    data : TrainingRows
        The rows of this fit.
    queries : float
        Maximum number of masked rows that the model may be queried for.
    seed : int
        For the random features.
    """
    view, (number, query_model) = surrogate.view, _affordable_rows(data, queries)
    held = data.held[torch.arange(number)]
    raw = held.raw(np.arange(number))
    outputs = surrogate.likelihood.from_targets(held.target.cpu()).numpy()
    predictions = surrogate.likelihood.predictions(outputs)
    selectable = selectable_units(view, raw) if number else None
    features = view.d if selectable is None else int(selectable.sum(axis=1).max())
    classes = _by_class(surrogate.likelihood, predictions)
    check = SelfCheck(number, data.k, features, classes, _varies(data))
    if not check.checked:
        return check
    explanation = explain(raw, predictions)
    masks = removal_test(explanation.mask, selectable, seed=seed, draws=DRAWS)
    allowed = np.ones((number, view.d), dtype=bool) if selectable is None else selectable
    global_mask = None
    if own_names(explanation) is None:
        global_mask = allowed & _global_top_k(surrogate.surrogate, explanation.mask, data)
        chosen = np.flatnonzero(global_mask.any(axis=0))
        check = replace(check, global_features=tuple(str(view.names_[i]) for i in chosen))
    measure = partial(_measure, masks, global_mask, predictions=predictions, classes=classes)
    if query_model:
        try:
            check = replace(check, by_model=measure(partial(masked_predictions, data.black_box, view, raw)))
        except BlackBoxError as error:  # the explainer is still useful, and the surrogate is measured
            check = replace(check, failure=str(error))
    if not isinstance(surrogate.surrogate, ModelSurrogate):
        # The surrogate was never fitted on unselectable features: they stay masked.
        by_surrogate = measure(lambda mask: surrogate.predict(raw, mask & allowed))
        check = replace(check, by_surrogate=by_surrogate)
    return check


def guaranteed(
    explain: Callable[..., Explanation], data: TrainingRows, *, queries: float
) -> tuple[Guarantee, ...]:
    """Verify learned, polished and refined selections for held-out rows, as far as `queries` allow.

    Parameters
    ----------
    explain : callable
        As `Explainer.explain_quietly`.
    data : TrainingRows
        The rows of this fit.
    queries : float
        Maximum number of masked rows that the model may be queried for.
    """
    found: list[Guarantee] = []
    selections: dict[Selected, dict[str, Any]] = {
        "learned": {"polish": False, "verify": True},
        "polished": {"polish": True, "verify": True},
        "refined": {"refine": REFINED},
    }
    for name, options in selections.items():
        each = REFINED if name == "refined" else 1
        number = int(min(len(data.held), GUARANTEED[name], queries // each))
        if number < FEWEST_ROWS:
            break
        raw = data.held.raw(np.arange(number))
        target = data.held.target[:number].cpu()
        predictions = data.likelihood.predictions(data.likelihood.from_targets(target).numpy())
        try:
            explanation = explain(raw, predictions=predictions, **options)
        except InputError:  # objective="model" and signed samplers are not polished
            break
        assert explanation.confirmed is not None
        assert explanation.queries is not None
        queries -= int(explanation.queries.sum())
        successes = int(explanation.confirmed.sum())
        found.append(
            Guarantee(
                name,
                number,
                successes / number,
                at_least(successes, number),
                float(explanation.queries.mean()),
            )
        )
    return tuple(found)


def _affordable_rows(data: TrainingRows, queries: float) -> tuple[int, bool]:
    """Return how many held-out rows to check, and whether the model may be queried for them under all masks.

    If it may be queried for too few rows to draw a conclusion, the surrogate is checked on all of them.
    """
    rows = min(len(data.held), CHECK_ROWS)
    affordable = queries // QUERIES
    return (rows, False) if affordable < FEWEST_ROWS else (int(min(rows, affordable)), True)


def _by_class(likelihood: Likelihood, predictions: Array) -> bool:
    """Return whether to compare classes, or probabilities because all rows have the same class."""
    several = len(set(predictions.argmax(axis=1).tolist())) > 1
    equal = not several and (not len(predictions) or np.ptp(predictions, axis=0).max() == 0)
    return not isinstance(likelihood, Gaussian) and bool(several or equal)


def _varies(data: TrainingRows) -> bool:
    """Return whether predictions vary in all rows together: a single held-out row cannot vary."""
    target = torch.cat([data.given.target, data.held.target]).cpu().numpy()
    return bool(np.ptp(target, axis=0).max() > 1e-6)


def _global_top_k(surrogate: BaseSurrogate, own: Array, data: TrainingRows) -> Array:
    """Return the best set of k features for all training rows, by the surrogate, (d,) booleans.

    The search is greedy. If the surrogate is the model, or there are too many features to try, it is the
    features that are selected most often, by the masks `own` (n, d).
    """
    d, k = own.shape[1], data.k
    network = surrogate.network if isinstance(surrogate, MixedSurrogate) else surrogate
    given = data.given
    rows = min(SEARCH_MOST, len(given), SEARCH_ROWS // (k * d))
    chosen: list[int] = []
    if isinstance(network, NetworkSurrogate) and rows >= min(SEARCH_LEAST, len(given)):
        sample = given[torch.arange(rows)]
        while len(chosen) < k:
            left = [i for i in range(d) if i not in chosen]
            masks = np.zeros((len(left), d), dtype=np.float32)
            masks[:, chosen] = 1.0
            masks[np.arange(len(left)), left] = 1.0
            values = []
            with torch.inference_mode():
                for part in batches(len(left), max(1, SEARCH_ROWS // rows)):
                    each = torch.from_numpy(masks[part])[:, None].expand(-1, rows, -1).to(sample.x.device)
                    values.append(network.log_value(sample, each).mean(dim=1).cpu())
            chosen.append(left[int(torch.cat(values).argmax())])
    else:
        chosen = np.argsort(-own.sum(axis=0), kind="stable")[:k].tolist()
    return np.isin(np.arange(d), chosen)


def _measure(
    masks: RemovalTest[Array],
    global_mask: Array | None,
    predict: Predict,
    *,
    predictions: Array,
    classes: bool,
) -> Agreement:
    """Compare the predictions under all masks with those for whole rows, row by row."""
    loss = partial(losses, predictions=predictions, classes=classes)
    predicted = masks.map(predict)
    lost = predicted.map(loss)
    distance = predicted.map(partial(distances, predictions=predictions)) if classes else lost
    random = np.mean(lost.random, axis=0)
    tolerance = None if classes else _tolerance(predicted.selected, predictions)
    return Agreement(
        posthoc_accuracy=float(1 - lost.selected.mean()),
        removal=float(1 - lost.removal.mean()),
        random=float(1 - random.mean()),
        global_top_k=None if global_mask is None else float(1 - loss(predict(global_mask)).mean()),
        over_random=_paired(random - lost.selected),
        over_removal=_paired(distance.removal - distance.selected),
        closer=_paired(np.mean(distance.random, axis=0) - distance.selected),
        confirmed=float(confirmed_rows(predicted.selected, predictions, tolerance).mean()),
        tolerance=tolerance,
    )


def _tolerance(guesses: Array, predictions: Array) -> float:
    """Return the error that a share WITHIN of the rows does not exceed, beyond rounding."""
    errors = np.abs(guesses - predictions).max(axis=1)
    rounding = 1e-6 * np.abs(predictions).max()
    return float(max(np.quantile(errors, WITHIN, method="inverted_cdf"), rounding))


def _paired(differences: Array) -> Estimate:
    """Return the mean of (n,) differences with the ends of its one-sided 95 % intervals."""
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / len(differences) ** 0.5)
    return Estimate(mean, mean - CONFIDENCE * error, mean + CONFIDENCE * error)
