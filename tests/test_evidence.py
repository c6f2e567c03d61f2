"""Scores that begin with the evidence that each feature gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import l2x
from l2x.data import Rows
from l2x.evidence import SUBSETS, _subsets
from l2x.features.words import Words
from l2x.likelihood import Categorical, Gaussian
from l2x.training import Phase

PLAN = l2x.TrainingPlan(
    Phase(1, 1e-3), Phase(1, 1e-9), evidence=Phase(300, 1e-2, batch_size=256, averaging=0.9),
    evaluations=5, progress=False,
)  # fmt: skip


def adds_up(X: np.ndarray) -> np.ndarray:
    """Log-odds that are the sum of all columns: each column's evidence is its own value."""
    p = 1 / (1 + np.exp(-np.asarray(X, dtype=float).sum(axis=1)))
    return np.stack([1 - p, p], axis=1)


def test_scores_are_the_evidence_for_the_answer(tmp_path: Path) -> None:
    """The selector itself does not learn here (one step, no rate): what it knows, the regression taught it.

    Ties and a network of few steps cost some rows: at least nine of ten are exact, of 15 subsets.
    """
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(3000, 6)), rng.normal(size=(500, 6))
    explainer = l2x.Explainer(
        adds_up, 2, features=l2x.Columns(removal="zero", standardize=False), value="model", sees_answer=True,
        answer="class", training=PLAN,
    ).fit(X)  # fmt: skip
    sign = np.where(new.sum(axis=1) > 0, 1.0, -1.0)
    largest = np.sort((sign[:, None] * new).argsort(axis=1)[:, -2:], axis=1)
    chosen = np.sort(explainer.explain(new).indices, axis=1)
    assert (chosen == largest).all(axis=1).mean() > 0.9
    assert "weighing the evidence" in {entry["phase"] for entry in explainer.history_}
    assert l2x.load(explainer.save(tmp_path / "e.l2x")).training == PLAN


def test_subsets_have_k_features_or_all_that_there_are() -> None:
    view = Words(length=6, vocabulary=20).fit(["one two three four five six seven"])
    x = view.encode(view.check(["one two three four five six", "two three"]))
    masks = _subsets(Rows(view, None, x, torch.zeros(2, 1)), 3, torch.Generator().manual_seed(0))
    assert masks.shape == (SUBSETS, 2, 6)
    assert masks[:, 0].sum(dim=-1).tolist() == [3] * SUBSETS
    assert masks[:, 1].tolist() == [[1, 1, 0, 0, 0, 0]] * SUBSETS


def test_evidence_adds_up() -> None:
    odds = torch.tensor([-3.0, 0.0, 5.0])
    log_p = torch.nn.functional.logsigmoid(odds)
    torch.testing.assert_close(Categorical(2).evidence(log_p), odds, rtol=1e-4, atol=1e-4)
    assert Categorical(2).evidence(torch.zeros(1)).isfinite().all()
    assert Gaussian((0.0,), (1.0,)).evidence(odds).equal(odds)


def test_a_plan_without_the_phase_has_no_steps_of_it() -> None:
    assert PLAN.with_steps(evidence=7).evidence == replace(PLAN.evidence, steps=7)  # type: ignore[type-var]
    with pytest.raises(l2x.InputError, match="no phase 'evidence'"):
        l2x.TrainingPlan().with_steps(evidence=7)
