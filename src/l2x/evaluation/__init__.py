"""How good is an explanation? Against the model, against a judge, against known truth, in bits.

A metric is a value per row, (n,); `Bootstrap` makes an `Estimate` of them; a `ReportCard` is a list of those.
"""

from l2x.evaluation._card import ReportCard
from l2x.evaluation._choose_k import SizeChoice, choose_k
from l2x.evaluation._comparison import Comparison, compare
from l2x.evaluation._encoding import Encoding, encode_meter
from l2x.evaluation._information import Information, information
from l2x.evaluation._judge import fit_judge
from l2x.evaluation._mask_only import mask_only_accuracy
from l2x.evaluation._random_model import random_model
from l2x.evaluation._ranks import exact_sets, false_discovery_rate, median_rank, true_positive_rate
from l2x.evaluation._report_card import report_card
from l2x.evaluation._stability import collapse, jaccard
from l2x.evaluation._words import filler, selected_words
from l2x.learning import Bootstrap, ConditionalModel, Estimate, FittedQ, posthoc_accuracy, posthoc_r2

__all__ = [
    "Bootstrap",
    "Comparison",
    "ConditionalModel",
    "Encoding",
    "Estimate",
    "FittedQ",
    "Information",
    "ReportCard",
    "SizeChoice",
    "choose_k",
    "collapse",
    "compare",
    "encode_meter",
    "exact_sets",
    "false_discovery_rate",
    "filler",
    "fit_judge",
    "information",
    "jaccard",
    "mask_only_accuracy",
    "median_rank",
    "posthoc_accuracy",
    "posthoc_r2",
    "random_model",
    "report_card",
    "selected_words",
    "true_positive_rate",
]
