"""Batches cover all rows once, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from l2x._base.arrays import batches


@given(n=st.integers(0, 200), size=st.integers(1, 50))
def test_batches_cover_every_row_once(n: int, size: int) -> None:
    slices = list(batches(n, size))
    assert [i for rows in slices for i in range(n)[rows]] == list(range(n))
    assert all(rows.stop - rows.start == size for rows in slices[:-1])
    assert all(0 < rows.stop - rows.start <= size for rows in slices)
