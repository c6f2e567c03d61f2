"""The summary of many rows: right of the line is what was selected."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import l2x
from l2x.display._summary import above_selection


def test_right_of_the_line_is_selected(fitted: l2x.Explainer, table: np.ndarray) -> None:
    for k in (1, 3):
        explanation = fitted.explain(table, k=k)
        assert ((above_selection(explanation) > 0) == explanation.mask).all()
    assert (above_selection(fitted.explain(table, k=5)) >= 0).all()


def test_summary_plot(fitted: l2x.Explainer, table: np.ndarray, tmp_path: Path) -> None:
    explanation = fitted.explain(np.concatenate([table] * 3), k=2)
    figure = explanation.summary_plot(tmp_path / "summary.png")
    (axes,) = figure.axes
    assert (tmp_path / "summary.png").stat().st_size > 10_000
    assert axes.get_yticklabels()[0].get_text() == "x1"
    assert len(axes.texts) == 5  # a share for each feature
    assert "1,000 of 1,800 rows" in figure.get_supxlabel()
