"""The encode-meter: a code in the index set is found, honest selections have none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from toy_models import one_column

import l2x
from l2x.errors import InputError
from l2x.evaluation import Encoding, FittedQ, encode_meter, fit_judge

TRAIN, TEST = (np.random.default_rng(seed).normal(size=(2000, 5)) for seed in (2, 3))
Meter = Callable[[np.ndarray, np.ndarray], Encoding]


@pytest.fixture(scope="module")
def meter(plan: l2x.TrainingPlan) -> Meter:
    """Of selections of the rows TRAIN and TEST."""
    judge = fit_judge(one_column, np.random.default_rng(1).normal(size=(3000, 5)), 2, training=plan)

    def measured(masks: np.ndarray, test_masks: np.ndarray) -> Encoding:
        return encode_meter(
            judge,
            TRAIN,
            masks,
            one_column(TRAIN),
            test_X=TEST,
            test_masks=test_masks,
            test_answers=one_column(TEST),
            plan=plan,
        )

    return measured


def code(X: np.ndarray) -> np.ndarray:
    """Features 3 and 4, or 2 and 3, by the sign of what decides: the index set is the answer."""
    left, right = np.isin(np.arange(5), [2, 3]), np.isin(np.arange(5), [3, 4])
    decides = one_column(X)[:, 1] > 0.5
    return np.where(decides[:, None], left, right)


def check(found: Encoding) -> None:
    assert found.divergence.min() >= -1e-6
    assert abs(found.control.mean()) < 0.02
    assert found.gain.shape == found.control.shape == found.divergence.shape == (2000,)
    assert found.outputs.shape == found.mask_only.shape == (2000, 2)


def test_a_code_that_values_do_not_hold_is_read(meter: Meter) -> None:
    state = torch.get_rng_state()
    found = meter(code(TRAIN), code(TEST))
    check(found)
    assert found.gain.mean() > 0.1
    assert (torch.get_rng_state() == state).all()


def test_selections_without_a_code_have_none(meter: Meter) -> None:
    def random(seed: int) -> np.ndarray:
        return np.random.default_rng(seed).random((2000, 5)).argsort(axis=1) < 2

    found = meter(random(0), random(1))
    check(found)
    assert abs(found.gain.mean()) < 0.02
    # The sets differ by class, but what they depend on is shown: honest.
    shown = [code(TRAIN), code(TEST)]
    for mask in shown:
        mask[:, 1] = True
    found = meter(shown[0], shown[1])
    check(found)
    assert abs(found.gain.mean()) < 0.02


def test_probes_start_from_a_network(
    fitted: l2x.Explainer, table: np.ndarray, short: l2x.TrainingPlan
) -> None:
    asking = l2x.Explainer(one_column, 1, value="model", training=short).fit(table).q_
    assert isinstance(asking, FittedQ)
    masks, answers = fitted.explain(table).mask, one_column(table)
    with pytest.raises(InputError, match="fit a judge with fit_judge"):
        encode_meter(
            asking, table, masks, answers, test_X=table, test_masks=masks, test_answers=answers, plan=short
        )
