"""Where something was measured."""

from __future__ import annotations

import platform

import torch

from l2x_experiments.machine import machine, measured_here, timed


def test_machine_and_threads() -> None:
    assert platform.python_version() in machine()
    assert measured_here() == {"threads": torch.get_num_threads(), "machine": machine()}


def test_timed() -> None:
    found, seconds = timed(lambda: "done")
    assert found == "done"
    assert 0 <= seconds < 1
