"""The self-check at the end of `fit`: on held-out rows, does the selection keep more than chance would?

Four selections are compared, by the model's predictions and by the surrogate's: the explainer's own,
everything but it, random features of the same number, and the best single subset for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch

from l2x._base.arrays import Array, batches
from l2x.errors import BlackBoxError, some
from l2x.explanation import Explanation, own_names
from l2x.features import selectable_units
from l2x.learning._agreement import Estimate, RemovalTest, distances, losses, masked_answers, removal_test
from l2x.learning._likelihood import Gaussian
from l2x.learning._rows import TrainingRows
from l2x.learning._surrogate import FittedQ, MixedQ, ModelQ, NetworkQ

# At most this many held-out rows, each with this many random selections; fewer if queries are limited.
CHECK_ROWS = 1000
DRAWS = 5
QUERIES = 3 + DRAWS  # for each row
# Below this nothing is concluded.
FEWEST_ROWS = 10
# One-sided 95 %: a selection at chance is let through one time in twenty.
CONFIDENCE = 1.6449
# In shares of rows, probability or R²: an advantage that matters, and beyond what a q shows that has learned
# nothing.
MARGIN = 0.01
UNKNOWN = Estimate(float("nan"))
# Rows that the search for one subset for all may put through q in all, and at least for each subset.
SEARCH_ROWS, SEARCH_LEAST, SEARCH_MOST = 100_000, 20, 300

Predict = Callable[[Array], Array]
Finding = Literal["better", "undecided", "no better"]


@dataclass(frozen=True)
class Kept:
    """How much of the model's answers each selection keeps: the share of rows with the same class, or R².

    one_subset : None where features have no meaning across rows, such as the words of texts
    over_chance : what the selection keeps more than random features
    over_complement : how much nearer the answers stay than with all other features, in probability (total
        variation), which a few rows tell better than whether the class is the same; or in R²
    nearer : how much nearer they stay than with random features, likewise; NaN in files of before

    All are paired over rows; low and high are the ends of one-sided 95 % intervals.
    """

    selection: float
    complement: float
    random: float
    one_subset: float | None
    over_chance: Estimate
    over_complement: Estimate
    nearer: Estimate = UNKNOWN

    @property
    def finding(self) -> Finding:
        """Better than chance: clearly more answers are kept, or no fewer, and they stay clearly nearer."""
        more = round(self.over_chance.value, 9)  # the rounding of means is not to decide
        if self.over_chance.low > MARGIN or (more >= 0 and self.nearer.low > MARGIN):
            return "better"
        return "undecided" if more > 0 or (more == 0 and self.nearer.value > 0) else "no better"

    @property
    def complement_keeps_more(self) -> bool:
        return self.complement > self.selection and self.over_complement.high < 0

    def to_dict(self) -> dict[str, Any]:
        """Plain Python, for JSON."""
        return {name: v.to_dict() if isinstance(v, Estimate) else v for name, v in vars(self).items()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = {
            name: Estimate.from_dict(v) if isinstance(v, Mapping) else v for name, v in saved.items()
        }
        return cls(**values)


@dataclass(frozen=True)
class SelfCheck:
    """What `fit` found out about itself.

    Attributes
    ----------
    rows : held-out rows that it rests on
    k, features : how many features were selected, of how many that a row has at most
    classes : the measure is the share of rows with the same class; R² of the answers otherwise
    varies : whether the model's answers to training rows differ at all
    by_model : None where the model was not asked: answers were brought, `queries=0`, or it failed
    failure : the error message of a model that failed on masked rows; else None
    by_q : None where q is the model itself
    subset : the features of the best single subset for all rows; none where it was not looked for
    """

    rows: int
    k: int
    features: int
    classes: bool
    varies: bool
    by_model: Kept | None = None
    by_q: Kept | None = None
    subset: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def checked(self) -> bool:
        """Whether there were enough rows, and something to select, to conclude anything."""
        return self.varies and self.rows >= FEWEST_ROWS and self.features > self.k

    @property
    def sentence(self) -> str:
        """One line: "keeps 96 % of the answers with 5 of 30 features; random 78 %, ..."."""
        kept = self.by_model or self.by_q
        if kept is None or not self.checked:
            return f"not checked: {self._reason}"
        parts = [f"random {self._text(kept.random)}", f"all but these {self._text(kept.complement)}"]
        if kept.one_subset is not None:
            parts.append(f"one subset for all {self._text(kept.one_subset)}")
        who = "" if self.by_model else " by q"
        what = "of the answers" if self.classes else "as R² of the answers"
        failed = "; the model failed on masked rows" if self.failure else ""
        return (
            f"keeps {self._text(kept.selection)} {what}{who} with {self.k} of {self.features} features; "
            f"{', '.join(parts)} ({self.rows:,} held-out rows{failed})"
        )

    @property
    def hint(self) -> str | None:
        """That rows need no explanations of their own, where one subset keeps as much of the answers."""
        kept = self.by_model or self.by_q
        if kept is None or kept.one_subset is None or not self.subset or self.finding != "better":
            return None
        if kept.one_subset < kept.selection:
            return None
        return f"a single subset serves all of these rows as well: {some(list(self.subset))}"

    @property
    def warnings(self) -> list[str]:
        """What a user should know before relying on the explanations."""
        if not self.varies:
            return [
                "The model says the same of every row: there is nothing to explain. Is it the right "
                "model, and are these the inputs that it expects?"
            ]
        if not self.checked:
            few = f"The explainer learned from too few rows to be checked: {self._reason}. Fit on more."
            return [few] if self.rows < 2 else []
        return [*self._failure_warnings, *self._selection_warnings]

    @property
    def _failure_warnings(self) -> list[str]:
        if self.failure is None:
            return []
        rests = "rests on the surrogate alone" if self.by_q else "found nothing"
        return [
            f"The model failed on masked rows, so the self-check {rests}: {self.failure.rstrip('.')}. Choose "
            "a removal of the view that the model accepts, or set queries=0 if it takes whole rows only."
        ]

    @property
    def _selection_warnings(self) -> list[str]:
        # The model's word decides, where it was asked: q's is one about itself. It is said beside it.
        judges = {name: kept for name, kept in (("the model", self.by_model), ("q", self.by_q)) if kept}
        if self.finding in ("no better", "undecided"):
            doubtful = {name: kept for name, kept in judges.items() if kept.finding != "better"}
            return [self._chance_warning(doubtful)]
        if judges and all(kept.complement_keeps_more for kept in judges.values()):
            return [self._complement_warning(judges)]
        return []

    @property
    def finding(self) -> Finding | None:
        """Whether the selection is better than chance, by the model, or by q where the model was not asked;
        None where it could not be checked."""
        kept = self.by_model or self.by_q
        return kept.finding if kept and self.checked else None

    def _chance_warning(self, doubtful: Mapping[str, Kept]) -> str:
        what = "of the answers are kept" if self.classes else "as R² of the answers"
        figures = " and ".join(
            f"by {name} {self._text(kept.selection)} against {self._text(kept.random)} {what}, "
            f"{kept.over_chance.text(2)} more"
            for name, kept in doubtful.items()
        )
        advice = "another value (value='model', 'surrogate'), another removal of the view"
        verdict = "is not clearly" if self.finding == "undecided" else "is no"
        return (
            f"The selection {verdict} better than {self.k} random feature{'s' * (self.k != 1)}: {figures} "
            f"({self.rows:,} held-out rows). Do not rely on these explanations. Try {advice}, a larger k, or "
            "more rows."
        )

    def _complement_warning(self, judges: Mapping[str, Kept]) -> str:
        figures = " and ".join(
            f"by {name} {self._text(kept.complement)} against {self._text(kept.selection)}"
            for name, kept in judges.items()
        )
        return (
            f"Everything but the selected features keeps more of the model's answers than they do: {figures} "
            f"({self.rows:,} held-out rows). The answers do not hang on so few features, or inputs with "
            "the rest removed are strange to the model. Try a larger k, or another removal of the view."
        )

    @property
    def _reason(self) -> str:
        if not self.varies:
            return "the model says the same of every row"
        if self.features <= self.k:
            return "every feature is selected"
        if self.rows < FEWEST_ROWS:
            return f"{self.rows} held-out row{'s' * (self.rows != 1)}"
        return self.failure or "the model was not asked"

    def _text(self, kept: float) -> str:
        return f"{kept:.0%}".replace("%", " %") if self.classes else f"{kept:.2f}"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python, for JSON."""
        return {name: v.to_dict() if isinstance(v, Kept) else v for name, v in vars(self).items()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = {
            name: Kept.from_dict(v) if isinstance(v, Mapping) else v for name, v in saved.items()
        }
        return cls(**values | {"subset": tuple(saved.get("subset", ()))})


def self_check(
    explain: Callable[[Any, Array], Explanation],
    q: FittedQ,
    X: Any,
    data: TrainingRows,
    *,
    queries: float,
    seed: int,
) -> SelfCheck:
    """Compare the selections in held-out rows with random features, with all others, and with one global set.

    Parameters
    ----------
    explain : returns the explanation of raw inputs, given the model's predictions for them
    q : the fitted surrogate
    X : all training inputs, checked by the view; `data` knows which were held out
    queries : the maximum number of masked rows that the model may be queried for
    seed : for the random features
    """
    view = q.view
    number, ask_model = _affordable_rows(data, queries)
    held = data.held[torch.arange(number)]
    raw = view.take(X, held.numbers)
    answers = q.likelihood.answers(q.likelihood.from_targets(held.target.cpu()).numpy())
    # Where every row has the same class, what is kept is seen in the probabilities, if these differ at all.
    several = len(set(answers.argmax(axis=1).tolist())) > 1
    alike = not several and (not number or np.ptp(answers, axis=0).max() == 0)
    classes = not isinstance(q.likelihood, Gaussian) and (several or alike)
    target = torch.cat([data.train.target, data.held.target]).cpu().numpy()  # one row cannot vary
    varies = bool(np.ptp(target, axis=0).max() > 1e-6)
    selectable = selectable_units(view, raw) if number else None
    allowed = np.ones((number, view.d), dtype=bool) if selectable is None else selectable
    features = view.d if selectable is None else int(selectable.sum(axis=1).max())
    check = SelfCheck(number, data.k, features, classes, varies)
    if not check.checked:
        return check
    explanation = explain(raw, answers)
    masks = removal_test(explanation.mask, selectable, seed=seed, draws=DRAWS)
    one_subset = None
    if own_names(explanation) is None:
        one_subset = allowed & _one_subset(q, explanation.mask, data)
        members = np.flatnonzero(one_subset.any(axis=0))
        check = replace(check, subset=tuple(str(view.names_[i]) for i in members))

    def measure(predict: Predict) -> Kept:
        loss = partial(losses, answers=answers, classes=classes)
        predicted = masks.map(predict)
        lost = predicted.map(loss)
        away = predicted.map(partial(distances, answers=answers)) if classes else lost
        return _kept(lost, away, None if one_subset is None else loss(predict(one_subset)))

    if ask_model:
        try:
            by_model = measure(partial(masked_answers, data.black_box, view, raw))
            check = replace(check, by_model=by_model)
        except BlackBoxError as error:  # what was learned is kept, and the surrogate is measured
            check = replace(check, failure=str(error))
    if not isinstance(q.q, ModelQ):
        # It has never read features that cannot be selected: all that it can read stays.
        check = replace(check, by_q=measure(lambda mask: q.predict(raw, mask & allowed)))
    return check


def _affordable_rows(data: TrainingRows, queries: float) -> tuple[int, bool]:
    """Return how many held-out rows to check, each under all of its masks, and whether the model may be
    queried for them: if for too few to conclude anything, the surrogate is checked on all of them."""
    rows = min(len(data.held), CHECK_ROWS)
    affordable = queries // QUERIES
    return (rows, False) if affordable < FEWEST_ROWS else (int(min(rows, affordable)), True)


def _one_subset(q: FittedQ, own: Array, data: TrainingRows) -> Array:
    """(d,) the best subset for all training rows, by q: greedy, one feature after the other. Where q is the
    model, or there are too many to try, the features that are selected most often."""
    d, k = own.shape[1], data.k
    asked = q.q.surrogate if isinstance(q.q, MixedQ) else q.q
    rows = min(SEARCH_MOST, len(data.train), SEARCH_ROWS // (k * d))
    chosen: list[int] = []
    if isinstance(asked, NetworkQ) and rows >= min(SEARCH_LEAST, len(data.train)):
        some = data.train[torch.arange(rows)]
        while len(chosen) < k:
            left = [i for i in range(d) if i not in chosen]
            masks = np.zeros((len(left), d), dtype=np.float32)
            masks[:, chosen] = 1.0
            masks[np.arange(len(left)), left] = 1.0
            values = []
            with torch.inference_mode():
                for part in batches(len(left), max(1, SEARCH_ROWS // rows)):
                    each = torch.from_numpy(masks[part])[:, None].expand(-1, rows, -1).to(some.x.device)
                    values.append(asked.log_value(some, each).mean(dim=1).cpu())
            chosen.append(left[int(torch.cat(values).argmax())])
    else:
        chosen = np.argsort(-own.sum(axis=0), kind="stable")[:k].tolist()
    return np.isin(np.arange(d), chosen)


def _kept(lost: RemovalTest[Array], away: RemovalTest[Array], one_subset: Array | None) -> Kept:
    """Compare the selections, row by row, by what they lose and how far they are from the predictions.

    lost, away : (n,) losses and distances; one_subset : (n,) losses of the one subset for all rows
    """

    def kept(losses: Array) -> float:
        return float(1 - losses.mean())

    random = np.mean(lost.random, axis=0)
    return Kept(
        kept(lost.selection),
        kept(lost.complement),
        kept(random),
        None if one_subset is None else kept(one_subset),
        over_chance=_paired(random - lost.selection),
        over_complement=_paired(away.complement - away.selection),
        nearer=_paired(np.mean(away.random, axis=0) - away.selection),
    )


def _paired(differences: Array) -> Estimate:
    """The mean of (n,) differences, between the ends of its one-sided 95 % intervals."""
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / len(differences) ** 0.5)
    return Estimate(mean, mean - CONFIDENCE * error, mean + CONFIDENCE * error)
