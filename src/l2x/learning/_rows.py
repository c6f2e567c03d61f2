"""What training reads: encoded rows, the model's predictions as targets, and the likelihood between them.

The likelihood is the term inside the objective of section 3, E[log q(Y | X_S)]. The model's prediction enters
as the full distribution (equation 6: Σ_y P_m(y|x) log g_α(x̃_S, y)), never as a hard label: hard labels lose
information, and they invite selections that leak the class.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from l2x._base import Registered
from l2x._base.arrays import Array
from l2x.errors import BlackBoxError, InputError, some
from l2x.features import View, checked_k, named_columns
from l2x.files import Predictions, RowsToLabel, label_blocks, read_predictions
from l2x.learning._training import Run
from l2x.model import SUM_TOLERANCE, BlackBox, Task, numbers_of, query

# What the selected features should preserve: the full predicted distribution, or only the predicted class.
Target = Literal["distribution", "class"]
# Predictions with at most this many distinct whole numbers look like class labels.
MOST_LABELS = 10
# Rows that are queried to measure the time per row, if nearly all predictions are known.
TIMED_ROWS = 32
# Predictions that differ by at most this many units of relative float precision are one constant, computed in
# batches of different sizes.
ROUNDING = 8
BITS = 1 / np.log(2)  # per nat
# A table with fewer rows to learn from is filled up to this number with mixed rows, if the model is local.
FEW_ROWS = 3000


class Likelihood(Registered, ABC):
    """The kind of variable that the model predicts.

    `predictions` are in the model's own units, `target` is their tensor for training, and `outputs` are the
    parameters that a predictor network returns, such as logits; each has the shape (n, outputs).
    """

    outputs: int  # numbers that a predictor returns per row

    @abstractmethod
    def targets(self, predictions: Array) -> Tensor:
        """Return the model's predictions as float32 training targets."""

    @abstractmethod
    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return E_{Y ~ P_m(.|x)} log q(Y | x_S) of each row, in nats, (n,)."""

    @abstractmethod
    def agreement(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return one for the same class, else zero; for regression, minus half the squared error, (n,)."""

    def most_likely(self, target: Tensor) -> Tensor:
        """Return targets that are certain about the most likely value; by default unchanged."""
        return target

    def from_targets(self, target: Tensor) -> Tensor:
        """Return the outputs that stand for these targets; by default the targets."""
        return target

    def to_targets(self, outputs: Tensor) -> Tensor:
        """Return outputs as training targets for another predictor; the inverse of `from_targets`."""
        return outputs

    def evidence(self, log_value: Tensor) -> Tensor:
        """Return log q(y | x_S) on the scale on which independent evidence adds up; by default unchanged."""
        return log_value

    def prediction_input(self, target: Tensor) -> Tensor:
        """Return what a prediction-aware selector reads; by default the target."""
        return target

    @abstractmethod
    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        """Return KL(q || q') of each row, in nats, for the outputs of two predictors."""

    @abstractmethod
    def predictions(self, outputs: Array) -> Array:
        """Return outputs in the model's own units: probabilities, or predicted values."""


@dataclass(frozen=True)
class Categorical(Likelihood):
    """Y is one of c classes, and P_m(.|x) is its distribution."""

    outputs: int

    def targets(self, predictions: Array) -> Tensor:
        """Return the probabilities."""
        return torch.from_numpy(np.ascontiguousarray(predictions, dtype=np.float32))

    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the negative cross-entropy."""
        return (target * torch.log_softmax(outputs, dim=-1)).sum(-1)

    def agreement(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return one for the same class, else zero."""
        return (outputs.argmax(dim=-1) == target.argmax(dim=-1)).to(target.dtype)

    def most_likely(self, target: Tensor) -> Tensor:
        """Return the most likely class, one-hot."""
        return torch.nn.functional.one_hot(target.argmax(dim=-1), self.outputs).to(target.dtype)

    def from_targets(self, target: Tensor) -> Tensor:
        """Return log probabilities."""
        # A model that is certain and wrong must not weigh infinitely: floor at one in a million.
        return target.clamp_min(1e-6).log()

    def to_targets(self, outputs: Tensor) -> Tensor:
        """Return the softmax."""
        return torch.softmax(outputs, dim=-1)

    def evidence(self, log_value: Tensor) -> Tensor:
        """Return log-odds."""
        certain = log_value.clamp(max=-1e-6)
        return certain - torch.log(-torch.expm1(certain))

    def prediction_input(self, target: Tensor) -> Tensor:
        """Return log probabilities, floored so that certainty is a number of moderate size."""
        return target.clamp_min(1e-3).log()

    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        """Return the divergence of two sets of logits."""
        log_q = torch.log_softmax(outputs, dim=-1)
        return (log_q.exp() * (log_q - torch.log_softmax(other, dim=-1))).sum(-1)

    def predictions(self, outputs: Array) -> Array:
        """Return probabilities."""
        return torch.softmax(torch.from_numpy(outputs), dim=-1).numpy()


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Y is a real vector, and the model predicts its mean.

    Predictions are standardised, and q(y|x_S) = N(g(x̃_S), 1), so that -log q is half the squared error up to
    a constant.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, predictions: Array) -> Gaussian:
        """Standardise by the mean and spread of these predictions (n, outputs).

        An output that is constant up to rounding is divided by its own size instead, so that the rounding
        noise stays small and is not learned.
        """
        spread, largest = predictions.std(axis=0), np.abs(predictions).max(axis=0)
        noise = ROUNDING * _precision(predictions) * largest
        constant = (np.ptp(predictions, axis=0) <= noise) | (spread == 0)  # 0 also by underflow
        scale = np.where(constant, np.maximum(largest, 1.0), spread)
        return cls(tuple(predictions.mean(axis=0).tolist()), tuple(scale.tolist()))

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """The number of predicted values per row."""
        return len(self.mean)

    def targets(self, predictions: Array) -> Tensor:
        """Return standardised predictions."""
        standard = (predictions - np.asarray(self.mean)) / np.asarray(self.scale)
        return torch.from_numpy(np.ascontiguousarray(standard, dtype=np.float32))

    def log_likelihood(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return minus half the squared error."""
        return -0.5 * (target - outputs).square().sum(-1)

    def agreement(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return minus half the squared error."""
        return self.log_likelihood(outputs, target)

    def divergence(self, outputs: Tensor, other: Tensor) -> Tensor:
        """Return half the squared distance of two means."""
        return 0.5 * (outputs - other).square().sum(-1)

    def predictions(self, outputs: Array) -> Array:
        """Return predicted values."""
        return np.asarray(outputs * np.asarray(self.scale) + np.asarray(self.mean))


def likelihood_of(black_box: BlackBox, predictions: Array) -> Likelihood:
    """Return the likelihood for a model's task, and for regression the spread of these predictions."""
    return Gaussian.of(predictions) if black_box.task == "regression" else Categorical(predictions.shape[1])


def _precision(predictions: Array) -> Array:
    """Return the precision of each output (outputs,): that of float32 if all its numbers are exact in it."""
    with np.errstate(over="ignore"):  # infinite beyond float32, and so not exact
        exact = (predictions.astype(np.float32) == predictions).all(axis=0)
    return np.where(exact, np.finfo(np.float32).eps, np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Rows:
    """Encoded inputs with the model's predictions for them.

    Attributes
    ----------
    view : View
    source : raw inputs or None
        The raw inputs that `numbers` refers to, or these rows' own if `numbers` is None. None if the model is
        not queried for masked rows.
    x : (n, ...) tensor
        What networks read.
    target : (n, outputs) tensor
    numbers : (n,) array or None
        The positions of these rows in `source`.
    """

    view: View
    source: Any
    x: Tensor
    target: Tensor
    numbers: Array | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Tensor) -> Rows:
        which = index.cpu().numpy()
        numbers = None if self.numbers is None else self.numbers[which]
        # Raw rows are copied when they are read, not for each minibatch.
        shared = self.source is None or numbers is not None
        source = self.source if shared else self.view.take(self.source, which)
        index = index.to(self.x.device)
        return Rows(self.view, source, self.x[index], self.target[index], numbers)

    def raw(self, which: Array) -> Any:
        """Return the raw inputs of the rows at these positions."""
        return self.view.take(self.source, which if self.numbers is None else self.numbers[which])

    def repeat(self, m: int) -> Rows:
        """Return m copies of the rows, one copy after the other."""
        return self if m == 1 else self[torch.arange(len(self)).repeat(m)]


@dataclass(frozen=True)
class Problem:
    """What an explainer learns.

    Attributes
    ----------
    k : int
        Features per explanation.
    target : "distribution" or "class"
        What the selected features should preserve.
    uses_prediction : bool
        Whether the selector reads the model's prediction as well as the input.
    signed : bool
        Whether scores are signed and explain one output of each row; see `Sampler.signed`.
    """

    k: int
    target: Target = "distribution"
    uses_prediction: bool = False
    signed: bool = False


@dataclass(frozen=True)
class Labels:
    """Where the model's predictions for the training rows come from.

    Attributes
    ----------
    predictions : array, frame, `Predictions` or None
        Known predictions; None to query the model.
    journal : Path or None
        A .parquet file that stores predictions as they arrive. Rows that it holds already are not queried
        again.
    timed : bool
        Query at least TIMED_ROWS rows, to measure the time per row.
    """

    predictions: Any = None
    journal: Path | None = None
    timed: bool = False

    def collect(self, black_box: BlackBox, view: View, X: Any, run: Run) -> tuple[Array, float | None]:
        """Return checked predictions (n, outputs) and the seconds per queried row, None without queries."""
        task_known, before, started = black_box.task is not None, black_box.rows, time.perf_counter()
        predictions, progress = self.predictions, run.plan.progress
        if self.journal is not None and predictions is None:
            label_blocks(black_box, RowsToLabel.of_view(view, X), self.journal, progress=progress)
            predictions = read_predictions(self.journal)
        if isinstance(predictions, Predictions):
            predictions.check(X)
        if predictions is None:
            predictions = query(black_box, view, X, progress=progress)
        else:
            predictions = training_predictions(predictions, len(X), black_box)
        if not task_known and black_box.task == "regression":
            _warn_of_class_labels(predictions, black_box.name)
        if self.timed and black_box.rows - before < TIMED_ROWS:
            before, started = black_box.rows, time.perf_counter()
            query(black_box, view, view.take(X, slice(TIMED_ROWS)))
        queried = black_box.rows - before
        return predictions, (time.perf_counter() - started) / queried if queried else None


@dataclass(frozen=True)
class TrainingRows:
    """What training starts from: rows to learn from, held-out rows, and what labelling them cost.

    Attributes
    ----------
    problem : Problem
    train, held : Rows
    likelihood : Likelihood
    black_box : BlackBox
    mixed : int
        How many of the rows to learn from, the last ones, are mixed from two others.
    labelled : int
        Rows that the model was queried for to label them.
    seconds_per_row : float or None
        Time per queried row; None if no row was queried.
    """

    problem: Problem
    train: Rows
    held: Rows
    likelihood: Likelihood
    black_box: BlackBox
    mixed: int
    labelled: int
    seconds_per_row: float | None
    _before: int  # the model's counter before this fit

    @property
    def k(self) -> int:
        """Features per explanation."""
        return self.problem.k

    @property
    def view(self) -> View:
        """The fitted view."""
        return self.train.view

    @property
    def given(self) -> Rows:
        """The rows to learn from without the mixed ones."""
        return self.train[torch.arange(len(self.train) - self.mixed)] if self.mixed else self.train

    @property
    def queried(self) -> int:
        """Rows that the model was queried for so far; objectives that query it add more during training."""
        return self.black_box.rows - self._before

    @property
    def queried_masked(self) -> int:
        """Rows that the model was queried for beyond labelling."""
        return self.queried - self.labelled


def prepare(
    black_box: BlackBox,
    view: View,
    X: Any,
    labels: Labels,
    problem: Problem,
    *,
    run: Run,
    validation: float = 0.1,
    fill: int = 0,
) -> TrainingRows:
    """Check everything, then label the rows of X and hold some out.

    Parameters
    ----------
    black_box : BlackBox
        The model.
    view : View
        Fitted.
    X : training inputs
        As the view takes them.
    labels : Labels
        Where the predictions come from.
    problem : Problem
        What is to be learned.
    run : Run
        Its seed decides which rows are held out.
    validation : float
        Share of the rows to hold out.
    fill : int
        Number of rows to learn from, including mixed ones, if there are fewer; see `mixed_rows`.
    """
    problem = replace(problem, k=checked_k(view, problem.k))
    X = view.check(X)
    check_known_columns(view, black_box)
    learn, hold = split(len(X), validation, run.plan.validation_rows, np.random.default_rng(run.seed))
    x = view.encode(X).to(run.device)  # first: texts then have tokens, which models that read ids need, too
    before = black_box.rows
    predictions, seconds_per_row = labels.collect(black_box, view, X, run)
    likelihood = likelihood_of(black_box, predictions)
    mixed = mixed_rows(view, view.take(X, learn), fill - len(learn), run.seed)
    if mixed is not None:
        number, n = fill - len(learn), len(x)
        X, learn = _joined(X, mixed), np.concatenate([learn, np.arange(n, n + number)])
        x = torch.cat([x, view.encode(mixed).to(run.device)])
        try:
            predictions = np.concatenate([predictions, query(black_box, view, mixed)])
        except BlackBoxError as error:
            raise BlackBoxError(
                f"{error}. These rows are mixed, each column from one of two rows of X; mixed=0 leaves "
                "them out."
            ) from error
    labelled = black_box.rows - before
    target = likelihood.targets(predictions).to(run.device)
    rows = Rows(view, X, x, target, np.arange(len(x)))
    train, held = rows[torch.from_numpy(learn)], rows[torch.from_numpy(hold)]
    added = 0 if mixed is None else number
    return TrainingRows(problem, train, held, likelihood, black_box, added, labelled, seconds_per_row, before)


def mixed_rows(view: View, X: Any, number: int, seed: int) -> Any:
    """Return rows each of which takes every column from one of two rows of X, at random.

    A surrogate learns few rows by heart. Mixed rows, labelled by the model, show it more of the model. None
    without rows to make, and for views whose inputs cannot be mixed, such as texts.
    """
    if number <= 0 or len(X) < 2 or "resample" not in view.maskings():
        return None
    rng = np.random.default_rng((seed, 1))
    rows, mask = view.take(X, rng.integers(len(X), size=number)), rng.random((number, view.d)) < 0.5
    return clone(view).set_params(masking="resample").fit(X).for_model(rows, mask, rng=rng)


def _joined(X: Any, below: Any) -> Any:
    """Return a table with rows below it."""
    frames = [nw.from_native(each, eager_only=True, pass_through=True) for each in (X, below)]
    if all(isinstance(frame, nw.DataFrame) for frame in frames):
        return nw.concat(frames, how="vertical").to_native()
    return np.concatenate([np.asarray(X), np.asarray(below)])


def split(n: int, validation: float, most: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Split n rows at random; return the indices of training rows and of held-out rows, at most `most`."""
    if not isinstance(validation, Real) or not 0 < validation < 1:
        raise InputError(
            f"validation is {validation!r}; expected a share of the rows between 0 and 1, such as 0.1."
        )
    if n < 2:
        raise InputError("There is only 1 sample (row), too few to hold some out; pass at least 2.")
    held = max(1, min(most, round(n * validation), n - 1))
    if n >= 10 and n - held < 2:  # with fewer than 10 rows, any share is one or two rows
        raise InputError(
            f"validation is {validation}, which leaves {n - held} of {n:,} rows to learn from; hold out "
            "fewer, such as 0.1."
        )
    order = rng.permutation(n)
    return order[held:], order[:held]


def check_known_columns(view: View, black_box: BlackBox) -> None:
    """Raise an InputError if X has columns that the model was not fitted on, such as the target.

    The model does not read them, but a column that reveals the prediction would be selected.
    """
    names, known = named_columns(view) or [], black_box.columns or []
    extra = [name for name in names if name not in known]
    if known and extra and set(known) < set(names):  # otherwise the model has names of its own
        raise InputError(
            f"{black_box.name} was fitted without the column{'s' * (len(extra) > 1)} {some(extra)}, so its "
            "predictions cannot depend on them. Drop them from X."
        )


def _warn_of_class_labels(predictions: Array, name: str) -> None:
    """Warn if a regression predicts only a few whole numbers, which are usually class labels."""
    values = np.unique(predictions)
    if 1 < len(values) <= MOST_LABELS and (values == np.round(values)).all():
        shown = ", ".join(f"{value:g}" for value in values)
        warnings.warn(
            f"{name} predicts only {shown} and is explained as a regression. If these are classes, pass the "
            "estimator itself, its predict_proba, or a function that returns probabilities (n, classes); if "
            "not, l2x.as_black_box(model, task='regression').",
            stacklevel=5,
        )


def training_predictions(
    predictions: Any, n: int, black_box: BlackBox, *, name: str = "predictions="
) -> Array:
    """Check predictions that the user passes for n rows as if they were the model's; set its task."""
    labelled = isinstance(predictions, Predictions)
    if labelled:
        black_box.task = black_box.task or predictions.origin.task
        predictions = predictions.values
    given = numbers_of(predictions, name)
    if not given.ndim:
        raise InputError(f"{name[:-1]} is one number; expected one prediction for each of {n} rows.")
    if len(given) != n:
        raise InputError(f"{name[:-1]} has {len(given)} rows, X has {n}.")
    # A black box that returns them: checks and task are then the same as for a model. Probabilities are not
    # logits, even if the model returns logits.
    logits = black_box.logits and not labelled and not _are_probabilities(given)
    repeat = BlackBox(lambda _: given, task=black_box.task, logits=logits, name=name)
    checked = repeat(range(n))
    black_box.task = repeat.task
    return checked


def checked_predictions(
    predictions: Any, n: int, likelihood: Likelihood, *, classes: Array | None = None, logits: bool = False
) -> Array:
    """Check predictions for n rows that are to be explained, (n, outputs).

    The columns of a frame are matched with the classes by name, if they have the same names.
    """
    task: Task = "regression" if isinstance(likelihood, Gaussian) else "classification"
    if classes is not None and not isinstance(predictions, Predictions):
        predictions = _in_order_of(classes, predictions)
    repeat = BlackBox(lambda _: predictions, task=task, logits=logits)
    checked = training_predictions(predictions, n, repeat, name="predictions=")
    if checked.shape[1] != likelihood.outputs:
        given = np.shape(predictions)[1] if np.ndim(predictions) == 2 else 1
        raise InputError(
            f"predictions has {given} column{'s' * (given != 1)}; the model that was explained has "
            f"{likelihood.outputs}."
        )
    return checked


def check_outputs(predictions: Array, likelihood: Likelihood, black_box: BlackBox) -> None:
    """Raise an InputError if predictions are not of the kind that an explainer was fitted to."""
    found, expected = predictions.shape[1], likelihood.outputs
    if found == expected and (black_box.task == "regression") == isinstance(likelihood, Gaussian):
        return
    kind = "value" if isinstance(likelihood, Gaussian) else "class"
    hint = "is this the model that it explains?"
    if kind == "class" and black_box.task == "regression" and found in (1, expected):
        hint = "if its outputs are probabilities, pass l2x.as_black_box(model, task='classification')."
    elif kind == "value" and found == expected:
        hint = "if its outputs are values, pass l2x.as_black_box(model, task='regression')."
    plural = ("es" if kind == "class" else "s") * (expected != 1)
    raise InputError(
        f"{black_box.name} has {found} output{'s' * (found != 1)} (task {black_box.task!r}), but the "
        f"explainer was fitted to {expected} {kind}{plural}: {hint}"
    )


def _in_order_of(classes: Array, predictions: Any) -> Any:
    """Return a frame with its columns in the order of the classes; anything else unchanged."""
    frame = nw.from_native(predictions, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return predictions
    columns, names = [str(column) for column in frame.columns], [str(name) for name in classes]
    if sorted(columns) != sorted(names):
        return predictions
    return frame[:, [columns.index(name) for name in names]].to_native()


def _are_probabilities(given: Array) -> bool:
    several = given.ndim == 2 and given.shape[1] > 1
    return several and bool((given >= 0).all() and (abs(given.sum(axis=1) - 1) <= SUM_TOLERANCE).all())
