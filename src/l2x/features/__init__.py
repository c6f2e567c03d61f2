"""Feature views: what one feature is."""

from l2x.features.columns import ColumnGroups, Columns
from l2x.features.patches import Patches
from l2x.features.sentences import Sentences
from l2x.features.view import View
from l2x.features.words import Words

__all__ = ["ColumnGroups", "Columns", "Patches", "Sentences", "View", "Words"]
