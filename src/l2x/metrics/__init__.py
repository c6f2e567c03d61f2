"""How good an explanation is: against the truth, against the model, in bits."""

from l2x.metrics.bootstrap import Bootstrap, Estimate
from l2x.metrics.encoding import Encoding, encode_meter, mask_only_accuracy
from l2x.metrics.fidelity import posthoc_accuracy, posthoc_r2
from l2x.metrics.information import Information, information
from l2x.metrics.judge import fit_judge
from l2x.metrics.randomised import random_model
from l2x.metrics.ranks import exact_sets, false_discovery_rate, median_rank, true_positive_rate
from l2x.metrics.stability import collapse, jaccard

__all__ = [
    "Bootstrap",
    "Encoding",
    "Estimate",
    "Information",
    "collapse",
    "encode_meter",
    "exact_sets",
    "false_discovery_rate",
    "fit_judge",
    "information",
    "jaccard",
    "mask_only_accuracy",
    "median_rank",
    "posthoc_accuracy",
    "posthoc_r2",
    "random_model",
    "true_positive_rate",
]
