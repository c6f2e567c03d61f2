"""The view's own parts; what every view promises is in test_contract.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import l2x
from l2x.features._view import View, as_tensor, checked_k, shared_tensor

VIEW = l2x.Columns().fit(np.eye(4))


@pytest.mark.parametrize("k", [0, 5, -1, 2.0, True, None, "2"])
def test_k_is_a_whole_number_of_the_features_that_there_are(k: Any) -> None:
    with pytest.raises(l2x.InputError, match=r"there are 4 features; choose a whole number between 1 and 4"):
        checked_k(VIEW, k)
    assert checked_k(VIEW, np.int64(3)) == 3


def test_a_mask_is_spread_over_whatever_a_feature_holds() -> None:
    x, mask = torch.rand(2, 4, 3, 5) + 1, torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 1]])
    masked = View.mask(VIEW, x, mask)
    assert torch.equal(masked != 0, mask[:, :, None, None].expand_as(x) > 0)
    assert torch.equal(View.mask(VIEW, x[:, :, 0, 0], mask), x[:, :, 0, 0] * mask)


def test_scores_of_parts_are_summed_by_feature() -> None:
    parts = torch.rand(2, 4, 3, 5)
    assert torch.allclose(View.units(VIEW, parts), parts.sum(dim=(2, 3)))
    with pytest.raises(l2x.InputError, match=r"shape \(2, 3\) do not fit a view of 4 features"):
        View.units(VIEW, torch.rand(2, 3))


def test_tensors_are_contiguous_float32() -> None:
    tensor = as_tensor(np.arange(6).reshape(2, 3).T)
    assert tensor.dtype == torch.float32
    assert tensor.is_contiguous()
    assert tensor.tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.filterwarnings("error")  # torch's, of arrays that may not be written to
def test_a_tensor_shares_an_arrays_memory_where_it_can() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert shared_tensor(array).data_ptr() == array.ctypes.data
    for given in (array[::-1], array[:, ::-1], array.T, array[:0]):
        assert np.array_equal(shared_tensor(given).numpy(), given)
    array.flags.writeable = False
    assert shared_tensor(array).tolist() == array.tolist()


def test_views_are_found_by_name() -> None:
    for view in (l2x.Columns, l2x.ColumnGroups, l2x.Patches, l2x.Words, l2x.Sentences):
        assert View.by_name(view.__name__) is view
