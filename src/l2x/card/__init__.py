"""The report card: can this explanation be trusted?"""

from l2x.card.card import Entry, Part, ReportCard
from l2x.card.measure import report_card

__all__ = ["Entry", "Part", "ReportCard", "report_card"]
