"""Rankings drawn from scores: as likely as Plackett-Luce has them, of few features and of many."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from l2x.learning._plackett_luce import NEVER, first_ranks, gumbel, log_probability, top_k


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_log_probabilities_of_all_orders_sum_to_one() -> None:
    scores = torch.tensor([[2.0, -1.0, 0.5, 5.0]])
    orders = torch.tensor(list(permutations(range(4))))[:, None]  # (24, 1, 4)
    assert log_probability(scores, orders, torch.ones(4)).exp().sum().item() == pytest.approx(1, abs=1e-5)
    # the first two alone: each ordered pair appears in two of the 24 complete orders
    first = torch.tensor([1.0, 1.0, 0.0, 0.0])
    assert log_probability(scores, orders, first).exp().sum().item() == pytest.approx(2, abs=1e-5)


def test_ties_give_exactly_k_and_go_to_the_lower_index() -> None:
    assert top_k(torch.zeros(2, 5), 3).tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_the_head_of_a_ranking_is_as_likely_as_in_the_whole(spread: float) -> None:
    """The same log probabilities and gradients, whether the other ranks are summed up in order or at once."""
    scores = (spread * torch.randn(6, 90, generator=rng())).requires_grad_()
    order = (scores + gumbel((3, 6, 90), scores, rng())).argsort(dim=-1, descending=True)
    chosen = (torch.arange(90) < 4).float().expand_as(order)
    whole = log_probability(scores, order, chosen)
    head = log_probability(scores, order[..., :7], chosen[..., :7])
    assert torch.allclose(head, whole, atol=1e-4)
    expected, found = (torch.autograd.grad(log_p.sum(), scores)[0] for log_p in (whole, head))
    assert torch.allclose(found, expected, atol=1e-4)


def test_first_ranks_are_as_likely_as_plackett_luce_has_them() -> None:
    """All 60 ordered triples of five features: the share of each of 200,000 draws is its probability, within
    five standard errors."""
    scores, n = torch.tensor([[1.0, 0.0, -1.0, 2.0, 0.5]]), 200_000
    triples = torch.tensor(list(permutations(range(5), 3)))
    expected = log_probability(scores, triples[:, None], torch.ones(60, 1, 3)).exp()[:, 0]
    drawn = first_ranks(scores, 3, n, rng())[:, 0]
    code = torch.tensor([25, 5, 1])
    found = torch.bincount(drawn @ code, minlength=125)[triples @ code] / n
    assert found.sum() == pytest.approx(1)
    assert ((found - expected).abs() < 5 * (expected * (1 - expected) / n).sqrt()).all()


def test_first_ranks_never_repeat_a_feature_however_certain_the_scores_are() -> None:
    scores = torch.randn(50, 300, generator=rng()) * torch.logspace(-1, 3, 50)[:, None]
    scores[:, 200:] = NEVER
    order = first_ranks(scores, 8, 4, rng())
    assert order.shape == (4, 50, 8)
    assert (order.sort(dim=-1).values.diff(dim=-1) > 0).all()
    assert (order < 200).all()
