"""l2x: real-time, model-agnostic explanations - which k features decided the model's answer?

Names load on first use, so that `l2x --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from l2x._version import __version__

if TYPE_CHECKING:
    from l2x import baselines, datasets, metrics
    from l2x.artifact import load
    from l2x.blackbox import as_black_box
    from l2x.card import ReportCard, report_card
    from l2x.errors import (
        ArtifactError,
        BlackBoxError,
        DataError,
        InputError,
        L2XError,
        MissingExtraError,
        NotFittedError,
    )
    from l2x.explainer import Explainer
    from l2x.explanation import Explanation
    from l2x.features.columns import Columns
    from l2x.features.groups import ColumnGroups
    from l2x.features.patches import Patches
    from l2x.features.sentences import Sentences
    from l2x.features.words import Words
    from l2x.sampling import ConcreteMax, ExactSum, PlackettLuce, Reinforce, RelaxedTopK, SoftAttention
    from l2x.size import choose_k
    from l2x.training import Phase, TrainingPlan
    from l2x.yardstick import oracle

_HOME = {
    "Explainer": "explainer",
    "Explanation": "explanation",
    "Columns": "features.columns",
    "ColumnGroups": "features.groups",
    "Patches": "features.patches",
    "Words": "features.words",
    "Sentences": "features.sentences",
    "ConcreteMax": "sampling",
    "ExactSum": "sampling",
    "PlackettLuce": "sampling",
    "RelaxedTopK": "sampling",
    "Reinforce": "sampling",
    "SoftAttention": "sampling",
    "TrainingPlan": "training",
    "Phase": "training",
    "as_black_box": "blackbox",
    "choose_k": "size",
    "load": "artifact",
    "oracle": "yardstick",
    "ReportCard": "card",
    "report_card": "card",
    "L2XError": "errors",
    "InputError": "errors",
    "BlackBoxError": "errors",
    "DataError": "errors",
    "ArtifactError": "errors",
    "MissingExtraError": "errors",
    "NotFittedError": "errors",
}
_MODULES = ("baselines", "datasets", "metrics")

__all__ = [
    "ArtifactError",
    "BlackBoxError",
    "ColumnGroups",
    "Columns",
    "ConcreteMax",
    "DataError",
    "ExactSum",
    "Explainer",
    "Explanation",
    "InputError",
    "L2XError",
    "MissingExtraError",
    "NotFittedError",
    "Patches",
    "Phase",
    "PlackettLuce",
    "Reinforce",
    "RelaxedTopK",
    "ReportCard",
    "Sentences",
    "SoftAttention",
    "TrainingPlan",
    "Words",
    "__version__",
    "as_black_box",
    "baselines",
    "choose_k",
    "datasets",
    "load",
    "metrics",
    "oracle",
    "report_card",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"l2x.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"l2x.{name}")
    else:
        raise AttributeError(f"module 'l2x' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
