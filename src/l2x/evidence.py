"""Evidence first: scores that add up to what a subset says, learned by regression before any sampling."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from l2x.conditional import Q
from l2x.data import Rows, TrainingRows
from l2x.fitting import asked_for, selector_scores
from l2x.networks.recipe import Answer
from l2x.sampling import k_hot, only_selectable, top_k
from l2x.training import Phase, Run, optimise

# Random subsets of each row, whose differences are explained.
SUBSETS = 4


def fit_evidence(
    selector: nn.Module,
    q: Q,
    data: TrainingRows,
    run: Run,
    *,
    phase: Phase,
    answer: Answer = "distribution",
    sees_answer: bool = False,
) -> bool:
    """Fit Σ_{i in S} w_θ(x)_i to the evidence that q finds in x_S, over random subsets S of k features.

    A regression learns from every feature of every subset, a sampler only from the subsets that it prefers:
    of hundreds of words, each is drawn too rarely to be told from filler. Only differences between subsets of
    the same row count; what a row's subsets have in common cannot change its ranking.
    """
    likelihood, k = data.likelihood, data.k

    def masks_and_evidence(rows: Rows) -> tuple[Tensor, Tensor]:
        masks = _subsets(rows, k, run.generator)
        with torch.no_grad():
            found = likelihood.evidence(q.log_value(asked_for(rows, likelihood, answer), masks))
        return masks, found - found.mean(dim=0)

    def unexplained(network: nn.Module, rows: Rows, masks: Tensor, evidence: Tensor) -> Tensor:
        """Squared errors as a share of the evidence's variance, (n,)."""
        scores = selector_scores(network, rows, likelihood=likelihood, sees_answer=sees_answer, never=0.0)
        explained = (scores * masks).sum(dim=-1)  # (SUBSETS, n)
        errors = evidence - explained + explained.mean(dim=0)
        return errors.square().mean(dim=0) / evidence.square().mean().clamp_min(1e-6)

    def objective(index: Tensor, _: float) -> Tensor:
        rows = data.train[index]
        return -unexplained(selector, rows, *masks_and_evidence(rows)).mean()

    held = masks_and_evidence(data.held)

    def validate(candidate: nn.Module) -> Tensor:
        with torch.no_grad():
            return -unexplained(candidate, data.held, *held)

    label = "weighing the evidence"
    return optimise(selector, objective, validate, phase=phase, n=len(data.train), label=label, run=run)


def _subsets(rows: Rows, k: int, generator: torch.Generator) -> Tensor:
    """Random masks of size k, or of all that may be selected where that is less, (SUBSETS, n, d)."""
    n, d, selectable = len(rows), rows.view.d, rows.view.selectable(rows.x)
    noise = torch.rand(SUBSETS, n, d, generator=generator, device=generator.device)
    masks = k_hot(top_k(only_selectable(noise, selectable), k), d)
    return masks if selectable is None else masks * selectable
