"""Samplers: masks have k ones, probabilities are right, gradients are those of the expected value."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import l2x
from l2x.learning._training import Phase
from l2x.learning.samplers import (
    NEVER,
    ConcreteMax,
    Evidence,
    PlackettLuce,
    Reinforce,
    RelaxedTopK,
    SoftAttention,
    first_ranks,
    gumbel,
    k_hot,
    log_probability,
    top_k,
)

sizes = st.integers(2, 12).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d)))
seeds = st.integers(0, 2**31)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(sizes, seeds)
@settings(max_examples=50, deadline=None)
def test_exact_samples_have_k_features(size: tuple[int, int], seed: int) -> None:
    d, k = size
    scores = 10 * torch.randn(7, d, generator=rng(seed))
    masks, log_p = PlackettLuce(samples=3).draw(scores, torch.full((7,), k), rng(seed))
    assert masks.shape == (3, 7, d)
    assert (masks.sum(-1) == k).all()
    assert ((masks == 0) | (masks == 1)).all()
    assert (log_p <= 1e-5).all()
    assert log_p.isfinite().all()


@given(sizes, seeds)
@settings(max_examples=50, deadline=None)
def test_relaxed_samples_stay_between_zero_and_one(size: tuple[int, int], seed: int) -> None:
    d, k = size
    scores = 30 * torch.randn(7, d, generator=rng(seed))
    for sampler in (ConcreteMax(), RelaxedTopK(), SoftAttention()):
        v = sampler.draw(scores, k, rng(seed))
        assert v.shape == (7, d)
        assert v.isfinite().all()
        assert (v >= 0).all()
        assert (v <= 1 + 1e-6).all()


@given(sizes, seeds)
@settings(max_examples=25, deadline=None)
def test_relaxed_becomes_hard_as_the_temperature_falls(size: tuple[int, int], seed: int) -> None:
    d, k = size
    scores = torch.randn(200, d, generator=rng(seed))
    # Keys closer than a few temperatures share a feature: a few of 200 rows may have such a pair.
    v = RelaxedTopK(temperature=1e-4).draw(scores, k, rng(seed))
    assert ((v < 1e-3) | (v > 1 - 1e-3)).float().mean() > 0.95
    v = ConcreteMax(temperature=1e-4).draw(scores, k, rng(seed))
    assert ((v < 1e-3) | (v > 1 - 1e-3)).float().mean() > 0.95
    assert (v.round().sum(-1) <= k).all()  # with replacement: at most k distinct features


def test_samples_follow_plackett_luce() -> None:
    scores = torch.tensor([[1.0, 0.0, -1.0]])
    masks, _ = PlackettLuce(samples=40_000).draw(scores, torch.tensor([2]), rng())
    p = torch.softmax(scores[0], 0)
    # P(feature 2 is left out) = P(order 0,1) + P(order 1,0)
    expected = p[0] * p[1] / (1 - p[0]) + p[1] * p[0] / (1 - p[1])
    # 40,000 draws: standard error below 0.0025; four of them
    assert 1 - masks[:, 0, 2].mean() == pytest.approx(expected.item(), abs=0.01)


@pytest.mark.parametrize("sampler", [PlackettLuce(8, explore=(0, 0), other_sizes=0), Reinforce(8)])
def test_score_function_gradient_is_unbiased(sampler: PlackettLuce | Reinforce) -> None:
    """Against the exact gradient, by enumerating every ordered pair (with replacement for Reinforce).

    PlackettLuce divides advantages by their spread, so its gradient is compared in direction.
    """
    d, k = 3, 2
    worth = torch.tensor([1.0, -0.5, 2.0])

    def value(masks: torch.Tensor) -> torch.Tensor:
        return (masks * worth).sum(-1) + masks[..., 0] * masks[..., 1]

    scores = torch.tensor([[0.3, -0.2, 0.1]], requires_grad=True)
    log_p = torch.log_softmax(scores[0], 0)
    total = torch.zeros(())
    for i in range(d):
        for j in range(d):
            if isinstance(sampler, PlackettLuce):
                if i == j:
                    continue
                left = torch.log1p(-log_p[i].exp())
                weight = (log_p[i] + log_p[j] - left).exp()
            else:
                weight = (log_p[i] + log_p[j]).exp()
            total = total + weight * value(k_hot(torch.tensor([i, j]), d))
    (exact,) = torch.autograd.grad(total, scores)

    # 10,000 rows of the same scores, 8 samples each: standard error about 0.01, tolerance five of them
    many = scores.detach().repeat(10_000, 1).requires_grad_()
    (estimate,) = torch.autograd.grad(sampler.objective(many, k, value, rng()), many)
    unit = torch.nn.functional.normalize
    assert torch.allclose(unit(estimate.sum(0), dim=0), unit(exact[0], dim=0), atol=0.05)
    if isinstance(sampler, Reinforce):
        assert torch.allclose(estimate.sum(0), exact[0], atol=0.05)


@pytest.mark.parametrize(
    "sampler", [ConcreteMax(), RelaxedTopK(), SoftAttention(), PlackettLuce(), Reinforce()]
)
def test_every_sampler_finds_the_best_feature(sampler: ConcreteMax) -> None:
    scores = torch.zeros(1, 4, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.1)
    generator = rng()
    for _ in range(150):
        optimizer.zero_grad()
        objective = sampler.objective(scores.expand(50, 4), 1, lambda m: 3 * m[..., 2] - m[..., 0], generator)
        (-objective).backward()
        optimizer.step()
    assert scores.argmax().item() == 2


def test_samplers_leave_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    PlackettLuce().draw(torch.zeros(2, 3), torch.ones(2), rng())
    ConcreteMax().draw(torch.zeros(2, 3), 1, rng())
    assert torch.equal(before, torch.random.get_rng_state())


def test_scores_that_are_all_but_certain_have_finite_gradients() -> None:
    scores = torch.zeros(5, 100)
    scores[:, :3] = 200.0
    scores[:, 50:] = NEVER
    scores.requires_grad_()
    masks, log_p = PlackettLuce().draw(scores, torch.tensor([3, 3, 4, 50, 60]), rng())
    assert masks[:, :, :3].all()
    assert log_p.isfinite().all()
    assert torch.autograd.grad(log_p.sum(), scores)[0].isfinite().all()


def test_many_features_are_drawn_with_the_right_probability() -> None:
    """Gumbel noise from uniform numbers: the first of 100 features follows the softmax of the scores."""
    scores = torch.linspace(-1, 1, 100)[None]
    masks, _ = PlackettLuce(samples=40_000).draw(scores, torch.tensor([1]), rng())
    # 40,000 draws: standard errors below .0008; five of them
    assert torch.allclose(masks[:, 0].mean(dim=0), torch.softmax(scores[0], 0), atol=0.004)


def test_the_best_of_many_features_is_found() -> None:
    scores = torch.zeros(1, 100, requires_grad=True)
    optimizer, generator = torch.optim.Adam([scores], lr=0.1), rng()
    for _ in range(60):
        optimizer.zero_grad()
        value = PlackettLuce().objective(
            scores.expand(64, 100), 2, lambda m: 3 * m[..., 70], generator, progress=0.5
        )
        (-value).backward()
        optimizer.step()
    assert scores.argmax().item() == 70


def test_two_of_many_features_that_matter_only_together_are_found() -> None:
    # One pair of 4,950: training starts with subsets of any size, and forty such steps suffice.
    left = torch.arange(64) < 32
    scores = torch.zeros(64, 100, requires_grad=True)
    optimizer, generator = torch.optim.Adam([scores], lr=0.1), rng()

    def value(masks: torch.Tensor) -> torch.Tensor:
        return torch.where(left, masks[..., 0] * masks[..., 1], 3 * masks[..., 2])

    for _ in range(40):
        optimizer.zero_grad()
        (-PlackettLuce(samples=8).objective(scores, 2, value, generator)).backward()
        optimizer.step()
    assert set(scores[left].mean(dim=0).topk(2).indices.tolist()) == {0, 1}
    assert scores[~left].mean(dim=0).argmax() == 2


def evaluated_masks(
    sampler: PlackettLuce | Evidence, scores: torch.Tensor, k: int, progress: float = 0.0
) -> torch.Tensor:
    """Return the masks that a sampler evaluates in a step."""
    found: list[torch.Tensor] = []

    def value(masks: torch.Tensor) -> torch.Tensor:
        found.append(masks)
        return masks[..., 0]

    sampler.objective(scores, k, value, rng(), progress)
    (masks,) = found
    return masks


def test_some_subsets_of_many_features_have_fewer_than_k() -> None:
    """Otherwise nothing would order the first k: by chance one in 25 sizes up to 100 is below 5."""
    numbers = evaluated_masks(PlackettLuce(), torch.zeros(1000, 100), 5, progress=0.5).sum(dim=-1)
    assert ((numbers >= 1) & (numbers < 5)).float().mean().item() == pytest.approx(1 / 16, abs=0.005)
    assert (numbers > 5).float().mean().item() == pytest.approx(1 / 16, abs=0.005)
    assert (numbers == 5).float().mean().item() == pytest.approx(7 / 8, abs=0.005)


@pytest.mark.parametrize(("progress", "size"), [(0.17, 16), (0.25, 11), (0.34, 5), (1.0, 5)])
def test_the_size_of_subsets_of_many_features_is_annealed_to_k(progress: float, size: int) -> None:
    sizes = evaluated_masks(PlackettLuce(), torch.zeros(400, 100), 5, progress).sum(dim=-1)
    assert sizes.mode().values.unique().tolist() == [size]


def test_at_first_subsets_of_many_features_come_with_their_complements() -> None:
    scores = torch.zeros(3, 70)
    scores[1, 40:] = NEVER
    masks = evaluated_masks(PlackettLuce(samples=5), scores, 3)
    assert torch.equal(masks[:2] + masks[3:], (scores > NEVER).float().expand(2, 3, 70))


def test_evidence_is_maximal_at_additive_scores() -> None:
    """With v(S) = Σ_{i in S} c_i the scores c, up to a constant, explain all; others do not."""
    c = torch.tensor([3.0, -1.0, 0.5, 0.0])

    def adds_up(masks: torch.Tensor) -> torch.Tensor:
        return (masks * c).sum(dim=-1) + 7

    rows = c.expand(50, 4)
    assert Evidence().objective(rows + 2, 2, adds_up, rng()).item() == pytest.approx(0, abs=1e-9)
    assert Evidence().objective(torch.zeros(50, 4), 2, adds_up, rng()).item() == pytest.approx(-1)


def test_evidence_evaluates_k_features_or_all_selectable_ones() -> None:
    scores = torch.zeros(2, 6)
    scores[1, 2:] = NEVER
    masks = evaluated_masks(Evidence(subsets=5), scores, 3)
    assert masks[:, 0].sum(dim=-1).tolist() == [3] * 5
    assert masks[:, 1].tolist() == [[1, 1, 0, 0, 0, 0]] * 5


def test_evidence_finds_the_features_that_support_the_prediction() -> None:
    """Log-odds that are the sum of all columns: each column's evidence is its own value.

    A small network of few steps: at least nine rows of ten are exact, of 15 subsets.
    """

    def sums(X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-np.asarray(X, dtype=float).sum(axis=1)))
        return np.stack([1 - p, p], axis=1)

    generator = np.random.default_rng(0)
    X, new = generator.normal(size=(3000, 6)), generator.normal(size=(500, 6))
    explainer = l2x.Explainer(
        sums, 2, features=l2x.Columns(masking="zero", standardize=False), objective="model",
        uses_prediction=True, target="class", sampler=Evidence(),
        training=l2x.TrainingPlan(selector=Phase(300, 1e-2, 256, averaging=0.9), progress=False),
    ).fit(X)  # fmt: skip
    sign = np.where(new.sum(axis=1) > 0, 1.0, -1.0)
    largest = np.sort((sign[:, None] * new).argsort(axis=1)[:, -2:], axis=1)
    assert (np.sort(explainer.explain(new).indices, axis=1) == largest).all(axis=1).mean() > 0.9


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
def test_the_first_ranks_are_as_likely_as_in_the_full_ranking(spread: float) -> None:
    """Log probabilities and gradients do not depend on whether the other ranks are in order."""
    scores = (spread * torch.randn(6, 90, generator=rng())).requires_grad_()
    order = (scores + gumbel((3, 6, 90), scores, rng())).argsort(dim=-1, descending=True)
    chosen = (torch.arange(90) < 4).float().expand_as(order)
    whole = log_probability(scores, order, chosen)
    head = log_probability(scores, order[..., :7], chosen[..., :7])
    assert torch.allclose(head, whole, atol=1e-4)
    expected, found = (torch.autograd.grad(log_p.sum(), scores)[0] for log_p in (whole, head))
    assert torch.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(("ranks", "spread"), [(6, 3.0), (3, 3.0), (6, 50.0)])
def test_the_gradient_of_log_probabilities_is_that_of_a_softmax_per_pick(ranks: int, spread: float) -> None:
    """The closed form agrees with automatic differentiation of the definition, for all or the first ranks,
    and also where the last features of a whole ranking are very unlikely."""
    scores = (spread * torch.randn(5, 6, generator=rng())).requires_grad_()
    order = torch.stack([torch.randperm(6, generator=rng()) for _ in range(20)]).view(4, 5, 6)[..., :ranks]
    counted = torch.tensor([[1], [2], [ranks], [2], [0]])
    chosen = (torch.arange(ranks) < counted).float().expand(4, 5, ranks)
    weight = torch.randn(4, 5, generator=rng())
    defined, left = torch.zeros(4, 5), scores.expand(4, 5, 6)
    for j in range(ranks):
        pick = order[..., j : j + 1]
        defined = defined + chosen[..., j] * torch.log_softmax(left, dim=-1).gather(-1, pick)[..., 0]
        left = left.scatter(-1, pick, -torch.inf)
    found = log_probability(scores, order, chosen)
    assert torch.allclose(found, defined, atol=1e-5, rtol=1e-5)
    gradients = [torch.autograd.grad((weight * log_p).sum(), scores)[0] for log_p in (found, defined)]
    assert torch.allclose(*gradients, atol=1e-5)


def test_first_ranks_follow_plackett_luce() -> None:
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
