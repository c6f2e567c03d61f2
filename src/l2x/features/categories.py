"""Categories of one column: which there are, most frequent first, and the codes that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from l2x.features.frames import is_missing
from l2x.foundations.arrays import Array

UNSEEN = -1.0


@dataclass(frozen=True)
class Levels:
    """The categories of the training rows.

    Attributes
    ----------
    values : every category, the most frequent first, as plain Python
    kept : this many have a vector of their own in the networks; the rest share one, and unseen ones have none
    """

    values: Sequence[Any]
    kept: int

    @classmethod
    def of(cls, cells: pa.Array, most: int) -> Levels:
        """The levels of a column, at most `most` of them kept."""
        counted = pc.value_counts(cells.drop_null())
        values, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        ranked = sorted(zip(values, counts, strict=True), key=lambda pair: (-pair[1], str(pair[0])))
        return cls([value for value, _ in ranked], min(most, len(ranked)))

    @property
    def vectors(self) -> int:
        """How many different vectors the networks know: the kept ones, and one that the rest share."""
        return min(self.kept + 1, len(self.values))

    def codes(self, cells: pa.Array) -> Array:
        """The position of each cell in `values`; UNSEEN for others, NaN for missing cells."""
        if pa.types.is_dictionary(cells.type):
            per_value = np.append(self.codes(cells.dictionary), np.nan)
            return np.asarray(per_value[pc.fill_null(cells.indices.cast(pa.int64()), -1).to_numpy()])
        found = pc.index_in(_keys(cells), value_set=self._known)
        codes = pc.fill_null(found, int(UNSEEN)).to_numpy(zero_copy_only=False).astype(np.float64)
        codes[pc.is_null(cells).to_numpy(zero_copy_only=False)] = np.nan
        return np.asarray(codes)

    @property
    def texts(self) -> list[str]:
        """The categories as texts, by which those of other files are compared with them."""
        return list(self._known.to_pylist())

    @cached_property
    def _known(self) -> pa.Array:
        return _keys(pa.array(list(self.values)))


def arrow_cells(column: Any) -> pa.Array:
    """A column (a narwhals series or an array) as one Arrow array, NaN as missing."""
    try:
        if isinstance(column, np.ndarray):
            return pa.array(column, from_pandas=True)
        cells = column.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # objects of several types
        return pa.array([None if is_missing(cell) else str(cell) for cell in column.to_list()], pa.string())
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def can_be_levels(kind: pa.DataType) -> bool:
    """Whether cells of this Arrow type are plain values, which `Levels` and an artifact can hold."""
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return bool(text or number or types.is_null(kind))


def _keys(cells: pa.Array) -> pa.Array:
    """What categories are compared by: text, so that 1, 1.0 and "1" of another file are one category."""
    text = cells.cast(pa.string())
    if not pa.types.is_floating(cells.type):
        return text
    # Arrow writes large floats as 1e+10, unlike integers.
    whole = pc.and_(pc.equal(pc.floor(cells), cells), pc.less_equal(pc.abs(cells), 2.0**53))
    return pc.if_else(whole, pc.if_else(whole, cells, 0.0).cast(pa.int64()).cast(pa.string()), text)
