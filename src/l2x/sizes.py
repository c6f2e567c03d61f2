"""As many features as a row needs: sizes that are learned on held-out rows.

A selector's scores stand far apart where a feature matters and close together where it does not, so how many
stand out tells how many are needed, without asking q again. A cut through them is common to all rows: a
feature is kept if its score is that far above the mean of its row (scores mean the same when a constant is
added to a row). The cut for a share of the information is found on held-out rows, by q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import torch
from torch import nn

from l2x.conditional import Q
from l2x.data import Rows, TrainingRows
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.fitting import selector_scores
from l2x.foundations.arrays import Array
from l2x.ranking import best

# Held-out rows that cuts are learned from, and cuts that are tried.
ROWS, TRIED = 2000, 400
# Below every score: JSON knows no infinity.
LOWEST = float(-np.finfo(np.float32).max)
SHARES = (*np.arange(0.5, 0.99, 0.01).round(2).tolist(), 0.99, 0.995, 0.999)


@dataclass(frozen=True)
class Cuts:
    """How far a score must stand above its row's mean to be kept, for each share of what k features tell.

    shares : rising
    above : the cut for each of them; LOWEST, all features, where no cut keeps as much
    """

    shares: tuple[float, ...]
    above: tuple[float, ...]

    def shortened(self, explanation: Explanation, keep: float) -> Explanation:
        """The explanation with a size for each row, from 1 to its k."""
        if isinstance(keep, bool) or not isinstance(keep, Real) or not 0 < float(keep) <= 1:
            raise InputError(
                f"keep is {keep!r}; expected the share of the information to keep, such as 0.95."
            )
        # Rather more than asked for than less.
        known = np.searchsorted(self.shares, keep)
        cut = self.above[known] if known < len(self.above) else LOWEST
        return replace(explanation, sizes=sizes(explanation.scores, explanation.indices, cut))


def cuts_of(selector: nn.Module, q: Q, data: TrainingRows, *, sees_answer: bool) -> Cuts | None:
    """How many features rows need, from some held-out rows; None where the model may not be asked."""
    questions = data.k + 2
    n = q.questions_at_once(min(len(data.held), ROWS) * questions) // questions
    if not n:
        return None
    rows = data.held[torch.arange(n)]
    with torch.inference_mode():
        scores = selector_scores(
            selector, rows, likelihood=data.likelihood, sees_answer=sees_answer, never=-torch.inf
        )
    return learn_cuts(scores.cpu().numpy(), data.k, q, rows)


def learn_cuts(scores: Array, k: int, q: Q, rows: Rows) -> Cuts:
    """What q loses on these held-out rows, whose scores (n, d) are given, at every cut.

    What a subset tells of a row is what q says of it: KL(q(.|x) || q(.|x_S)) is lost without the rest, and
    all of KL(q(.|x) || q(.)) when nothing is selected. Shares are of what the k features together keep.
    """
    order, lost = best(scores, k), _lost(scores, k, q, rows)
    above_mean = _above_mean(scores, order)
    candidates = np.unique(np.quantile(above_mean, np.linspace(0, 1, TRIED)))[::-1]
    still_lost = np.array(
        [np.take_along_axis(lost, _sizes(above_mean, cut)[:, None], axis=1).mean() for cut in candidates]
    )
    told_by_all = max(lost[:, 0].mean() - lost[:, k].mean(), 1e-12)
    share = np.maximum.accumulate((lost[:, 0].mean() - still_lost) / told_by_all)
    first = np.searchsorted(share, SHARES)
    above = [float(candidates[i]) if i < len(candidates) else LOWEST for i in first]
    return Cuts(SHARES, tuple(above))


def sizes(scores: Array, order: Array, cut: float) -> Array:
    """(n,) how many of the features `order` (n, k), best first, stand above the cut; one at least where any
    can be selected."""
    return _sizes(_above_mean(scores, order), cut)


def _sizes(above_mean: Array, cut: float) -> Array:
    selectable = above_mean > LOWEST
    return np.asarray(np.maximum((selectable & (above_mean >= cut)).sum(axis=1), selectable.any(axis=1)))


def _above_mean(scores: Array, order: Array) -> Array:
    """(n, k) scores of `order` above the mean of what is selectable in the row."""
    selectable = scores > -np.inf
    total = np.where(selectable, scores, 0.0).sum(axis=1, keepdims=True)
    mean = total / selectable.sum(axis=1, keepdims=True).clip(1)
    above = np.take_along_axis(scores, order, axis=1) - mean
    return np.asarray(np.where(np.isfinite(above), above, LOWEST))


def _lost(scores: Array, k: int, q: Q, rows: Rows) -> Array:
    """(n, k + 1) what is lost when the first 0 .. k features of the ranking are all there is."""
    order, selectable = best(scores, k), torch.from_numpy(scores > -np.inf)
    device = rows.x.device
    with torch.inference_mode():
        whole = q.outputs(rows, torch.ones(scores.shape, device=device))
        lost = []
        for size in range(k + 1):
            mask = torch.zeros(scores.shape).scatter(1, torch.from_numpy(order[:, :size]), 1.0) * selectable
            lost.append(q.likelihood.divergence(whole, q.outputs(rows, mask.to(device))).cpu())
    return torch.stack(lost, dim=1).double().numpy()
