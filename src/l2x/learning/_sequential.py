"""The sequential selector π(next feature | x_S, S): each feature is chosen by the values read so far.

    S_0 = ∅      S_j = S_{j-1} and argmax_i π(i | x_{S_{j-1}}, S_{j-1})      j = 1 .. k

The whole path is a function of the values on it, so that the choice of features reveals nothing about the
prediction that their values do not: explanations cannot leak (docs/how-to/audit.md has the proof).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from l2x._base.arrays import batches
from l2x.errors import InputError
from l2x.features import View
from l2x.learning._rows import Rows, TrainingRows
from l2x.learning._selector import evaluations_of, everything, fit_selector, selector_scores
from l2x.learning._surrogate import BaseSurrogate, reads_rows
from l2x.learning._training import Run, TrainingPlan, optimise
from l2x.learning.networks._columns import ColumnPredictor, perceptron
from l2x.learning.networks._recipes import networks_of
from l2x.learning.objectives import Objective
from l2x.learning.samplers import (
    NEVER,
    PlackettLuce,
    Sampler,
    exploration,
    gumbel,
    k_hot,
    scores_at,
    top_k,
)

# The option `selector` of an explainer whose selector is sequential.
SEQUENTIAL: Literal["sequential"] = "sequential"
# Features that are compared in each state of training, and the weights of exploration at its start and end.
COMPARED, EXPLORE = 16, (0.1, 0.001)
# At the start of training, this share of the steps that lead to a state take a random feature; the share
# falls to zero. States are thus learned before the policy prefers them.
ANYTHING = 0.5
# Advantages are divided by the largest root mean square of their step so far, which decays by this factor,
# as do the sums of `_Starts`. Without this memory, noise would be amplified at the end of training.
FORGET = 0.97
# The part of the preferences that reads no value learns this many times faster than the part that reads
# values. For tables, the hidden layers of both have this many units.
COMMON_SPEED, HIDDEN = 5.0, 128
# The part that reads values ignores advantages below SLIGHT nats, so that rows select the same features
# unless there is a reason to differ. SHRINKAGE is the weight of the mean squares of both parts in the loss.
SLIGHT, SHRINKAGE = 1e-3, 0.01
# A guide decides between paths that are equally good: each feature that it selects for a row adds this number
# of nats to the value of paths that contain it.
GUIDED = 0.01
# The log-odds of the first feature are mean values in units of their standard deviation over features, times
# 1 at the start of training and SURE at its end; means are shrunk as if by FEW_PATHS paths of value 0.
SURE, FEW_PATHS = 20.0, 30
# The learning rate, and for tables the steps, as multiples of the default selector's.
FASTER, LONGER = 2.25, 4
# Preferences this close are computed again in double precision, where TIED ones count as equal: rounding of
# float32 sums depends on the other rows of a batch, and must not decide.
CLOSE, TIED = 1e-4, 1e-11
# Rows in a batch from which the policy looks up the few selected cells (measured for the first layer, 10
# columns: 8,192 rows in 2 ms instead of 5, but one row in 0.18 ms instead of 0.04); and the rows whose path
# is walked together, which fit into the processor's cache.
MANY_ROWS, AT_ONCE = 256, 2048


class _Shared:
    """Hold a view, which copies of a network share: `copy.deepcopy` returns the same object."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __deepcopy__(self, memo: dict[int, Any]) -> _Shared:
        return self


class SequentialSelector(nn.Module):
    """Encoded inputs -> (n, d) scores, by a path of k steps that reads nothing but the features on it.

    Preferences are a(S) + b(x_S, S). The common part a reads only which features are on the path, so that
    rows without a preference (ties: 97 % of nonlinear additive) agree; b is a network like the surrogate's.
    The feature of step j has the score k - j + 1, and all others the log-probability, below zero, that the
    last step gave them. All scores are therefore functions of the selected values alone.

    A feature that an input does not have, such as the seventh sentence of a text with six, may be on its path
    as well: that it is missing is then one of the values that the path has read.

    Parameters
    ----------
    view : View
        Fitted.
    k : int
        Steps of a path.
    """

    steps: Tensor
    first: Tensor
    excluded: Tensor

    def __init__(self, view: View, k: int) -> None:
        super().__init__()
        size = {"hidden": (HIDDEN, HIDDEN)} if view.kind == "table" else {}
        self.policy = networks_of(view, view.d).predictor(sees_mask=True, **size)
        self.common = perceptron([view.d, HIDDEN, view.d], "silu")
        self.d, self.k = view.d, k
        self.register_buffer("steps", torch.tensor(k))  # saved: users may change the explainer's k
        self.register_buffer("first", torch.zeros(view.d))
        self.register_buffer("excluded", torch.zeros(view.d, dtype=torch.bool))
        self._shared = _Shared(view)
        _zero_last_layer(self.policy, view.d)
        _zero_last_layer(self.common, view.d)

    def exclude(self, x: Tensor) -> None:
        """Exclude features that no row of x, encoded training rows, may select."""
        selectable = self._shared.view.selectable(x)
        if selectable is not None:
            self.excluded.copy_(~selectable.any(dim=0))

    def preferences(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the network's part of the preferences for the next feature, (m n, d), by masks (m n, d)."""
        tracing = torch.onnx.is_in_onnx_export()  # one mask per row, and no look-ups
        plain = self.training or tracing or len(x) < MANY_ROWS or mask.dtype != torch.float32
        if isinstance(self.policy, ColumnPredictor) and not plain:
            return self.policy.look_up(x, mask)
        if reads_rows(self.policy) and not tracing:
            read: Tensor = self.policy.read(x, mask)
            return read
        if not tracing and len(x) < len(mask):
            x = x.repeat(len(mask) // len(x), *[1] * (x.ndim - 1))
        preferences: Tensor = self.policy(self._shared.view.mask(x, mask), mask)
        return preferences

    def logits(self, preferences: Tensor, mask: Tensor) -> Tensor:
        """Return log-odds of the next feature, with NEVER for those that are on the path already."""
        taken = (mask > 0) | self.excluded
        common: Tensor = self.common(mask)
        return (preferences + COMMON_SPEED * common).masked_fill(taken, NEVER)

    def step_logits(self, x: Tensor, mask: Tensor, step: int) -> Tensor:
        """Return log-odds of the next feature, (m n, d), by masks with `step` features.

        Before the first step nothing has been read: there is one vector for all rows.
        """
        if step:
            return self.logits(self.preferences(x, mask), mask)
        return self.first.masked_fill(self.excluded, NEVER) + torch.zeros_like(mask)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of the path on which every step takes the most probable feature."""
        exact = cache(lambda: copy.deepcopy(self).double())  # made only if a step needs it
        if torch.onnx.is_in_onnx_export() or len(x) <= AT_ONCE:
            return self._scores(x, exact)
        return torch.cat([self._scores(x[rows], exact) for rows in batches(len(x), AT_ONCE)])

    def _scores(self, x: Tensor, exact: Callable[[], SequentialSelector]) -> Tensor:
        """Return the scores of rows whose paths are walked together."""
        mask = torch.zeros(x.shape[0], self.d, device=x.device)
        scores = logits = mask
        for step in range(self.k):
            logits = self.step_logits(x, mask, step)
            best = self._best(logits, x, mask, exact) if step else logits.argmax(dim=-1)
            pick = torch.zeros_like(mask).scatter(1, best[:, None], 1.0)
            pick = pick * (mask == 0)  # a path may be longer than there are features to select
            mask, scores = mask + pick, scores + (self.k - step) * pick
        return torch.where(mask > 0, scores, torch.log_softmax(logits, dim=-1))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        k = int(state_dict[f"{prefix}steps"])
        if not 1 <= k <= self.d:
            raise ValueError(f"a path of {k} steps through {self.d} features")
        self.k = k
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _best(
        self, logits: Tensor, x: Tensor, mask: Tensor, exact: Callable[[], SequentialSelector]
    ) -> Tensor:
        """Return the most probable feature of each row, the first of equals, (n,).

        The result must not depend on the other rows of the batch, with which rounding may change.
        """
        best = logits.argmax(dim=-1)
        if self.training or self.d == 1 or torch.onnx.is_in_onnx_export():
            return best
        first, second = logits.topk(2, dim=-1).values.unbind(dim=-1)
        close = (first - second <= CLOSE * (1 + first.abs())).nonzero()[:, 0]
        if len(close):
            x, mask = x[close], mask[close].double()
            x = x.double() if x.is_floating_point() else x
            precise = exact().logits(exact().preferences(x, mask), mask)
            nearly = precise >= precise.amax(dim=-1, keepdim=True) - TIED * (1 + precise.abs())
            best[close] = nearly.int().argmax(dim=-1)
        return best


def sampler_of_paths(sampler: Sampler | None, objective: Objective, *, uses_prediction: bool) -> PlackettLuce:
    """Return how paths are drawn in training; raise an InputError for settings that do not fit."""
    if uses_prediction:
        raise InputError(
            "selector='sequential' reads selected values alone, so that it cannot pass the prediction on by "
            "its choice of features; remove uses_prediction=True."
        )
    if not objective.fixed:
        raise InputError(
            "selector='sequential' needs a surrogate that is fitted on random subsets and frozen; choose "
            "objective='both', 'surrogate' or 'model'."
        )
    if sampler is None:
        return PlackettLuce(samples=COMPARED, explore=EXPLORE)
    if not isinstance(sampler, PlackettLuce):
        raise InputError(
            f"selector='sequential' draws its paths step by step; {type(sampler).__name__}() cannot. Remove "
            "sampler=, or pass PlackettLuce(samples=...)."
        )
    return sampler


def plan_of_paths(plan: TrainingPlan, view: View) -> TrainingPlan:
    """Return the plan of a sequential selector, given the plan of the default selector."""
    phase = plan.selector
    return replace(
        plan,
        selector=replace(
            phase,
            steps=(LONGER if view.kind == "table" else 1) * phase.steps,
            learning_rate=FASTER * phase.learning_rate,
            ahead=1,  # subsets cannot be drawn ahead: each step depends on the last
        ),
    )


def fit_paths(
    selector: nn.Module, surrogate: BaseSurrogate, data: TrainingRows, sampler: Sampler, run: Run
) -> bool:
    """Maximise E[log q(Y | X_S)] over the policy, where S is a path of k steps; see `fit_selector`.

    Each update draws paths up to one step, compares features for that step, and completes the path after each
    of them by the policy. A feature is preferred by the value of the finished path, so that features that
    matter only together are found. The first feature is the same for all rows: the one with the highest mean.
    """
    assert isinstance(selector, SequentialSelector)
    assert isinstance(sampler, PlackettLuce)
    k, likelihood = data.k, data.likelihood
    guide = fit_guide(surrogate, data, run)
    selector.exclude(data.train.x)
    units, starts = [_Unit() for _ in range(k)], _Starts(selector.first)

    def value_of(rows: Rows, masks: Tensor) -> Tensor:
        if data.problem.target == "class":
            rows = replace(rows, target=likelihood.most_likely(rows.target))
        masks = masks * everything(rows)
        value = surrogate.log_value(rows, masks)
        if guide is None:
            return value
        guided = k_hot(top_k(selector_scores(guide, surrogate, rows, data), k), selector.d)
        return value + GUIDED * (masks * guided).sum(dim=-1)

    def compared(rows: Rows, masks: Tensor, logits: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return features for this step, (c, n), and the values of the paths that the policy completes."""
        tried = _tried(logits, sampler.samples, run.generator)
        after = masks.expand(len(tried), -1, -1).scatter(2, tried[..., None], 1.0)
        ends = walked(selector, rows.x, after.flatten(0, 1), range(step + 1, k), run.generator)
        return tried, value_of(rows, ends.view(after.shape))

    def objective(index: Tensor, progress: float) -> Tensor:
        rows, generator = data.train[index], run.generator
        empty = torch.zeros(len(rows), selector.d, device=rows.x.device)
        step = int(torch.randint(k, (), generator=generator, device=rows.x.device))
        if step == 0:
            with torch.no_grad():
                starts.add(*compared(rows, empty, selector.step_logits(rows.x, empty, 0), 0))
                selector.first.copy_(starts.log_odds(progress))
            return 0.0 * selector.preferences(rows.x, empty).mean()  # no network prefers the first feature
        with torch.no_grad():
            anything = ANYTHING * (1 - progress)
            masks = walked(selector, rows.x, empty, range(step), generator, anything=anything)
        preferences = selector.preferences(rows.x, masks)
        common = selector.logits(preferences.detach(), masks)
        own = common.detach() + preferences - preferences.detach()
        with torch.no_grad():
            tried, values = compared(rows, masks, common, step)
            advantage = values - (_chances(common, tried) * values).sum(dim=0)
            unit = units[step].of(advantage)
        shared = (common - preferences.detach()).masked_fill(common <= NEVER / 2, 0.0)
        total = -SHRINKAGE * (preferences.square().mean() + shared.square().mean())
        for logits, worth in ((common, advantage), (own, nn.functional.softshrink(advantage, SLIGHT))):
            gain = (_chances(logits, tried) * worth).sum(dim=0).mean() / unit
            total = total + gain + exploration(logits, sampler.explore, progress)
        return total

    def validate(candidate: nn.Module) -> Tensor:
        """Return the value of the path that `explain` takes, for held-out rows."""
        with torch.no_grad():
            return value_of(data.held, (candidate(data.held.x) > 0).float()[None])[0]

    selector.train()
    label = "training the selector"
    return optimise(
        selector, objective, validate, phase=run.plan.selector, n=len(data.train), label=label, run=run
    )


def fit_guide(surrogate: BaseSurrogate, data: TrainingRows, run: Run) -> nn.Module | None:
    """Train the guide of `fit_paths`, which decides between equally good paths; None for texts and images.

    The guide is the default selector. Where many subsets are equally good, it prefers the same features in
    all rows. It reads whole rows, but the policy reads selected values alone: the guarantee does not depend
    on the guide.
    """
    if data.view.kind != "table":
        return None
    guide: nn.Module = networks_of(data.view, data.likelihood.outputs).selector().to(run.device)
    run = replace(run, plan=plan_of_guide(run.plan))
    fit_selector(guide, surrogate, data, PlackettLuce(), run, label="training its guide")
    return guide


def plan_of_guide(plan: TrainingPlan) -> TrainingPlan:
    """Return how the guide is trained, given the plan of the paths: as the default selector usually is."""
    phase = plan.selector
    steps, rate = max(1, phase.steps // LONGER), phase.learning_rate / FASTER
    return replace(plan, selector=replace(phase, steps=steps, learning_rate=rate))


def evaluations_of_paths(
    selector: nn.Module, plan: TrainingPlan, data: TrainingRows, sampler: Sampler
) -> list[tuple[int, int]]:
    """Return how often `fit_paths` evaluates subsets, and how many, as `evaluations_of` does."""
    calls = evaluations_of(selector, plan, data, sampler)
    if data.view.kind == "table":
        calls += evaluations_of(selector, plan_of_guide(plan), data, PlackettLuce())
    return calls


def walked(
    selector: SequentialSelector,
    x: Tensor,
    masks: Tensor,
    steps: range,
    generator: torch.Generator,
    *,
    anything: float = 0.0,
) -> Tensor:
    """Add features, drawn step by step from the policy, to masks (m n, d) of encoded rows x (n, ...).

    The share `anything` of the steps takes any feature with the same probability. The masks of a row share
    their random numbers, so that their values can be compared.
    """
    for step in steps:
        logits = selector.step_logits(x, masks, step)
        if anything:
            uniform = torch.rand(len(masks), 1, generator=generator, device=masks.device) < anything
            logits = torch.where(uniform & (logits > NEVER), 0.0, logits)
        noise = gumbel((len(x), selector.d), logits, generator).repeat(len(masks) // len(x), 1)
        pick = (logits + noise).argmax(dim=-1, keepdim=True)
        masks = masks.scatter(1, pick, 1.0)
    return masks


def _chances(logits: Tensor, tried: Tensor) -> Tensor:
    """Return the probabilities of the features that are compared, among themselves, (c, n)."""
    return torch.softmax(scores_at(logits, tried[..., None])[..., 0], dim=0)


def _tried(logits: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Return the features that are compared in each state, (c, n): all, or half from the policy, half any."""
    n, d = logits.shape
    if d <= most:
        return torch.arange(d, device=logits.device)[:, None].expand(d, n)
    likely = (logits + gumbel(logits.shape, logits, generator)).topk(most // 2, dim=-1).indices
    noise = torch.rand(n, d, generator=generator, device=logits.device).masked_fill(logits <= NEVER, -1.0)
    others = noise.scatter(1, likely, -2.0).topk(most - most // 2, dim=-1).indices
    return torch.cat([likely, others], dim=1).T


class _Starts:
    """The mean values of paths by their first feature; old paths are slowly forgotten.

    A policy gradient would settle too early: early in training, other features are the best start than at the
    end.
    """

    def __init__(self, features: Tensor) -> None:
        self.sums, self.numbers = torch.zeros_like(features), torch.zeros_like(features)

    def add(self, tried: Tensor, values: Tensor) -> None:
        """Add the values of paths that start with the features `tried`, both (c, n)."""
        values = values - values.mean(dim=0)  # the features of a row are compared with each other
        for total, parts in ((self.sums, values), (self.numbers, torch.ones_like(values))):
            total.mul_(FORGET).index_add_(0, tried.flatten(), parts.flatten())

    def log_odds(self, progress: float) -> Tensor:
        """Return preferences for the first feature, (d,), which become more certain."""
        means = self.sums / (self.numbers + FEW_PATHS)
        units: Tensor = (means - means.max()) / (means.std(unbiased=False) + 1e-12)
        return units * float(SURE**progress)


class _Unit:
    """The largest root mean square of the advantages of a step so far, which is slowly forgotten."""

    def __init__(self) -> None:
        self.largest = 0.0

    def of(self, advantage: Tensor) -> float:
        """Return the unit of these advantages."""
        self.largest = max(FORGET * self.largest, float(advantage.square().mean().sqrt()))
        return self.largest + 1e-8


def _zero_last_layer(network: nn.Module, d: int) -> None:
    """Let all features be equally probable at first."""
    last = [layer for layer in network.modules() if isinstance(layer, nn.Linear) and layer.out_features == d]
    if last:
        nn.init.zeros_(last[-1].weight)
        nn.init.zeros_(last[-1].bias)
