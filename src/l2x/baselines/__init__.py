"""Every method that the paper compares with, and controls, behind one verb: `explain(X, k) -> Explanation`.

captum, shap and lime come with the extra `baselines` and are imported when a method is used.
"""

from l2x.baselines._cheaters import ByMarginal, ByPosition, ByPrediction
from l2x.baselines._controls import GlobalTopK, OracleExplainer, RandomK
from l2x.baselines._gradients import LRP, DeepLift, Saliency, Taylor
from l2x.baselines._method import Method
from l2x.baselines._oracle import Oracle, oracle
from l2x.baselines._parzen import Parzen
from l2x.baselines._perturbation import KernelShap, Lime
from l2x.baselines._search import GreedySearch
from l2x.baselines._table import METHODS, method_table
from l2x.baselines._trees import TreeShap

__all__ = [
    "LRP",
    "METHODS",
    "ByMarginal",
    "ByPosition",
    "ByPrediction",
    "DeepLift",
    "GlobalTopK",
    "GreedySearch",
    "KernelShap",
    "Lime",
    "Method",
    "Oracle",
    "OracleExplainer",
    "Parzen",
    "RandomK",
    "Saliency",
    "Taylor",
    "TreeShap",
    "method_table",
    "oracle",
]
