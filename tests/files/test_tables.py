"""Tables on disk, read in batches, as views read them, and as random samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import l2x
from l2x.errors import InputError
from l2x.features._view import View
from l2x.files import _tables as tables
from l2x.files._tables import Table, read_sample, read_training_rows, sample_rows, text_column


def write(frame: pd.DataFrame, path: Path) -> Table:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return Table(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_batches_are_bounded_and_add_up_to_the_file(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"a": np.arange(100.0), "name": [f"n{i}" for i in range(100)], "b": np.ones(100)})
    table = write(frame, tmp_path / f"t{suffix}")
    batches = list(table.batches(["b", "a"], text=["name"], batch_rows=7))
    assert max(len(batch) for batch in batches) <= 7
    whole = pa.Table.from_batches(batches).to_pandas()
    pd.testing.assert_frame_equal(whole, frame[["b", "a", "name"]], check_dtype=False)


def test_wide_tables_come_in_smaller_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH_CELLS", 40)
    table = write(pd.DataFrame(np.zeros((50, 20)), columns=[f"c{i}" for i in range(20)]), tmp_path / "t.csv")
    assert {len(batch) for batch in table.batches(table.columns)} == {2}


@pytest.mark.parametrize("row_group_size", [80_000, 1_600_000])
def test_reading_holds_a_fraction_of_a_parquet_file(tmp_path: Path, row_group_size: int) -> None:
    # 24 MiB that do not compress. Each column costs some 2 MiB, a page and its dictionary, at any length.
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(1_600_000, 2)), columns=["a", "b"])
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=row_group_size)
    size = (tmp_path / "t.parquet").stat().st_size
    before = pa.total_allocated_bytes()
    table, held = Table(tmp_path / "t.parquet"), []
    for _ in table.batches(table.columns, batch_rows=40_000):
        held.append(pa.total_allocated_bytes() - before)
    assert len(held) == 40
    assert max(held) < size / 2


def test_reading_holds_a_fraction_of_a_csv_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", 1 << 16)
    values = np.random.default_rng(0).normal(size=(50_000, 8))
    table = write(pd.DataFrame(values, columns=list("abcdefgh")), tmp_path / "t.csv")
    before, held = pa.total_allocated_bytes(), []
    for _ in table.batches(table.columns):
        time.sleep(0.001)  # a slow reader must not be buried
        held.append(pa.total_allocated_bytes() - before)
    assert max(held) < table.path.stat().st_size / 3


def test_an_integer_csv_column_may_turn_out_to_hold_fractions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", 1024)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,\n" * 2000 + "0.5,0.25\n")
    table = Table(tmp_path / "t.csv")
    last = list(table.batches(["a", "b"]))[-1].to_pylist()[-1]
    assert last == {"a": 0.5, "b": 0.25}


def test_text_columns_of_a_csv_are_copied_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,day,a\n007,2024-01-02,1\nNA,2024-01-03,2\n")
    (batch,) = Table(tmp_path / "t.csv").batches(["a"], text=["id", "day"])
    assert batch.column("id").to_pylist() == ["007", "NA"]
    assert batch.column("day").to_pylist() == ["2024-01-02", "2024-01-03"]


def test_a_category_of_a_csv_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('c,copy,b\nred,red,true\n,,\nNA,NA,NA\n"",null,false\n')
    (batch,) = Table(tmp_path / "t.csv").batches(["c", "b"], text=["copy"])
    assert batch.column("c").to_pylist() == ["red", None, None, None]
    assert batch.column("b").to_pylist() == [True, None, None, False]
    assert batch.column("copy").to_pylist() == ["red", "", "NA", "null"]


def test_known_categories_of_a_csv_are_texts_whatever_they_look_like(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("zip,time,land\n01234,12:30,NA\n,NA,\n00501,13:30,DE\n")
    known = {"zip": ["01234"], "time": ["12:30"], "land": ["NA", "DE"]}
    (batch,) = Table(tmp_path / "t.csv").batches(["zip", "time", "land"], categories=known)
    assert batch.column("zip").to_pylist() == ["01234", None, "00501"]
    assert batch.column("time").to_pylist() == ["12:30", None, "13:30"]
    assert batch.column("land").to_pylist() == ["NA", None, "DE"]  # Namibia, once it is known


def test_a_sample_of_a_csv_is_what_pandas_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", 1024)
    head = "code,gap,half,flag,name\n"
    (tmp_path / "t.csv").write_text(head + "1,1,1,true,a\n" * 200 + "2,,0.5,,\n" + "3,3,3,false,b\n")
    columns = ["code", "gap", "half", "flag", "name"]
    sample = read_sample(Table(tmp_path / "t.csv"), l2x.Columns(), columns, 1000, seed=0)
    pd.testing.assert_frame_equal(sample, pd.read_csv(tmp_path / "t.csv"))
    assert sample["code"].dtype == np.int64
    assert isinstance(sample["flag"][200], float)  # NaN, not None


def test_decimals_are_numbers_unless_they_are_copied(tmp_path: Path) -> None:
    cells = pa.array([1, None, 3]).cast(pa.decimal128(21, 2))
    pa.parquet.write_table(pa.table({"d": cells, "copy": cells}), tmp_path / "t.parquet")
    (batch,) = Table(tmp_path / "t.parquet").batches(["d"], text=["copy"])
    assert batch.column("d").equals(pa.array([1.0, None, 3.0]))
    assert batch.column("copy").equals(cells)


def test_an_index_that_pandas_wrote_is_not_a_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]}).iloc[[2, 0, 1]]  # what train_test_split leaves behind
    table = write(frame, tmp_path / "t.parquet")
    assert table.columns == ["a"]
    assert table.index_columns == ["__index_level_0__"]


def test_how_much_is_read_grows_to_the_whole(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet"):
        table = write(pd.DataFrame({"a": np.arange(50.0)}), tmp_path / name)
        shares, rows = [], 0
        for batch in table.batches(["a"], batch_rows=10):
            rows += len(batch)
            shares.append(table.share_read(rows))
        assert shares == sorted(shares)
        assert table.share_read(rows) == 1.0


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.json", b"a\n1\n", "neither a .csv nor a .parquet"),
        ("t.csv", b"", "Empty CSV"),
        ("t.csv", b"a,a\n1,2\n", "more than one column named 'a'"),
        ("t.csv", b"a,b\n1\n", "Expected 2 columns, got 1"),
        ("t.parquet", b"not parquet at all", "Cannot read"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        Table(tmp_path / name)


def test_a_folder_and_nothing_at_all(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        Table(tmp_path / "folder.csv")
    with pytest.raises(InputError, match="There is no file"):
        Table(tmp_path / "nothing.csv")


def test_a_word_where_numbers_stood_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", 1024)
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 2000 + "oops\n")
    with pytest.raises(InputError, match=r"Cannot read '.*t\.csv'.*oops"):
        list(Table(tmp_path / "t.csv").batches(["a"]))


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    table = write(pd.DataFrame({"a": [1.0], "b": [2.0]}).set_index("b"), tmp_path / "t.parquet")
    table.require(["a", "b"], "copy")  # an index can be copied, too
    with pytest.raises(InputError, match=r"Cannot copy 'z': the columns of '.*t\.parquet' are a, b\.$"):
        table.require(["a", "z"], "copy")


def test_the_column_of_texts(tmp_path: Path) -> None:
    frame = pd.DataFrame({"title": ["x"], "n": [1], "review": ["y"]})
    table = write(frame, tmp_path / "t.csv")
    assert text_column(table, "n") == "n"
    assert text_column(table, None, others=["title"]) == "review"
    with pytest.raises(InputError, match=r"2 columns of texts: title, review; name"):
        text_column(table, None)
    with pytest.raises(InputError, match="no column of texts; name"):
        text_column(table, None, others=["title", "review"])
    with pytest.raises(InputError, match="Cannot read 'z'"):
        text_column(table, "z")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_training_rows_are_those_of_the_view_and_the_model(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"id": range(50), "b": np.arange(50.0), "a": 1.0, "text": "007"})
    table = write(frame, tmp_path / f"t{suffix}")

    def columns(view: View, **options: Any) -> list[str]:
        rows = read_training_rows(table, view, rows=20, seed=0, **options)
        assert len(rows) == 20
        return list(rows)

    assert columns(l2x.Columns()) == ["id", "b", "a", "text"]
    assert columns(l2x.Columns(), drop=["id"]) == ["b", "a", "text"]
    assert columns(l2x.Columns(), model_columns=["a", "b"]) == ["a", "b"]
    assert columns(l2x.Columns(), model_columns=["a", "elsewhere"], drop=["text"]) == ["id", "b", "a"]
    for names in (l2x.Words(), l2x.Sentences()):
        assert columns(names, model_columns=["a"], column="text") == ["text"]
    rows = read_training_rows(table, l2x.Words(), rows=20, seed=0, column="text")
    assert set(rows["text"]) == {"007"}
    with pytest.raises(InputError, match="is left"):
        columns(l2x.Columns(), drop=list(frame))
    with pytest.raises(InputError, match="Cannot drop 'z'"):
        columns(l2x.Columns(), drop=["z"])
    with pytest.raises(InputError, match="Patches cannot read a table"):
        columns(l2x.Patches())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_other_encodings_are_named_with_what_to_do(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("größe,b\n1,2\n", encoding=encoding)
    name = "LATIN1" if encoding == "latin-1" else "UTF-16"
    with pytest.raises(InputError, match=rf"is not UTF-8.*{name}.*iconv -f {name}"):
        Table(path)
    path.write_text("größe,b\n1,2\n", encoding="utf-8-sig")
    assert Table(path).columns == ["größe", "b"]


def test_a_bad_cell_is_named_with_its_place(tmp_path: Path) -> None:
    """Its column was numbers in the first block, from which types are guessed."""
    lines = ["a,b", *(f"{row},{row / 7}" for row in range(300_000))]
    lines[250_001] = "1,abc"
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"the cell in line 250002, column 2 is 'abc', .* correct it"):
        list(Table(path).batches(["a", "b"]))


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
