"""Keys of the cache: they change with what weights depend on, and with nothing else."""

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
from l2x_experiments.cache import fingerprint, remembered, value_key


@dataclass(frozen=True)
class LaterPhase(Phase):
    """As a later version may have it."""

    momentum: float = 0.9


@dataclass(frozen=True)
class LaterPlan(TrainingPlan):
    restarts: int = 0


def test_a_new_defaulted_field_and_a_renamed_class_leave_the_key_as_it_is() -> None:
    later = LaterPlan(value=LaterPhase(**vars(TrainingPlan().value)))
    assert value_key(later) == value_key(TrainingPlan())


def test_a_new_field_that_is_used_changes_the_key() -> None:
    assert value_key(LaterPlan(restarts=2)) != value_key(TrainingPlan())
    assert value_key(LaterPlan(value=LaterPhase(10, 1e-3, momentum=0.5))) != value_key(
        LaterPlan(value=LaterPhase(10, 1e-3))
    )


@pytest.mark.parametrize(
    "change",
    [{"steps": 7}, {"learning_rate": 0.5}, {"batch_size": 3}, {"optimizer": "rmsprop"}, {"averaging": 0.5}],
)
def test_what_training_depends_on_changes_the_key(change: dict[str, Any]) -> None:
    plan = TrainingPlan()
    assert value_key(replace(plan, value=replace(plan.value, **change))) != value_key(plan)


def test_what_training_does_not_depend_on_does_not() -> None:
    plan = TrainingPlan()
    same = replace(plan.with_steps(selector=3), progress=not plan.progress, threads=7)
    assert value_key(same) == value_key(plan)


def test_fingerprints_of_data() -> None:
    X = np.arange(6.0)
    assert fingerprint(X) == fingerprint(X.copy())
    assert len({fingerprint(X), fingerprint(X[::-1]), fingerprint(X, X), fingerprint(["a", "b"])}) == 4


def test_a_network_is_trained_once_for_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[nn.Module] = []

    def train() -> nn.Module:
        trained.append(nn.Linear(2, 1))
        return trained[-1]

    first = remembered("some", {"steps": 3, "seed": 0}, nn.Linear(2, 1), train)
    again = remembered("some", {"seed": 0, "steps": 3}, nn.Linear(2, 1), train)
    assert len(trained) == 1
    assert torch.equal(first.weight, again.weight)
    assert not again.weight.requires_grad
    remembered("some", {"steps": 4, "seed": 0}, nn.Linear(2, 1), train)
    assert len(trained) == 2
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    remembered("some", {"steps": 3, "seed": 0}, nn.Linear(2, 1), train)
    assert len(trained) == 3
    assert len(list((tmp_path / "cache" / "models").iterdir())) == 3


def test_a_key_never_holds_an_object() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        remembered("some", {"plan": TrainingPlan()}, nn.Linear(2, 1), lambda: nn.Linear(2, 1))
