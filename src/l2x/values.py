"""What a subset is worth: log q(y | x_S), from three kinds of q.

surrogate   q(y | x_S, S) fitted on random subsets, then frozen: selections cannot carry a secret code
joint       the paper's variational family, trained together with the selector
model       the black box itself on inputs with the rest removed: what post-hoc accuracy measures
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from l2x.blackbox import BlackBox
from l2x.data import Rows, TrainingRows, ask
from l2x.errors import InputError
from l2x.features.view import View
from l2x.foundations.arrays import Array, batches
from l2x.likelihood import Response
from l2x.training import History, TrainingPlan, optimise

ValueName = Literal["surrogate", "model", "joint"]

HELD_MASKS = 10_000
# Features of all rows together that a network is asked about at a time.
CELLS_AT_ONCE = 1 << 20
# Rows of (input x background) that the conditional model is asked at a time: some 16 MiB of float64.
CONDITIONAL_BATCH = 200_000


class Value(Protocol):
    """What a subset is worth."""

    @property
    def differentiable(self) -> bool:
        """Whether the gradient with respect to the mask exists."""
        ...

    @property
    def response(self) -> Response: ...

    @property
    def device(self) -> torch.device: ...

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        """The parameters of q(. | x_S), (n, outputs), for masks (n, d)."""
        ...


class NetworkValue:
    """q as one network g_α for every subset (section 3.1); serves `surrogate` and `joint`."""

    differentiable = True

    def __init__(self, predictor: nn.Module, response: Response) -> None:
        self.predictor = predictor
        self.response = response

    @property
    def device(self) -> torch.device:
        return next(self.predictor.parameters()).device

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return self._outputs(rows, rows.x, mask)
        # What networks read of a row may be many times its width: some rows at a time.
        parts = batches(len(mask), max(1, CELLS_AT_ONCE // mask.shape[1]))
        return torch.cat([self._outputs(rows, rows.x[part], mask[part]) for part in parts])

    def _outputs(self, rows: Rows, x: Tensor, mask: Tensor) -> Tensor:
        answer: Tensor = self.predictor(rows.view.mask(x, mask), mask)
        return answer


class ModelValue:
    """q as the black box itself: P_m(y | x̃_S), with the rest of x removed as the view says."""

    differentiable = False
    device = torch.device("cpu")

    def __init__(self, black_box: BlackBox | None, response: Response, *, seed: int = 0) -> None:
        self.black_box = black_box
        self.response = response
        self.rng = np.random.default_rng(seed)

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        if self.black_box is None:
            raise InputError("There is no model at hand; pass it with l2x.load(path, model=...).")
        removed = rows.view.remove(rows.raw, mask.cpu().numpy() > 0.5, rng=self.rng)
        answers = self.response.encode(self.black_box(removed)).to(mask.device)
        return self.response.from_answers(answers)


def log_value(value: Value, rows: Rows, masks: Tensor) -> Tensor:
    """log q(y | x_S) of each row under each of its masks: (m, n, d) -> (m, n)."""
    m, n, d = masks.shape
    repeated = rows.repeat(m)
    outputs = value.outputs(repeated, masks.reshape(m * n, d))
    return value.response.log_likelihood(outputs, repeated.target).reshape(m, n)


def random_masks(
    n: int, d: int, k: int, generator: torch.Generator, selectable: Tensor | None = None
) -> Tensor:
    """Subsets for fitting a surrogate: half of size k, half of sizes uniform on 0 .. d.

    Size k is where the surrogate is asked; the other sizes keep it honest at every k
    (measured: half and half beat either alone, see docs/method.md). Where some features may not be selected
    (n, d), the subsets are of the others and sizes go up to their number.
    """
    sizes = torch.randint(0, d + 1, (n, 1), generator=generator)
    at_k = torch.rand(n, 1, generator=generator) < 0.5
    noise = torch.rand(n, d, generator=generator)
    if selectable is None:
        return (noise.argsort(dim=-1) < torch.where(at_k, k, sizes)).float()
    selectable = selectable.cpu()
    sizes = sizes * (selectable.sum(dim=1, keepdim=True) + 1) // (d + 1)
    ranks = (noise + ~selectable).argsort(dim=-1).argsort(dim=-1)
    return (selectable & (ranks < torch.where(at_k, k, sizes))).float()


def fit_surrogate(
    value: NetworkValue,
    data: TrainingRows,
    *,
    k: int,
    plan: TrainingPlan,
    generator: torch.Generator,
    history: History,
    label: str = "fitting the surrogate",
) -> None:
    """Fit q(y | x_S, S) on random subsets, which know nothing of any selector, and freeze it."""
    train, held, d = data.train, data.held, data.view.d
    # Small tables: many masks for each held-out row, so that the figure is not an accident of a few.
    held = held.repeat(max(1, HELD_MASKS // len(held)))
    held_masks = random_masks(len(held), d, k, generator, data.view.selectable(held.x)).to(held.x.device)

    def objective(index: Tensor, _: float) -> Tensor:
        rows = train[index]
        masks = random_masks(len(index), d, k, generator, rows.view.selectable(rows.x)).to(train.x.device)
        return log_value(value, rows, masks[None]).mean()

    def validate(predictor: nn.Module) -> Tensor:
        with torch.no_grad():
            return log_value(NetworkValue(predictor, value.response), held, held_masks[None])[0]

    finished = optimise(
        value.predictor,
        objective,
        validate,
        phase=plan.value,
        plan=plan,
        n=len(train),
        generator=generator,
        label=label,
        history=history,
    )
    _freeze(value.predictor, finished=finished)


def fit_reader(
    reader: nn.Module,
    value: Value,
    data: TrainingRows,
    *,
    plan: TrainingPlan,
    generator: torch.Generator,
    history: History,
) -> None:
    """Teach a selector's reader what the value says of whole inputs and of random subsets, and freeze it.

    A selection that keeps the model's answer has to know that answer first. What is learned from the training
    inputs as they are does not carry over to new ones; subsets are new inputs without end (measured: see
    docs/method.md).
    """
    response, d = value.response, data.view.d
    held_masks = _mostly_large(len(data.held), d, generator)
    held = replace(data.held, target=_said(value, data.held, held_masks))

    def objective(index: Tensor, _: float) -> Tensor:
        rows, masks = data.train[index], _mostly_large(len(index), d, generator)
        target = _said(value, rows, masks)
        return response.log_likelihood(reader(rows.x, masks.to(rows.x.device)), target).mean()

    def validate(candidate: nn.Module) -> Tensor:
        with torch.no_grad():
            return response.log_likelihood(candidate(held.x, held_masks.to(held.x.device)), held.target)

    finished = optimise(
        reader,
        objective,
        validate,
        phase=plan.value,
        plan=plan,
        n=len(data.train),
        generator=generator,
        label="reading with the model",
        history=history,
    )
    _freeze(reader, finished=finished)


def _freeze(network: nn.Module, *, finished: bool) -> None:
    network.requires_grad_(requires_grad=False)
    if not finished:
        raise KeyboardInterrupt("stopped before the selector began to learn: there is nothing to keep yet")


def _mostly_large(n: int, d: int, generator: torch.Generator) -> Tensor:
    """Masks for learning to read: one in five whole, the others with a share of the features from 0 to 1."""
    share = 1.25 * torch.rand(n, 1, generator=generator)
    return (torch.rand(n, d, generator=generator) < share).float()


def _said(value: Value, rows: Rows, masks: Tensor) -> Tensor:
    """The value's answers for masked rows, as targets."""
    with torch.no_grad():
        return value.response.to_answers(value.outputs(rows, masks.to(rows.x.device)))


class SubsetValue(Protocol):
    """What a subset of raw inputs is worth: how metrics and the oracle ask any q."""

    def answers(self, X: Any) -> Array:
        """P_m(y|x), the answers that q is held against."""
        ...

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        """E_{Y ~ P_m(.|x)} log q(Y | x_S) of each row, (n,), in nats."""
        ...


@dataclass(frozen=True)
class FittedValue:
    """A q that was fitted - an explainer's own, or a judge's - asked about raw inputs."""

    view: View
    value: Value
    black_box: BlackBox | None = None

    def answers(self, X: Any) -> Array:
        if self.black_box is None:
            raise InputError("There is no model at hand to ask; pass responses=.")
        return ask(self.black_box, self.view, self.view.check(X), progress=False)

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        response = self.value.response
        outputs = torch.from_numpy(self.outputs(X, mask))
        return response.log_likelihood(outputs, response.encode(answers)).numpy()

    def probabilities(self, X: Any, mask: Array) -> Array:
        """q(y | x_S), (n, classes)."""
        return torch.softmax(torch.from_numpy(self.outputs(X, mask)), dim=-1).numpy()

    def outputs(self, X: Any, mask: Array) -> Array:
        X = self.view.check(X)
        parts = []
        with torch.inference_mode():
            for rows in batches(len(X), self.view.rows_at_once):
                raw = self.view.take(X, rows)
                x = self.view.encode(raw, first_row=rows.start).to(self.value.device)
                some = Rows(self.view, raw, x, target=x)
                masks = torch.from_numpy(mask[rows]).to(x.device, torch.float32)
                parts.append(self.value.outputs(some, masks).cpu())
        return torch.cat(parts).numpy()


@dataclass(frozen=True)
class ConditionalModel:
    """P_m(y | x_S) itself, by averaging the model over `background` rows in place of what is not selected.

    Exact, as the background grows, where the features are independent, as in the synthetic sets.
    """

    model: Callable[[Array], Array]
    background: Array  # (m, d)

    def answers(self, X: Any) -> Array:
        return self.model(np.asarray(X))

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        X = np.asarray(X)
        m, d = self.background.shape
        parts = []
        for rows in batches(len(X), max(1, CONDITIONAL_BATCH // m)):
            filled = np.where(mask[rows, None], X[rows, None], self.background[None])  # (rows, m, d)
            p = self.model(filled.reshape(-1, d)).reshape(-1, m, answers.shape[1]).mean(axis=1)
            parts.append((answers[rows] * np.log(np.maximum(p, 1e-12))).sum(axis=1))
        return np.concatenate(parts)


def check_compatible(value: ValueName, needs_gradient: bool) -> None:
    """The model as value gives no gradient: a relaxed sampler cannot learn from it."""
    if value not in ("surrogate", "model", "joint"):
        raise InputError(f"value is {value!r}; choose 'surrogate', 'model' or 'joint'.")
    if value == "model" and needs_gradient:
        raise InputError(
            "value='model' asks a black box, which has no gradient; use sampler=l2x.PlackettLuce(), "
            "or value='surrogate'."
        )
