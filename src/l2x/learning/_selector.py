"""The selector w_θ(x), one score per feature: its training (equation 5), and its scores for raw inputs."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from l2x._base.arrays import Array, batches
from l2x.features import View
from l2x.learning._rows import Gaussian, Likelihood, Rows, TrainingRows
from l2x.learning._surrogate import BaseSurrogate, ModelSurrogate
from l2x.learning._training import Phase, Run, TrainingPlan, freeze, optimise
from l2x.learning.networks._recipes import HasTextEncoder
from l2x.learning.samplers import NEVER, Draws, PlackettLuce, Sampler, efficient

# Held-out rows that evaluate signed scores, each on many subsets.
SIGNED_HELD = 500


def fit_selector(
    selector: nn.Module,
    surrogate: BaseSurrogate,
    data: TrainingRows,
    sampler: Sampler,
    run: Run,
    *,
    label: str = "training the selector",
) -> bool:
    """Maximise E[log q(Y | X_S)] over θ, and over α too if q still learns (equation 5).

    Y ~ P_m(.|x) is the model's full predicted distribution, as in the paper, or its most likely class, as set
    by `data.problem.target`. Return False if training was interrupted.
    """
    likelihood, k = data.likelihood, data.k
    networks = nn.ModuleDict({"selector": selector} | _learning(surrogate))

    def value_of(surrogate: BaseSurrogate, rows: Rows, masks: Tensor) -> Tensor:
        if sampler.signed:
            return output_value(surrogate, rows, masks)
        if data.problem.target == "class":
            rows = replace(rows, target=likelihood.most_likely(rows.target))
        value = surrogate.log_value(rows, masks)
        return likelihood.evidence(value) if sampler.adds_evidence else value

    drawn: deque[tuple[Draws, Tensor]] = deque()

    @torch.no_grad()
    def prepare(batches: Sequence[Tensor], progress: float) -> None:
        """Draw subsets for the next updates, and evaluate them together."""
        assert isinstance(sampler, PlackettLuce)
        parts = [data.train[index] for index in batches]
        scores = [selector_scores(selector, surrogate, rows, data) for rows in parts]
        draws = [sampler.draws(score, k, run.generator, progress) for score in scores]
        # Rows of all updates take turns, so that a limit of queries is shared evenly.
        rows = data.train[torch.stack(list(batches), dim=1).flatten()]
        masks = torch.stack([draw.masks for draw in draws], dim=2).flatten(1, 2)
        values = value_of(surrogate, rows, masks).view(len(masks), -1, len(draws)).unbind(dim=2)
        drawn.extend(zip(draws, values, strict=True))

    def objective(index: Tensor, progress: float) -> Tensor:
        rows = data.train[index]
        if sampler.signed:
            rows = for_drawn_output(rows, likelihood, run.generator)
        scores = selector_scores(selector, surrogate, rows, data)
        if drawn:
            assert isinstance(sampler, PlackettLuce)
            return sampler.gain(scores, *drawn.popleft(), progress)
        return sampler.objective(
            scores, k, lambda masks: value_of(surrogate, rows, masks), run.generator, progress
        )

    held = data.held
    if sampler.signed:
        few = torch.arange(min(len(held), SIGNED_HELD))
        held = for_explained_output(held[few], likelihood)

    def validate(candidate: nn.Module) -> Tensor:
        """Return the value of held-out rows; for most samplers, that of the *hard* top-k selection."""
        assert isinstance(candidate, nn.ModuleDict)
        parts = dict(candidate.items())
        selector = parts.pop("selector")
        current = surrogate.with_networks(parts) if parts else surrogate
        generator = torch.Generator(run.device).manual_seed(run.seed)  # the same draws at every evaluation
        with torch.no_grad():
            scores = selector_scores(selector, current, held, data)
            return sampler.held_out(scores, k, lambda masks: value_of(current, held, masks), generator)

    networks.train()
    queried = any(isinstance(part, ModelSurrogate) for part in surrogate.parts)
    return optimise(
        networks,
        objective,
        validate,
        phase=run.plan.selector,
        n=len(data.train),
        label=label,
        run=run,
        prepare=prepare if queried and updates_ahead(run.plan, sampler) > 1 else None,
    )


def updates_ahead(plan: TrainingPlan, sampler: Sampler) -> int:
    """Return for how many updates subsets are drawn at once, if a model is queried for them."""
    return plan.selector.ahead if isinstance(sampler, PlackettLuce) else 1


def _learning(surrogate: BaseSurrogate) -> dict[str, nn.Module]:
    """Return the surrogate's networks that are not frozen."""
    return {
        name: network
        for name, network in surrogate.networks.items()
        if any(parameter.requires_grad for parameter in network.parameters())
    }


def fit_text_encoder(selector: nn.Module, surrogate: BaseSurrogate, data: TrainingRows, run: Run) -> None:
    """Fit the text encoder of a selector that has one to predictions for whole inputs and random subsets.

    To preserve the model's prediction, a selector has to know it first. Whole training inputs alone would be
    overfitted; random subsets act as augmentation (measured: see docs/notebook.md).
    """
    if not isinstance(selector, HasTextEncoder):
        return
    encoder, likelihood, d = selector.text_encoder, surrogate.likelihood, data.view.d
    phase, evaluations = encoder_phase(selector, run.plan), run.plan.evaluations
    teacher = surrogate.most_faithful(phase.batch_size)
    # Held-out rows are evaluated once, not at every evaluation, so the limit per call allows more of them.
    affordable = evaluations * teacher.rows_per_call(math.ceil(len(data.held) / evaluations))
    held = data.held[torch.arange(min(len(data.held), affordable))]
    held_masks = _mostly_large(len(held), d, run.generator)
    held = replace(held, target=_targets(teacher, held, held_masks))

    def objective(index: Tensor, _: float) -> Tensor:
        index = index[: max(1, teacher.rows_per_call(len(index)))]
        rows, masks = data.train[index], _mostly_large(len(index), d, run.generator)
        target = _targets(teacher, rows, masks)
        return likelihood.log_likelihood(encoder(rows.x, masks.to(rows.x.device)), target).mean()

    def validate(candidate: nn.Module) -> Tensor:
        with torch.no_grad():
            return likelihood.log_likelihood(candidate(held.x, held_masks.to(held.x.device)), held.target)

    label = "fitting the text encoder"
    finished = optimise(encoder, objective, validate, phase=phase, n=len(data.train), label=label, run=run)
    freeze(encoder, finished=finished)


def encoder_phase(selector: HasTextEncoder, plan: TrainingPlan) -> Phase:
    """Return the phase that trains the selector's text encoder."""
    return replace(plan.value, steps=round(selector.encoder_steps * plan.value.steps))


def evaluations_of(
    selector: nn.Module, plan: TrainingPlan, data: TrainingRows, sampler: Sampler
) -> list[tuple[int, int]]:
    """Return how often training evaluates subsets, and how many: pairs (calls, masked rows of each call)."""
    n, held, phase, subsets = len(data.train), len(data.held), plan.selector, sampler.subsets_of(data.view.d)
    ahead = updates_ahead(plan, sampler)
    calls = [
        (math.ceil(phase.steps_for(n) / ahead), ahead * phase.rows_per_step(n) * subsets),
        (plan.evaluations, held * subsets),
        (1, held * (data.k + 1)),  # for the sizes
    ]
    if isinstance(selector, HasTextEncoder):
        phase = encoder_phase(selector, plan)
        calls.append((phase.steps_for(n), phase.rows_per_step(n)))
        calls.append((plan.evaluations, math.ceil(held / plan.evaluations)))
    return calls


def _mostly_large(n: int, d: int, generator: torch.Generator) -> Tensor:
    """Draw masks for the text encoder: a fifth are whole, the others have any share of the features."""
    share = 1.25 * torch.rand(n, 1, generator=generator)
    return (torch.rand(n, d, generator=generator) < share).float()


def _targets(teacher: BaseSurrogate, rows: Rows, masks: Tensor) -> Tensor:
    """Return the teacher's predictions for masked rows, as targets."""
    with torch.no_grad():
        return teacher.likelihood.to_targets(teacher.outputs(rows, masks.to(rows.x.device)))


def selector_scores(
    selector: nn.Module, surrogate: BaseSurrogate, rows: Rows, data: TrainingRows, never: float = NEVER
) -> Tensor:
    """Return w_θ(x) of labelled rows, (n, d), with `never` for features that may not be selected.

    A signed problem needs rows `for_explained_output`, or for a drawn one.
    """
    prediction = [data.likelihood.prediction_input(rows.target)] if data.problem.uses_prediction else []
    if data.problem.signed:
        prediction = [output_input(rows, ends(surrogate, rows)[1])]
    return only_selectable(selector(rows.x, *prediction), rows.view.selectable(rows.x), never)


def ranking_scores(selector: nn.Module, surrogate: BaseSurrogate, rows: Rows, data: TrainingRows) -> Tensor:
    """Return the scores that `explain` ranks the features of labelled rows by, -inf if not selectable."""
    if not data.problem.signed:
        return selector_scores(selector, surrogate, rows, data, never=-torch.inf)
    values, _ = signed_scores(selector, surrogate, for_explained_output(rows, data.likelihood))
    return only_selectable(values.abs(), rows.view.selectable(rows.x), never=-torch.inf)


def signed_scores(selector: nn.Module, surrogate: BaseSurrogate, rows: Rows) -> tuple[Tensor, Tensor]:
    """Return signed scores (n, d) of rows with one explained output, and its value for no feature (n,).

    Both are on the surrogate's scale and add up to its value for all features.
    """
    base, whole = ends(surrogate, rows)
    scores = only_selectable(selector(rows.x, output_input(rows, whole)), rows.view.selectable(rows.x))
    return efficient(scores, whole - base), base


def output_value(surrogate: BaseSurrogate, rows: Rows, masks: Tensor) -> Tensor:
    """Return the frozen surrogate's prediction of each row's explained output: (m, n, d) -> (m, n)."""
    m, n, d = masks.shape
    with torch.no_grad():
        predicted = surrogate.likelihood.to_targets(surrogate.outputs(rows, masks.reshape(m * n, d)))
    return (predicted.reshape(m, n, -1) * rows.target).sum(dim=-1)


def ends(surrogate: BaseSurrogate, rows: Rows) -> Tensor:
    """Return `output_value` for no feature and for all features, (2, n)."""
    whole = everything(rows)
    return output_value(surrogate, rows, torch.stack([torch.zeros_like(whole), whole]))


def everything(rows: Rows) -> Tensor:
    """Return the mask of all selectable features, (n, d)."""
    selectable = rows.view.selectable(rows.x)
    whole = torch.ones(len(rows), rows.view.d, device=rows.x.device)
    return whole if selectable is None else selectable.to(whole)


def output_input(rows: Rows, whole: Tensor) -> Tensor:
    """Return what a signed selector reads: which output is explained, and its value for all features.

    Zero stands for the other outputs, and a number between 1 and 3, which grows with the value, for this one.
    """
    return rows.target * (2 + torch.tanh(whole))[:, None]


def for_explained_output(rows: Rows, likelihood: Likelihood, outputs: Tensor | None = None) -> Rows:
    """Return rows whose target is one for the explained output, else zero.

    By default it is the predicted class, or the first predicted value.
    """
    if outputs is None:
        predicted = rows.target.argmax(dim=-1)
        outputs = torch.zeros_like(predicted) if isinstance(likelihood, Gaussian) else predicted
    chosen = nn.functional.one_hot(outputs.to(rows.x.device), likelihood.outputs)
    return replace(rows, target=chosen.float())


def for_drawn_output(rows: Rows, likelihood: Likelihood, generator: torch.Generator) -> Rows:
    """Return rows `for_explained_output`: for half of them the predicted class, otherwise a random output."""
    predicted = for_explained_output(rows, likelihood).target.argmax(dim=-1)
    device, n = predicted.device, len(rows)
    anything = torch.randint(likelihood.outputs, (n,), generator=generator, device=device)
    is_any = torch.rand(n, generator=generator, device=device) < 0.5
    return for_explained_output(rows, likelihood, torch.where(is_any, anything, predicted))


def only_selectable(scores: Tensor, selectable: Tensor | None, never: float = NEVER) -> Tensor:
    """Return the scores with `never` for features that may not be selected."""
    return scores if selectable is None else scores.masked_fill(~selectable, never)


def input_scores(
    view: View, selector: nn.Module, X: Any, prediction: Tensor | None = None
) -> tuple[Array, Counter[str]]:
    """Return w_θ(x) of checked inputs, (n, d), with -inf for features that may not be selected.

    The second result counts, per column, the rows with a category that did not occur in training.
    """
    counts: Counter[str] = Counter()
    device = next(selector.parameters()).device

    def scores_of(X: Any, prediction: Tensor | None, first_row: int = 0) -> Tensor:
        x = view.encode(X, first_row=first_row).to(device)
        counts.update(view.unseen(x))
        scores = selector(x) if prediction is None else selector(x, prediction.to(device))
        return only_selectable(scores, view.selectable(x), never=-torch.inf)

    with torch.inference_mode():
        if 0 < len(X) <= view.rows_at_once:  # one batch: avoid all overhead
            return scores_of(X, prediction).cpu().numpy(), counts
        scores = torch.empty(len(X), view.d)
        for rows in batches(len(X), view.rows_at_once):
            part = None if prediction is None else prediction[rows]
            scores[rows] = scores_of(view.take(X, rows), part, rows.start)
    return scores.numpy(), counts
