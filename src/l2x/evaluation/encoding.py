"""Whether the places of the selected features say more than their values: a code for the answer.

An explanation encodes if the fact *that* S was selected tells something about the answer that x_S does not:
Y is not independent of [E(X) = S] given X_S (Puli, Nguyen and Ranganath 2024). Two networks measure it:

    g1(y | x_S, S)   fitted on the explainer's own selections: reads values and code
    g0(y | x_S)      fitted on the same selections dealt to other rows: reads the values, the code is gone

E KL(g1 || g0) is the encode-meter. Dealing keeps how often each subset is seen, so that g1 has no other
advantage; g0 sees fresh deals in every batch, which leaves g1 a slight disadvantage rather than an advantage.
A network may be blind to places (one that takes the maximum over a text is): where a plain regression on the
mask alone reads the answer better than g1, it stands for g1.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x.data import Rows, split
from l2x.errors import InputError
from l2x.foundations.arrays import Array
from l2x.likelihood import Gaussian, Response
from l2x.training import History, TrainingPlan, optimise
from l2x.values import FittedValue, NetworkValue, log_value

# The readers start from the judge, which knows values already: a quarter of its steps, a third of its rate.
SHORTER, SLOWER = 4, 3
# A regression on masks is never surer than this that a class is impossible.
SMALLEST = 1e-4


@dataclass(frozen=True)
class Encoding:
    """What the places add to the values, for each row that was measured, in nats.

    divergence : KL(g1 || g0), the encode-meter before averaging
    gain : log g1 - log g0 of the model's answer. Its mean is the encode-meter's too if both are exact; a g1
        that fits badly lowers it, while it raises the divergence
    control : the gain of a second g0, which reads no code either, over the first: the noise of fitting
    outputs, places : of g1, and of the reader of the mask alone, (n, outputs), to see how well they read
    """

    divergence: Array
    gain: Array
    control: Array
    outputs: Array
    places: Array


def encode_meter(
    judge: FittedValue,
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
    """E KL(g1 || g0) on test rows, of readers that learn from the selections `masks` of rows X.

    The readers start from `judge`, a q(y | x_S, S) fitted on random subsets.
    """
    rows, response = rows_of(judge, X, answers), judge.value.response
    masks_ = torch.from_numpy(masks).float()

    def fitted(*, dealt: bool, seed: int) -> FittedValue:
        predictor = _fit_reader(judge, rows, masks_, dealt=dealt, plan=plan, seed=seed)
        return FittedValue(judge.view, NetworkValue(predictor, response))

    g1, g0 = fitted(dealt=False, seed=seed), fitted(dealt=True, seed=seed)
    control = fitted(dealt=True, seed=seed + 1)
    g1_, g0_, control_ = (torch.from_numpy(g.outputs(test_X, test_masks)) for g in (g1, g0, control))
    places = read_places(masks, answers, test_masks, response)
    target = response.encode(test_answers)
    if response.log_likelihood(places, target).mean() > response.log_likelihood(g1_, target).mean():
        g1_ = places
    log_g1, log_g0, log_control = (response.log_likelihood(o, target).numpy() for o in (g1_, g0_, control_))
    divergence = response.divergence(g1_, g0_).numpy()
    return Encoding(divergence, log_g1 - log_g0, log_control - log_g0, g1_.numpy(), places.numpy())


def read_places(masks: Array, answers: Array, test_masks: Array, response: Response) -> Tensor:
    """What a linear or logistic regression says that sees only which features were selected, (n, outputs)."""
    if isinstance(response, Gaussian):
        from sklearn.linear_model import Ridge

        means = Ridge().fit(masks, response.encode(answers).numpy()).predict(test_masks)
        return torch.from_numpy(np.asarray(means, dtype=np.float32).reshape(len(test_masks), -1))
    shares = np.full((len(test_masks), answers.shape[1]), SMALLEST)
    classes = answers.argmax(axis=1)
    known = np.unique(classes)
    if len(known) == 1:
        shares[:, known] = 1.0
    else:
        shares[:, known] = _reader_of_masks(masks, classes).predict_proba(test_masks)
    return torch.from_numpy(np.log(np.maximum(shares, SMALLEST)).astype(np.float32))


def rows_of(judge: FittedValue, X: Any, answers: Array) -> Rows:
    """Rows and the model's answers as the judge's networks read them."""
    x = judge.view.encode(judge.view.check(X))
    return Rows(judge.view, None, x, judge.value.response.encode(answers))


def _fit_reader(
    judge: FittedValue, rows: Rows, masks: Tensor, *, dealt: bool, plan: TrainingPlan, seed: int
) -> nn.Module:
    """A copy of the judge that goes on learning from these selections, or from these dealt to other rows."""
    assert isinstance(judge.value, NetworkValue)
    value = NetworkValue(copy.deepcopy(judge.value.predictor).requires_grad_(True), judge.value.response)
    learn, hold = (
        torch.from_numpy(i) for i in split(len(rows), 0.1, plan.validation_rows, np.random.default_rng(seed))
    )
    generator = torch.Generator().manual_seed(seed)
    train, held, train_masks, held_masks = rows[learn], rows[hold], masks[learn], masks[hold]
    if dealt:
        held_masks = held_masks[torch.randperm(len(held_masks), generator=generator)]
        held_masks = _on(held, held_masks)

    def objective(index: Tensor, _: float) -> Tensor:
        some = train[index]
        if not dealt:
            return log_value(value, some, train_masks[index][None]).mean()
        places = torch.randint(len(train), (len(index),), generator=generator)
        return log_value(value, some, _on(some, train_masks[places])[None]).mean()

    def validate(predictor: nn.Module) -> Tensor:
        with torch.no_grad():
            return log_value(NetworkValue(predictor, value.response), held, held_masks[None])[0]

    phase = replace(
        plan.value, steps=max(1, plan.value.steps // SHORTER), learning_rate=plan.value.learning_rate / SLOWER
    )
    history: History = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        optimise(
            value.predictor, objective, validate, phase=phase, plan=plan, n=len(train), generator=generator,
            label="reading the places", history=history,
        )  # fmt: skip
    return value.predictor


def _on(rows: Rows, masks: Tensor) -> Tensor:
    """Masks of other rows without what cannot be selected in these, such as padding."""
    selectable = rows.view.selectable(rows.x)
    return masks if selectable is None else masks * selectable


def mask_only_accuracy(
    train_masks: Array, train_answers: Array, masks: Array, answers: Array, *, strength: float = 1.0
) -> float:
    """The accuracy of a logistic regression that sees only which features were selected.

    Fitted on the selections and predicted classes of training rows, measured on others. Near the share of
    the most frequent class the places say nothing; near one they may be a code for the answer, or the answer
    may truly lie in different places for different classes: then the judge confirms the selection.

    >>> left, right = [True, False], [False, True]
    >>> masks, answers = np.array([left, right] * 20), np.array([0, 1] * 20)
    >>> mask_only_accuracy(masks, answers, masks, answers)
    1.0
    """
    if len(train_masks) != len(train_answers) or len(masks) != len(answers):
        raise InputError(
            f"{len(train_masks)} and {len(masks)} masks for {len(train_answers)} and {len(answers)} answers."
        )
    return float((mask_only_classes(train_masks, train_answers, masks, strength=strength) == answers).mean())


def mask_only_classes(
    train_masks: Array, train_answers: Array, masks: Array, *, strength: float = 1.0
) -> Array:
    """The class that a logistic regression guesses from the places alone, for each row."""
    if len(np.unique(train_answers)) == 1:
        return np.full(len(masks), train_answers[0])
    return np.asarray(_reader_of_masks(train_masks, train_answers, strength).predict(masks))


def _reader_of_masks(masks: Array, classes: Array, strength: float = 1.0) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # A few steps short of the optimum changes nothing that is read off here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=strength, max_iter=300).fit(masks, classes)
