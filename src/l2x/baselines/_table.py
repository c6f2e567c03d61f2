"""The paper's Table 1, from the code: what each method needs and, measured, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from l2x.baselines._controls import GlobalTopK, OracleExplainer, RandomK
from l2x.baselines._gradients import LRP, DeepLift, Saliency, Taylor
from l2x.baselines._method import Method
from l2x.baselines._parzen import Parzen
from l2x.baselines._perturbation import KernelShap, Lime
from l2x.baselines._search import GreedySearch
from l2x.baselines._trees import TreeShap
from l2x.errors import InputError

# The rows of Table 1 in its order ("Salient map" is Saliency), before L2X itself.
TABLE_1: tuple[type[Method], ...] = (Lime, KernelShap, DeepLift, Saliency, Parzen, LRP)
# Shown below them where they were timed.
OTHERS: tuple[type[Method], ...] = (Taylor, TreeShap, RandomK, GlobalTopK, OracleExplainer, GreedySearch)

METHODS: dict[str, type[Method]] = {method.name: method for method in (*TABLE_1, *OTHERS)}


def method_table(milliseconds: Mapping[str, float]) -> list[dict[str, Any]]:
    """Table 1 with measured milliseconds per row in place of "low" and "high"; None where not measured.

    `milliseconds` is keyed by the methods' names (`Lime.name`), and "L2X" for `l2x.Explainer`.

    Returns
    -------
    One mapping for each method, in the table's order.

    Raises
    ------
    InputError
        If a method is not one of `METHODS` or L2X.

    >>> method_table({"LIME": 40.0})[0]
    {'method': 'LIME', 'training': False, 'milliseconds': 40.0, 'additive': True, 'model_agnostic': True}
    """
    unknown = sorted(set(milliseconds) - set(METHODS) - {"L2X"})
    if unknown:
        raise InputError(f"There is no method {unknown[0]!r}; choose among {', '.join(METHODS)}, L2X.")
    rows = [_row(method, milliseconds) for method in TABLE_1]
    learned = {"method": "L2X", "training": True, "milliseconds": milliseconds.get("L2X")}
    rows.append(learned | {"additive": False, "model_agnostic": True})
    return rows + [_row(method, milliseconds) for method in OTHERS if method.name in milliseconds]


def _row(method: type[Method], milliseconds: Mapping[str, float]) -> dict[str, Any]:
    return {
        "method": method.name,
        "training": method.needs_training,
        "milliseconds": milliseconds.get(method.name),
        "additive": method.additive,
        "model_agnostic": method.model_agnostic,
    }
