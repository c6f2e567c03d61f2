"""The methods that the paper compares with, and controls, behind one verb: `explain(X, k) -> Explanation`.

`METHODS` is the registry of their names in `l2x.compare`, studies and experiments.

captum, shap, shapiq and lime come with the extra `baselines` and are imported when a method is used.
"""

from l2x.baselines._adversaries import MarginalLeak, PositionLeak, PredictionLeak
from l2x.baselines._controls import GlobalTopK, GreedySearch, Oracle, RandomK, oracle
from l2x.baselines._learned import Invase, RealX
from l2x.baselines._method import Method
from l2x.baselines._parzen import Parzen
from l2x.baselines._perturbation import KernelShap, Lime
from l2x.baselines._shapiq import ShapIQ
from l2x.baselines._white_box import LRP, DeepLift, IntegratedGradients, Saliency, Taylor, TreeShap

__all__ = [
    "LRP",
    "METHODS",
    "DeepLift",
    "GlobalTopK",
    "GreedySearch",
    "IntegratedGradients",
    "Invase",
    "KernelShap",
    "Lime",
    "MarginalLeak",
    "Method",
    "Oracle",
    "Parzen",
    "PositionLeak",
    "PredictionLeak",
    "RandomK",
    "RealX",
    "Saliency",
    "ShapIQ",
    "Taylor",
    "TreeShap",
    "make_method",
    "oracle",
]

METHODS: dict[str, type[Method]] = {
    "lime": Lime,
    "kernel_shap": KernelShap,
    "shapiq": ShapIQ,
    "deeplift": DeepLift,
    "integrated_gradients": IntegratedGradients,
    "saliency": Saliency,
    "parzen": Parzen,
    "lrp": LRP,
    "taylor": Taylor,
    "tree_shap": TreeShap,
    "invase": Invase,
    "realx": RealX,
    "random": RandomK,
    "global": GlobalTopK,
    "search": GreedySearch,
}


def make_method(name: str, **options: object) -> Method:
    """Create a method by its key, with those of the options that it takes.

    Parameters
    ----------
    name : str
        A key of `METHODS`.
    **options
        Options such as `model`, `features`, `background`, `seed`; others are ignored.

    Returns
    -------
    Method
        The method, not fitted yet.

    Examples
    --------
    >>> make_method("random", model=None, seed=3).seed
    3
    """
    own = METHODS[name].options()
    return METHODS[name](**{option: value for option, value in options.items() if option in own})
