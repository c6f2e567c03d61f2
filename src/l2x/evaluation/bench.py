"""What all parts of a report card share: the rows, the model's answers, the judge, chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from l2x.baselines.method import selectable_units
from l2x.blackbox import BlackBox
from l2x.evaluation.bootstrap import Bootstrap, Estimate
from l2x.evaluation.information import entropy_bits
from l2x.evaluation.subject import Subject
from l2x.explanation import Explanation
from l2x.features.view import View
from l2x.foundations.arrays import Array
from l2x.training import TrainingPlan
from l2x.values import FittedValue

BITS = 1 / np.log(2)
CHANCE = 0x6368616E6365
# Bits below which there is nothing to know about the answer: it hardly varies.
NOTHING = 0.005


@dataclass(frozen=True)
class Bench:
    """What all parts share."""

    black_box: BlackBox
    view: View
    X_train: Any
    X_test: Any
    answers: Array  # of the model for X_test
    judge: FittedValue
    plan: TrainingPlan
    subject: Subject
    boot: Bootstrap
    seed: int
    ask_seconds: float  # for all test rows

    @property
    def classifies(self) -> bool:
        return self.black_box.task == "classification"

    @property
    def explanation(self) -> Explanation:
        return self.subject.explanation

    @cached_property
    def selectable(self) -> Array:
        """(n, d): what is there to be selected in each test row; padding is not."""
        found = selectable_units(self.view, self.X_test)
        return np.ones_like(self.explanation.mask) if found is None else found

    @cached_property
    def available(self) -> float:
        """All there is to know, in nats: I(X; Y), or half the variance of standardised means."""
        if not self.classifies:
            target = self.judge.value.response.encode(self.answers)
            return 0.5 * float(target.var(dim=0, correction=0).sum())
        bits = entropy_bits(self.answers.mean(axis=0)) - entropy_bits(self.answers).mean()
        return float(bits / BITS)

    def share(self, bits: Estimate) -> Estimate:
        """Of all there is to know; no figure where that is nothing."""
        there = self.available * BITS
        return bits.scaled(1 / there) if there >= NOTHING else Estimate(float("nan"))

    def agreement(self, guesses: Array, answers: Array | None = None) -> Estimate:
        """The share of rows with the model's own answer; for regression, R²."""
        answers = self.answers if answers is None else answers
        boot = self.boot if len(answers) == len(self.answers) else Bootstrap(len(answers), seed=self.seed)
        if self.classifies:
            return boot.mean(guesses.argmax(axis=1) == answers.argmax(axis=1))
        errors = np.square(guesses - answers).sum(axis=1)
        return boot.ratio(errors, np.square(answers - answers.mean(axis=0)).sum(axis=1), one_minus=True)

    @property
    def measure(self) -> str:
        return "accuracy" if self.classifies else "R²"

    def as_answers(self, outputs: Array) -> Array:
        """A judge's outputs in the units of the model's answers; classes need only their order."""
        response = self.judge.value.response
        if self.classifies:
            return outputs
        return outputs * np.asarray(response.scale) + np.asarray(response.mean)  # type: ignore[attr-defined]

    @cached_property
    def log_marginal(self) -> Array:
        """log q(y) of each row from the mean answer alone, in nats."""
        target = self.judge.value.response.encode(self.answers).numpy()
        if self.classifies:
            return np.asarray(target @ np.log(np.maximum(self.answers.mean(axis=0), 1e-12)))
        return np.asarray(-0.5 * np.square(target - target.mean(axis=0)).sum(axis=1))

    def captured(self, mask: Array) -> float:
        """Bits that the judge finds in a selection."""
        told = self.judge.log_q(self.X_test, mask, self.answers) - self.log_marginal
        return float(told.mean() * BITS)

    @cached_property
    def random_masks(self) -> Array:
        """As many features as each row's selection has, at random among those that may be selected."""
        # A stream of its own: a method with the same seed must not look like chance, or like its opposite.
        noise = np.random.default_rng((self.seed, CHANCE)).random(self.explanation.mask.shape)
        ranks = np.where(self.selectable, noise, 2.0).argsort(axis=1).argsort(axis=1)
        return np.asarray(ranks < self.explanation.mask.sum(axis=1, keepdims=True))
