"""The ways to select that a study compares, by the names that the command line knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from l2x import baselines
from l2x.errors import InputError
from l2x.export import load
from l2x.features import View, kind_of
from l2x.model import BlackBox

WHOLE = "whole"
OURS = "l2x"
# (the model as the user has it, its black box, the fitted view, seed) -> something with explain(X, k).
Make = Callable[[Any, BlackBox, View, int], Any]


def _signed(view: View) -> bool:
    """Words and patches are ranked by what speaks for the predicted class, columns by what matters at all."""
    return kind_of(view) != "table"


def _white_box(method: Any) -> Make:
    return lambda model, _, view, seed: method(model, features=view, magnitude=not _signed(view))


def _sampling(method: Any) -> Make:
    return lambda _, black_box, view, seed: method(
        black_box, features=view, magnitude=not _signed(view), seed=seed
    )


BY_NAME: dict[str, Make] = {
    "taylor": _white_box(baselines.Taylor),
    "saliency": lambda model, _, view, seed: baselines.Saliency(model, features=view),
    "deeplift": _white_box(baselines.DeepLift),
    "tree_shap": _white_box(baselines.TreeShap),
    "lime": _sampling(baselines.Lime),
    "kernel_shap": _sampling(baselines.KernelShap),
    "search": lambda _, black_box, view, seed: baselines.GreedySearch(black_box, features=view),
    "random": lambda model, _, view, seed: baselines.RandomK(features=view, seed=seed),
}


def contenders(
    against: Sequence[str] | Mapping[str, Any], explainer: Any, model: Any, black_box: BlackBox, *, seed: int
) -> dict[str, Any]:
    """{name: something with explain(X, k), or None for the whole input}, the explainer first.

    `against` has names of BY_NAME, "whole", and paths of other saved explainers, which are called by the
    stems of their files; or it maps names of one's own to objects.
    """
    given = against if isinstance(against, Mapping) else dict.fromkeys(against)
    found: dict[str, Any] = {OURS: explainer}
    for name, method in given.items():
        label = Path(name).stem if name.endswith(".l2x") else name
        if label in found:
            raise InputError(f"Two methods are called '{label}'; rename one of them.")
        if method is not None or name == WHOLE:
            found[label] = method
        elif name.endswith(".l2x"):
            found[label] = load(name, model=black_box)
        elif name in BY_NAME:
            found[label] = BY_NAME[name](model, black_box, explainer.features_, seed)
        else:
            raise InputError(
                f"There is no method {name!r}; choose among {', '.join(BY_NAME)}, {WHOLE}, or give a saved "
                "explainer (other.l2x)."
            )
    return found
