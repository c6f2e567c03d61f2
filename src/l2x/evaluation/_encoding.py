"""The encode-meter: does the selected index set leak the answer, beyond the selected values?

An explanation encodes if the fact *that* S was selected tells something about the answer that x_S does not:
Y is not independent of [E(X) = S] given X_S (Puli, Nguyen and Ranganath 2024). Two probes measure it:

    g1(y | x_S, S)   fitted on the explainer's own selections: reads the values and the code
    g0(y | x_S)      fitted on the same masks, shuffled across rows: reads the values, the code is gone

E KL(g1 || g0) is the encode-meter. Shuffling keeps how often each subset is seen, so that g1 has no other
advantage; g0 sees a fresh shuffle in every batch, which leaves g1 a slight disadvantage rather than an
advantage. A network may be blind to the index set (one that takes the maximum over a text is): where a plain
regression on the mask alone predicts the answer better than g1, it stands for g1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.evaluation._mask_only import mask_only_outputs
from l2x.learning import FittedQ, NetworkQ, Rows, Run, TrainingPlan, fit_probe


@dataclass(frozen=True)
class Encoding:
    """What the choice of features adds to their values, for each of n rows, in nats.

    divergence : (n,) KL(g1 || g0), the encode-meter before averaging
    gain : (n,) log g1 - log g0 of the model's answer. Its mean is the encode-meter's too if both are exact; a
        g1 that fits badly lowers it, while it raises the divergence
    control : (n,) the gain of a second g0, which reads no code either, over the first: the noise of fitting
    outputs, mask_only : (n, outputs) of g1, and of the regression on the mask alone
    """

    divergence: Array
    gain: Array
    control: Array
    outputs: Array
    mask_only: Array


def encode_meter(
    judge: FittedQ,
    X: Any,
    masks: Array,
    answers: Array,
    *,
    test_X: Any,
    test_masks: Array,
    test_answers: Array,
    plan: TrainingPlan,
    seed: int = 0,
) -> Encoding:
    """KL(g1 || g0) on test rows, of probes that learn from the selections of other rows.

    Parameters
    ----------
    judge : a `fit_judge`, from which the probes start
    X, masks, answers : n rows, their selections (n, d), and the model's answers (n, outputs), to learn from
    test_X, test_masks, test_answers : the same of other rows, to measure on
    plan : as the judge's; the probes train for a quarter of the steps of its value phase
    seed : of g1 and g0; the second g0 has the next

    Returns
    -------
    An `Encoding`, row by row.

    Raises
    ------
    InputError
        If the judge is not a network.

    >>> from l2x.baselines import RandomK
    >>> from l2x.datasets import synthetic
    >>> from l2x.evaluation import fit_judge
    >>> data, plan = synthetic("xor", 300, seed=0), TrainingPlan.quick().with_steps(value=8)
    >>> judge = fit_judge(data.model, data.X, k=2, training=plan)
    >>> mask, answers = RandomK().explain(data.X, 2).mask, data.model(data.X)
    >>> test = {"test_X": data.X[200:], "test_masks": mask[200:], "test_answers": answers[200:]}
    >>> encode_meter(judge, data.X[:200], mask[:200], answers[:200], plan=plan, **test).gain.shape
    (100,)
    """
    network = judge.q
    if not isinstance(network, NetworkQ):
        raise InputError("The probes of the encode-meter start from a network: fit a judge with fit_judge.")
    view, likelihood = judge.view, network.likelihood
    rows = Rows(view, None, view.encode(view.check(X)), likelihood.targets(answers))
    selected = torch.from_numpy(masks).float()

    def outputs(*, shuffled: bool, seed: int) -> Tensor:
        """A probe's, for the test rows."""
        probe = fit_probe(network, rows, selected, Run.begin(plan, seed), shuffled=shuffled)
        return torch.from_numpy(FittedQ(view, probe).outputs(test_X, test_masks))

    g1, g0 = outputs(shuffled=False, seed=seed), outputs(shuffled=True, seed=seed)
    control = outputs(shuffled=True, seed=seed + 1)
    mask_only = mask_only_outputs(masks, answers, test_masks, likelihood)
    target = likelihood.targets(test_answers)
    if likelihood.log_likelihood(mask_only, target).mean() > likelihood.log_likelihood(g1, target).mean():
        g1 = mask_only
    log_g1, log_g0, log_control = (likelihood.log_likelihood(q, target).numpy() for q in (g1, g0, control))
    divergence = likelihood.divergence(g1, g0).numpy()
    return Encoding(divergence, log_g1 - log_g0, log_control - log_g0, g1.numpy(), mask_only.numpy())
