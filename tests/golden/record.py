"""Record what test_golden.py expects; run this only if the numbers are meant to change."""

from __future__ import annotations

import json
from pathlib import Path

import cases
import numpy as np

HERE = Path(__file__).parent


def record_outcomes() -> None:
    np.savez_compressed(HERE / "outcomes.npz", processor=cases.processor(), **cases.outcomes())


def record_artifacts() -> None:
    """Save an explainer of each view and each objective."""
    wanted = {"columns/surrogate", "columns/model", "columns/joint", "regression/surrogate"}
    wanted |= {f"{view}/surrogate" for view in ("frame", "groups", "words", "sentences", "patches")}
    for name, explainer, X in cases.explainers():
        if name in wanted:
            path = explainer.save(HERE / f"{name.replace('/', '-')}.l2x")
            explanation = explainer.explain(X[:20], polish=False)  # as it is without its model
            scores = np.take_along_axis(explanation.scores, explanation.indices, axis=1)
            outcome = {"indices": explanation.indices.tolist(), "scores": scores.astype(float).tolist()}
            path.with_suffix(".json").write_text(json.dumps(outcome | {"history": len(explainer.history_)}))


def record_reports() -> None:
    (HERE / "reports.json").write_text(json.dumps(cases.reports(), indent=1))


if __name__ == "__main__":
    record_outcomes()
    record_reports()
    record_artifacts()
