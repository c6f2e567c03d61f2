"""Tables of every library: what they may be, and their cells as numbers and back."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch

import l2x
from l2x.features._tables import (
    IDENTIFIERS,
    UNSEEN,
    Cells,
    column_index,
    frame_of,
    is_categorical,
    native,
    replaced,
)

CELLS = {"a": [1.0, 2.0, 3.0], "b": ["x", "y", None]}
FRAMES: dict[str, Any] = {
    "pandas": pd.DataFrame(CELLS),
    "polars": pl.DataFrame(CELLS),
    "pyarrow": pa.table(CELLS),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_stay_as_they_are(name: str) -> None:
    assert native(FRAMES[name]) is FRAMES[name]


NUMBERS: dict[str, Any] = {
    "lists": [[1, 2], [3, 4]],
    "booleans": ((True, False),),
    "a tensor": torch.ones(2, 3, requires_grad=True),
    "objects that are numbers": np.eye(2, dtype=object),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_holds_numbers_becomes_an_array(name: str) -> None:
    array = native(NUMBERS[name])
    assert isinstance(array, np.ndarray)
    assert array.ndim == 2
    assert array.dtype.kind in "fiub"


REFUSED: dict[str, tuple[Any, str]] = {
    "text": ("a text", "Expected an array or a pandas, polars or pyarrow table, got str"),
    "one row": ([1, 2, 3], r"got an array of shape \(3,\). .* for one row pass x\[None, :\]"),
    "images": (np.zeros((2, 8, 8)), r"For images pass features=l2x.Patches\(size=4\)"),
    "no columns": (pd.DataFrame(index=[0, 1]), r"The table is empty: 0 feature\(s\) \(shape=\(2, 0\)\)"),
    "words in an array": (np.array([["a", "b"]]), "not numbers: .* of texts must be a data frame"),
    "texts": (["a good film", "a bad one"], r"holds texts, such as 'a good film': .* features=l2x.Words\(\)"),
    "a column of texts": (pd.Series(["good", "bad"]), r"holds texts, .* features=l2x.Words\(\)"),
    "one name twice": (
        pd.DataFrame([[1, 2, 3]], columns=list("aba")),
        "more than one column named 'a'; rename",
    ),
    "one name twice in Arrow": (pa.table([[1], [2]], names=["a", "a"]), "more than one column named 'a'"),
    "a number and its text": (
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        "more than one column named '1'; rename",
    ),
    "a row": (pd.DataFrame({"a": [1], "b": ["x"]}).iloc[0], r"such as frame.iloc\[\[0\]\]"),
    "a query": (pl.LazyFrame(CELLS), r"got LazyFrame; pass X.collect\(\)"),
    "complex": (np.ones((2, 2), dtype=complex), "Complex data not supported"),
    "sparse": (scipy.sparse.eye(3), r"A sparse table is not supported; pass X.toarray\(\)"),
    "a column": (pd.Series([1.0, 2.0]), "Expected a"),
    "names in levels": (
        pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
        r"names in several levels, such as \('a', 'b'\); give",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_table_is_refused_with_advice(name: str) -> None:
    table, message = REFUSED[name]
    with pytest.raises(l2x.errors.InputError, match=message):
        native(table)


def test_a_column_by_name_or_position() -> None:
    assert column_index("b", ["a", "b"], "Columns") == 1
    assert column_index(0, ["a", "b"], "Columns") == 0
    assert column_index(7, [5, 7], "Columns") == 1  # a name that is an integer comes before a position
    for unknown in ("c", 2, -1, True):
        with pytest.raises(
            l2x.errors.InputError, match=rf"drop= names the column {unknown!r}; .* columns are a, b"
        ):
            column_index(unknown, ["a", "b"], "drop=")


def test_which_types_are_categories() -> None:
    assert [is_categorical("c", dtype) for dtype in (nw.Float64(), nw.Int8(), nw.Decimal())] == [False] * 3
    assert all(is_categorical("c", dtype) for dtype in (nw.String(), nw.Categorical(), nw.Boolean()))
    with pytest.raises(l2x.errors.InputError, match="Column 'c' is Date;"):
        is_categorical("c", nw.Date())


COLUMNS: dict[str, Any] = {
    "pandas float": pd.Series([1.0, 2.0, 3.0]),
    "pandas integer": pd.Series([1, 2, 3]),
    "pandas nullable": pd.Series([1, 2, 3], dtype="Int32"),
    "polars": pl.Series("s", [1, 2, 3], dtype=pl.UInt8),
    "pyarrow": pa.chunked_array([[1, 2, 3]], pa.int16()),
    "decimal": pa.chunked_array([[1, 2, 3]], pa.decimal128(10, 2)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_replaced_cells_keep_the_type_and_the_others_stay(name: str) -> None:
    """Cell i is values[chosen[i]], or its own where that is -1; in a column of integers, rounded."""
    column = nw.from_native(COLUMNS[name], series_only=True)
    new = replaced(column, [7.4, 9.0], np.array([-1, 0, 1]))
    assert new.dtype == column.dtype
    expected = [1, 7.4 if name in ("pandas float", "decimal") else 7, 9]
    assert [float(cell) for cell in new.to_list()] == expected


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["x", "y", "x"], dtype="category"),
        pd.Series([True, False, True]),
        pl.Series(["x", "y", "x"], dtype=pl.Enum(["x", "y"])),
        pa.chunked_array([["x", "y", "x"]], pa.large_string()),
    ],
    ids=["pandas categories", "pandas booleans", "polars enum", "pyarrow text"],
)
def test_categories_that_a_column_lacks_and_missing_cells_can_be_put_into_it(column: Any) -> None:
    column = nw.from_native(column, series_only=True)
    first = column.to_list()[0]
    other = False if first is True else "z"
    new = replaced(column, [other, None], np.array([-1, 0, 1]))
    assert new.to_list()[:2] == [first, other]
    assert pd.isna(new.to_list()[2])


def test_a_frame_of_columns_has_the_index_of_the_rows_that_it_replaces() -> None:
    X = pd.DataFrame(CELLS, index=[10, 20, 30])
    columns = list(nw.from_native(X).iter_columns())
    assert frame_of(columns[::-1], X).index.tolist() == [10, 20, 30]
    assert len(frame_of([column[:2] for column in columns], X)) == 2
    frame = FRAMES["polars"]
    assert frame_of(list(nw.from_native(frame).iter_columns()), frame).equals(frame)


def test_sparse_columns_of_pandas_are_named() -> None:
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 0.0, 1.0]), "b": [1.0, 2.0, 3.0]})
    with pytest.raises(l2x.errors.InputError, match=r"Column 'a' .* X.sparse.to_dense\(\)"):
        l2x.Columns().fit(frame)


@pytest.mark.parametrize("name", ["detach", "tocsr", "texts", "columns", "column_names"])
def test_a_column_may_have_the_name_of_an_attribute(name: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], name: [3.0, 4.0]})
    assert native(frame) is frame
    twice = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", name])
    with pytest.raises(l2x.errors.InputError, match=r"named 'a';"):
        native(twice)


N = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "colour": RNG.choice(["red", "green", "blue"], N, p=[0.6, 0.3, 0.1]),
        "member": RNG.random(N) < 0.3,
        "age": RNG.integers(18, 80, N),
        "income": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
    }
)
NAMES = list(FRAME.columns)
TABLES: dict[str, Any] = {
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "pyarrow": pa.Table.from_pandas(FRAME, preserve_index=False),
}


def learned(
    X: Any = FRAME, categorical: tuple[int, ...] = (0, 1), most: int = 10
) -> tuple[Cells, np.ndarray]:
    names = NAMES if not isinstance(X, np.ndarray) else [f"x{i}" for i in range(X.shape[1])]
    return Cells.of(X, names, categorical, most=most, missing=True)


@pytest.mark.parametrize("name", TABLES)
def test_numbers_are_values_and_codes_by_frequency(name: str) -> None:
    cells, matrix = learned(TABLES[name])
    assert list(cells.levels[0].values) == ["red", "green", "blue"]
    assert matrix[:, 0].tolist() == [["red", "green", "blue"].index(colour) for colour in FRAME["colour"]]
    assert np.array_equal(matrix[:, 2], FRAME["age"])
    assert cells.gaps == [3]
    assert np.array_equal(cells.numbers(TABLES[name]), matrix, equal_nan=True)


@pytest.mark.parametrize("name", TABLES)
def test_there_and_back_is_the_same_table(name: str) -> None:
    cells, matrix = learned(TABLES[name])
    back = nw.from_native(cells.table(TABLES[name], matrix), eager_only=True).to_pandas()
    assert back["colour"].tolist() == FRAME["colour"].tolist()
    assert back["member"].tolist() == FRAME["member"].tolist()
    assert np.allclose(back["income"].astype(float), FRAME["income"], equal_nan=True)
    assert type(cells.table(TABLES[name], matrix)) is type(TABLES[name])


def test_an_array_with_a_column_of_codes() -> None:
    X = np.column_stack([RNG.choice([10.0, 20.0], N, p=[0.2, 0.8]), RNG.normal(size=N)])
    cells, matrix = learned(X, categorical=(0,))
    assert set(matrix[:, 0]) == {0.0, 1.0}
    assert np.array_equal(cells.table(X, matrix), X)
    assert np.array_equal(cells.with_numbers(X, matrix + 1)[:, 0], X[:, 0])


def test_unseen_categories_have_a_code_and_come_out_missing() -> None:
    cells, _ = learned()
    new = FRAME.head(2).assign(colour=["violet", None])
    with pytest.raises(
        l2x.errors.InputError, match="Row 1, column 'colour' is nan: the training rows had no missing"
    ):
        cells.numbers(new)
    matrix = cells.numbers(new.head(1))
    assert matrix[0, 0] == UNSEEN
    assert cells.table(new.head(1), matrix)["colour"].isna().all()
    assert cells.with_numbers(new.head(1), matrix)["colour"].tolist() == ["violet"]


@pytest.mark.parametrize("name", TABLES)
def test_filled_keeps_the_selected_cells_and_every_type(name: str) -> None:
    table = TABLES[name]
    cells, matrix = learned(table)
    mask, chosen = RNG.random((N, 4)) < 0.5, RNG.integers(0, N, N)
    filled = cells.filled(table, mask, matrix, chosen)
    assert nw.from_native(filled, eager_only=True).schema == nw.from_native(table, eager_only=True).schema
    expected = np.where(mask, matrix, matrix[chosen])
    assert np.allclose(cells.numbers(filled), expected, equal_nan=True)


def test_all_numbers_are_read_at_once_and_the_result_is_the_same() -> None:
    """Frames of numbers only, and Arrow tables of float64, take short cuts."""
    X = RNG.normal(size=(N, 3))
    tables = [pd.DataFrame(X), pl.DataFrame(X), pa.table({str(i): X[:, i] for i in range(3)})]
    for table in tables:
        cells = Cells(["a", "b", "c"], {}, [])
        assert np.array_equal(cells.numbers(table), X)
        selected = cells.filled(table, np.eye(N, 3, dtype=bool), np.zeros((1, 3)), np.zeros(N, dtype=int))
        assert np.array_equal(cells.numbers(selected), np.where(np.eye(N, 3), X, 0))


BAD: dict[str, tuple[Any, str]] = {
    "infinite": (
        np.array([[1.0, 2.0], [np.inf, 1.0]]),
        r"Row 7, column 'a' is inf: fill or drop missing and infinite values first\.$",
    ),
    "missing in an array": (np.array([[1.0, np.nan]]), r"Row 6, .*Columns\(missing='allow'\)"),
    "missing in a frame": (
        pd.DataFrame({"a": [None], "b": [1.0]}, dtype=float),
        "had no missing values there",
    ),
    "text among numbers": (
        pd.DataFrame({"a": ["x"], "b": [1.0]}),
        r"Row 6, column 'a' is 'x', but .* numbers there",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_cell_is_named_with_what_to_do(name: str) -> None:
    table, message = BAD[name]
    with pytest.raises(l2x.errors.InputError, match=message):
        Cells(["a", "b"], {}, []).numbers(table, first_row=6)


def test_a_text_among_numbers_makes_no_categories_in_silence() -> None:
    numbers = [f"{i / 8}" for i in range(2 * IDENTIFIERS)]
    numbers[17] = "?"
    with pytest.raises(
        l2x.errors.InputError, match=r"Row 17, column 'a' is '\?', and most others there are numbers"
    ):
        Cells.of(pd.DataFrame({"a": numbers}), ["a"], [0], most=10, missing=True)
    twice = pd.DataFrame({"a": numbers * 2})
    with pytest.warns(UserWarning, match=r"Row 17, column 'a' is '\?'.* They are read as categories; if"):
        Cells.of(twice, ["a"], [0], most=10, missing=True)


def test_what_cannot_be_a_category() -> None:
    many = pd.DataFrame({"id": [f"n{i}" for i in range(IDENTIFIERS + 1)]})
    with pytest.raises(l2x.errors.InputError, match=r"'id' .* 101 rows"):
        Cells.of(many, ["id"], [0], most=10, missing=True)
    with pytest.raises(l2x.errors.InputError, match=r"Column 'l' is list<.*>;"):
        Cells.of(pa.table({"l": [[1], [2]]}), ["l"], [0], most=10, missing=True)
    cells, _ = learned()
    lists = pa.table({"colour": [["red"]], "member": [True], "age": [20], "income": [1.0]})
    with pytest.raises(
        l2x.errors.InputError, match=r"'colour' is list<.*>, but the training rows had categories"
    ):
        cells.numbers(lists)


def test_whole_numbers_with_gaps() -> None:
    frame = pd.DataFrame({"a": pd.Series([1, None, 3], dtype="Int64")})
    view = l2x.Columns().fit(frame)
    assert np.array_equal(view.numbers(frame)[:, 0], [1.0, np.nan, 3.0], equal_nan=True)


def test_a_text_in_a_column_of_numbers_is_named_with_its_row() -> None:
    cells = [str(number / 7) for number in range(IDENTIFIERS + 50)]
    cells[60] = "12,5"
    with pytest.raises(
        l2x.errors.InputError, match=r"Row 60, column 'price' is '12,5', and most others .* numbers"
    ):
        l2x.Columns().fit(pd.DataFrame({"price": cells, "b": 1.0}))


def test_the_usual_types_of_pandas_are_masked_as_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast way for pandas gives the same cells and types as the general one."""
    texts = ["a", None, "b", "a", "c", "b"]
    X = pd.DataFrame({
        "float": [1.5, np.nan, 3.0, 2.0, 0.0, 1.0],
        "single": np.arange(6, dtype=np.float32),
        "int": [1, 2, 3, 4, 5, 7],
        "small": np.arange(6, dtype=np.uint8),
        "text": texts,
        "object": pd.Series(texts, dtype=object),
        "category": pd.Series(texts, dtype="category"),
        "number category": pd.Series([3, 1, 3, 2, 2, 1], dtype="category"),
    }, index=[5, 3, 1, 0, 2, 9])  # fmt: skip
    categorical = [4, 5, 6, 7]
    cells, matrix = Cells.of(X, list(X.columns), categorical, most=9, missing=True)
    rng = np.random.default_rng(0)
    mask, chosen = rng.random(X.shape) < 0.5, rng.integers(len(X), size=len(X))
    fast = cells._filled_pandas(X, mask, matrix, chosen)
    monkeypatch.setattr(Cells, "_filled_pandas", lambda *_: None)
    pd.testing.assert_frame_equal(fast, cells.filled(X, mask, matrix, chosen))
    assert all(fast.dtypes == X.dtypes)


@pytest.mark.parametrize("kind", ["boolean", "Int64", "bool"])
def test_other_types_of_pandas_are_masked_the_general_way(kind: str) -> None:
    X = pd.DataFrame({"x": pd.Series([1, 0, 1, 1], dtype=kind), "y": [0.5, 1.5, 2.5, 3.5]})
    view = l2x.Columns().fit(X)
    masked = view.for_model(view.check(X), np.zeros((4, 2), dtype=bool))
    assert masked.dtypes.tolist() == X.dtypes.tolist()
    assert (masked["x"] == 1).all()


def test_a_single_row_of_pandas_is_read_like_the_same_row_among_others() -> None:
    X = pd.DataFrame(
        {
            "number": [1.5, -2.0, np.nan, 1e300],
            "whole": [3, 2**60, -1, 0],
            "flag": np.array([1, 0, 1, 1], dtype=np.uint8),
            "object": pd.Series(["a", None, "b", np.nan], dtype=object),
            "text": pd.Series(["x", "y", pd.NA, "x"], dtype="string"),
            "category": pd.Categorical(["u", "v", "u", None]),
            "code": [7, 8, 7, 9],
            "truth": [True, False, True, True],
        }
    )
    some = X.columns.get_indexer(["object", "text", "category", "code", "truth"]).tolist()
    for columns in (range(6), range(8)):  # with and without categories that are not texts
        part = X.iloc[:, list(columns)]
        categorical = [c for c in some if c in columns]
        cells, matrix = Cells.of(part, list(part.columns), categorical, most=9, missing=True)
        single = [cells.numbers(part.iloc[[row]]) for row in range(len(X))]
        np.testing.assert_array_equal(np.concatenate(single), matrix)
        assert (cells._of_pandas_row(part[:1]) is not None) == (len(columns) == 6)
    unseen = X.iloc[[0], :6].assign(text="z")
    assert cells.numbers(unseen.assign(code=7, truth=True))[0, 4] == UNSEEN
    with pytest.raises(l2x.errors.InputError, match="'number' is 'many'"):
        cells.numbers(X.iloc[[0]].assign(number="many"))
