"""Selectors that other papers learn: INVASE and REAL-X. Each feature is kept with a probability of its own.

Both maximise E[log q(Y | X_S)] minus a price for selected features. They differ in q and in the gradient:

    INVASE   q (the critic) learns from the selections; score function with a second network as the baseline
    REAL-X   q learns from random subsets first, and is frozen; REBAR

The networks and their training are those of the view, so that a comparison varies the method alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from l2x._base.arrays import Array
from l2x.baselines._method import Method
from l2x.errors import InputError, NotFittedError
from l2x.features import View, fitted_view
from l2x.learning import (
    Labels,
    NetworkSurrogate,
    Options,
    Problem,
    Rows,
    Run,
    TrainingPlan,
    TrainingRows,
    fit_surrogate,
    input_scores,
    networks_of,
    only_selectable,
    optimise,
    prepare,
    recipes_of,
)
from l2x.learning.samplers import NEVER
from l2x.model import as_black_box

# Temperature of the relaxed features in REBAR, as in the code of REAL-X.
TEMPERATURE = 0.1
# An augmented Lagrangian leads to k features: the weight of the squared relative distance from k, and the
# rate at which the price of a feature follows that distance.
WEIGHT, RATE = 0.5, 0.02
# Random numbers stay this far away from 0 and 1.
SMALLEST = 1e-6


@dataclass(eq=False, repr=False)
class LearnedMethod(Method):
    """The base class of INVASE and REAL-X.

    Parameters
    ----------
    model : object
        The model being explained, in any form that `as_black_box` takes.
    k : int, optional
        How many features are selected on average: training adapts the price to it. None uses `penalty`.
    penalty : float
        Without k, the price in nats of selecting all features: λ in both papers' code, where it multiplies
        the *share* of selected features.
    features : View, optional
        What one feature is; default `Columns()`.
    training : TrainingPlan, optional
        By default the plan of the method for this view.

    Attributes
    ----------
    features_ : View
        The fitted view.
    selector_ : torch module
        Returns the log-odds that a feature is selected, which are the scores: without a given number of
        features, the selected ones are those above 0.
    """

    needs_training: ClassVar[bool] = True

    model: Any
    k: int | None = None
    _: KW_ONLY
    penalty: float = 0.1
    features: View | None = None
    training: TrainingPlan | None = None
    seed: int = 0
    progress: bool = True

    def fit(self, X: Any, predictions: Any = None) -> Self:
        """Learn from the rows of X and the model's `predictions`, for which the model is queried if None."""
        view = fitted_view(self.features, X)
        plan = replace(self.training or self._plan(view), progress=self.progress)
        run, problem = Run.begin(plan, self.seed), Problem(self.k or 1)
        data = prepare(as_black_box(self.model), view, X, Labels(predictions), problem, run=run)
        with run.seeded():
            selector = networks_of(view, data.likelihood.outputs).selector(**self._recipe(view)[0])
            self._train(selector, data, run)
        self.features_, self.selector_ = view, selector
        return self

    def _view(self, X: Any) -> View:
        if not hasattr(self, "selector_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(X) first.")
        return self.features_

    def _scores(self, view: View, X: Any, k: int) -> Array:
        return input_scores(view, self.selector_, X)[0]

    def _plan(self, view: View) -> TrainingPlan:
        """Return the default plan for this view."""
        raise NotImplementedError

    def _recipe(self, view: View) -> tuple[Options, Options]:
        """Return the options of the selector, and of the networks that predict."""
        raise NotImplementedError

    def _train(self, selector: nn.Module, data: TrainingRows, run: Run) -> None:
        """Train the selector."""
        raise NotImplementedError

    def _predictor(self, data: TrainingRows, *, sees_mask: bool) -> NetworkSurrogate:
        """Return a new network q(y | x_S)."""
        build = networks_of(data.view, data.likelihood.outputs).predictor
        network = build(**{"sees_mask": sees_mask} | dict(self._recipe(data.view)[1]))
        return NetworkSurrogate(network, data.likelihood)

    def _optimise(
        self,
        networks: nn.ModuleDict,
        gain: Callable[[Rows, Tensor], Tensor],
        value: Callable[[nn.ModuleDict, Rows, Tensor], Tensor],
        data: TrainingRows,
        run: Run,
    ) -> None:
        """Maximise gain(rows, log-odds) minus the price; `value` evaluates networks on held-out rows."""
        price = Price(self.k, self.penalty)

        def objective(index: Tensor, progress: float) -> Tensor:
            rows = data.train[index]
            logits = log_odds(networks["selector"], rows)
            return gain(rows, logits) - price(logits, learn=True)

        def validate(candidate: nn.Module) -> Tensor:
            assert isinstance(candidate, nn.ModuleDict)
            with torch.no_grad():
                logits = log_odds(candidate["selector"], data.held)
                return value(candidate, data.held, (logits > 0).float()) - price(logits)

        networks.train()
        # Values at different prices, or by a critic that still learns, cannot be compared: the last weights.
        phase = replace(run.plan.selector, choose="last", patience=None, ahead=1)
        label = f"training {self.name}"
        optimise(networks, objective, validate, phase=phase, n=len(data.train), label=label, run=run)


@dataclass(eq=False, repr=False)
class Invase(LearnedMethod):
    """INVASE (Yoon, Jordon and van der Schaar 2019): actor, critic and baseline are trained together.

    The actor selects each feature with a probability of its own. The critic predicts from the selected
    values, the baseline from all; the difference of their log-likelihoods is the actor's reward. Because the
    critic learns from the actor's own selections, these may leak the prediction. Networks and training are
    those of L2X as released, whose networks have the same sizes as INVASE's.

    Parameters
    ----------
    k : int, optional
        The mean number of selected features, to which training adapts the price; None uses `penalty`.
    penalty : float
        The price in nats of selecting all features: λ.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> plan = TrainingPlan().with_steps(selector=200)
    >>> Invase(model, k=1, training=plan, progress=False).fit(X).explain(X[:2], k=1).names
    [['x1'], ['x1']]
    """

    name: ClassVar[str] = "INVASE"

    def _plan(self, view: View) -> TrainingPlan:
        return recipes_of(view).released.plan

    def _recipe(self, view: View) -> tuple[Options, Options]:
        recipe = recipes_of(view).released
        return recipe.selector, recipe.predictor

    def _train(self, selector: nn.Module, data: TrainingRows, run: Run) -> None:
        critic, baseline = (self._predictor(data, sees_mask=False) for _ in range(2))
        networks = nn.ModuleDict(
            {"selector": selector, "critic": critic.predictor, "baseline": baseline.predictor}
        )

        def gain(rows: Rows, logits: Tensor) -> Tensor:
            mask = torch.bernoulli(torch.sigmoid(logits.detach()), generator=run.generator)
            predicted = critic.log_value(rows, mask[None])[0]
            known = baseline.log_value(rows, torch.ones_like(mask)[None])[0]
            reward = (predicted - known).detach()
            return (reward * log_probability(logits, mask) + predicted + known).mean()

        def value(candidate: nn.ModuleDict, rows: Rows, mask: Tensor) -> Tensor:
            return NetworkSurrogate(candidate["critic"], data.likelihood).log_value(rows, mask[None])[0]

        self._optimise(networks, gain, value, data, run)


@dataclass(eq=False, repr=False)
class RealX(LearnedMethod):
    """REAL-X (Jethani et al. 2021): q(y | x_S) is fitted to random subsets, then frozen.

    The selector cannot teach q a code, so selections do not leak the prediction. The gradient is REBAR's
    (Tucker et al. 2017): a score function, with the relaxed features as a control variate. q is the surrogate
    of l2x, whose subsets have any size, half of them k; the paper's keep each feature with probability 1/2.

    Parameters
    ----------
    k : int, optional
        The mean number of selected features, to which training adapts the price; None uses `penalty`.
    penalty : float
        The price in nats of selecting all features: λ.

    Attributes
    ----------
    surrogate_ : FittedSurrogate
        The frozen q(y | x_S).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> plan = TrainingPlan().with_steps(value=100, selector=100)
    >>> RealX(model, k=1, training=plan, progress=False).fit(X).explain(X[:2], k=1).names
    [['x1'], ['x1']]
    """

    name: ClassVar[str] = "REAL-X"

    def _plan(self, view: View) -> TrainingPlan:
        return recipes_of(view).ours.plan

    def _recipe(self, view: View) -> tuple[Options, Options]:
        return {}, {}

    def _train(self, selector: nn.Module, data: TrainingRows, run: Run) -> None:
        q = self._predictor(data, sees_mask=True)
        fit_surrogate(q, data, run)

        def gain(rows: Rows, logits: Tensor) -> Tensor:
            mask, relaxed, control = rebar_draws(logits, run.generator)
            hard, soft, tilde = q.log_value(rows, torch.stack([mask, relaxed, control]))
            reward = (hard - tilde).detach()
            gained: Tensor = reward * log_probability(logits, mask) + soft - tilde
            return gained.mean()

        def value(candidate: nn.ModuleDict, rows: Rows, mask: Tensor) -> Tensor:
            return q.log_value(rows, mask[None])[0]

        self._optimise(nn.ModuleDict({"selector": selector}), gain, value, data, run)


class Price:
    """What the selected features of a row cost on average: a fixed price, or one that leads to k features."""

    def __init__(self, k: int | None, penalty: float) -> None:
        if not (math.isfinite(penalty) and penalty >= 0):
            raise InputError(f"penalty is {penalty!r}; expected a number of at least 0, such as 0.1.")
        self.k, self.penalty, self.each = k, penalty, 0.0

    def __call__(self, logits: Tensor, *, learn: bool = False) -> Tensor:
        """Return the mean price of rows; with `learn`, change it for the next rows."""
        p = torch.sigmoid(logits)
        if self.k is None:
            selectable = (logits > NEVER).sum(dim=1).clamp_min(1)
            return self.penalty * (p.sum(dim=1) / selectable).mean()
        size = p.sum(dim=1).mean()
        excess = size / self.k - 1
        price = self.each * size + WEIGHT / 2 * excess.square()
        if learn:
            step = RATE * WEIGHT / self.k * max(-1.0, min(1.0, excess.item()))
            self.each = max(0.0, self.each + step)
        return price


def log_odds(selector: nn.Module, rows: Rows) -> Tensor:
    """Return the log-odds that each feature is selected, (n, d)."""
    return only_selectable(selector(rows.x), rows.view.selectable(rows.x))


def log_probability(logits: Tensor, mask: Tensor) -> Tensor:
    """Return the log probability of masks (n, d) of independent features, (n,)."""
    log_p: Tensor = nn.functional.logsigmoid((2 * mask - 1) * logits).sum(dim=1)
    return log_p


def rebar_draws(logits: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw masks, relaxed features, and relaxed features given the masks, each (n, d).

    The last two are differentiable with respect to the log-odds, and have the same distribution.
    """
    u, v = (torch.rand(logits.shape, generator=generator, device=logits.device) for _ in range(2))
    z = logits + torch.logit(u, SMALLEST)
    mask = (z > 0).float().detach()
    absent = torch.sigmoid(-logits)  # the probability of not being selected
    tilde = logits + torch.logit(torch.where(mask > 0, absent + v * (1 - absent), v * absent), SMALLEST)
    return mask, torch.sigmoid(z / TEMPERATURE), torch.sigmoid(tilde / TEMPERATURE)
