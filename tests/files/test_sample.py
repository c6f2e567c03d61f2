"""Random samples of rows are fair, repeatable and in file order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from l2x.errors import InputError
from l2x.files._tables import sample_rows


def numbered(n: int) -> list[pa.RecordBatch]:
    return pa.table({"i": np.arange(n)}).to_batches(max_chunksize=64)


def test_a_sample_is_a_subset_in_file_order_and_repeats_with_the_seed() -> None:
    sample = sample_rows(numbered(1000), 50, seed=3).column("i").to_numpy()
    assert len(sample) == len(set(sample)) == 50
    assert (np.diff(sample) > 0).all()
    np.testing.assert_array_equal(sample, sample_rows(numbered(1000), 50, seed=3).column("i").to_numpy())
    assert (sample != sample_rows(numbered(1000), 50, seed=4).column("i").to_numpy()).any()


def test_a_sample_of_more_than_there_is_is_everything() -> None:
    np.testing.assert_array_equal(sample_rows(numbered(100), 1000, seed=0).column("i"), np.arange(100))


def test_every_row_is_equally_likely_to_be_sampled() -> None:
    counts = np.zeros(300)
    for seed in range(400):
        counts[sample_rows(numbered(300), 30, seed=seed).column("i").to_numpy()] += 1
    # Binomial(400, 0.1): 40 ± 6 for each row, 4000 ± 57 for each third of the file.
    assert abs(counts - 40).max() < 5 * 6
    assert abs(counts.reshape(3, 100).sum(axis=1) - 4000).max() < 4 * 57


def test_little_more_than_the_sample_is_held() -> None:
    before, held = pa.total_allocated_bytes(), []

    def long_table() -> Iterator[pa.RecordBatch]:
        for _ in range(200):
            held.append(pa.total_allocated_bytes() - before)
            yield pa.RecordBatch.from_pydict({"x": pa.array(np.zeros(1000))})

    assert len(sample_rows(long_table(), 1000, seed=0)) == 1000
    assert max(held) < 10 * 8 * 1000


def test_no_rows_at_all() -> None:
    with pytest.raises(InputError, match="no rows"):
        sample_rows(iter([]), 10, seed=0)
