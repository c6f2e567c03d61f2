"""The experiment on effects in miniature."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.datasets import synthetic
from l2x_experiments import effects
from l2x_experiments.runner import run


def test_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("shap")
    few = replace(effects.QUICK, train_rows=300, test_rows=12, value_steps=5, selector_steps=5)
    monkeypatch.setattr(effects, "QUICK", few)
    whole = effects.experiment(quick=True, seeds=1)
    assert {job["part"] for job in whole.jobs} == {*effects.MEASURES}
    jobs = [job for job in whole.jobs if job["set"] == "xor"]
    records = run(replace(whole, jobs=jobs, fetch=lambda _: None), tmp_path, progress=False)
    assert [record["measure"] for record in records] == [job["measure"] for job in jobs]
    for record in records:
        assert {"value", "goal", "holds", "seed", "machine"} <= record.keys()
        assert (record["goal"] is None) == (record["holds"] is None)
    assert records.select(measure="largest error of the identity")[0]["holds"]
    assert records.select(measure="mean absolute error of Kernel SHAP, 1,000 samples")[0]["value"] < 0.01
    page = effects.report(records).write(tmp_path).read_text()
    assert "xor code" in page


def test_exact_effects_of_a_known_game() -> None:
    """For P(1|x) = expit(x1 x2), E[P | x1] is 1/2 by symmetry, so both effects are half of P - 1/2.

    The mean over 4,000 background rows has a standard error below 0.008.
    """
    data = synthetic("xor", 20, seed=0)
    scores = np.tile([2.0, 1.0, *[0.0] * 8], (20, 1))
    explanation = l2x.Explanation(scores, 2, [f"x{i}" for i in range(10)], inputs=data.X)
    background = synthetic("xor", 4000, seed=1).X
    found = effects.conditional_effects(data.model, background, explanation)
    expected = (data.model(data.X).max(axis=1) - 0.5) / 2
    np.testing.assert_allclose(found, np.stack([expected, expected], axis=1), atol=0.03)


def test_kernel_shap_is_exact_if_it_evaluates_every_subset() -> None:
    pytest.importorskip("shap")
    game = np.random.default_rng(0).random((16, 1))
    found = effects.kernel_shap(game[:, 0], 4, 1000, seed=0)
    np.testing.assert_allclose(found, l2x.learning.shapley_values(game, 4)[0], atol=1e-6)


@pytest.mark.parametrize(("how", "value", "reached"), [("at least", 0.5, True), ("below", 0.5, False)])
def test_goals(how: str, value: float, reached: bool) -> None:
    assert effects.Goal(how, 0.5).reached(value) is reached
