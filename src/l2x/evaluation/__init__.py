"""How good is an explanation? Metrics, an independent evaluator, a leakage test, and a report of all of them.

A metric returns one value per row, (n,). A `Bootstrap` turns them into an `Estimate` with its interval, and a
`Report` is a list of estimates.
"""

from l2x.evaluation._boosted import BoostedEvaluator, fit_boosted_evaluator
from l2x.evaluation._comparison import Comparison, compare
from l2x.evaluation._evaluator import fit_evaluator, random_model
from l2x.evaluation._evidence import Reference
from l2x.evaluation._information import Information, SizeChoice, choose_k, information
from l2x.evaluation._leakage import mask_only_accuracy
from l2x.evaluation._metrics import (
    collapse,
    exact_sets,
    false_discovery_rate,
    jaccard,
    median_rank,
    selected_words,
    true_positive_rate,
)
from l2x.evaluation._parts import Entry, Part
from l2x.evaluation._report import Report, report
from l2x.evaluation._verdict import TOLERANCE
from l2x.learning import Bootstrap, ConditionalModel, Estimate, FittedSurrogate, posthoc_accuracy, posthoc_r2

__all__ = [
    "TOLERANCE",
    "BoostedEvaluator",
    "Bootstrap",
    "Comparison",
    "ConditionalModel",
    "Entry",
    "Estimate",
    "FittedSurrogate",
    "Information",
    "Part",
    "Reference",
    "Report",
    "SizeChoice",
    "choose_k",
    "collapse",
    "compare",
    "exact_sets",
    "false_discovery_rate",
    "fit_boosted_evaluator",
    "fit_evaluator",
    "information",
    "jaccard",
    "mask_only_accuracy",
    "median_rank",
    "posthoc_accuracy",
    "posthoc_r2",
    "random_model",
    "report",
    "selected_words",
    "true_positive_rate",
]
