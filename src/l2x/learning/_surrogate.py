"""The surrogate q(y | x_S): the prediction if only the features S of an input are known (section 3.1).

`BaseSurrogate` takes encoded rows, in training; `fit_surrogate` trains it on random subsets. `Conditional`
takes raw inputs, for metrics and the oracle.
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

from l2x._base.arrays import Array, batches, best
from l2x.errors import BlackBoxError, InputError
from l2x.features import WIDE, View
from l2x.learning._rows import Likelihood, Rows, TrainingRows, split
from l2x.learning._training import Phase, Run, freeze, optimise
from l2x.learning.networks._recipes import ReadsSelected
from l2x.learning.samplers import FEW, USUAL, WHOLE, WHOLE_FIRST
from l2x.model import BlackBox, Memory, query

# Rows times features that a network evaluates at a time.
CELLS_AT_ONCE = 1 << 20
# This many times more for a network that looks up the selected cells alone: its look-up table is built per
# call.
LOOKED_UP = 8
# Masked rows of a narrow table at a time: more would not fit into the processor's cache (measured: 24 ms for
# 8,192 rows of Adult at once, 14 ms in two parts).
CACHED_ROWS = 4096
# Rows (inputs x background) per call of the conditional model: about 16 MiB of float64.
CONDITIONAL_BATCH = 200_000
# The model teaches the text encoder even if it may be queried for this many times fewer rows than wanted.
# This factor is a guess: only unlimited queries were measured (docs/notebook.md).
MODEL_PREFERRED = 8
# Masks for the held-out rows of a surrogate: at least this number, unless they have more cells than this.
HELD_MASKS, HELD_CELLS = 4000, 1 << 25
# Probes start from the evaluator, which has learned already: a quarter of its steps, a third of its learning
# rate.
PROBES_SHORTER, PROBES_SLOWER = 4, 3


class BaseSurrogate(ABC):
    """A surrogate q(y | x_S) for encoded rows."""

    likelihood: Likelihood

    @property
    def device(self) -> torch.device:
        """The device that its networks are on; the CPU if it has none."""
        return torch.device("cpu")

    @property
    def networks(self) -> dict[str, nn.Module]:
        """Its networks by name, which are saved; by default none."""
        return {}

    def with_networks(self, networks: dict[str, nn.Module]) -> BaseSurrogate:
        """Return a copy with other networks; by default itself."""
        return self

    def with_model(self, black_box: BlackBox) -> BaseSurrogate:
        """Return a copy that queries this model, if it queries one at all."""
        return self

    @property
    def parts(self) -> Sequence[BaseSurrogate]:
        """The surrogates that it combines; by default itself."""
        return (self,)

    @abstractmethod
    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        """Return the parameters of q(. | x_S), (m n, outputs), for m masks of each row, (m n, d)."""

    def rows_per_call(self, wanted: int) -> int:
        """Return how many of `wanted` masked inputs one call may evaluate; a model may have a limit."""
        return wanted

    def most_faithful(self, wanted: int) -> BaseSurrogate:
        """Return the most faithful component that can evaluate about `wanted` masked inputs per call."""
        return self

    def log_value(self, rows: Rows, masks: Tensor) -> Tensor:
        """Return log q(y | x_S) of each row under each of its masks: (m, n, d) -> (m, n)."""
        m, n, d = masks.shape
        outputs = self.outputs(rows, masks.reshape(m * n, d))
        return self.likelihood.log_likelihood(outputs, rows.target.repeat(m, 1)).reshape(m, n)


def reads_rows(predictor: nn.Module) -> TypeGuard[ReadsSelected]:
    return isinstance(predictor, ReadsSelected) and predictor.reads_rows


@dataclass(frozen=True)
class NetworkSurrogate(BaseSurrogate):
    """One network g_α for all subsets (section 3.1)."""

    predictor: nn.Module
    likelihood: Likelihood

    @property
    def device(self) -> torch.device:
        """The predictor's device."""
        return next(self.predictor.parameters()).device

    @property
    def networks(self) -> dict[str, nn.Module]:
        """The predictor."""
        return {"predictor": self.predictor}

    def with_networks(self, networks: dict[str, nn.Module]) -> NetworkSurrogate:
        """Return a copy with another predictor."""
        return NetworkSurrogate(networks["predictor"], self.likelihood)

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        """Return the predictor's outputs; without gradients in batches, as networks may widen the rows."""
        n, d, outputs = len(rows), mask.shape[1], self.likelihood.outputs
        cells = CELLS_AT_ONCE * (LOOKED_UP if reads_rows(self.predictor) else 1)
        most = min(cells // d, CACHED_ROWS) if d <= WIDE else cells // d
        at_once = n if torch.is_grad_enabled() or not n else max(1, most * n // len(mask))
        if n <= at_once:
            return self._outputs(rows, rows.x, mask)
        masks = mask.view(-1, n, d)
        # All masks of a row stay together: they share work.
        parts = [
            self._outputs(rows, rows.x[part], masks[:, part].reshape(-1, d)).view(len(masks), -1, outputs)
            for part in batches(n, at_once)
        ]
        return torch.cat(parts, dim=1).view(len(mask), outputs)

    def _outputs(self, rows: Rows, x: Tensor, mask: Tensor) -> Tensor:
        if reads_rows(self.predictor):
            return self.predictor.read(x, mask)
        x = x if len(x) == len(mask) else x.repeat(len(mask) // len(x), *[1] * (x.ndim - 1))
        outputs: Tensor = self.predictor(rows.view.mask(x, mask), mask)
        return outputs


@dataclass(frozen=True)
class ModelSurrogate(BaseSurrogate):
    """The model itself, P_m(y | x̃_S), queried for inputs that the view has masked.

    Attributes
    ----------
    black_box : BlackBox or None
        None for an explainer that was loaded without its model.
    likelihood : Likelihood
    rng : numpy Generator
        For maskings that draw replacements.
    memory : Memory or None
        Stores predictions for masked training rows.
    limit : float
        Maximum number of masked rows that one `log_value` queries. Rows beyond it have the value zero under
        all of their masks, so that none of their masks is preferred.
    """

    black_box: BlackBox | None
    likelihood: Likelihood
    rng: np.random.Generator
    memory: Memory | None = None
    limit: float = math.inf

    def with_model(self, black_box: BlackBox) -> ModelSurrogate:
        """Return a copy for another model, with an empty memory and a generator of its own."""
        return replace(self, black_box=black_box, rng=copy.deepcopy(self.rng), memory=None)

    def rows_per_call(self, wanted: int) -> int:
        """Return at most `limit`."""
        return int(min(wanted, self.limit))

    def rows_within_limit(self, masks: Tensor) -> int:
        """Return how many rows of masks (m, n, d) may be queried, each under all of its masks."""
        m, n = masks.shape[:2]
        return self.rows_per_call(m * n) // m

    def log_value(self, rows: Rows, masks: Tensor) -> Tensor:
        """Return log P_m(y | x̃_S), zero for rows beyond the limit; see `BaseSurrogate.log_value`."""
        within = self.rows_within_limit(masks)
        if within == len(rows):
            return super().log_value(rows, masks)
        values = torch.zeros(masks.shape[:2], device=masks.device)
        if within:
            values[:, :within] = super().log_value(rows[torch.arange(within)], masks[:, :within])
        return values

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        """Query the model, or its memory; see `BaseSurrogate.outputs`."""
        if self.black_box is None:
            raise InputError("The model is not available; pass it with l2x.load(path, model=...).")
        selected = mask.cpu().numpy() > 0.5
        row = np.arange(len(selected)) % len(rows)
        if self.memory is None or rows.numbers is None:
            predictions = self._query(rows, row, selected)
        else:
            predictions = self.memory.complete(
                rows.numbers[row], selected, lambda new: self._query(rows, row[new], selected[new])
            )
        target = self.likelihood.targets(predictions).to(mask.device)
        return self.likelihood.from_targets(target)

    def _query(self, rows: Rows, which: Array, selected: Array) -> Array:
        assert self.black_box is not None
        view = rows.view
        try:
            parts = [
                self.black_box(view.for_model(rows.raw(which[part]), selected[part], rng=self.rng))
                for part in batches(len(which), view.rows_at_once)
            ]
        except BlackBoxError as error:
            raise BlackBoxError(
                f"{error} These rows were masked: objective='both' and 'model' query the model for masked "
                "rows; objective='surrogate', or queries=0, for whole rows only."
            ) from error
        predictions = np.concatenate(parts)
        if predictions.shape[1] != self.likelihood.outputs:
            raise InputError(
                f"{self.black_box.name} returns {predictions.shape[1]} numbers per row, but predictions= has "
                f"{self.likelihood.outputs}. Pass predictions in the form that the model returns, or set "
                "queries=0 so that it is not queried."
            )
        return predictions


@dataclass(frozen=True)
class MixedSurrogate(BaseSurrogate):
    """A network and the model together: their log values are averaged.

    A weighted mean of logarithms is not a distribution. `outputs` therefore come from the network, which
    needs no model; only `log_value`, which training maximises, combines both.

    Attributes
    ----------
    network : NetworkSurrogate
    model : ModelSurrogate
    weight : float
        The model's weight, between 0 and 1.
    """

    network: NetworkSurrogate
    model: ModelSurrogate
    weight: float

    @property
    def likelihood(self) -> Likelihood:  # type: ignore[override]
        """The network's likelihood."""
        return self.network.likelihood

    @property
    def device(self) -> torch.device:
        """The network's device."""
        return self.network.device

    @property
    def networks(self) -> dict[str, nn.Module]:
        """The network's predictor."""
        return self.network.networks

    def with_networks(self, networks: dict[str, nn.Module]) -> MixedSurrogate:
        """Return a copy with another predictor."""
        return replace(self, network=self.network.with_networks(networks))

    def with_model(self, black_box: BlackBox) -> MixedSurrogate:
        """Return a copy that queries another model."""
        return replace(self, model=self.model.with_model(black_box))

    @property
    def parts(self) -> Sequence[BaseSurrogate]:
        """The network and, if it has any weight, the model."""
        return (self.network, self.model) if self.weight else (self.network,)

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        """Return the network's outputs."""
        return self.network.outputs(rows, mask)

    def most_faithful(self, wanted: int) -> BaseSurrogate:
        """Return the model if it may be queried for enough rows, else the network."""
        enough = MODEL_PREFERRED * self.model.rows_per_call(wanted) >= wanted
        return self.model if enough and self.weight else self.network

    def log_value(self, rows: Rows, masks: Tensor) -> Tensor:
        """Return the weighted mean of both log values; the network's alone beyond the model's limit."""
        values = self.network.log_value(rows, masks)
        if not self.weight:
            return values
        within = self.model.rows_within_limit(masks)
        queried = self.model.log_value(rows, masks)[:, :within]
        both = (1 - self.weight) * values[:, :within] + self.weight * queried
        return torch.cat([both, values[:, within:]], dim=1)


def network_of(surrogate: BaseSurrogate) -> BaseSurrogate | None:
    """Return the part of a surrogate that is a network; None if it is the model alone."""
    return next((part for part in surrogate.parts if part.networks), None)


def prefix_outputs(surrogate: BaseSurrogate, rows: Rows, scores: Tensor, k: int) -> Tensor:
    """Return outputs for the first 0 .. k features of rankings by scores (n, d), (n, k + 1, outputs)."""
    order, selectable = torch.from_numpy(best(scores.numpy(), k)), scores > -torch.inf
    prefixes = []
    for size in range(k + 1):
        mask = torch.zeros(scores.shape).scatter(1, order[:, :size], 1.0) * selectable
        prefixes.append(surrogate.outputs(rows, mask.to(rows.x.device)).cpu())
    return torch.stack(prefixes, dim=1)


def fit_surrogate(
    surrogate: NetworkSurrogate, data: TrainingRows, run: Run, *, label: str = "fitting the surrogate"
) -> None:
    """Fit q(y | x_S, S) on random subsets, which are independent of any selector, and freeze it."""
    # Several masks per held-out row in small tables, so that the loss does not depend on a few draws.
    copies = max(1, min(HELD_MASKS, HELD_CELLS // data.view.d) // len(data.held))
    drawn = random_masks(data.held, data.k, run.generator, copies=copies)
    held_masks = drawn.view(copies, len(data.held), -1)

    def masks(rows: Rows, _: Tensor | None = None, progress: float = 1.0) -> Tensor:
        return random_masks(rows, data.k, run.generator, progress)

    finished = _fit_to_masks(
        surrogate, data.train, (data.held, held_masks), masks, run, phase=run.plan.value, label=label
    )
    freeze(surrogate.predictor, finished=finished)


def fit_probe(
    evaluator: NetworkSurrogate, rows: Rows, masks: Tensor, run: Run, *, shuffled: bool
) -> NetworkSurrogate:
    """Train a copy of the evaluator further on the selections `masks` (n, d), for the leakage test.

    With `shuffled`, each row gets the selection of another row: g0 of the test, otherwise g1.
    """
    plan = run.plan
    probe = NetworkSurrogate(copy.deepcopy(evaluator.predictor).requires_grad_(True), evaluator.likelihood)
    parts = split(len(rows), 0.1, plan.validation_rows, np.random.default_rng(run.seed))
    learn, hold = (torch.from_numpy(indices) for indices in parts)
    train, held, train_masks, held_masks = rows[learn], rows[hold], masks[learn], masks[hold]
    if shuffled:
        held_masks = _allowed(held, held_masks[torch.randperm(len(held_masks), generator=run.generator)])

    def selected(batch: Rows, index: Tensor, _: float) -> Tensor:
        if not shuffled:
            return train_masks[index]
        others = torch.randint(len(train), (len(index),), generator=run.generator)
        return _allowed(batch, train_masks[others])

    phase = replace(
        plan.value,
        steps=max(1, plan.value.steps // PROBES_SHORTER),
        learning_rate=plan.value.learning_rate / PROBES_SLOWER,
    )
    with run.seeded():
        label = "fitting the probes"
        _fit_to_masks(probe, train, (held, held_masks[None]), selected, run, phase=phase, label=label)
    return probe


def _fit_to_masks(
    surrogate: NetworkSurrogate,
    train: Rows,
    held: tuple[Rows, Tensor],
    masks: Callable[[Rows, Tensor, float], Tensor],
    run: Run,
    *,
    phase: Phase,
    label: str,
) -> bool:
    """Fit q(y | x_S, S) to the subsets that `masks` returns for a minibatch; return False if interrupted.

    `masks` takes the minibatch, its indices and the completed share of training; `held` is held-out rows with
    their masks, (m, n, d).
    """

    def objective(index: Tensor, progress: float) -> Tensor:
        rows = train[index]
        return surrogate.log_value(rows, masks(rows, index, progress)[None]).mean()

    def validate(predictor: nn.Module) -> Tensor:
        rows, held_masks = held
        with torch.no_grad():
            return NetworkSurrogate(predictor, surrogate.likelihood).log_value(rows, held_masks).flatten()

    return optimise(surrogate.predictor, objective, validate, phase=phase, n=len(train), label=label, run=run)


def _allowed(rows: Rows, masks: Tensor) -> Tensor:
    """Remove features from masks of other rows that are not selectable in these, such as padding."""
    selectable = rows.view.selectable(rows.x)
    return masks if selectable is None else masks * selectable


def random_masks(
    rows: Rows, k: int, generator: torch.Generator, progress: float = 1.0, *, copies: int = 1
) -> Tensor:
    """Draw subsets for fitting a surrogate, (copies n, d): half of size k, half of sizes uniform on 0 .. d.

    The surrogate is used at size k; the other sizes make it reliable at every k (measured: half and half is
    better than either alone, see docs/notebook.md). If some features are not selectable, sizes go up to the
    number of those that are. With more than FEW features, see `_masks_of_many`.
    """
    n, d, selectable = copies * len(rows), rows.view.d, rows.view.selectable(rows.x)
    if selectable is None and d > FEW:
        return _masks_of_many(n, d, k, generator, progress).to(rows.x.device)
    sizes = torch.randint(0, d + 1, (n, 1), generator=generator)
    at_k = torch.rand(n, 1, generator=generator) < 0.5
    noise = torch.rand(n, d, generator=generator)
    if selectable is None:
        return (noise.argsort(dim=-1) < torch.where(at_k, k, sizes)).float().to(rows.x.device)
    selectable = selectable.cpu().repeat(copies, 1)
    sizes = sizes * (selectable.sum(dim=1, keepdim=True) + 1) // (d + 1)
    ranks = (noise + ~selectable).argsort(dim=-1).argsort(dim=-1)
    return (selectable & (ranks < torch.where(at_k, k, sizes))).float().to(rows.x.device)


def _masks_of_many(n: int, d: int, k: int, generator: torch.Generator, progress: float) -> Tensor:
    """Draw `random_masks` with more than FEW features, without sorting.

    Half of the subsets have sizes uniform on 1 .. k: small subsets teach more, also about size k. Among the
    others all sizes up to USUAL or 2 k are equally likely; beyond, the probability falls with the square of
    the size, so that all sizes occur and the work hardly grows with d.

    A random subset of four contains two given features of 200 once in 3,000 draws, so nothing would be
    learned about features that matter only together. Training therefore begins with whole rows, or large
    parts of them.
    """
    whole = max(0.0, 1 - progress / WHOLE_FIRST)
    small = round(n * (1 - whole) / 2)  # the first rows; their order is random
    others = n - small
    usual = min(d, max(USUAL, 2 * k))
    reach = torch.rand(others, 1, generator=generator) * (2 - usual / d)
    sizes = usual * torch.where(reach < 1, reach, 1 / (2 - reach))
    sizes[: round(n * whole)] = min(d, WHOLE)
    # Features are drawn independently, so the sizes are met on average.
    masks = torch.rand(others, d, generator=generator) < sizes / d
    up_to_k = _subsets(torch.randint(1, k + 1, (small, 1), generator=generator), d, generator)
    return torch.cat([up_to_k, masks]).float()


def _subsets(sizes: Tensor, d: int, generator: torch.Generator) -> Tensor:
    """Draw masks (n, d) with these sizes (n, 1) uniformly, by Floyd's algorithm: no feature twice."""
    masks = torch.zeros(len(sizes), d, dtype=torch.bool)
    for draw in range(int(sizes.max()) if len(sizes) else 0):
        last = (d - sizes + draw).clamp_(max=d - 1)
        drawn = (torch.rand(len(sizes), 1, generator=generator, dtype=torch.float64) * (last + 1)).long()
        pick = torch.where(masks.gather(1, drawn), last, drawn)
        masks.scatter_(1, pick, masks.gather(1, pick) | (draw < sizes))
    return masks


class Conditional(Protocol):
    """A surrogate q(y | x_S) for raw inputs, as metrics and the oracle use it."""

    def predictions(self, X: Any) -> Array:
        """Return P_m(y|x), the predictions that q is compared with, (n, outputs)."""
        ...

    def log_q(self, X: Any, mask: Array, predictions: Array) -> Array:
        """Return E_{Y ~ P_m(.|x)} log q(Y | x_S) of each row under its mask (n, d), in nats, (n,)."""
        ...


@dataclass(frozen=True)
class FittedSurrogate:
    """A fitted surrogate for raw inputs: an explainer's own, or an evaluator's.

    Attributes
    ----------
    view : View
        Fitted; it encodes the inputs.
    surrogate : BaseSurrogate
    black_box : BlackBox or None
        The model whose predictions it was fitted to, if available.

    Examples
    --------
    >>> from l2x.evaluation import fit_evaluator
    >>> from l2x.learning import TrainingPlan
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> quick = TrainingPlan.quick().with_steps(value=20)
    >>> evaluator = fit_evaluator(lambda X: np.full((len(X), 2), 0.5), X, k=1, training=quick)
    >>> evaluator.predict(X[:2], np.zeros((2, 3), dtype=bool)).shape  # from no feature at all
    (2, 2)
    """

    view: View
    surrogate: BaseSurrogate
    black_box: BlackBox | None = None

    @property
    def likelihood(self) -> Likelihood:
        """The surrogate's likelihood."""
        return self.surrogate.likelihood

    def with_model(self, black_box: BlackBox) -> FittedSurrogate:
        """Return a copy that takes predictions from this model, a `black_box`."""
        return replace(self, surrogate=self.surrogate.with_model(black_box), black_box=black_box)

    def predictions(self, X: Any) -> Array:
        """Query the model for X; raise an InputError if it is not available."""
        if self.black_box is None:
            raise InputError("The model is not available; pass predictions=.")
        return query(self.black_box, self.view, self.view.check(X))

    def log_q(self, X: Any, mask: Array, predictions: Array) -> Array:
        """Return log q(y | x_S), averaged over predictions, in nats; see `Conditional.log_q`."""
        outputs = torch.from_numpy(self.outputs(X, mask))
        return self.likelihood.log_likelihood(outputs, self.likelihood.targets(predictions)).numpy()

    def predict(self, X: Any, mask: Array) -> Array:
        """Return q(y | x_S) for rows of X and their mask, in the model's own units, (n, outputs)."""
        return self.likelihood.predictions(self.outputs(X, mask))

    def outputs(self, X: Any, mask: Array) -> Array:
        """Return the parameters of q(. | x_S), such as logits, (n, outputs), for X and its mask (n, d)."""
        X = self.view.check(X)
        if mask.shape != (len(X), self.view.d):
            raise InputError(f"The mask has the shape {mask.shape}; expected {(len(X), self.view.d)}.")
        parts = []
        with torch.inference_mode():
            for part, rows in self.encoded(X):
                masks = torch.from_numpy(mask[part]).to(rows.x.device, torch.float32)
                parts.append(self.surrogate.outputs(rows, masks).cpu())
        return torch.cat(parts).numpy()

    def prefixes(self, X: Any, scores: Array, k: int) -> Iterator[Array]:
        """Yield `prefix_outputs` of checked inputs X, by their scores and k, a batch at a time."""
        for part, rows in self.encoded(X):
            with torch.inference_mode():
                outputs = prefix_outputs(self.surrogate, rows, torch.from_numpy(scores[part]), k).numpy()
            yield outputs  # outside, or the caller would be in inference mode

    def encoded(self, X: Any, most: int | None = None) -> Iterator[tuple[slice, Rows]]:
        """Yield batches of checked inputs X, encoded, with their positions; at most `most` rows at a time."""
        for part in batches(len(X), min(most or self.view.rows_at_once, self.view.rows_at_once)):
            raw = self.view.take(X, part)
            x = self.view.encode(raw, first_row=part.start).to(self.surrogate.device)
            yield part, Rows(self.view, raw, x, target=x)


@dataclass(frozen=True)
class ConditionalModel:
    """P_m(y | x_S) by averaging the model over `background` rows, which replace the unselected features.

    With a growing background it is exact if the features are independent, as in the synthetic data sets.

    Attributes
    ----------
    model : callable
        Maps rows (n, d) to probabilities (n, outputs).
    background : (m, d) array
        Rows that are independent of those to explain.

    Examples
    --------
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 100, seed=0)
    >>> exact = ConditionalModel(data.model, data.X)
    >>> exact.log_q(data.X[:2], np.ones((2, 10), dtype=bool), data.model(data.X[:2])).shape
    (2,)
    """

    model: Callable[[Array], Array]
    background: Array

    def predictions(self, X: Any) -> Array:
        """Return the model's predictions for X, (n, outputs)."""
        return self.model(np.asarray(X))

    def log_q(self, X: Any, mask: Array, predictions: Array) -> Array:
        """Return log P_m(y | x_S), averaged over predictions, in nats; see `Conditional.log_q`."""
        X = np.asarray(X)
        m, d = self.background.shape
        parts = []
        for rows in batches(len(X), max(1, CONDITIONAL_BATCH // m)):
            filled = np.where(mask[rows, None], X[rows, None], self.background[None])  # (rows, m, d)
            p = self.model(filled.reshape(-1, d)).reshape(-1, m, predictions.shape[1]).mean(axis=1)
            parts.append((predictions[rows] * np.log(np.maximum(p, 1e-12))).sum(axis=1))
        return np.concatenate(parts)
