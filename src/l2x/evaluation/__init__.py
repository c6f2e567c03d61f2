"""How good is an explanation? Against the model, against a judge, against known truth, in bits.

A metric is a value per row, (n,); `Bootstrap` makes an `Estimate` of them; a `ReportCard` is a list of those.
"""

from l2x.conditional import ConditionalModel, FittedQ
from l2x.evaluation.agreement import posthoc_accuracy, posthoc_r2
from l2x.evaluation.bootstrap import Bootstrap, Estimate
from l2x.evaluation.card import ReportCard
from l2x.evaluation.choose_k import SizeChoice, choose_k
from l2x.evaluation.encoding import Encoding, encode_meter
from l2x.evaluation.information import Information, information
from l2x.evaluation.judge import fit_judge
from l2x.evaluation.mask_only import mask_only_accuracy
from l2x.evaluation.oracle import Oracle, oracle
from l2x.evaluation.random_model import random_model
from l2x.evaluation.ranks import exact_sets, false_discovery_rate, median_rank, true_positive_rate
from l2x.evaluation.report_card import report_card
from l2x.evaluation.stability import collapse, jaccard
from l2x.evaluation.words import filler, selected_words

__all__ = [
    "Bootstrap",
    "ConditionalModel",
    "Encoding",
    "Estimate",
    "FittedQ",
    "Information",
    "Oracle",
    "ReportCard",
    "SizeChoice",
    "choose_k",
    "collapse",
    "encode_meter",
    "exact_sets",
    "false_discovery_rate",
    "filler",
    "fit_judge",
    "information",
    "jaccard",
    "mask_only_accuracy",
    "median_rank",
    "oracle",
    "posthoc_accuracy",
    "posthoc_r2",
    "random_model",
    "report_card",
    "selected_words",
    "true_positive_rate",
]
