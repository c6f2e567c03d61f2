"""What views declare: kinds, units, maskings, noise, table layouts, and the helpers for all views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import l2x
from l2x.errors import InputError
from l2x.features import TableLayout, as_columns, check_table, fitted_view, selectable_units
from l2x.features._columns import JITTER as JITTER_OF_COLUMNS
from l2x.features._patches import JITTER as JITTER_OF_PIXELS
from l2x.features._view import View, as_tensor, checked_k, shared_tensor

VIEW = l2x.Columns().fit(np.eye(4))


@pytest.mark.parametrize("k", [0, 5, -1, 2.0, True, None, "2"])
def test_k_is_a_whole_number_of_the_features_that_there_are(k: Any) -> None:
    with pytest.raises(
        l2x.errors.InputError, match=r"there are 4 features; choose a whole number between 1 and 4"
    ):
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
    with pytest.raises(l2x.errors.InputError, match=r"shape \(2, 3\) do not fit a view of 4 features"):
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


@pytest.mark.parametrize(
    ("view", "kind", "unit"),
    [
        (l2x.Columns(), "table", "column"),
        (l2x.ColumnGroups({"a": ["b"]}), "table", "column"),
        (l2x.Words(), "text", "word"),
        (l2x.Sentences(), "text", "sentence"),
        (l2x.Patches(4), "image", "patch"),
    ],
)
def test_kinds_and_units(view: View, kind: str, unit: str) -> None:
    assert (view.kind, view.unit) == (kind, unit)


TABLE = np.random.default_rng(0).normal(size=(20, 3))
FRAME = pd.DataFrame({"age": np.arange(20.0), "town": ["Ulm", "Bonn"] * 10})
GAPS = pd.DataFrame({"age": [np.nan, *range(19)], "income": np.arange(20.0)})
TEXTS = ["a good film", "a bad film"] * 10

COLUMNS = l2x.Columns().fit(TABLE)
GROUPS = l2x.ColumnGroups({"pair": [0, 1]}).fit(TABLE)
CATEGORIES = l2x.Columns().fit(FRAME)
WITH_GAPS = l2x.Columns().fit(GAPS)
WORDS = l2x.Words(length=4, vocabulary=9).fit(TEXTS)
PATCHES = l2x.Patches(2).fit(np.random.default_rng(0).random((5, 4, 4)))


def test_a_feature_is_one_column_only_without_groups() -> None:
    assert as_columns(COLUMNS) is COLUMNS
    assert as_columns(CATEGORIES) is CATEGORIES
    assert [as_columns(view) for view in (GROUPS, WORDS, PATCHES)] == [None] * 3


@pytest.mark.parametrize(("view", "name"), [(WORDS, "Words"), (PATCHES, "Patches")])
def test_a_method_for_tables_takes_groups_and_refuses_the_rest(view: View, name: str) -> None:
    check_table(COLUMNS, "TreeSHAP")
    check_table(GROUPS, "TreeSHAP")
    with pytest.raises(l2x.errors.InputError, match=f"TreeSHAP explains columns, not {name}"):
        check_table(view, "TreeSHAP")


def test_distances_mean_something_between_numbers_only() -> None:
    assert [view.has_distances for view in (COLUMNS, GROUPS, PATCHES)] == [True] * 3
    assert [view.has_distances for view in (CATEGORIES, WITH_GAPS, WORDS)] == [False] * 3


def test_unseen_categories_are_counted_by_column() -> None:
    new = FRAME.assign(town=["Ulm"] * 17 + ["Jena"] * 3)
    assert CATEGORIES.unseen(CATEGORIES.encode(new)) == {"town": 3}
    assert CATEGORIES.unseen(CATEGORIES.encode(FRAME)) == {}
    assert WORDS.unseen(WORDS.encode(WORDS.check(TEXTS))) == {}


def test_a_fitted_view_stays_a_new_one_is_copied_and_none_means_columns() -> None:
    fitted, new = l2x.Columns().fit(TABLE), l2x.Columns(masking="zero")
    assert fitted_view(fitted, TABLE[:2]) is fitted
    view = fitted_view(new, TABLE)
    assert view is not new
    assert not hasattr(new, "names_")
    assert (view.names_, view.masking) == (["x0", "x1", "x2"], "zero")
    assert isinstance(fitted_view(None, TABLE), l2x.Columns)


def test_what_may_be_selected() -> None:
    assert selectable_units(l2x.Columns().fit(TABLE), TABLE) is None
    texts = ["a good film", "good", "a film that is good"]
    view = l2x.Words(length=4).fit(texts)
    found = selectable_units(view, view.check(texts))
    assert found is not None
    assert found.sum(axis=1).tolist() == [3, 1, 4]


@pytest.mark.parametrize("own", ["mean", "median", "zero", "resample"])
def test_the_views_own_comes_first_and_each_stands_once(own: str) -> None:
    view = l2x.Columns(masking=own).fit(TABLE)
    ways = view.maskings()
    assert next(iter(ways)) == own
    assert ways[own] is view
    assert set(ways) == {"mean", "median", "zero", "resample"}
    assert {way: other.masking for way, other in ways.items()} == {way: way for way in ways}
    assert view.masking == own


def test_each_way_masks_in_its_own_way() -> None:
    view, nothing = l2x.Columns().fit(TABLE), np.zeros((20, 3), dtype=bool)
    masked = {way: other.for_model(TABLE, nothing) for way, other in view.maskings().items()}
    assert np.allclose(masked["mean"], TABLE.mean(axis=0))
    assert not masked["zero"].any()
    assert np.isin(masked["median"][0], TABLE).all()
    assert set(masked["resample"][:, 0]) <= set(TABLE[:, 0])


def test_a_black_box_that_reads_ids_sees_padding_in_any_case() -> None:
    words = l2x.Words(length=4, vocabulary=9)
    assert len(words.fit(TEXTS).maskings()) > 1
    by_ids = l2x.Words(length=4, vocabulary=9, reads="ids").fit(TEXTS)
    assert list(by_ids.maskings().values()) == [by_ids]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_columns_move_by_a_share_of_their_deviation() -> None:
    X = rng().normal(0, [1, 100], size=(4000, 2))
    moved = l2x.Columns().fit(X).jitter(X, rng()) - X
    assert moved.std(axis=0) == pytest.approx(JITTER_OF_COLUMNS * X.std(axis=0), rel=0.1)
    assert (moved != 0).all()


def test_categories_stay() -> None:
    frame = pd.DataFrame({"age": rng().normal(size=50), "town": ["Ulm", "Bonn"] * 25})
    noisy = l2x.Columns().fit(frame).jitter(frame, rng())
    assert noisy["town"].tolist() == frame["town"].tolist()
    assert (noisy["age"] != frame["age"]).all()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_pixels_stay_pixels(kind: type) -> None:
    bright = 255 if kind is np.uint8 else 1.0
    X = (bright * rng().random((40, 8, 8))).astype(kind)
    noisy = l2x.Patches(4).fit(X).jitter(X, rng())
    assert noisy.dtype == X.dtype
    moved = noisy.astype(float) - X
    assert moved.std() == pytest.approx(JITTER_OF_PIXELS * bright, rel=0.1)
    assert noisy.max() <= (bright if kind is np.uint8 else 2)


def test_there_is_no_noise_on_texts() -> None:
    texts = ["a good film", "a bad film"] * 10
    view = l2x.Words(length=4, vocabulary=9).fit(texts)
    assert view.jitter(view.check(texts), rng()) is None


ZIP_CODES = pd.DataFrame({"zip": ["01234", "00501"] * 4, "age": range(8), "branch": [7, 8] * 4})


@pytest.mark.parametrize("view", [l2x.Columns(), l2x.ColumnGroups({"both": ["zip", "age"]})])
def test_before_fitting_the_columns_are_open(view: View) -> None:
    assert view.table_layout() == TableLayout()


@pytest.mark.parametrize(
    "view",
    [
        l2x.Columns(categorical=["branch"]),
        l2x.ColumnGroups({"both": ["zip", "age"]}, categorical=["branch"]),
    ],
)
def test_columns_and_groups_want_the_columns_of_fitting(view: View) -> None:
    reading = view.fit(ZIP_CODES).table_layout()
    assert (reading.columns, reading.named) == (["zip", "age", "branch"], True)
    # Numbers that are codes of categories are still numbers in a file.
    assert {position: sorted(values) for position, values in reading.categories.items()} == {
        0: ["00501", "01234"]
    }
    assert reading.form == "frame"


def test_names_of_an_array_are_not_needed() -> None:
    reading = l2x.Columns(names=["a", "b"]).fit(np.arange(6.0).reshape(3, 2)).table_layout()
    assert (reading.columns, reading.named) == (["a", "b"], False)


def test_integer_names_are_texts_in_a_file() -> None:
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    assert l2x.Columns().fit(frame).table_layout().columns == ["0", "1"]


@pytest.mark.parametrize("view", [l2x.Words(), l2x.Sentences()])
def test_texts_are_one_column_of_any_name(view: View) -> None:
    expected = TableLayout("text")
    assert view.table_layout() == view.fit(["A good film. It is."]).table_layout() == expected
    assert expected.match(["id", "review"], copied=["id"], source="rows.csv") == ["review"]
    with pytest.raises(InputError, match=r"rows\.csv has 2: id, review"):
        expected.match(["id", "review"], source="rows.csv")


def test_columns_match_by_name_or_by_position() -> None:
    named, array = TableLayout(columns=["a", "b"]), TableLayout(columns=["x0", "x1"], named=False)
    assert named.match(["b", "c", "a"], copied=["b"], source="it") == ["a", "b"]
    assert array.match(["id", "p", "q"], copied=["id"], source="it") == ["p", "q"]
    assert array.match(["x1", "x0", "x2"], source="it") == ["x0", "x1"]
    assert TableLayout().match(["p", "q"], copied=["q"], source="it") == ["p"]
    with pytest.raises(InputError, match=r"rows\.csv lacks .*: b; it has a, c"):
        named.match(["a", "c"], source="rows.csv")
    with pytest.raises(InputError, match=r"2 columns .* rows\.csv has 3: p, q, r"):
        array.match(["p", "q", "r"], source="rows.csv")
    with pytest.raises(InputError, match="'a' more than once"):
        named.match(["a", "b", "a"], source="it")


def test_a_view_of_ones_own_reads_a_matrix_of_numbers() -> None:
    layout = TableLayout("matrix")
    assert layout.match(["p", "q"], source="it") == ["p", "q"]
    frame = pd.DataFrame({"p": [1, 2], "q": [0.5, np.nan]})
    for table in (frame, pa.Table.from_pandas(frame)):
        assert np.array_equal(layout.inputs(table), frame.to_numpy(), equal_nan=True)
    with pytest.raises(InputError, match="not numbers"):
        layout.inputs(frame.assign(q=["a", "b"]))


def test_images_are_not_in_tables() -> None:
    with pytest.raises(InputError, match="Patches cannot read a table"):
        l2x.Patches().table_layout()
