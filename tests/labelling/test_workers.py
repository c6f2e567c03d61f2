"""Who asks: one after the other, in threads, in processes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from toy_models import one_column

import l2x
from l2x.model._black_box import BlackBox
from l2x.model._querying import said, workers

X = np.random.default_rng(0).normal(size=(10, 3))


@pytest.mark.parametrize("in_flight", [1, 3])
def test_answers_come_with_their_time(in_flight: int) -> None:
    names = []

    def model(part: np.ndarray) -> np.ndarray:
        names.append(threading.current_thread().name)
        return one_column(part)

    with workers(BlackBox(model, in_flight=in_flight)) as (submit, at_a_time):
        output, seconds = said(submit(X))
    assert at_a_time == in_flight
    assert np.array_equal(output, one_column(X))
    assert seconds > 0
    assert names[0].startswith("asking") == (in_flight > 1)


def test_an_interruption_goes_straight_through() -> None:
    def model(part: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), workers(BlackBox(model)) as (submit, _):
        submit(X)


def test_a_model_that_does_not_travel() -> None:
    lock = threading.Lock()

    def model(part: np.ndarray) -> np.ndarray:
        with lock:
            return one_column(part)

    with (
        pytest.raises(l2x.InputError, match="cannot be sent to another process"),
        workers(BlackBox(model), 2),
    ):
        pass
