"""Columns of tables: names, scaling, masking, categories."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from toy_models import one_column

import l2x
from l2x.features import ColumnGroups, Columns
from l2x.features._table_input import LIMIT, Scaling

FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [10, 20, 30], "c": [5.0, 5.0, 5.0]}, index=[7, 8, 9])
FRAMES = [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME, preserve_index=False)]


@pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars", "pyarrow"])
def test_frames(frame: object) -> None:
    view = Columns().fit(frame)
    assert view.names_ == ["a", "b", "c"]
    x = view.encode(view.check(frame))
    assert x.dtype == torch.float32
    assert np.allclose(x[:, :2].mean(0), 0, atol=1e-6)
    assert np.allclose(x[:, 2], 0)  # a constant column is not divided by zero
    taken = view.take(frame, np.array([2, 0]))
    assert type(taken) is type(frame)
    assert len(taken) == 2
    masked = view.for_model(frame, np.array([[True, False, False]] * 3))
    assert type(masked) is type(frame)
    assert pd.DataFrame(np.asarray(masked)).iloc[:, 1].tolist() == [20, 20, 20]


def test_columns_are_matched_by_name() -> None:
    view = Columns().fit(FRAME)
    shuffled = FRAME[["c", "a", "b"]]
    assert torch.equal(view.encode(view.check(shuffled)), view.encode(view.check(FRAME)))
    with pytest.raises(l2x.errors.InputError, match=r"missing: b; not expected: z"):
        view.check(FRAME.rename(columns={"b": "z"}))


def test_arrays() -> None:
    view = Columns(names=["u", "v"]).fit([[1, 2], [3, 4]])
    assert view.names_ == ["u", "v"]
    with pytest.raises(
        l2x.errors.InputError, match="X has 3 features, but Columns is expecting 2 features as input: u, v"
    ):
        view.check(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), r"shape \(3,\).*pass x\[None, :\]"),
        (np.zeros((0, 3)), "empty"),
        (np.zeros((3, 0)), "empty"),
        (pd.DataFrame(), "empty"),
        ([["a", "b"]], "not numbers"),
        ("text", "got str"),
        (pd.Series([1.0, 2.0]), "got Series|Expected a table"),
        (np.array([[1.0, np.nan]]), "Row 0, column 'x1' is nan"),
        (np.array([[1.0, 2.0], [np.inf, 1.0]]), "Row 1, column 'x0' is inf"),
        (pd.DataFrame({"a": [f"id {i}" for i in range(200)]}), "Column 'a' .* each of the 200 rows"),
        (pd.DataFrame({"a": pd.to_datetime(["2024-01-01"])}), "Column 'a' is Datetime.*numbers and categ"),
        (pd.DataFrame({"a": [date(2024, 1, 1)]}), "Column 'a' is date32.*numbers or text, or drop it"),
        (pd.DataFrame({"a": [Decimal(1)]}), "Column 'a' is decimal128"),
        (pd.DataFrame({"a": pd.Categorical(pd.to_datetime(["2024-01-01"]))}), "Column 'a' is timestamp"),
        (pd.DataFrame({"a": pd.cut([1.0, 2.0], 2)}), "Column 'a' is pandas.interval"),
        (pd.DataFrame({"a": [b"x"]}), "Column 'a' is binary"),
        (pd.DataFrame({"a": [[1, 2]]}), "Column 'a' is list"),
        (pd.DataFrame([[1.0]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "several levels.*'a', 'b'"),
        (np.array([[1j]]), "Complex"),
        (csr_array((2, 2)), r"sparse.*X.toarray\(\)"),
    ],
)
def test_bad_tables(X: object, message: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=message):
        Columns().fit(X)


def test_what_is_nothing_like_the_categories_of_training_is_refused_by_name() -> None:
    view = Columns().fit(pd.DataFrame({"c": ["a", "b"]}))
    for cells in ([[1], [2]], [b"a", b"\xff"]):
        with pytest.raises(l2x.errors.InputError, match=r"Column 'c' is (list|binary).*had categories there"):
            view.encode(pa.table({"c": cells}))


def test_decimals_of_an_arrow_table_are_numbers() -> None:
    table = pa.table({"d": pa.array([1, 2, 5, 6]).cast(pa.decimal128(21, 2))})
    view = Columns(masking="mean").fit(table)
    assert not view.levels_
    masked = view.for_model(table, np.zeros((4, 1), dtype=bool))
    assert masked.schema == table.schema
    assert masked["d"].to_pylist() == [Decimal("3.50")] * 4


@pytest.mark.parametrize("names", [[0, 1, 2], [2, 0, 1]])
def test_names_may_be_integers(names: list[int]) -> None:
    X = pd.DataFrame(np.arange(12.0).reshape(4, 3) % 5, columns=names)
    view = Columns(categorical=[2]).fit(X)
    assert list(view.levels_) == [names.index(2)]  # by name, before position
    groups = ColumnGroups({"g": [0, 1]}).fit(X)
    assert sorted(map(str, groups.names_)) == ["2", "g"]
    nothing = np.zeros((4, 3), dtype=bool)
    for fitted in (view, Columns().fit(X)):
        assert list(fitted.for_model(X, nothing)) == names
        assert list(fitted.check(X[[1, 2, 0]])) == names
        # A file has texts for names.
        assert torch.equal(
            fitted.encode(fitted.check(X.rename(columns=str)[["0", "1", "2"]])), fitted.encode(X)
        )
    with pytest.raises(
        l2x.errors.InputError, match="categorical names the column 7; the table's columns are"
    ):
        Columns(categorical=[7]).fit(X)
    with pytest.raises(l2x.errors.InputError, match="missing: 2"):
        view.check(X[[0, 1]])


def test_wrong_options() -> None:
    with pytest.raises(l2x.errors.InputError, match="masking is 'mode'"):
        Columns(masking="mode").fit(np.ones((2, 2)))
    with pytest.raises(l2x.errors.InputError, match="1 names were given for a table of 2"):
        Columns(names=["a"]).fit(np.ones((2, 2)))


def test_masking_keeps_what_is_selected() -> None:
    X = np.random.default_rng(0).normal(5, 2, size=(50, 4))
    mask = np.random.default_rng(1).random((50, 4)) < 0.5
    for masking in ("mean", "median", "zero", "resample"):
        view = Columns(masking=masking).fit(X)
        masked = view.for_model(X, mask)
        assert np.array_equal(masked[mask], X[mask])
        if masking == "resample":
            assert np.isin(masked[~mask], X).all()


def test_the_median_is_a_value_that_occurs_and_gaps_do_not_count() -> None:
    X = np.array([[0.0, 5.0, np.nan], [0.0, np.nan, np.nan], [0.0, 1.0, np.nan], [900.0, 2.0, np.nan]])
    view = Columns(masking="median", missing="allow").fit(X)
    assert view.for_model(X, np.zeros(X.shape, dtype=bool))[0].tolist() == [0, 2, 0]


def test_the_median_is_restored_and_fitted_again() -> None:
    view = Columns(masking="median").fit(np.arange(9.0)[:, None])
    restored = Columns(masking="median").restore(*view.state())
    nothing = np.zeros((1, 1), dtype=bool)
    assert restored.for_model(np.ones((1, 1)), nothing).tolist() == [[4]]
    assert view.fit(np.full((3, 1), 7.0)).for_model(np.ones((1, 1)), nothing).tolist() == [[7]]


def test_large_offsets_keep_their_precision() -> None:
    """A timestamp in seconds: float32 alone would lose the differences."""
    X = 1.7e9 + np.arange(10.0)[:, None]
    x = Columns().fit(X).encode(X)
    assert len(x.unique()) == 10


def test_another_masking_of_the_same_view() -> None:
    view = l2x.Columns(masking="mean").fit(np.array([[1.0, 2.0], [3.0, 6.0]]))
    nothing = np.zeros((1, 2), dtype=bool)
    assert view.maskings()["zero"].for_model(np.ones((1, 2)), nothing).tolist() == [[0, 0]]
    assert view.for_model(np.ones((1, 2)), nothing).tolist() == [[2, 4]]  # as it was


def test_noise_is_small_and_seeded() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2)) * [1, 100]
    view = l2x.Columns().fit(X)
    moved = view.jitter(X, np.random.default_rng(1)) - X
    assert moved.std(axis=0) == pytest.approx(0.05 * X.std(axis=0), rel=0.1)
    assert (moved == view.jitter(X, np.random.default_rng(1)) - X).all()


def test_noise_for_frames_with_integer_names() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)))
    frame[2] = np.where(frame[2] > 0, "yes", "no")
    view = Columns().fit(frame)
    noisy = view.jitter(frame, np.random.default_rng(0))
    assert list(noisy.columns) == [0, 1, 2]
    assert noisy[2].tolist() == frame[2].tolist()
    assert 0 < np.abs(noisy[0] - frame[0]).max() < 1
    assert view.cells_.table(frame, view.numbers(frame))[2].tolist() == frame[2].tolist()


def test_names_given_for_an_array_match_those_of_a_frame() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    view = Columns(names=["a", "b", "c"]).fit(X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert torch.equal(view.encode(view.check(frame[["c", "a", "b"]])), view.encode(view.check(X)))
    assert torch.equal(view.encode(view.check(frame.set_axis(["x", "y", "z"], axis=1))), view.encode(X))


def test_very_wide_tables_have_fewer_bins_and_say_so() -> None:
    X = np.random.default_rng(0).normal(size=(30, 6000))
    with pytest.warns(UserWarning, match="6,000 features and 30 rows"):
        view = Columns().fit(X)
    assert len(view.edges_) - 1 == 2**16 // 6000
    restored = Columns().restore(*view.state())
    mask = torch.ones(30, 6000)
    assert torch.equal(restored.mask(restored.encode(X), mask), view.mask(view.encode(X), mask))


def test_a_column_of_gaps_only_is_never_selected(
    table: np.ndarray, tiny: l2x.TrainingPlan, tmp_path: Path
) -> None:
    frame = pd.DataFrame(table, columns=list("abcde")).assign(d=np.nan, e=None)

    def model(X: pd.DataFrame) -> np.ndarray:
        return one_column(X[["a", "b"]].to_numpy())

    fitted = l2x.Explainer(model, k=3, training=tiny.with_steps(value=5, selector=5)).fit(frame)
    assert not fitted.check_.checked  # every feature is selected
    for explainer in (fitted, l2x.load(fitted.save(tmp_path / "a.l2x"))):
        assert (explainer.explain(frame).mask.sum(axis=0)[3:] == 0).all()
        filled = frame.assign(d=1.0)  # values there have no meaning yet
        assert "d" not in {name for names in explainer.explain(filled).names for name in names}
        assert (explainer.explain(frame, k=5).mask.sum(axis=1) == 3).all()


def test_a_group_of_gaps_only_is_never_selected() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [np.nan, np.nan], "c": [np.nan, np.nan]})
    x = l2x.ColumnGroups({"g": ["b", "c"]}).fit(frame)
    assert x.selectable(x.encode(frame)).tolist() == [[True, False]] * 2
    mixed = l2x.ColumnGroups({"g": ["a", "c"]}).fit(frame)
    assert mixed.selectable(mixed.encode(frame)).tolist() == [[True, False]] * 2
    with pytest.raises(l2x.errors.InputError, match="Every cell of the table is missing"):
        l2x.Columns().fit(frame[["b", "c"]])


@pytest.mark.filterwarnings("error")
def test_arrays_of_every_type_and_layout_are_read_alike() -> None:
    whole = np.random.default_rng(0).integers(-20, 20, size=(40, 3)).astype(np.float64)
    view = l2x.Columns().fit(whole)
    expected = view.encode(whole)
    reversed_twice = whole[::-1].copy()[::-1]
    locked = whole.copy()
    locked.flags.writeable = False
    given = [np.asfortranarray(whole), reversed_twice, locked, whole.astype(">f8"), whole.astype(np.int32)]
    given += [whole.astype(kind) for kind in (np.float16, np.float32, np.longdouble)]
    for table in given:
        encoded = view.encode(view.check(table))
        assert encoded.is_contiguous()
        assert torch.equal(encoded, expected)
    assert np.array_equal(locked, whole)


def test_large_numbers_whose_sum_is_infinite_are_finite() -> None:
    table = np.full((8, 2), 1e308)
    assert l2x.Columns().fit(np.eye(2)).encode(table).tolist() == [[10.0, 10.0]] * 8


NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


def scaling_of(matrix: np.ndarray, categorical: tuple[int, ...] = ()) -> Scaling:
    return Scaling.of(matrix, matrix, categorical=categorical)


def standard_of(scaling: Scaling, matrix: np.ndarray) -> np.ndarray:
    return scaling.standard(torch.from_numpy(matrix)).numpy()


def test_ordinary_columns_are_standardised() -> None:
    matrix = np.random.default_rng(0).normal([5, -3], [2, 100], size=(2000, 2))
    standard = standard_of(scaling_of(matrix), matrix)
    assert np.allclose(standard.mean(axis=0), 0)
    assert np.allclose(standard.std(axis=0), 1)


@settings(max_examples=100, deadline=None)
@given(matrix=arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=NUMBERS))
def test_whatever_the_column_the_result_is_finite_and_limited(matrix: np.ndarray) -> None:
    standard = standard_of(scaling_of(matrix), matrix)
    assert np.isfinite(standard).all()
    assert np.abs(standard).max() <= LIMIT


def test_a_constant_column_is_centred_and_not_scaled() -> None:
    matrix = np.full((50, 1), 1e9)
    scaling = scaling_of(matrix)
    assert scaling.scale.tolist() == [1.0]
    assert not standard_of(scaling, matrix).any()


def test_a_few_outliers_do_not_flatten_a_column() -> None:
    column = np.random.default_rng(0).normal(size=(1000, 1))
    column[:3] = 1e6
    scaling = scaling_of(column)
    assert scaling.scale[0] == pytest.approx(1, abs=0.1)
    assert abs(scaling.centre[0]) < 0.1
    assert scaling.mean[0] == pytest.approx(column.mean())  # masking still uses the mean
    assert np.ptp(standard_of(scaling, column)[3:]) > 4
    assert standard_of(scaling, column)[0] == LIMIT


def test_missing_cells_do_not_count() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal([5, 0, 0], 2, size=(1000, 3))
    matrix[rng.random(1000) < 0.3, 0] = np.nan
    matrix[:, 2] = np.nan
    scaling = scaling_of(matrix)
    held = matrix[~np.isnan(matrix[:, 0]), 0]
    assert scaling.mean[0] == pytest.approx(held.mean())
    assert scaling.scale[0] == pytest.approx(held.std())
    assert (scaling.mean[2], scaling.scale[2]) == (0.0, 1.0)  # a column of gaps only
    assert np.array_equal(np.isnan(standard_of(scaling, matrix)), np.isnan(matrix))


def test_codes_of_categories_stay_as_they_are() -> None:
    matrix = np.array([[0.0, 10.0], [3.0, 20.0], [1.0, 30.0]])
    scaling = scaling_of(matrix, categorical=(0,))
    assert scaling.mean[0] == 0.0  # the most frequent category
    assert standard_of(scaling, matrix)[:, 0].tolist() == [0.0, 3.0, 1.0]
