"""Right for every row: the selector proposes k features, the surrogate polishes them, the model confirms.

    propose   the k best scores w_θ(x), in one forward pass
    polish    the subset S near the proposal with the largest
              E_{y ~ P_m(.|x)} log q(y | x_S) + τ Σ_{i in S} log softmax(w_θ(x))_i
    verify    does the model predict the same from x_S alone? One query per row
    refine    the subsets that polishing ranks highest are sent to the model, one after the other, until it
              confirms one: at most n queries per row

Without a surrogate network (objective="model"), nothing is polished, and refining queries subsets that are
drawn near the proposal.

The first term is the surrogate's estimate of theorem 1's S*(x), for this row instead of on average. The
second is the learned ranking as a prior: where many subsets are equally good, the prior decides, and not the
errors of the surrogate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array, batches, best
from l2x.errors import BlackBoxError
from l2x.features import View
from l2x.learning._agreement import confirmed_rows, masked_predictions
from l2x.learning._rows import Gaussian, Likelihood, Rows, Target, TrainingRows, check_outputs
from l2x.learning._selector import ranking_scores
from l2x.learning._surrogate import CELLS_AT_ONCE, BaseSurrogate, FittedSurrogate, network_of
from l2x.model import BlackBox

# Candidates per row, the best by score: this many, or twice as many as are selected if that is more.
POOL = 12
# An integer has no bits for more candidates than this. Selections of as many features are not polished.
MOST_CANDIDATES = 62
# Swaps times candidates that are held in memory at a time.
MEMBERS_AT_ONCE = 1 << 24
# Rounds of swaps; most rows stop after two.
ROUNDS = 4
# τ, for explainers whose objective does not query the model; and the values among which `learned_prior`
# chooses for the others.
PRIOR = 0.01
PRIORS = (0.003, 0.01, 0.03, 0.1)
# The maximum and the minimum number of held-out rows for that choice.
CALIBRATION_ROWS, FEWEST_ROWS = 500, 30
# Noise that moves the proposal if there is no surrogate network: its standard deviation, relative to that of
# the row's scores; and the width over which it is smooth, as a share of a grid of patches, so that they are
# replaced in groups. With 50 queries each, the model confirmed 28 of 30 validation photographs
# (l2x_experiments/photos.py); with independent noise 21.
NOISE, SMOOTH = 0.7, 1 / 7
# The maximum number of subsets that are drawn in this way.
MOST_NEARBY = 1000
# A smaller gain is a rounding error.
ROUNDING = 1e-6
# Refining a row of a regression ends if the model's error is at most this many standard deviations of the
# predictions; for classifiers it ends if the class is the same.
CLOSE = 0.1

# Maps row positions (r,) and masks (m, r, d) to log values (m, r), and to log q(ŷ | x_S) of the predicted
# class (for regression, to the same values).
Value = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Selection:
    """Selected features of n rows, and whether the model confirmed them.

    Attributes
    ----------
    chosen : (n, k) array of int
        Positions of the selected features, best score first.
    confirmed : (n,) array of bool or None
        Whether the model predicts the same from these features alone; None if it was not queried.
    queries : (n,) array of int or None
        Masked rows that the model was queried for, per row.
    """

    chosen: Array
    confirmed: Array | None = None
    queries: Array | None = None


@dataclass(frozen=True)
class Polisher:
    """The parts of a fitted explainer that polishing needs.

    Attributes
    ----------
    surrogate : FittedSurrogate
    target : "distribution" or "class"
        What the selected features preserve.
    prior : float
        τ, the weight of the learned ranking.
    """

    surrogate: FittedSurrogate
    target: Target
    prior: float

    @property
    def network(self) -> BaseSurrogate | None:
        """The part of the surrogate that is a network; None if the surrogate is the model alone."""
        return network_of(self.surrogate.surrogate)

    def polish(self, X: Any, scores: Array, k: int, predictions: Array) -> Array:
        """Return the selected features of checked inputs, (n, k), best score first.

        Parameters
        ----------
        X : checked inputs
            The n rows.
        scores : (n, d) array
            The selector's scores, -inf for features that may not be selected.
        k : int
            Selected features per row.
        predictions : (n, outputs) array
            The model's predictions for X.
        """
        chosen = np.empty((len(X), k), dtype=np.int64)
        for part, search in self._searches(X, scores, k, predictions):
            search.run()
            chosen[part] = search.chosen().numpy()
        return chosen

    def refine(
        self,
        black_box: BlackBox,
        X: Any,
        scores: Array,
        k: int,
        predictions: Array,
        *,
        queries: int,
        tolerance: float | None,
    ) -> Selection:
        """Query the model for at most `queries` subsets per row, best first, until it confirms one.

        Rows without a confirmed subset get the one with the best mean of surrogate and model, or the model's
        best if there is no surrogate network. `tolerance` is that of `confirmed_rows`; the other parameters
        are those of `polish`.
        """
        parts, view = [], self.surrogate.view
        if self.network is None:
            batched = batches(len(X), view.rows_at_once)
            searches = ((part, Nearby(scores[part], k, queries, view)) for part in batched)
        else:
            searches = self._searches(X, scores, k, predictions, visited=queries)
        for part, search in searches:
            search.run()
            raw = self.surrogate.view.take(X, part)
            parts.append(
                _confirm(search, black_box, self.surrogate, raw, predictions[part], self.target, tolerance)
            )
        if not parts:
            nothing = np.zeros(0, dtype=np.int64)
            return Selection(np.empty((0, k), dtype=np.int64), nothing.astype(bool), nothing)
        return Selection(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _searches(self, X: Any, scores: Array, k: int, predictions: Array, *, visited: int = 0) -> Any:
        """Yield batches of rows, each with its search."""
        network, likelihood = self.network, self.surrogate.likelihood
        assert network is not None  # `Explainer.polishes` has checked it
        pool = pool_of(k, self.surrogate.view.d)
        # Large batches: a remote model sees all rows of a round at once.
        most = max(1, MEMBERS_AT_ONCE // (max(1, k * (pool - k)) * pool))
        for part, rows in self.surrogate.encoded(X, most):
            target = likelihood.targets(predictions[part]).to(rows.x.device)
            known = replace(rows, target=target)
            value, certainty = _value(network, known, self.target), _certainty(likelihood, target)
            yield part, Search(value, torch.from_numpy(scores[part]), k, self.prior, certainty, visited)


class Search:
    """Steepest ascent by swaps of one selected and one other candidate, for many rows at once.

    Parameters
    ----------
    value : callable
        Maps positions of rows and masks to log values; see `Value`.
    scores : (n, d) tensor
    k : int
    prior : float
    certainty : (n,) tensor
        log P_m(ŷ | x) of the predicted class. A subset that supports the prediction less than the model does,
        and less than the proposal, is not considered: where the model is less certain than the surrogate
        expects, features without information would otherwise come closest to its distribution.
    visited : int
        How many of the best subsets to remember.
    """

    def __init__(
        self, value: Value, scores: Tensor, k: int, prior: float, certainty: Tensor, visited: int = 0
    ) -> None:
        n, d = scores.shape
        self.value, self.d, self.k, self.visited = value, d, k, visited
        pool = pool_of(k, d)
        top = scores.topk(pool, dim=1)  # ties: in any order
        self.candidates = top.indices  # (n, pool), best first
        self.selectable = top.values > -torch.inf
        log_p = torch.log_softmax(scores.float(), dim=-1).gather(1, self.candidates)
        self.prior = prior * log_p.masked_fill(~self.selectable, 0.0)
        self.members = torch.zeros(n, pool, dtype=torch.bool)
        self.members[:, :k] = True  # the proposal
        self.least = torch.full((n,), -torch.inf)
        everyone = torch.arange(n)
        supported = value(everyone, self.masks_of(self.members)[None])[1][0]
        self.least = torch.minimum(supported, certainty) - ROUNDING
        self.best = self._values(everyone, self.members[None])[0]
        self.codes = torch.empty(n, 0, dtype=torch.int64)  # the subsets visited, best first
        self.worth = torch.empty(n, 0)
        self._remember(everyone, self.members[None], self.best[None])

    def run(self) -> None:
        """Swap until nothing improves, at most ROUNDS times."""
        active = torch.arange(len(self.members))
        for _ in range(ROUNDS if self.members.shape[1] > self.k else 0):
            swapped = self._swapped(self.members[active])
            values = self._values(active, swapped)
            # Padding, which may not be selected, never replaces a feature that may.
            padding = ~self.selectable[active]
            more = (swapped & padding).sum(-1) > (self.members[active] & padding).sum(-1)
            values = values.masked_fill(more, -torch.inf)
            self._remember(active, swapped, values)
            top, which = values.max(dim=0)
            better = top > self.best[active] + ROUNDING
            moved = active[better]
            self.members[moved] = swapped[which[better], better.nonzero()[:, 0]]
            self.best[moved] = top[better]
            active = moved
            if not len(active):
                break

    def chosen(self) -> Tensor:
        """Return the selected features, (n, k), best score first."""
        return self._indices(self.members)

    def useful(self, rows: Tensor, attempt: int) -> Tensor:
        """Return whether a subset of these rows was visited and may be selected, (r,) booleans."""
        return self.worth[rows, attempt] > -torch.inf

    def masks_of(self, members: Tensor) -> Tensor:
        """Return the masks (n, d) of one subset per row, (n, pool)."""
        return self._masks(torch.arange(len(members)), members[None])[0]

    def masks(self, which: Tensor, rows: Tensor) -> Array:
        """Return the masks (r, d) of visited subsets: `which` (r,) of rows (r,), 0 for the best."""
        members = self._members_of(self.codes[rows, which])
        return np.asarray(self._masks(rows, members[None])[0].numpy() > 0)

    def choose(self, which: Tensor) -> Tensor:
        """Return the features (n, k) of one visited subset per row."""
        return self._indices(self._members_of(self.codes.gather(1, which[:, None])[:, 0]))

    def _values(self, rows: Tensor, members: Tensor) -> Tensor:
        parts = []
        for part in batches(len(rows), max(1, CELLS_AT_ONCE // (len(members) * self.d))):
            values, supported = self.value(rows[part], self._masks(rows[part], members[:, part]))
            parts.append(values.masked_fill(supported < self.least[rows[part]], -torch.inf))
        values = torch.cat(parts, dim=1) if parts else torch.zeros(members.shape[:2])
        return values + (members * self.prior[rows]).sum(-1)

    def _masks(self, rows: Tensor, members: Tensor) -> Tensor:
        """Return masks (m, r, d) of subsets (m, r, pool) of the candidates of these rows."""
        chosen = (members & self.selectable[rows]).float()
        empty = torch.zeros(*members.shape[:2], self.d)
        return empty.scatter_(2, self.candidates[rows].expand(len(members), -1, -1), chosen)

    def _swapped(self, members: Tensor) -> Tensor:
        """Return every swap of one member and one other: (r, pool) -> (k (pool - k), r, pool)."""
        order = (~members).int().argsort(dim=1, stable=True)  # members first, both best first
        r, pool = members.shape
        inside, outside = order[:, : self.k], order[:, self.k :]
        pairs = self.k * (pool - self.k)
        leaving = inside.T[:, None].expand(-1, pool - self.k, -1).reshape(pairs, r, 1)
        joining = outside.T[None].expand(self.k, -1, -1).reshape(pairs, r, 1)
        swapped = members.repeat(pairs, 1, 1)
        return swapped.scatter_(2, leaving, value=False).scatter_(2, joining, value=True)

    def _remember(self, rows: Tensor, members: Tensor, values: Tensor) -> None:
        """Merge subsets (m, r, pool) with their values (m, r) into the best `visited` of each row."""
        if not self.visited:
            return
        codes = torch.cat([self.codes[rows], self._codes(members).T], dim=1)
        worth = torch.cat([self.worth[rows], values.T], dim=1)
        codes, order = codes.sort(dim=1, stable=True)
        worth = worth.gather(1, order)
        again = torch.zeros_like(codes, dtype=torch.bool)
        again[:, 1:] = codes[:, 1:] == codes[:, :-1]
        top = worth.masked_fill(again, -torch.inf).topk(min(self.visited, worth.shape[1]), dim=1)
        wide = top.values.shape[1]
        if self.codes.shape[1] < wide:  # the first rounds fill the memory of all rows
            missing = wide - self.codes.shape[1], len(self.codes)
            self.codes = torch.cat([self.codes, torch.zeros(*missing, dtype=torch.int64).T], dim=1)
            self.worth = torch.cat([self.worth, torch.full(missing, -torch.inf).T], dim=1)
        self.codes[rows, :wide] = codes.gather(1, top.indices)
        self.worth[rows, :wide] = top.values

    def _codes(self, members: Tensor) -> Tensor:
        return (members.long() << torch.arange(members.shape[-1])).sum(-1)

    def _members_of(self, codes: Tensor) -> Tensor:
        return (codes[:, None] >> torch.arange(self.candidates.shape[1]) & 1).bool()

    def _indices(self, members: Tensor) -> Tensor:
        order = (~members).int().argsort(dim=1, stable=True)[:, : self.k]
        return self.candidates.gather(1, order)


class Nearby:
    """Subsets near a proposal: the k best features after noise is added to the scores, without noise first.

    All rows get the same noise, so that a row's subsets do not depend on the rows that are explained with it.

    Parameters
    ----------
    scores : (n, d) array
        -inf for features that may not be selected.
    k, queries : int
        Features per subset, and subsets per row.
    view : View
        On a grid of patches, noise is smooth.
    """

    def __init__(self, scores: Array, k: int, queries: int, view: View) -> None:
        from scipy.ndimage import gaussian_filter

        self.spread = np.ma.masked_invalid(scores).std(axis=1, keepdims=True).filled(0.0)
        self.scores, self.k = scores, k
        queries = min(queries, MOST_NEARBY)
        noise = np.random.default_rng(0).normal(size=(queries, scores.shape[1]))
        if (grid := getattr(view, "grid_", None)) is not None:
            planes = gaussian_filter(noise.reshape(-1, *grid), (0.0, *(SMOOTH * side for side in grid)))
            noise = planes.reshape(noise.shape) / planes.std()
        noise[0] = 0.0
        self.noise = NOISE * noise
        self.codes = self.worth = torch.zeros(1, queries).expand(len(scores), -1)
        # Almost certainly, every mask has its own sum of these numbers.
        self._keys = np.random.default_rng(1).integers(1, 1 << 62, size=scores.shape[1])
        self._sums = np.zeros((len(scores), 0), dtype=np.int64)

    def useful(self, rows: Tensor, attempt: int) -> Tensor:
        """Return whether a subset is new for these rows, (r,) booleans; attempts must come in order."""
        masks, at = self.masks(torch.full((len(rows),), attempt), rows), rows.numpy()
        sums = np.where(masks, self._keys, 0).sum(axis=1)  # integers of 64 bits wrap around
        new = (self._sums[at] != sums[:, None]).all(axis=1)
        self._sums = np.concatenate([self._sums, np.zeros((len(self.scores), 1), dtype=np.int64)], axis=1)
        self._sums[at, -1] = sums
        return torch.from_numpy(new)

    def run(self) -> None:
        """Do nothing: subsets are made when they are needed."""

    def masks(self, which: Tensor, rows: Tensor) -> Array:
        """Return the masks (r, d) of subsets `which` (r,) of rows (r,), 0 for the proposal."""
        chosen = self._indices(which.numpy(), rows.numpy())
        mask = np.zeros((len(rows), self.scores.shape[1]), dtype=bool)
        np.put_along_axis(mask, chosen, values=True, axis=1)
        return np.asarray(mask & np.isfinite(self.scores[rows.numpy()]))

    def choose(self, which: Tensor) -> Tensor:
        """Return the features (n, k) of one subset per row."""
        return torch.from_numpy(self._indices(which.numpy(), np.arange(len(self.scores))))

    def _indices(self, which: Array, rows: Array) -> Array:
        return best(self.scores[rows] + self.spread[rows] * self.noise[which], self.k)


def pool_of(k: int, d: int) -> int:
    """Return the number of candidates among which k of d features are chosen."""
    return max(k, min(d, max(POOL, 2 * k), MOST_CANDIDATES))


def _value(network: BaseSurrogate, rows: Rows, target: Target) -> Value:
    """Return a function for log q(y | x_S) of encoded rows."""

    def value(which: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        m, n, d = masks.shape
        likelihood, chosen = network.likelihood, rows[which]
        with torch.no_grad():
            outputs = network.outputs(chosen, masks.to(rows.x.device).reshape(m * n, d))
        likely = likelihood.most_likely(chosen.target)
        wanted = likely if target == "class" else chosen.target
        both = (likelihood.log_likelihood(outputs, each.repeat(m, 1)) for each in (wanted, likely))
        values, supported = (each.reshape(m, n).cpu() for each in both)
        return values, supported

    return value


def _certainty(likelihood: Likelihood, target: Tensor) -> Tensor:
    """Return log P_m(ŷ | x) of the predicted class, (n,); -inf for regression, which has no condition."""
    if isinstance(likelihood, Gaussian):
        return torch.full((len(target),), -torch.inf)
    return target.amax(dim=-1).clamp_min(1e-6).log().cpu()


def _confirm(
    search: Search | Nearby,
    black_box: BlackBox,
    surrogate: FittedSurrogate,
    X: Any,
    predictions: Array,
    target: Target,
    tolerance: float | None,
) -> tuple[Array, Array, Array]:
    """Send the visited subsets of each row to the model, best first, until it confirms one."""
    likelihood, n = surrogate.likelihood, len(predictions)
    wanted = likelihood.targets(predictions)
    wanted = likelihood.most_likely(wanted) if target == "class" else wanted
    open_rows, queries = np.arange(n), np.zeros(n, dtype=np.int64)
    chosen, most = torch.zeros(n, dtype=torch.int64), torch.full((n,), -torch.inf)
    confirmed = np.zeros(n, dtype=bool)
    for attempt in range(search.codes.shape[1]):
        if not len(open_rows):
            break
        rows = torch.from_numpy(open_rows)
        rows = rows[search.useful(rows, attempt)]
        if not len(rows):
            continue
        which = torch.full((len(rows),), attempt)
        at = rows.numpy()
        raw = surrogate.view.take(X, at)
        guesses = _guesses(black_box, surrogate.view, raw, search.masks(which, rows), likelihood)
        queries[at] += 1
        outputs = likelihood.from_targets(likelihood.targets(guesses))
        worth = (likelihood.log_likelihood(outputs, wanted[rows]) + search.worth[rows, attempt]) / 2
        same = confirmed_rows(guesses, predictions[at], tolerance)
        settled = same & _settled(likelihood, guesses, predictions[at])
        # A confirmed subset is better than any that is not.
        better = (same & ~confirmed[at]) | ((same == confirmed[at]) & (worth > most[rows]).numpy())
        better |= settled
        chosen[rows[torch.from_numpy(better)]] = attempt
        most[rows[torch.from_numpy(better)]] = worth[torch.from_numpy(better)]
        confirmed[at] |= same
        open_rows = np.setdiff1d(open_rows, at[settled])
    return search.choose(chosen).numpy(), confirmed, queries


def _settled(likelihood: Likelihood, guesses: Array, predictions: Array) -> Array:
    """Return which confirmed rows need no further query, (n,) booleans."""
    if isinstance(likelihood, Gaussian):
        errors = np.abs(guesses - predictions) / np.asarray(likelihood.scale)
        return np.asarray(errors.max(axis=1) <= CLOSE)
    return np.asarray(guesses.argmax(axis=1) == predictions.argmax(axis=1))


def verified(
    black_box: BlackBox,
    surrogate: FittedSurrogate,
    X: Any,
    mask: Array,
    predictions: Array,
    tolerance: float | None,
) -> Array:
    """Return whether the model predicts the same from the selected features of checked inputs, (n,)."""
    if not len(X):
        return np.zeros(0, dtype=bool)
    guesses = _guesses(black_box, surrogate.view, X, mask, surrogate.likelihood)
    return confirmed_rows(guesses, predictions, tolerance)


def _guesses(black_box: BlackBox, view: View, X: Any, mask: Array, likelihood: Likelihood) -> Array:
    """Return the model's predictions from the selected features of checked inputs alone, (n, outputs)."""
    try:
        guesses = masked_predictions(black_box, view, X, mask)
    except BlackBoxError as error:
        raise BlackBoxError(
            f"{error} These rows were masked: verify= and refine= query the model for the selected features "
            "alone; without them, it is queried for whole rows only."
        ) from error.__cause__
    check_outputs(guesses, likelihood, black_box)
    return guesses


def learned_prior(selector: nn.Module, surrogate: BaseSurrogate, data: TrainingRows, queries: float) -> float:
    """Choose τ: the smallest of PRIORS whose polished selections are not noticeably worse than the best.

    They are compared on held-out rows, by the model alone: the search has maximised the surrogate's
    estimates, which are therefore too high where the surrogate errs. "Noticeably" means by more than one
    standard error, paired over rows. If the model may be queried for too few rows, τ is PRIOR.
    """
    network, models = network_of(surrogate), [part for part in surrogate.parts if not part.networks]
    number = int(min(len(data.held), CALIBRATION_ROWS, queries // len(PRIORS)))
    if network is None or not models or number < FEWEST_ROWS:
        return PRIOR
    rows = data.held[torch.arange(number)]
    likelihood, target = data.likelihood, data.problem.target
    estimate, certainty = _value(network, rows, target), _certainty(likelihood, rows.target)
    wanted = replace(rows, target=likelihood.most_likely(rows.target)) if target == "class" else rows
    values = []
    with torch.no_grad():
        scores = ranking_scores(selector, surrogate, rows, data).cpu()
        for prior in PRIORS:
            search = Search(estimate, scores, data.k, prior, certainty)
            search.run()
            masks = search.masks_of(search.members)[None].to(rows.x.device)
            values.append(models[0].log_value(wanted, masks)[0].cpu().double().numpy())
    best = max(values, key=np.mean)
    losses = [best - value for value in values]
    close = (loss.mean() <= loss.std() / number**0.5 for loss in losses)
    return next((prior for prior, near in zip(PRIORS, close, strict=True) if near), PRIOR)
