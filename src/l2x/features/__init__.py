"""Feature views: what one feature is."""

from l2x.features.columns import Columns
from l2x.features.groups import ColumnGroups
from l2x.features.patches import Patches
from l2x.features.view import View

__all__ = ["ColumnGroups", "Columns", "Patches", "View"]
