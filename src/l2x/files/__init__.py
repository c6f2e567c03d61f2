"""Rows and predictions on disk: tables, journals, labelling."""

from l2x.files._journal import Journal
from l2x.files._labelling import RowsToLabel, label, label_blocks, label_rows
from l2x.files._predictions import (
    Origin,
    Predictions,
    check_predictions_path,
    equal_batches,
    prediction_batch,
    read_predictions,
    row_checksums,
)
from l2x.files._tables import (
    Table,
    columns_to_fit,
    format_of,
    read_sample,
    read_training_rows,
    text_column,
    view_batches,
    with_floats,
)
from l2x.files._writing import opened, standard_output, table_writer

__all__ = [
    "Journal",
    "Origin",
    "Predictions",
    "RowsToLabel",
    "Table",
    "check_predictions_path",
    "columns_to_fit",
    "equal_batches",
    "format_of",
    "label",
    "label_blocks",
    "label_rows",
    "opened",
    "prediction_batch",
    "read_predictions",
    "read_sample",
    "read_training_rows",
    "row_checksums",
    "standard_output",
    "table_writer",
    "text_column",
    "view_batches",
    "with_floats",
]
