"""q(y | x_S): what a predictor says of an input of which only the features S are left (section 3.1).

`Q` is asked about encoded rows, in training; `Conditional` about raw inputs, by metrics and the oracle.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array, batches
from l2x._base.ranking import best
from l2x.errors import BlackBoxError, InputError
from l2x.features import View
from l2x.learning._likelihood import Likelihood
from l2x.learning._rows import Rows
from l2x.learning.networks._recipes import ReadsSelected
from l2x.model import BlackBox, Memory, query

# Features of all rows together that a network is asked about at a time.
CELLS_AT_ONCE = 1 << 20
# This many times more if it reads the selected ones alone: what they are looked up in is made for each part.
LOOKED_UP = 8
# Rows of (input x background) that the conditional model is asked at a time: some 16 MiB of float64.
CONDITIONAL_BATCH = 200_000
# A reader is taught by the model, not by the surrogate, also where this many times fewer rows may be asked
# about. A judgement: only no limit at all was measured (docs/method.md).
FEWER = 8


class Q(ABC):
    """q(y | x_S) of encoded rows."""

    likelihood: Likelihood

    @property
    @abstractmethod
    def device(self) -> torch.device: ...

    @property
    @abstractmethod
    def networks(self) -> dict[str, nn.Module]:
        """Its networks by name, which an artifact keeps; none where it is a black box."""

    @abstractmethod
    def with_networks(self, networks: dict[str, nn.Module]) -> Q:
        """The same q with other weights."""

    def with_model(self, black_box: BlackBox) -> Q:
        """Return a copy that queries this model, if it queries one at all."""
        return self

    @property
    def parts(self) -> Sequence[Q]:
        """What it is made of, each of which can be asked by itself."""
        return (self,)

    @abstractmethod
    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        """The parameters of q(. | x_S), (m n, outputs), for masks (m n, d): those of the n rows, m times."""

    def questions_at_once(self, wanted: int) -> int:
        """How many of these inputs may be asked about at a time; a black box has limits."""
        return wanted

    def first_hand(self, wanted: int) -> Q:
        """What knows best what the model says of masked inputs and may be asked about `wanted` of them at
        once, or not many fewer."""
        return self

    def log_value(self, rows: Rows, masks: Tensor) -> Tensor:
        """log q(y | x_S) of each row under each of its masks: (m, n, d) -> (m, n)."""
        m, n, d = masks.shape
        outputs = self.outputs(rows, masks.reshape(m * n, d))
        return self.likelihood.log_likelihood(outputs, rows.target.repeat(m, 1)).reshape(m, n)


def _reads_rows(predictor: nn.Module) -> TypeGuard[ReadsSelected]:
    return isinstance(predictor, ReadsSelected) and predictor.reads_rows


@dataclass(frozen=True)
class NetworkQ(Q):
    """q as one network g_α for every subset (section 3.1)."""

    predictor: nn.Module
    likelihood: Likelihood

    @property
    def device(self) -> torch.device:
        return next(self.predictor.parameters()).device

    @property
    def networks(self) -> dict[str, nn.Module]:
        return {"predictor": self.predictor}

    def with_networks(self, networks: dict[str, nn.Module]) -> NetworkQ:
        return NetworkQ(networks["predictor"], self.likelihood)

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        # Networks may read many times the width of a row: some rows at a time, if no gradient needs all.
        cells = CELLS_AT_ONCE * (LOOKED_UP if _reads_rows(self.predictor) else 1)
        at_once = len(mask) if torch.is_grad_enabled() else max(1, cells // mask.shape[1])
        if len(mask) <= at_once:
            return self._outputs(rows, rows.x, mask)
        row = torch.arange(len(mask), device=rows.x.device) % len(rows)
        parts = batches(len(mask), at_once)
        return torch.cat([self._outputs(rows, rows.x[row[part]], mask[part]) for part in parts])

    def _outputs(self, rows: Rows, x: Tensor, mask: Tensor) -> Tensor:
        if _reads_rows(self.predictor):
            return self.predictor.read(x, mask)
        x = x if len(x) == len(mask) else x.repeat(len(mask) // len(x), *[1] * (x.ndim - 1))
        answer: Tensor = self.predictor(rows.view.mask(x, mask), mask)
        return answer


@dataclass(frozen=True)
class ModelQ(Q):
    """q as the black box itself: P_m(y | x̃_S), with the rest of x removed as the view says.

    memory : answers to training rows that were asked before; None where nothing is to be remembered
    limit : how many questions one `log_value` may ask; rows beyond are worth zero under all of their masks,
        which makes none of them better than another
    """

    black_box: BlackBox | None
    likelihood: Likelihood
    rng: np.random.Generator
    memory: Memory | None = None
    limit: float = math.inf

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def networks(self) -> dict[str, nn.Module]:
        return {}

    def with_networks(self, networks: dict[str, nn.Module]) -> ModelQ:
        return self

    def with_model(self, black_box: BlackBox) -> ModelQ:
        # No predictions of another model, and its own generator: drawing for one does not advance the other.
        return replace(self, black_box=black_box, rng=copy.deepcopy(self.rng), memory=None)

    def questions_at_once(self, wanted: int) -> int:
        return int(min(wanted, self.limit))

    def rows_within_limit(self, masks: Tensor) -> int:
        """How many of the rows of masks (m, n, d) may be asked about, each under all of its masks."""
        m, n = masks.shape[:2]
        return self.questions_at_once(m * n) // m

    def log_value(self, rows: Rows, masks: Tensor) -> Tensor:
        asked = self.rows_within_limit(masks)
        if asked == len(rows):
            return super().log_value(rows, masks)
        values = torch.zeros(masks.shape[:2], device=masks.device)
        if asked:
            values[:, :asked] = super().log_value(rows[torch.arange(asked)], masks[:, :asked])
        return values

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        if self.black_box is None:
            raise InputError("The model is not available; pass it with l2x.load(path, model=...).")
        kept = mask.cpu().numpy() > 0.5
        row = np.arange(len(kept)) % len(rows)
        if self.memory is None or rows.numbers is None:
            answers = self._asked(rows, row, kept)
        else:
            answers = self.memory.complete(
                rows.numbers[row], kept, lambda new: self._asked(rows, row[new], kept[new])
            )
        target = self.likelihood.targets(answers).to(mask.device)
        return self.likelihood.from_targets(target)

    def _asked(self, rows: Rows, which: Array, kept: Array) -> Array:
        assert self.black_box is not None
        try:
            answers = self.black_box(rows.view.for_model(rows.raw(which), kept, rng=self.rng))
        except BlackBoxError as error:
            raise BlackBoxError(
                f"{error} These were rows with features removed, which value='both' and 'model' ask about; "
                "value='surrogate', or queries=0, asks about whole rows alone."
            ) from error
        if answers.shape[1] != self.likelihood.outputs:
            raise InputError(
                f"{self.black_box.name} answers with {answers.shape[1]} numbers a row, and the answers that "
                f"are to be explained have {self.likelihood.outputs}: bring them, responses=, as it gives "
                "them, or let queries=0 leave it unasked."
            )
        return answers


@dataclass(frozen=True)
class MixedQ(Q):
    """The surrogate and the black box together: log values are averaged with weights.

    A weighted mean of logs is no distribution. What q says of an input is therefore the surrogate's word,
    which needs no model, and only what a subset is worth in training is both's.

    weight : of the black box, between 0 and 1
    """

    surrogate: NetworkQ
    model: ModelQ
    weight: float

    @property
    def likelihood(self) -> Likelihood:  # type: ignore[override]
        return self.surrogate.likelihood

    @property
    def device(self) -> torch.device:
        return self.surrogate.device

    @property
    def networks(self) -> dict[str, nn.Module]:
        return self.surrogate.networks

    def with_networks(self, networks: dict[str, nn.Module]) -> MixedQ:
        return replace(self, surrogate=self.surrogate.with_networks(networks))

    def with_model(self, black_box: BlackBox) -> MixedQ:
        return replace(self, model=self.model.with_model(black_box))

    @property
    def parts(self) -> Sequence[Q]:
        return (self.surrogate, self.model) if self.weight else (self.surrogate,)

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        return self.surrogate.outputs(rows, mask)

    def first_hand(self, wanted: int) -> Q:
        many = FEWER * self.model.questions_at_once(wanted) >= wanted
        return self.model if many and self.weight else self.surrogate

    def log_value(self, rows: Rows, masks: Tensor) -> Tensor:
        values = self.surrogate.log_value(rows, masks)
        if not self.weight:
            return values
        asked = self.model.rows_within_limit(masks)
        said = self.model.log_value(rows, masks)[:, :asked]
        both = (1 - self.weight) * values[:, :asked] + self.weight * said
        return torch.cat([both, values[:, asked:]], dim=1)


def head_outputs(q: Q, rows: Rows, scores: Tensor, k: int) -> Tensor:
    """(n, k + 1, outputs) what q says of the first 0 .. k features of each ranking, by scores (n, d)."""
    order, selectable = torch.from_numpy(best(scores.numpy(), k)), scores > -torch.inf
    heads = []
    for size in range(k + 1):
        mask = torch.zeros(scores.shape).scatter(1, order[:, :size], 1.0) * selectable
        heads.append(q.outputs(rows, mask.to(rows.x.device)).cpu())
    return torch.stack(heads, dim=1)


class Conditional(Protocol):
    """q(y | x_S) of raw inputs: how metrics and the oracle ask any q."""

    def answers(self, X: Any) -> Array:
        """P_m(y|x), the answers that q is compared with, (n, outputs)."""
        ...

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        """E_{Y ~ P_m(.|x)} log q(Y | x_S) of each row under its mask (n, d), in nats, (n,)."""
        ...


@dataclass(frozen=True)
class FittedQ:
    """A q that was fitted - an explainer's own, or a judge's - asked about raw inputs.

    view : the fitted view that reads the inputs
    q : what is asked about encoded rows
    black_box : the model whose answers q learned, where it is available
    """

    view: View
    q: Q
    black_box: BlackBox | None = None

    @property
    def likelihood(self) -> Likelihood:
        """Of classes, or of means."""
        return self.q.likelihood

    def with_model(self, black_box: BlackBox) -> FittedQ:
        """Return a copy that takes predictions from this model."""
        return replace(self, q=self.q.with_model(black_box), black_box=black_box)

    def answers(self, X: Any) -> Array:
        """The model's own answers."""
        if self.black_box is None:
            raise InputError("The model is not available; pass its answers, responses=.")
        return query(self.black_box, self.view, self.view.check(X))

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        """The mean of log q(y | x_S) over the model's answers to each row, in nats, (n,)."""
        outputs = torch.from_numpy(self.outputs(X, mask))
        return self.likelihood.log_likelihood(outputs, self.likelihood.targets(answers)).numpy()

    def predict(self, X: Any, mask: Array) -> Array:
        """What q says, in the units of the model's answers: probabilities or means, (n, outputs)."""
        return self.likelihood.answers(self.outputs(X, mask))

    def outputs(self, X: Any, mask: Array) -> Array:
        """The parameters of q(. | x_S), such as logits, (n, outputs), for masks (n, d)."""
        X = self.view.check(X)
        if mask.shape != (len(X), self.view.d):
            raise InputError(f"The mask has the shape {mask.shape}; expected {(len(X), self.view.d)}.")
        parts = []
        with torch.inference_mode():
            for part, rows in self._encoded(X):
                masks = torch.from_numpy(mask[part]).to(rows.x.device, torch.float32)
                parts.append(self.q.outputs(rows, masks).cpu())
        return torch.cat(parts).numpy()

    def heads(self, X: Any, scores: Array, k: int) -> Iterator[Array]:
        """The parameters of q for the first 0 .. k features of each row's ranking, (n, k + 1, outputs), of
        inputs that the view has checked, some at a time."""
        for part, rows in self._encoded(X):
            with torch.inference_mode():
                heads = head_outputs(self.q, rows, torch.from_numpy(scores[part]), k).numpy()
            yield heads  # outside, or the caller would be in inference mode

    def _encoded(self, X: Any) -> Iterator[tuple[slice, Rows]]:
        """Checked inputs as the networks read them, some at a time, and which these are."""
        for part in batches(len(X), self.view.rows_at_once):
            raw = self.view.take(X, part)
            x = self.view.encode(raw, first_row=part.start).to(self.q.device)
            yield part, Rows(self.view, raw, x, target=x)


@dataclass(frozen=True)
class ConditionalModel:
    """P_m(y | x_S) itself, by averaging the model over `background` rows in place of what is not selected.

    Exact, as the background grows, where the features are independent, as in the synthetic sets.

    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 100, seed=0)
    >>> exact = ConditionalModel(data.model, data.X)
    >>> exact.log_q(data.X[:2], np.ones((2, 10), dtype=bool), data.model(data.X[:2])).shape
    (2,)
    """

    model: Callable[[Array], Array]
    background: Array  # (m, d)

    def answers(self, X: Any) -> Array:
        """The model's own answers."""
        return self.model(np.asarray(X))

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        """The mean of log P_m(y | x_S) over the model's answers to each row, in nats, (n,)."""
        X = np.asarray(X)
        m, d = self.background.shape
        parts = []
        for rows in batches(len(X), max(1, CONDITIONAL_BATCH // m)):
            filled = np.where(mask[rows, None], X[rows, None], self.background[None])  # (rows, m, d)
            p = self.model(filled.reshape(-1, d)).reshape(-1, m, answers.shape[1]).mean(axis=1)
            parts.append((answers[rows] * np.log(np.maximum(p, 1e-12))).sum(axis=1))
        return np.concatenate(parts)
