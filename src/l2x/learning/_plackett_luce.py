"""Rankings that are drawn from scores, and their probability: Gumbel noise, Plackett-Luce."""

from __future__ import annotations

import torch
from torch import Tensor

from l2x._base.ranking import best

# Up to this many features everything is drawn and sorted at once; of more, what is not needed is left out
# (docs/method.md, wide tables).
FEW = 64
# Of a sum in float64, the share that a difference may have and still have some exact digits.
SOME_DIGITS = 1e-12

# The score of what may not be selected, such as padding. In training finite, so that sums over sorted scores
# stay so; explanations have -inf in its place.
NEVER = -1e9


def gumbel(shape: torch.Size | tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """G = -log(-log u), u ~ Uniform(0, 1), section 3.2; -log u is an Exponential(1), drawn directly.

    Of many features it is drawn as it stands here: with coarser tails, four times faster.
    """
    exponential = torch.empty(shape, dtype=like.dtype, device=like.device)
    if shape[-1] > FEW:
        exponential.uniform_(generator=generator).log_().neg_()
    else:
        exponential.exponential_(generator=generator)
    # clamp: -log(0) where the draw underflows
    return -exponential.clamp_min_(torch.finfo(like.dtype).tiny).log_()


def top_k(scores: Tensor, k: int) -> Tensor:
    """Indices of the k largest scores, best first; ties go to the lower index, so always exactly k."""
    rows = scores.detach().flatten(end_dim=-2).cpu().numpy()
    return torch.from_numpy(best(rows, k)).reshape(*scores.shape[:-1], k).to(scores.device)


def k_hot(indices: Tensor, d: int) -> Tensor:
    """Indices (..., k) as masks (..., d) of zeros and ones."""
    return torch.zeros(*indices.shape[:-1], d, device=indices.device).scatter_(-1, indices, 1.0)


def first_ranks(scores: Tensor, k: int, samples: int, generator: torch.Generator) -> Tensor:
    """The first k ranks of Plackett-Luce rankings, (samples, batch, k), one pick after the other: where a
    uniform number falls among the probabilities of what is left.

    Adding noise to each of d scores gives the same and takes, of thousands, ten times as long. Rows in which
    nearly everything is taken before the last pick have no exact digits left: they get their noise.
    """
    mass = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    ends = mass.cumsum(dim=-1, dtype=torch.float64)  # (batch, d)
    total = ends[:, -1:]
    drawn = torch.rand(len(scores), samples, k, generator=generator, device=scores.device, dtype=total.dtype)
    picks = torch.empty(len(scores), samples, 0, dtype=torch.long, device=scores.device)
    left = total.expand(-1, samples)
    exact = torch.ones(len(scores), dtype=torch.bool, device=scores.device)
    for j in range(k):
        exact &= (left > SOME_DIGITS * total).all(dim=-1)
        place = drawn[..., j] * left
        for taken in picks.sort(dim=-1).values.unbind(dim=-1):  # their shares are stepped over
            share = mass.gather(-1, taken)
            place = place + share * (place >= ends.gather(-1, taken) - share)
        pick = torch.searchsorted(ends, place, right=True).clamp_(max=scores.shape[-1] - 1)
        exact &= (pick[..., None] != picks).all(dim=-1).all(dim=-1)
        left = left - mass.gather(-1, pick)
        picks = torch.cat([picks, pick[..., None]], dim=-1)
    order = picks.movedim(1, 0)
    if not exact.all():
        rest = scores[~exact]
        order[:, ~exact] = (rest + gumbel((samples, *rest.shape), rest, generator)).topk(k).indices
    return order


def log_probability(scores: Tensor, order: Tensor, chosen: Tensor) -> Tensor:
    """log P(the chosen first ranks of `order`) under Plackett-Luce: each pick is a softmax over what is left.

    scores (batch, d), order (samples, batch, ranks) a ranking or its head, chosen (.., ranks) one for the
    ranks that count -> (samples, batch)
    """
    ordered = scores_at(scores, order)
    ranks = order.shape[-1]
    after = [] if ranks == scores.shape[-1] else [_log_rest(scores, order)[..., None]]
    # Σ exp over the ranks j .. d, as a running sum from the back: stable however peaked the scores are.
    left = torch.logcumsumexp(torch.cat([ordered, *after], dim=-1).flip(-1), dim=-1).flip(-1)[..., :ranks]
    # What may not be selected follows what may, and says nothing of the scores.
    return ((ordered - left) * chosen * (ordered > NEVER)).sum(-1)


def _log_rest(scores: Tensor, order: Tensor) -> Tensor:
    """log Σ exp(scores) over the features that are not in `order`, (samples, batch).

    As the difference of two sums, of which only the first has d terms, and that once for all samples. In
    float64, cut off at what still has some exact digits: features less likely than that are never drawn.
    """
    top = scores.detach().amax(dim=-1, keepdim=True)
    mass = (scores - top).double().exp()
    everything = mass.sum(dim=-1)
    rest = everything - scores_at(mass, order).sum(dim=-1)
    return rest.maximum(SOME_DIGITS * everything.detach()).log().to(scores.dtype) + top[:, 0]


def only_selectable(scores: Tensor, selectable: Tensor | None, never: float = NEVER) -> Tensor:
    """The scores, with `never` where nothing can be selected."""
    return scores if selectable is None else scores.masked_fill(~selectable, never)


def scores_at(scores: Tensor, indices: Tensor) -> Tensor:
    """The scores (batch, d) at indices (samples, batch, ranks): gathered from one copy of them, so that the
    gradient is summed into one."""
    samples, batch, ranks = indices.shape
    of_rows = scores.gather(-1, indices.movedim(0, 1).reshape(batch, samples * ranks))
    return of_rows.view(batch, samples, ranks).movedim(1, 0)
