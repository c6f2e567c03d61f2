"""Rows and predictions on disk: tables, journals, labelling."""

from l2x.files import _tables, _writing
from l2x.files._journal import Journal
from l2x.files._labelling import label, label_blocks, label_rows, share_of
from l2x.files._predictions import (
    Answers,
    Origin,
    answer_batch,
    check_answers_path,
    equal_batches,
    read_answers,
    row_checksums,
)
from l2x.files._tables import (
    Table,
    format_of,
    known_columns,
    read_sample,
    read_training_rows,
    text_column,
    view_batches,
    with_floats,
)
from l2x.files._writing import opened, standard_output, table_writer

__all__ = [
    "Answers",
    "Journal",
    "Origin",
    "Table",
    "_tables",
    "_writing",
    "answer_batch",
    "check_answers_path",
    "equal_batches",
    "format_of",
    "known_columns",
    "label",
    "label_blocks",
    "label_rows",
    "opened",
    "read_answers",
    "read_sample",
    "read_training_rows",
    "row_checksums",
    "share_of",
    "standard_output",
    "table_writer",
    "text_column",
    "view_batches",
    "with_floats",
]
