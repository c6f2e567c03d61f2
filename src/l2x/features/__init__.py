"""What one feature is: raw inputs to tensors, masks to masked inputs."""

from l2x.features._columns import ColumnGroups, Columns, as_columns, check_table, fitted_view, named_columns
from l2x.features._image_files import ImageFiles
from l2x.features._passages import Passages, as_passages, holds_passages
from l2x.features._patches import Patches, upsample
from l2x.features._superpixels import Superpixels
from l2x.features._table_input import LIMIT, WIDE, ByInput, MaskedTable, TableInput
from l2x.features._tables import UNSEEN, Levels, arrow_cells, is_missing
from l2x.features._texts import Sentences, Texts, TextView, Words
from l2x.features._view import (
    Measurement,
    TableLayout,
    View,
    as_tensor,
    checked_k,
    saved_options,
    selectable_units,
)
from l2x.features._vocabulary import FILLER, PAD, SPECIAL, TAG, word_tokenizer

__all__ = [
    "FILLER",
    "LIMIT",
    "PAD",
    "SPECIAL",
    "TAG",
    "UNSEEN",
    "WIDE",
    "ByInput",
    "ColumnGroups",
    "Columns",
    "ImageFiles",
    "Levels",
    "MaskedTable",
    "Measurement",
    "Passages",
    "Patches",
    "Sentences",
    "Superpixels",
    "TableInput",
    "TableLayout",
    "TextView",
    "Texts",
    "View",
    "Words",
    "arrow_cells",
    "as_columns",
    "as_passages",
    "as_tensor",
    "check_table",
    "checked_k",
    "fitted_view",
    "holds_passages",
    "is_missing",
    "named_columns",
    "saved_options",
    "selectable_units",
    "upsample",
    "word_tokenizer",
]
