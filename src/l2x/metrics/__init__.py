"""How good an explanation is: against the truth, against the model, in bits."""

from l2x.metrics.encoding import mask_only_accuracy
from l2x.metrics.fidelity import posthoc_accuracy, posthoc_r2
from l2x.metrics.information import Information, information
from l2x.metrics.judge import fit_judge
from l2x.metrics.ranks import exact_sets, median_rank, true_positive_rate

__all__ = [
    "Information",
    "exact_sets",
    "fit_judge",
    "information",
    "mask_only_accuracy",
    "median_rank",
    "posthoc_accuracy",
    "posthoc_r2",
    "true_positive_rate",
]
