"""Every phase of training: the surrogate, a selector's reader, the selector, the probes of the encode-meter.

Each phase says what is maximised on a minibatch and how held-out rows are valued; `training.optimise` is the
loop. All of them take the same `Run`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from l2x.learning._likelihood import Likelihood
from l2x.learning._plackett_luce import FEW, NEVER, k_hot, only_selectable, top_k
from l2x.learning._rows import Rows, TrainingRows, split
from l2x.learning._surrogate import NetworkQ, Q
from l2x.learning._training import Phase, Run, TrainingPlan, optimise
from l2x.learning.networks._recipes import Answer, ReadsFirst
from l2x.learning.samplers import Sampler

# Masks for the held-out rows of a surrogate, at least; fewer if they would have more cells than this.
HELD_MASKS, HELD_CELLS = 10_000, 1 << 25
# Of many features: the share of training in which whole rows give way to subsets, the features that a whole
# row has at most, and the size of subsets up to which all sizes are alike.
WHOLE_FIRST, WHOLE, USUAL = 0.1, 512, 32
# The probes start from the judge, which can read values already: a quarter of its steps, a third of its rate.
PROBES_SHORTER, PROBES_SLOWER = 4, 3


def fit_surrogate(q: NetworkQ, data: TrainingRows, run: Run, *, label: str = "fitting the surrogate") -> None:
    """Fit q(y | x_S, S) on random subsets, which know nothing of any selector, and freeze it."""
    # Small tables: many masks for each held-out row, so that the loss is not an accident of a few.
    held = data.held.repeat(max(1, min(HELD_MASKS, HELD_CELLS // data.view.d) // len(data.held)))

    def masks(rows: Rows, _: Tensor | None = None, progress: float = 1.0) -> Tensor:
        return random_masks(rows, data.k, run.generator, progress)

    finished = fit_to_masks(q, data.train, held, masks, masks(held), run, phase=run.plan.value, label=label)
    _freeze(q.predictor, finished=finished)


def fit_to_masks(
    q: NetworkQ,
    train: Rows,
    held: Rows,
    masks: Callable[[Rows, Tensor, float], Tensor],
    held_masks: Tensor,
    run: Run,
    *,
    phase: Phase,
    label: str,
) -> bool:
    """Fit q(y | x_S, S) to the subsets that `masks` gives for a minibatch, its indices and the share of
    training done; False if interrupted."""

    def objective(index: Tensor, progress: float) -> Tensor:
        rows = train[index]
        return q.log_value(rows, masks(rows, index, progress)[None]).mean()

    def validate(predictor: nn.Module) -> Tensor:
        with torch.no_grad():
            return NetworkQ(predictor, q.likelihood).log_value(held, held_masks[None])[0]

    return optimise(q.predictor, objective, validate, phase=phase, n=len(train), label=label, run=run)


def random_masks(rows: Rows, k: int, generator: torch.Generator, progress: float = 1.0) -> Tensor:
    """Subsets for fitting a surrogate, (n, d): half of size k, half of sizes uniform on 0 .. d.

    Size k is where the surrogate is asked; the other sizes keep it honest at every k (measured: half and half
    beat either alone, see docs/method.md). Where some features may not be selected, subsets are of the others
    and sizes go up to their number.
    """
    n, d, selectable = len(rows), rows.view.d, rows.view.selectable(rows.x)
    if selectable is None and d > FEW:
        return _masks_of_many(n, d, k, generator, progress).to(rows.x.device)
    sizes = torch.randint(0, d + 1, (n, 1), generator=generator)
    at_k = torch.rand(n, 1, generator=generator) < 0.5
    noise = torch.rand(n, d, generator=generator)
    if selectable is None:
        return (noise.argsort(dim=-1) < torch.where(at_k, k, sizes)).float().to(rows.x.device)
    selectable = selectable.cpu()
    sizes = sizes * (selectable.sum(dim=1, keepdim=True) + 1) // (d + 1)
    ranks = (noise + ~selectable).argsort(dim=-1).argsort(dim=-1)
    return (selectable & (ranks < torch.where(at_k, k, sizes))).float().to(rows.x.device)


def _masks_of_many(n: int, d: int, k: int, generator: torch.Generator, progress: float) -> Tensor:
    """As above, without sorting. Half have sizes uniform on 1 .. k: from small subsets more is learned, of
    size k, too. Of the others large sizes are the less likely the larger they are: alike up to USUAL or 2 k,
    then falling with their square, so that all occur and the work hardly grows with d.

    Of 200 features two that only count together are both in one random subset of four in 3,000: nothing
    would be learned of them. So training begins with whole rows, or large parts of them.
    """
    whole = max(0.0, 1 - progress / WHOLE_FIRST)
    small = round(n * (1 - whole) / 2)  # the first of the rows, whose order is random
    others = n - small
    usual = min(d, max(USUAL, 2 * k))
    reach = torch.rand(others, 1, generator=generator) * (2 - usual / d)
    sizes = usual * torch.where(reach < 1, reach, 1 / (2 - reach))
    sizes[: round(n * whole)] = min(d, WHOLE)
    # Each feature by itself: the sizes are those but for chance.
    masks = torch.rand(others, d, generator=generator) < sizes / d
    up_to_k = _subsets(torch.randint(1, k + 1, (small, 1), generator=generator), d, generator)
    return torch.cat([up_to_k, masks]).float()


def _subsets(sizes: Tensor, d: int, generator: torch.Generator) -> Tensor:
    """Masks (n, d) of subsets of these sizes (n, 1), all alike: Floyd's algorithm, draws without a
    repetition."""
    masks = torch.zeros(len(sizes), d, dtype=torch.bool)
    for draw in range(int(sizes.max()) if len(sizes) else 0):
        last = (d - sizes + draw).clamp_(max=d - 1)
        drawn = (torch.rand(len(sizes), 1, generator=generator, dtype=torch.float64) * (last + 1)).long()
        pick = torch.where(masks.gather(1, drawn), last, drawn)
        masks.scatter_(1, pick, masks.gather(1, pick) | (draw < sizes))
    return masks


def fit_reader(selector: nn.Module, q: Q, data: TrainingRows, run: Run) -> None:
    """Teach a selector's reader, if it has one, what q says of whole inputs and of random subsets.

    A selection that keeps the model's answer has to know that answer first. Whole training inputs overfit;
    random subsets act as augmentation (measured: see docs/method.md).
    """
    if not isinstance(selector, ReadsFirst):
        return
    reader, likelihood, d = selector.reader, q.likelihood, data.view.d
    phase, evaluations = reading(selector, run.plan), run.plan.evaluations
    q = q.first_hand(phase.batch_size)
    # Held-out rows are asked about once, and not at every evaluation: so much more of them at once.
    affordable = evaluations * q.questions_at_once(math.ceil(len(data.held) / evaluations))
    held = data.held[torch.arange(min(len(data.held), affordable))]
    held_masks = _mostly_large(len(held), d, run.generator)
    held = replace(held, target=_said(q, held, held_masks))

    def objective(index: Tensor, _: float) -> Tensor:
        index = index[: max(1, q.questions_at_once(len(index)))]
        rows, masks = data.train[index], _mostly_large(len(index), d, run.generator)
        target = _said(q, rows, masks)
        return likelihood.log_likelihood(reader(rows.x, masks.to(rows.x.device)), target).mean()

    def validate(candidate: nn.Module) -> Tensor:
        with torch.no_grad():
            return likelihood.log_likelihood(candidate(held.x, held_masks.to(held.x.device)), held.target)

    label = "reading with the model"
    finished = optimise(reader, objective, validate, phase=phase, n=len(data.train), label=label, run=run)
    _freeze(reader, finished=finished)


def reading(selector: ReadsFirst, plan: TrainingPlan) -> Phase:
    """How a selector's reader is trained."""
    return replace(plan.value, steps=round(selector.reading * plan.value.steps))


def selector_scores(
    selector: nn.Module, rows: Rows, *, likelihood: Likelihood, sees_answer: bool, never: float = NEVER
) -> Tensor:
    """w_θ(x) of rows whose answers are known, (n, d), with `never` for what may not be selected."""
    told = [likelihood.told(rows.target)] if sees_answer else []
    return only_selectable(selector(rows.x, *told), rows.view.selectable(rows.x), never)


def fit_selector(
    selector: nn.Module,
    q: Q,
    data: TrainingRows,
    sampler: Sampler,
    run: Run,
    *,
    answer: Answer = "distribution",
    sees_answer: bool = False,
) -> bool:
    """Maximise E[log q(Y | X_S)] over θ - and over α too where q still learns (equation 5).

    answer : Y ~ P_m(.|x), the model's whole distribution, as the paper has it; or its most likely "class"
    sees_answer : the selector reads log P_m(.|x) beside x
    """
    train, held, k, likelihood = data.train, data.held, data.k, data.likelihood
    networks = nn.ModuleDict({"selector": selector} | _learning(q))

    scores_of = partial(selector_scores, likelihood=likelihood, sees_answer=sees_answer)

    def value_of(q: Q, rows: Rows, masks: Tensor) -> Tensor:
        target = likelihood.most_likely(rows.target) if answer == "class" else rows.target
        value = q.log_value(replace(rows, target=target), masks)
        return likelihood.evidence(value) if sampler.adds_evidence else value

    def objective(index: Tensor, progress: float) -> Tensor:
        rows = train[index]
        scores = scores_of(selector, rows)
        return sampler.objective(scores, k, lambda masks: value_of(q, rows, masks), run.generator, progress)

    def validate(candidate: nn.Module) -> Tensor:
        """The value of the *hard* top-k selection on held-out rows."""
        assert isinstance(candidate, nn.ModuleDict)
        parts = dict(candidate.items())
        selector = parts.pop("selector")
        with torch.no_grad():
            masks = k_hot(top_k(scores_of(selector, held), k), held.view.d)
            return value_of(q.with_networks(parts) if parts else q, held, masks[None])[0]

    networks.train()
    label, phase = "training the selector", run.plan.selector
    return optimise(networks, objective, validate, phase=phase, n=len(train), label=label, run=run)


def fit_probe(judge: NetworkQ, rows: Rows, masks: Tensor, run: Run, *, shuffled: bool) -> NetworkQ:
    """g1 or g0 of the encode-meter: a copy of the judge, trained further on the selections `masks` (n, d) of
    these rows, or on the same masks shuffled across rows."""
    plan = run.plan
    q = NetworkQ(copy.deepcopy(judge.predictor).requires_grad_(True), judge.likelihood)
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
        fit_to_masks(q, train, held, selected, held_masks, run, phase=phase, label="fitting the probes")
    return q


def _allowed(rows: Rows, masks: Tensor) -> Tensor:
    """Masks of other rows without what cannot be selected in these, such as padding."""
    selectable = rows.view.selectable(rows.x)
    return masks if selectable is None else masks * selectable


def _learning(q: Q) -> dict[str, nn.Module]:
    """The networks of q that are not frozen."""
    return {
        name: network
        for name, network in q.networks.items()
        if any(parameter.requires_grad for parameter in network.parameters())
    }


def _freeze(network: nn.Module, *, finished: bool) -> None:
    network.requires_grad_(requires_grad=False)
    if not finished:
        raise KeyboardInterrupt("stopped before the selector began to learn: there is nothing to keep yet")


def _mostly_large(n: int, d: int, generator: torch.Generator) -> Tensor:
    """Masks for learning to read: one in five whole, the others with a share of the features from 0 to 1."""
    share = 1.25 * torch.rand(n, 1, generator=generator)
    return (torch.rand(n, d, generator=generator) < share).float()


def _said(q: Q, rows: Rows, masks: Tensor) -> Tensor:
    """What q says of masked rows, as targets."""
    with torch.no_grad():
        return q.likelihood.to_targets(q.outputs(rows, masks.to(rows.x.device)))
