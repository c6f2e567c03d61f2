"""Whole numbers of any kind, and what only looks like one."""

from __future__ import annotations

import numpy as np
import pytest

from l2x._base.arrays import is_whole


@pytest.mark.parametrize("number", [1, np.int64(3), np.uint8(7), 2**80])
def test_whole_numbers(number: object) -> None:
    assert is_whole(number)


@pytest.mark.parametrize("number", [0, -1, 2.0, np.float32(2), True, np.True_, "2", None])
def test_what_is_not_one(number: object) -> None:
    assert not is_whole(number)
    assert is_whole(0, least=0)
    assert not is_whole(-1, least=0)
