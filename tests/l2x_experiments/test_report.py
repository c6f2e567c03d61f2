"""Tables of records: for Markdown and for the terminal."""

from __future__ import annotations

from l2x_experiments.records import NOTHING, Records
from l2x_experiments.report import Table, mean_sd, name_of

RECORDS = Records([{"method": "a", "x": 1.0}, {"method": "a", "x": 2.0}, {"method": "b", "x": 3.0}])
CELLS = {"": name_of("method", {"a": "A", "b": "B"}), "x": mean_sd("x", digits=1), "y": mean_sd("y")}


def test_one_row_for_each_group_that_has_records() -> None:
    table = Table.of(RECORDS.groups(method="cba"), CELLS)
    assert table == Table(["", "x", "y"], [["B", "3.0", NOTHING], ["A", "1.5 ± 0.7", NOTHING]])


def test_transposed_without_empty_rows() -> None:
    table = Table.of(RECORDS.groups(method="ab"), CELLS).transposed()
    assert table == Table(["", "A", "B"], [["x", "1.5 ± 0.7", "3.0"]])


def test_markdown_and_terminal() -> None:
    table = Table(["k", "share"], [["1", "0.5"], ["2", "0.9"]])
    assert table.markdown() == "| k | share |\n|---|---|\n| 1 | 0.5 |\n| 2 | 0.9 |\n"
    drawn = table.rich("Shares")
    assert (drawn.title, drawn.row_count) == ("Shares", 2)
