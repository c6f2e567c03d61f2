"""The sequential selector π(next feature | x_S, S): one feature at a time, each chosen by the values so far.

    S_0 = ∅      S_j = S_{j-1} and argmax_i π(i | x_{S_{j-1}}, S_{j-1})      j = 1 .. k

The whole path is a function of the values on it, so that the choice of features reveals nothing about the
prediction that their values do not: explanations cannot leak (docs/how-to/audit.md has the proof).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from l2x.errors import InputError
from l2x.features import View
from l2x.learning._rows import Rows, TrainingRows
from l2x.learning._selector import everything
from l2x.learning._surrogate import BaseSurrogate, reads_rows
from l2x.learning._training import Run, optimise
from l2x.learning.networks._columns import perceptron
from l2x.learning.networks._recipes import networks_of
from l2x.learning.objectives import Objective
from l2x.learning.samplers import (
    NEVER,
    PlackettLuce,
    Sampler,
    exploration,
    gumbel,
    scores_at,
)

# The option `selector` of an explainer whose selector is sequential.
SEQUENTIAL: Literal["sequential"] = "sequential"
# Features that are compared per state in training, and the exploration bonus at its start and end.
COMPARED, EXPLORE = 16, (0.1, 0.001)
# The share of steps before a state that take any feature, so that states are learned before the policy
# prefers them: otherwise the first feature is settled before anything is known about what follows it.
ANYTHING = 0.5
# Advantages are divided by their largest root mean square so far, which is forgotten at this rate per step:
# what is noise at the end of training must not be amplified.
FORGET = 0.97
# The part of the preferences that reads no value learns this many times faster, and has this many units.
COMMON_SPEED, HIDDEN = 5.0, 128
# Weight of the squared preferences of the other part: rows without a reason to differ do not.
SHRINKAGE = 0.01
# The learning rate, as a multiple of the default selector's.
FASTER = 3.0
# Preferences this close are computed again in double precision, where TIED ones count as equal: rounding of
# float32 sums depends on the other rows of a batch, and may not decide.
CLOSE, TIED = 1e-4, 1e-11


class _Shared:
    """A view that copies of a network share."""

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
    excluded: Tensor

    def __init__(self, view: View, k: int) -> None:
        super().__init__()
        self.policy = networks_of(view, view.d).predictor(sees_mask=True)
        self.common = perceptron([view.d, HIDDEN, view.d], "silu")
        self.d, self.k = view.d, k
        self.register_buffer("steps", torch.tensor(k))  # saved: users may change the explainer's k
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

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of the path on which every step takes the most probable feature."""
        mask = torch.zeros(x.shape[0], self.d, device=x.device)
        scores = logits = mask
        for step in range(self.k):
            if step == 0:  # nothing has been read: one preference for all rows
                logits = self.logits(self.preferences(x[:1], mask[:1]), mask[:1]) + mask
            else:
                logits = self.logits(self.preferences(x, mask), mask)
            pick = torch.zeros_like(mask).scatter(1, self._best(logits, x, mask)[:, None], 1.0)
            pick = pick * (mask == 0)  # a path may be longer than there are features to select
            mask, scores = mask + pick, scores + (self.k - step) * pick
        return torch.where(mask > 0, scores, torch.log_softmax(logits, dim=-1))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        k = int(state_dict[f"{prefix}steps"])
        if not 1 <= k <= self.d:
            raise ValueError(f"a path of {k} steps through {self.d} features")
        self.k = k
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _best(self, logits: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """Return the most probable feature of each row, the first of equals, (n,).

        The result must not depend on the other rows of the batch, with which rounding may change.
        """
        best = logits.argmax(dim=-1)
        if self.training or self.d == 1 or torch.onnx.is_in_onnx_export():
            return best
        first, second = logits.topk(2, dim=-1).values.unbind(dim=-1)
        close = (first - second <= CLOSE * (1 + first.abs())).nonzero()[:, 0]
        if len(close):
            exact = copy.deepcopy(self).double()
            x, mask = x[close], mask[close].double()
            x = x.double() if x.is_floating_point() else x
            precise = exact.logits(exact.preferences(x, mask), mask)
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


def fit_paths(
    selector: nn.Module, surrogate: BaseSurrogate, data: TrainingRows, sampler: Sampler, run: Run
) -> bool:
    """Maximise E[log q(Y | X_S)] over the policy, where S is a path of k steps; see `fit_selector`.

    Each update draws paths up to one step, compares features for that step, and completes the path after each
    of them by the policy. A feature is preferred by the value of the finished path, so that features that
    matter only together are found.
    """
    assert isinstance(selector, SequentialSelector)
    assert isinstance(sampler, PlackettLuce)
    k, likelihood = data.k, data.likelihood
    selector.exclude(data.train.x)
    scale = _Scale()

    def value_of(rows: Rows, masks: Tensor) -> Tensor:
        if data.problem.target == "class":
            rows = replace(rows, target=likelihood.most_likely(rows.target))
        return surrogate.log_value(rows, masks * everything(rows))

    def objective(index: Tensor, progress: float) -> Tensor:
        rows, generator = data.train[index], run.generator
        step = int(torch.randint(k, (), generator=generator, device=rows.x.device))
        with torch.no_grad():
            anything = ANYTHING * (1 - progress)
            empty = torch.zeros(len(rows), selector.d, device=rows.x.device)
            masks = walked(selector, rows.x, empty, step, generator, anything=anything)
        states = slice(None) if step else slice(1)  # before the first step, all rows are in one state
        preferences = selector.preferences(rows.x[states], masks[states])
        logits = selector.logits(preferences, masks[states]).expand(len(rows), -1)
        with torch.no_grad():
            tried = _tried(logits, sampler.samples, generator)
            after = masks.expand(len(tried), -1, -1).scatter(2, tried[..., None], 1.0)
            ends = walked(selector, rows.x, after.flatten(0, 1), k - step - 1, generator)
            values = value_of(rows, ends.view(after.shape))
        chosen = torch.softmax(scores_at(logits, tried[..., None])[..., 0], dim=0)
        advantage = values - (chosen.detach() * values).sum(dim=0)
        gain = (chosen * scale.divide(advantage)).sum(dim=0).mean()
        bonus = exploration(logits, sampler.explore, progress)
        return gain + bonus - SHRINKAGE * preferences.square().mean()

    def validate(candidate: nn.Module) -> Tensor:
        """Return the value of the path that `explain` takes, for held-out rows."""
        with torch.no_grad():
            return value_of(data.held, (candidate(data.held.x) > 0).float()[None])[0]

    selector.train()
    phase = replace(run.plan.selector, learning_rate=FASTER * run.plan.selector.learning_rate)
    label = "training the selector"
    return optimise(selector, objective, validate, phase=phase, n=len(data.train), label=label, run=run)


def walked(
    selector: SequentialSelector,
    x: Tensor,
    masks: Tensor,
    steps: int,
    generator: torch.Generator,
    *,
    anything: float = 0.0,
) -> Tensor:
    """Add features, drawn step by step from the policy, to masks (m n, d) of encoded rows x (n, ...).

    The share `anything` of the steps takes any feature with the same probability.
    """
    for _ in range(steps):
        logits = selector.logits(selector.preferences(x, masks), masks)
        if anything:
            uniform = torch.rand(len(masks), 1, generator=generator, device=masks.device) < anything
            logits = torch.where(uniform & (logits > NEVER), 0.0, logits)
        pick = (logits + gumbel(logits.shape, logits, generator)).argmax(dim=-1, keepdim=True)
        masks = masks.scatter(1, pick, 1.0)
    return masks


def _tried(logits: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Return the features that are compared in each state, (c, n): all, or half from the policy, half any."""
    n, d = logits.shape
    if d <= most:
        return torch.arange(d, device=logits.device)[:, None].expand(d, n)
    likely = (logits + gumbel(logits.shape, logits, generator)).topk(most // 2, dim=-1).indices
    noise = torch.rand(n, d, generator=generator, device=logits.device).masked_fill(logits <= NEVER, -1.0)
    others = noise.scatter(1, likely, -2.0).topk(most - most // 2, dim=-1).indices
    return torch.cat([likely, others], dim=1).T


class _Scale:
    """The largest root mean square of advantages so far, which is slowly forgotten."""

    def __init__(self) -> None:
        self.largest = 0.0

    def divide(self, advantage: Tensor) -> Tensor:
        """Return the advantages in units of the scale."""
        self.largest = max(FORGET * self.largest, float(advantage.square().mean().sqrt()))
        return advantage / (self.largest + 1e-8)


def _zero_last_layer(network: nn.Module, d: int) -> None:
    """Let all features be equally probable at first."""
    last = [layer for layer in network.modules() if isinstance(layer, nn.Linear) and layer.out_features == d]
    if last:
        nn.init.zeros_(last[-1].weight)
        nn.init.zeros_(last[-1].bias)
