"""A few rows first, then about a second's worth, and never more than the limit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from l2x.model._querying import FIRST_ROWS, GROWTH, Pace


@settings(deadline=None)
@given(most=st.integers(1, 10_000), per_row=st.floats(1e-7, 10), overhead=st.floats(0, 2))
def test_batches_come_to_last_about_a_second(most: int, per_row: float, overhead: float) -> None:
    pace = Pace(most)
    assert pace.rows == min(FIRST_ROWS, most)
    for _ in range(12):
        before = pace.rows
        pace.took(before, overhead + per_row * before)
        assert 1 <= pace.rows <= min(most, GROWTH * before)
    if not overhead:
        assert pace.rows in (1, most) or 0.4 <= pace.rows * per_row <= 1.01


def test_a_short_rest_of_a_block_does_not_slow_the_pace() -> None:
    pace = Pace(8192)
    for _ in range(5):
        pace.took(pace.rows, 0.001)
    assert pace.rows == 8192
    pace.took(3, 0.0001)
    assert pace.rows == 8192
