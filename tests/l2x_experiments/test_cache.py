"""Keys of the cache change with everything that weights depend on, and with nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from l2x.learning._training import Phase, TrainingPlan
from l2x_experiments import cache
from l2x_experiments.cache import cached_network, fingerprint, plan_key


@dataclass(frozen=True)
class LaterPhase(Phase):
    """A phase with a field that a later version may add."""

    momentum: float = 0.9


@dataclass(frozen=True)
class LaterPlan(TrainingPlan):
    restarts: int = 0


def test_a_new_field_with_a_default_and_a_renamed_class_leave_the_key_unchanged() -> None:
    later = LaterPlan(value=LaterPhase(**vars(TrainingPlan().value)))
    assert plan_key(later) == plan_key(TrainingPlan())


def test_a_new_field_that_is_used_changes_the_key() -> None:
    assert plan_key(LaterPlan(restarts=2)) != plan_key(TrainingPlan())
    assert plan_key(LaterPlan(value=LaterPhase(10, 1e-3, momentum=0.5))) != plan_key(
        LaterPlan(value=LaterPhase(10, 1e-3))
    )


@pytest.mark.parametrize(
    "change",
    [{"steps": 7}, {"learning_rate": 0.5}, {"batch_size": 3}, {"optimizer": "rmsprop"}, {"averaging": 0.5}],
)
def test_settings_that_training_depends_on_change_the_key(change: dict[str, Any]) -> None:
    plan = TrainingPlan()
    assert plan_key(replace(plan, value=replace(plan.value, **change))) != plan_key(plan)


def test_settings_that_training_does_not_depend_on_do_not() -> None:
    plan = TrainingPlan()
    same = replace(plan.with_steps(selector=3), progress=not plan.progress, threads=7)
    assert plan_key(same) == plan_key(plan)


def test_fingerprints_of_data() -> None:
    X = np.arange(6.0)
    assert fingerprint(X) == fingerprint(X.copy())
    assert len({fingerprint(X), fingerprint(X[::-1]), fingerprint(X, X), fingerprint(["a", "b"])}) == 4


def test_a_network_is_trained_once_for_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[nn.Module] = []

    def train() -> nn.Module:
        trained.append(nn.Linear(2, 1))
        return trained[-1]

    first = cached_network("some", {"steps": 3, "seed": 0}, nn.Linear(2, 1), train)
    again = cached_network("some", {"seed": 0, "steps": 3}, nn.Linear(2, 1), train)
    assert len(trained) == 1
    assert torch.equal(first.weight, again.weight)
    assert not again.weight.requires_grad
    cached_network("some", {"steps": 4, "seed": 0}, nn.Linear(2, 1), train)
    assert len(trained) == 2
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    cached_network("some", {"steps": 3, "seed": 0}, nn.Linear(2, 1), train)
    assert len(trained) == 3
    assert len(list((tmp_path / "cache" / "models").iterdir())) == 3


def test_a_key_never_holds_an_object() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        cached_network("some", {"plan": TrainingPlan()}, nn.Linear(2, 1), lambda: nn.Linear(2, 1))
