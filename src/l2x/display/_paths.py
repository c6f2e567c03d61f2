"""Decision paths of sequential explanations: in words, and as a tree for all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from l2x._base.arrays import Array
from l2x.display._style import (
    ACCENT,
    INK,
    MUTED,
    SOFT,
    cell_text,
    count,
    new_figure,
    note,
    percent,
    saved,
    shortened,
    style,
    values_of,
    with_value,
)
from l2x.errors import InputError
from l2x.explanation import Explanation, own_names
from l2x.features import as_columns, is_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Branches with a smaller share of the rows are drawn as one.
SMALLEST = 0.02
# Categories that a branch names.
NAMED = 2
# Inches per step, the share of a step that a feature's box takes, and characters of a feature and of the
# values on a branch.
STEP, BOX, NAME, VALUES = 3.0, 0.46, 18, 24


def path_texts(explanation: Explanation) -> list[str]:
    """Return the decision path of each row; see `Explanation.paths`."""
    _check(explanation)
    own = own_names(explanation)
    names = np.asarray(explanation.feature_names, dtype=object)[explanation.indices] if own is None else own
    texts = []
    for row, (indices, selected) in enumerate(zip(explanation.indices, explanation.selected, strict=True)):
        values = values_of(explanation, row)
        steps = [
            with_value(names[row, j], values[i]) if own is None else f"“{names[row, j]}”"
            for j, i in enumerate(indices)
            if selected[j]
        ]
        texts.append(", then ".join(steps))
    return texts


def _check(explanation: Explanation) -> None:
    if not explanation.sequential:
        raise InputError(
            "Features of this explanation were selected all at once: it has no decision paths. Use "
            "l2x.Explainer(..., selector='sequential')."
        )


@dataclass
class Node:
    """A selected feature, or the end of a path, and the rows that reach it.

    Attributes
    ----------
    feature : int or None
        None at the end of a path.
    rows : (n,) array of int
    values : str
        The values of the feature before that lead here.
    branches : list of Node
        The largest first.
    """

    feature: int | None
    rows: Array
    values: str = ""
    branches: list[Node] = field(default_factory=list)

    @property
    def leaves(self) -> int:
        """The number of paths that end below this node."""
        return sum(branch.leaves for branch in self.branches) or 1

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """Yield the nodes with their depth."""
        yield depth, self
        for branch in self.branches:
            yield from branch.walk(depth + 1)


def path_tree(explanation: Explanation) -> Node:
    """Return the tree of the decision paths of all rows."""
    _check(explanation)
    indices = np.where(explanation.selected, explanation.indices, -1)
    everyone = np.arange(len(explanation))
    root = Node(int(indices[0, 0]), everyone)
    _grow(root, explanation, indices, 0)
    return root


def _grow(node: Node, explanation: Explanation, indices: Array, depth: int) -> None:
    following = indices[node.rows, depth + 1] if depth + 1 < indices.shape[1] else np.full(len(node.rows), -1)
    features, sizes = np.unique(following, return_counts=True)
    for feature in features[np.argsort(-sizes, kind="stable")].tolist():
        rows = node.rows[following == feature]
        branch = Node(None if feature < 0 else feature, rows, _values(explanation, node.feature, rows))
        node.branches.append(branch)
        if feature >= 0:
            _grow(branch, explanation, indices, depth + 1)


def _values(explanation: Explanation, feature: int | None, rows: Array) -> str:
    """Return the values of a column in these rows: a number, the range of most of them, or categories."""
    view = None if explanation.view is None else as_columns(explanation.view)
    if view is None or feature is None or explanation.inputs is None:
        return ""
    inputs = explanation.inputs
    column = inputs[:, feature] if isinstance(inputs, np.ndarray) else inputs[view.column_names_[feature]]
    cells = pd.Series(np.asarray(column, dtype=object)[rows])
    missing = cells.map(is_missing)
    known = cells[~missing]
    parts = ["missing"] * bool(missing.any())
    if len(known) and feature not in view.levels_:
        numbers = known.astype(float).to_numpy()
        low, high = np.quantile(numbers, [0.05, 0.95], method="nearest")
        parts.insert(0, cell_text(low) if low == high else f"{cell_text(low)} to {cell_text(high)}")
    elif len(known):
        counts = known.astype(str).value_counts()
        more = [f"{len(counts) - NAMED} more"] if len(counts) > NAMED else []
        parts = [*(shortened(name, VALUES - 8) for name in counts.index[:NAMED]), *more, *parts]
    return " or ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def plot_tree(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """Draw the decision paths of all rows as a tree; see `Explanation.tree`."""
    root, n, k = path_tree(explanation), len(explanation), explanation.k
    _merge(root, explanation, n)
    title = f"Decision paths of {count(n, 'row')}, {k} of {count(len(explanation.feature_names), 'feature')}"
    with style():
        height = 1.1 + 0.45 * root.leaves
        figure, (axes,) = new_figure(height, title=title)
        figure.set_size_inches(STEP * k + 0.6, height)
        axes.set_axis_off()
        axes.set_xlim(-0.02, k + 0.15)
        axes.set_ylim(root.leaves - 0.4, -0.6)
        _draw(axes, root, explanation, n, depth=0, top=0)
        note(
            figure,
            "From left to right, each feature was selected by the values of those before it. Percentages are "
            "shares of all rows, as are the widths of the branches; their texts are the values that lead on, "
            f"for numbers the range of 90 % of them. Branches below {SMALLEST:.0%} are drawn together.",
        )
    return saved(figure, path)


def _merge(node: Node, explanation: Explanation, n: int) -> None:
    """Join small branches, so that the figure stays readable."""
    small = [branch for branch in node.branches if len(branch.rows) < SMALLEST * n]
    if small and len(node.branches) > 1:
        rows = np.sort(np.concatenate([branch.rows for branch in small]))
        several = len({branch.feature for branch in small}) > 1
        joined = Node(-1 if several else small[0].feature, rows, _values(explanation, node.feature, rows))
        node.branches = [branch for branch in node.branches if len(branch.rows) >= SMALLEST * n] + [joined]
    for branch in node.branches:
        _merge(branch, explanation, n)


def _draw(axes: Axes, node: Node, explanation: Explanation, n: int, depth: int, top: float) -> float:
    """Draw a node and everything below it from the line `top` on; return the height of the node."""
    here = top + (node.leaves - 1) / 2
    for branch in node.branches:
        below = _draw(axes, branch, explanation, n, depth + 1, top)
        share = len(branch.rows) / n
        turn = depth + BOX
        axes.plot([depth + 0.1, turn, depth + 1], [here, below, below], color=SOFT, linewidth=1 + 9 * share,
                  zorder=1, solid_joinstyle="round")  # fmt: skip
        axes.text(turn + 0.01, below - 0.12 - 0.2 * share, shortened(branch.values, VALUES), va="bottom",
                  color=MUTED, fontsize="small", zorder=3)  # fmt: skip
        top += branch.leaves
    size = percent(len(node.rows) / n)
    if node.feature is None:
        axes.text(depth + 0.02, here, size, va="center", color=INK, zorder=3)
        return here
    name = "other features" if node.feature < 0 else shortened(explanation.feature_names[node.feature], NAME)
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": ACCENT, "linewidth": 1.0}
    axes.text(depth, here, f"{name}\n{size}", va="center", color=INK, fontsize="small", zorder=4, bbox=box)
    return here
