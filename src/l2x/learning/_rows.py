"""Training inputs and the model's answers, row by row."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import InputError, some
from l2x.features import View, checked_k, named_columns
from l2x.files import (
    Answers,
    label_blocks,
    read_answers,
    share_of,
)
from l2x.learning._likelihood import Categorical, Gaussian, Likelihood
from l2x.learning._training import Run
from l2x.model import SUM_TOLERANCE, BlackBox, Task, numbers_of, query, view_parts

# Different whole numbers, at most, that are taken for labels.
MOST_LABELS = 10
# Rows that are queried to measure how long one takes, if nearly all predictions were known.
TIMED_ROWS = 32


@dataclass(frozen=True)
class Rows:
    """Inputs, encoded for the networks (raw too where the value asks the black box), and its answers.

    source : the raw inputs that `numbers` refers to, or these rows' own where it is None; None where nobody
        asks the black box again
    numbers : (n,) which rows of the training inputs these are
    """

    view: View
    source: Any
    x: Tensor  # (n, ...)
    target: Tensor  # (n, outputs)
    numbers: Array | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Tensor) -> Rows:
        which = index.cpu().numpy()
        numbers = None if self.numbers is None else self.numbers[which]
        # Raw rows are copied when somebody reads them, and not for each minibatch.
        shared = self.source is None or numbers is not None
        source = self.source if shared else self.view.take(self.source, which)
        index = index.to(self.x.device)
        return Rows(self.view, source, self.x[index], self.target[index], numbers)

    def raw(self, which: Array) -> Any:
        """The raw inputs of some of these rows, by their positions among them."""
        return self.view.take(self.source, which if self.numbers is None else self.numbers[which])

    def repeat(self, m: int) -> Rows:
        """The rows m times over, one copy after the other."""
        return self if m == 1 else self[torch.arange(len(self)).repeat(m)]


def _are_probabilities(given: Array) -> bool:
    several = given.ndim == 2 and given.shape[1] > 1
    return several and bool((given >= 0).all() and (abs(given.sum(axis=1) - 1) <= SUM_TOLERANCE).all())


def checked_answers(
    answers: Any, n: int, likelihood: Likelihood, *, classes: Array | None = None, logits: bool = False
) -> Array:
    """Answers of a model that an explainer has learned from, checked as it would check the model's own; those
    of a frame whose columns are the classes are taken by name."""
    task: Task = "regression" if isinstance(likelihood, Gaussian) else "classification"
    if classes is not None and not isinstance(answers, Answers):
        answers = _in_order_of(classes, answers)
    said_by = BlackBox(lambda _: answers, task=task, logits=logits)
    checked = checked_responses(answers, n, said_by, name="answers=")
    if checked.shape[1] != likelihood.outputs:
        given = np.shape(answers)[1] if np.ndim(answers) == 2 else 1
        raise InputError(
            f"answers has {given} column{'s' * (given != 1)}; the model that was explained has "
            f"{likelihood.outputs}."
        )
    return checked


def _in_order_of(classes: Array, answers: Any) -> Any:
    """A frame with a column for each class, in their order; anything else as it is."""
    frame = nw.from_native(answers, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return answers
    columns, names = [str(column) for column in frame.columns], [str(name) for name in classes]
    if sorted(columns) != sorted(names):
        return answers
    return frame[:, [columns.index(name) for name in names]].to_native()


def checked_responses(responses: Any, n: int, black_box: BlackBox, *, name: str = "responses=") -> Array:
    """Answers that the user brings, checked like a model's."""
    labelled = isinstance(responses, Answers)
    if labelled:
        black_box.task = black_box.task or responses.origin.task
        responses = responses.values
    given = numbers_of(responses, name)
    if not given.ndim:
        raise InputError(f"{name[:-1]} is one number; expected one answer for each of {n} rows.")
    if len(given) != n:
        raise InputError(f"{name[:-1]} has {len(given)} rows, X has {n}.")
    # A black box that just repeats them: the checks and the task are then the model's own. Probabilities are
    # no logits, even if the model gives logits.
    logits = black_box.logits and not labelled and not _are_probabilities(given)
    repeat = BlackBox(lambda _: given, task=black_box.task, logits=logits, name=name)
    answers = repeat(range(n))
    black_box.task = repeat.task
    return answers


@dataclass(frozen=True)
class TrainingRows:
    """What training starts from: rows to learn from, rows held out, and what was found out on the way."""

    k: int
    train: Rows
    held: Rows
    likelihood: Likelihood
    black_box: BlackBox
    asked_before: int  # the black box's counter before this fit
    labelled: int  # rows that were asked for their answers
    answers: Array  # of all rows, as the model gave them
    seconds_per_row: float | None  # that the black box took for a prediction; None if it was not queried

    @property
    def view(self) -> View:
        return self.train.view

    @property
    def asked_masked(self) -> int:
        """Of these, the ones beyond labelling."""
        return self.asked - self.labelled

    @property
    def asked(self) -> int:
        """Rows that the model was asked so far; a value that asks it, asks more in training."""
        return self.black_box.rows - self.asked_before


def prepare(
    black_box: BlackBox,
    view: View,
    X: Any,
    responses: Any,
    *,
    k: int,
    validation: float,
    run: Run,
    keep_raw: bool = False,
    timed: bool = False,
    journal: Path | None = None,
) -> TrainingRows:
    """Ask the model once, when everything else is known to be right, and hold some rows out. The view is
    fitted. Answers go to the `journal` if there is one; those that an earlier attempt had are not asked
    again. If the model has to be `timed`, it is queried for some rows in any case."""
    k = checked_k(view, k)
    X = view.check(X)
    check_known_columns(view, black_box)
    learn, hold = split(len(X), validation, run.plan.validation_rows, np.random.default_rng(run.seed))
    task_known = black_box.task is not None
    before, started = black_box.rows, time.perf_counter()
    if journal is not None and responses is None:
        parts, share = view_parts(view, X), share_of(len(X))
        label_blocks(
            black_box, parts, journal, most=view.rows_at_once, share=share, progress=run.plan.progress
        )
        responses = read_answers(journal)
    if isinstance(responses, Answers):
        responses.check(X)
    if responses is None:
        answers = query(black_box, view, X, progress=run.plan.progress)
    else:
        answers = checked_responses(responses, len(X), black_box)
    if not task_known and black_box.task == "regression":
        warn_of_labels(answers, black_box.name)
    timed_from = before
    if timed and black_box.rows - before < TIMED_ROWS:
        timed_from, started = black_box.rows, time.perf_counter()
        query(black_box, view, view.take(X, slice(TIMED_ROWS)))
    asked = black_box.rows - before
    seconds_per_row = (time.perf_counter() - started) / (black_box.rows - timed_from) if asked else None
    likelihood = likelihood_of(black_box, answers)
    x, target = view.encode(X).to(run.device), likelihood.targets(answers).to(run.device)
    rows = Rows(view, X if keep_raw else None, x, target, np.arange(len(x)))
    train, held = rows[torch.from_numpy(learn)], rows[torch.from_numpy(hold)]
    return TrainingRows(k, train, held, likelihood, black_box, before, asked, answers, seconds_per_row)


def check_known_columns(view: View, black_box: BlackBox) -> None:
    """A column that the model was not fitted on, such as the target left in the frame, decides nothing; but
    where it tells the answer it would be selected."""
    names, known = named_columns(view) or [], black_box.columns or []
    extra = [name for name in names if name not in known]
    if known and extra and set(known) < set(names):  # otherwise the model has names of its own
        raise InputError(
            f"{black_box.name} was fitted without the column{'s' * (len(extra) > 1)} {some(extra)}: no "
            "answer can hang on what the model does not read. Drop from X what is not an input."
        )


def warn_of_labels(answers: Array, name: str) -> None:
    """Answers that are a few whole numbers are more often labels than means."""
    values = np.unique(answers)
    if 1 < len(values) <= MOST_LABELS and (values == np.round(values)).all():
        said = ", ".join(f"{value:g}" for value in values)
        warnings.warn(
            f"{name} says only {said}, and is explained as a regression. If these are classes, pass the "
            "estimator itself, its predict_proba, or a function that returns probabilities (n, classes); if "
            "not, l2x.as_black_box(model, task='regression').",
            stacklevel=4,
        )


def likelihood_of(black_box: BlackBox, answers: Array) -> Likelihood:
    """Class probabilities, or means with the spread that these answers have."""
    return Gaussian.of(answers) if black_box.task == "regression" else Categorical(answers.shape[1])


def split(n: int, validation: float, most: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Indices of training rows and of held-out rows, at random; at most `most` are held out."""
    if not isinstance(validation, Real) or not 0 < validation < 1:
        raise InputError(
            f"validation is {validation!r}; expected a share of the rows between 0 and 1, such as 0.1."
        )
    if n < 2:
        raise InputError("There is only 1 sample (row), too few to hold some out; give at least 2.")
    held = max(1, min(most, round(n * validation), n - 1))
    if n >= 10 and n - held < 2:  # of fewer rows any share is one or two
        raise InputError(
            f"validation is {validation}, which leaves {n - held} of {n:,} rows to learn from; hold out "
            "less, such as 0.1."
        )
    order = rng.permutation(n)
    return order[held:], order[:held]
