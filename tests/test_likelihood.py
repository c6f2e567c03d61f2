"""The two kinds of answers: q is best where it says what the model says, and answers survive the way back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from l2x.learning._likelihood import Categorical, Gaussian, Likelihood

LOGITS = st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=1, max_size=5)


def distributions(logits: list[list[float]]) -> torch.Tensor:
    return torch.softmax(torch.tensor(logits), dim=-1)


@settings(deadline=None)
@given(model=LOGITS, other=LOGITS)
def test_nothing_says_the_models_answer_better_than_itself(
    model: list[list[float]], other: list[list[float]]
) -> None:
    """Gibbs: E_p log q is largest at q = p, by KL(p || q)."""
    n = min(len(model), len(other))
    p, q, likelihood = torch.tensor(model[:n]), torch.tensor(other[:n]), Categorical(3)
    target = distributions(model[:n])
    lost = likelihood.log_likelihood(p, target) - likelihood.log_likelihood(q, target)
    assert torch.allclose(lost, likelihood.divergence(p, q), atol=1e-4)
    assert (lost >= -1e-5).all()


def test_of_a_certain_answer_it_is_the_logarithm_of_its_probability() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    value = Categorical(3).log_likelihood(logits, torch.tensor([[0.0, 0.0, 1.0]]))
    assert value.item() == pytest.approx(torch.softmax(logits, dim=-1)[0, 2].log().item())


def test_a_model_that_is_certain_and_wrong_does_not_weigh_infinitely() -> None:
    said = Categorical(2).from_targets(torch.tensor([[1.0, 0.0]]))
    assert Categorical(2).log_likelihood(said, torch.tensor([[0.0, 1.0]])).item() == pytest.approx(
        np.log(1e-6)
    )


def test_means_are_standardised_and_the_loss_is_half_the_squared_error() -> None:
    answers = np.random.default_rng(0).normal([5, -2], [3, 0.1], size=(100, 2))
    likelihood = Gaussian.of(answers)
    target = likelihood.targets(answers)
    assert likelihood.outputs == 2
    assert torch.allclose(target.mean(dim=0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(target.std(dim=0, unbiased=False), torch.ones(2), atol=1e-5)
    assert torch.allclose(likelihood.log_likelihood(target + 1, target), torch.tensor(-1.0))
    assert torch.allclose(likelihood.divergence(target + 1, target), torch.tensor(1.0))


@settings(deadline=None)
@given(
    mean=st.floats(-1e9, 1e9).filter(lambda mean: abs(mean) > 1e-9),
    ulps=st.lists(st.integers(-2, 2), min_size=2, max_size=50),
    precision=st.sampled_from([np.float32, np.float64]),
)
def test_rounding_noise_around_a_constant_is_not_standardised(
    mean: float, ulps: list[int], precision: type[np.floating]
) -> None:
    """A regression that predicts one value, up to a few units in the last place, has nothing to explain."""
    constant = precision(mean)
    answers = (constant + np.array(ulps, precision) * np.spacing(constant)).astype(np.float64)[:, None]
    assert np.ptp(Gaussian.of(answers).targets(answers).numpy()) <= 1e-6


def test_a_small_spread_around_a_large_mean_is_a_signal() -> None:
    """Times in seconds since 1970, within a minute: far above the rounding of float64."""
    answers = 1.7e9 + np.random.default_rng(0).uniform(0, 60, size=(200, 1))
    likelihood = Gaussian.of(answers)
    assert likelihood.scale[0] == answers.std()
    assert likelihood.targets(answers).std(unbiased=False).item() == pytest.approx(1, abs=1e-5)


def test_a_mean_that_never_changes_can_be_learned() -> None:
    for mean in (0.0, 0.1, 7.0, 1e-200):
        answers = np.full((10, 1), mean)
        likelihood = Gaussian.of(answers)
        assert likelihood.scale[0] >= 1
        assert abs(likelihood.targets(answers)).max() < 1e-6


ANSWERS = np.random.default_rng(1).dirichlet([1, 1, 1], size=20)


@pytest.mark.parametrize("likelihood", [Categorical(3), Gaussian.of(ANSWERS)], ids=["classes", "means"])
def test_answers_survive_the_way_to_outputs_and_back(likelihood: Likelihood) -> None:
    target = likelihood.targets(ANSWERS)
    assert target.dtype == torch.float32
    outputs = likelihood.from_targets(target)
    assert outputs.shape == (20, likelihood.outputs)
    assert torch.allclose(likelihood.to_targets(outputs), target, atol=1e-5)
    assert np.allclose(likelihood.answers(outputs.numpy()), ANSWERS, atol=1e-5)


def test_both_are_found_by_name() -> None:
    assert Likelihood.by_name("Categorical") is Categorical
    assert Likelihood.by_name("Gaussian") is Gaussian


def test_evidence_of_a_class_is_its_log_odds() -> None:
    odds = torch.tensor([-3.0, 0.0, 5.0])
    log_p = torch.nn.functional.logsigmoid(odds)
    torch.testing.assert_close(Categorical(2).evidence(log_p), odds, rtol=1e-4, atol=1e-4)
    assert Categorical(2).evidence(torch.zeros(1)).isfinite().all()  # a certain answer
    assert Gaussian((0.0,), (1.0,)).evidence(odds).equal(odds)
