"""Training rows: inputs and what the model says of them, in step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2x.blackbox import BlackBox
from l2x.errors import BlackBoxError, InputError
from l2x.features.view import View
from l2x.foundations.arrays import Array, batches
from l2x.foundations.progress import progress_bar
from l2x.likelihood import Categorical, Gaussian, Response
from l2x.training import TrainingPlan


@dataclass(frozen=True)
class Rows:
    """Inputs, encoded for the networks (raw too where the black box is the value), and its answers."""

    view: View
    raw: Any  # None where nobody asks the black box again
    x: Tensor  # (n, ...)
    target: Tensor  # (n, outputs)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Tensor) -> Rows:
        raw = None if self.raw is None else self.view.take(self.raw, index.cpu().numpy())
        index = index.to(self.x.device)
        return Rows(self.view, raw, self.x[index], self.target[index])

    def repeat(self, m: int) -> Rows:
        """The rows m times over, one copy after the other."""
        return self if m == 1 else self[torch.arange(len(self)).repeat(m)]


def ask(black_box: BlackBox, view: View, X: Any, *, progress: bool) -> Array:
    """P_m(y|x) of every row, asked once, in batches.

    If the model fails half-way the error carries the answers so far as `error.answers`.
    """
    answers: list[Array] = []
    n = len(X)
    with progress_bar("asking the model", n, visible=progress) as advance:
        for rows in batches(n, view.rows_at_once):
            try:
                answers.append(black_box(view.for_model(view.take(X, rows))))
            except BlackBoxError as error:
                error.answers = np.concatenate(answers) if answers else None
                raise
            advance(rows.stop, f"{rows.stop:,} rows asked")
    widths = {answer.shape[1] for answer in answers}
    if len(widths) > 1:
        raise BlackBoxError(f"{black_box.name} returned {sorted(widths)} columns in different batches.")
    return np.concatenate(answers)


def checked_responses(responses: Any, n: int, black_box: BlackBox) -> Array:
    """Answers that the user brings, held to the same standard as a model's."""
    given = np.asarray(responses, dtype=np.float64)
    if len(given) != n:
        raise InputError(f"responses has {len(given)} rows, X has {n}.")
    # A black box that just repeats them: the checks and the task are then the model's own.
    repeat = BlackBox(lambda _: given, task=black_box.task, logits=black_box.logits, name="responses=")
    answers = repeat(range(n))
    black_box.task = repeat.task
    return answers


@dataclass(frozen=True)
class TrainingRows:
    """What training starts from: rows to learn from, rows held out, and what was found out on the way."""

    k: int
    train: Rows
    held: Rows
    response: Response
    black_box: BlackBox
    asked_before: int  # rows, by whoever had the black box earlier

    @property
    def view(self) -> View:
        return self.train.view

    @property
    def asked(self) -> int:
        """Rows that the model was asked so far; where it is the value, training asks more."""
        return self.black_box.rows - self.asked_before


def prepare(
    black_box: BlackBox,
    view: View,
    X: Any,
    responses: Any,
    *,
    k: int,
    validation: float,
    plan: TrainingPlan,
    seed: int,
    device: torch.device,
    keep_raw: bool = False,
) -> TrainingRows:
    """Ask the model once, when all else is known to be right, and hold some rows out. The view is fitted."""
    k = view.checked_k(k)
    X = view.check(X)
    learn, hold = split(len(X), validation, plan.validation_rows, np.random.default_rng(seed))
    before = black_box.rows
    if responses is None:
        answers = ask(black_box, view, X, progress=plan.progress)
    else:
        answers = checked_responses(responses, len(X), black_box)
    response: Response = (
        Gaussian.of(answers) if black_box.task == "regression" else Categorical(answers.shape[1])
    )
    x, target = view.encode(X).to(device), response.encode(answers).to(device)
    rows = Rows(view, X if keep_raw else None, x, target)
    return TrainingRows(
        k=k,
        train=rows[torch.from_numpy(learn)],
        held=rows[torch.from_numpy(hold)],
        response=response,
        black_box=black_box,
        asked_before=before,
    )


def split(n: int, validation: float, most: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Indices of training rows and of held-out rows, at random; at most so many are held out."""
    if not 0 < validation < 1:
        raise InputError(
            f"validation is {validation}; expected a share of the rows between 0 and 1, such as 0.1."
        )
    held = max(1, min(most, round(n * validation)))
    if n - held < 1:
        raise InputError(
            f"The table has {n} row(s), too few to hold some out for validation; give at least 2."
        )
    order = rng.permutation(n)
    return order[held:], order[:held]
