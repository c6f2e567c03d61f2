"""What one feature is: raw inputs to tensors, masks to masked inputs."""

from l2x.features._cells import LIMIT
from l2x.features._columns import ColumnGroups, Columns
from l2x.features._frames import UNSEEN, Levels, arrow_cells, is_missing
from l2x.features._kinds import (
    TableReading,
    as_columns,
    check_table,
    fitted_view,
    has_distances,
    jitter,
    kind_of,
    named_columns,
    reading_of,
    selectable_units,
    unit_of,
    unseen,
)
from l2x.features._masking import draws_replacements, removals
from l2x.features._patches import Patches, upsample
from l2x.features._sentences import Sentences
from l2x.features._table_input import WIDE, ByInput, MaskedTable, TableInput
from l2x.features._texts import PAD, SPECIAL, TAG, Texts, TextView, word_tokenizer
from l2x.features._view import View, as_tensor, checked_k, saved_options
from l2x.features._words import FILLER, Words

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
    "Levels",
    "MaskedTable",
    "Patches",
    "Sentences",
    "TableInput",
    "TableReading",
    "TextView",
    "Texts",
    "View",
    "Words",
    "arrow_cells",
    "as_columns",
    "as_tensor",
    "check_table",
    "checked_k",
    "draws_replacements",
    "fitted_view",
    "has_distances",
    "is_missing",
    "jitter",
    "kind_of",
    "named_columns",
    "reading_of",
    "removals",
    "saved_options",
    "selectable_units",
    "unit_of",
    "unseen",
    "upsample",
    "word_tokenizer",
]
