"""Figures of explanations (frequencies, scores), of k, and of methods; others have files of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import ranked
from l2x.display._readings import has_effects
from l2x.display._signed import DOTS, MOST, plot_waterfall, rows_by_class, sample
from l2x.display._style import (
    ACCENT,
    DOTTED,
    INK,
    MUTED,
    NOTE_WIDTH,
    SECOND,
    SOFT,
    THIRD,
    count,
    grid_lines,
    label,
    label_rows,
    new_figure,
    note,
    percent,
    saved,
    shortened,
    size_text,
    style,
    values_of,
)
from l2x.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from l2x.evaluation import Comparison, SizeChoice
    from l2x.learning import Estimate

END_WIDTH = 0.07  # width of the text at a bar's end, as a share of the longest bar
# Classes that are predicted, the most frequent first; shapes for readers who do not see the colours.
CLASS_MARKS = ((ACCENT, "o"), (SECOND, "D"), (THIRD, "s"), (INK, "^"))
# Lines in the order of their series, each with its own mark; the last one, the baseline, is grey (SOFT).
LINES = (
    (ACCENT, "o"), (SECOND, "D"), (THIRD, "s"), ("#8e5ea2", "^"), ("#b8405e", "v"), (INK, "P"),
    ("#2a9d9d", "X"), ("#8a6d3b", "*"), (MUTED, "<"),
)  # fmt: skip


def plot_bars(
    labels: Sequence[str],
    values: Sequence[float],
    ends: Sequence[str],
    *,
    title: str,
    remark: str,
    full: float | None = None,
    dotted: float | None = None,
    parts: Mapping[str, Sequence[float]] = {},
) -> Figure:
    """Draw horizontal bars, the first on top, with the texts `ends` at their ends and a remark below.

    `full` is the value of a bar across the whole figure, by default the largest value; `dotted` is the
    position of a vertical reference line. Two or more `parts`, such as classes, have a mark on every bar.
    """
    marked = dict(list(parts.items())[: len(CLASS_MARKS)]) if len(parts) > 1 else {}
    full = full or max([*values, *(value for part in marked.values() for value in part)], default=0.0) or 1.0
    with style():
        room = NOTE_WIDTH - max(map(len, labels), default=0)
        columns = max(1, room // (6 + max(map(len, marked), default=0)))
        legend = 0.25 * -(-len(marked) // columns)
        figure, (axes,) = new_figure(0.9 + 0.27 * len(labels) + legend, title=title)
        axes.barh(range(len(labels)), values, height=0.72, color=SOFT if marked else ACCENT)
        if dotted is not None:
            axes.axvline(dotted, **DOTTED)
        for (name, part), (colour, marker) in zip(marked.items(), CLASS_MARKS, strict=False):
            look: dict[str, Any] = {"color": colour, "marker": marker, "label": name, "clip_on": False}
            axes.scatter(part, range(len(labels)), s=38, zorder=3, **look)
        for line, end in enumerate(ends):
            value = values[line]
            # Texts that the dotted line would cut through are written beyond it; next to marks, in a column.
            if dotted is not None and 0 <= dotted - value < END_WIDTH * full:
                value = dotted
            place = 1.03 * full if marked else value + 0.01 * full
            axes.text(place, line, end, va="center", color=INK)
        if marked:
            axes.tick_params(axis="y", pad=7)  # marks at zero
            axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=min(columns, len(marked)),
                        borderaxespad=0, handletextpad=0.1, columnspacing=1.2)  # fmt: skip
        label_rows(axes, labels)
        axes.set_xlim(0, 1.1 * full)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        note(figure, remark)
    return figure


def plot_table(explanation: Explanation) -> Figure:
    """Draw how often each feature is selected; for a single row, its effects or, if unknown, its scores."""
    if len(explanation) > 1:
        return plot_frequencies(explanation)
    return plot_waterfall(explanation) if has_effects(explanation) else plot_scores(explanation)


def plot_frequencies(explanation: Explanation) -> Figure:
    """Draw the share of rows in which each feature is selected, also by predicted class."""
    n, d = explanation.scores.shape
    share = explanation.mask.mean(axis=0) if n else np.zeros(d)
    order = np.argsort(-share, kind="stable")
    shown = order[: min(MOST, max(1, int((share > 0).sum())))]
    chance = float(explanation.mask.mean()) if n else explanation.k / d
    hidden = share[order[len(shown) :]]
    rest = ""
    if len(hidden):
        most = f"at most {percent(hidden.max())} of the rows" if hidden.any() else "no row"
        rest = f"; {count(len(hidden), 'more feature')}, each in {most}"
    drawn = sample(explanation, DOTS)
    classes = {
        name: drawn.mask[rows][:, shown].mean(axis=0) for name, rows in (rows_by_class(drawn) or {}).items()
    }
    return plot_bars(
        [label(explanation.feature_names[i]) for i in shown],
        share[shown].tolist(),
        [percent(share[i]) for i in shown],
        full=1.0,
        dotted=chance,
        parts=classes,
        title=f"How often each feature is selected ({size_text(explanation)})",
        remark=f"Bars and numbers: share of {count(n, 'row')}{rest}. "
        f"Dotted: a random selection ({percent(chance)})." + by_class_note(classes, len(drawn), n, "row"),
    )


def by_class_note(parts: Mapping[str, Any], drawn: int, n: int, noun: str) -> str:
    """Return what the marks of `plot_bars` are, if there are any."""
    if len(parts) < 2:
        return ""
    sampled = f" (among {count(drawn, noun)} drawn at random)" if drawn < n else ""
    more = (
        f"; the {len(parts) - len(CLASS_MARKS)} rarest classes not shown"
        if len(parts) > len(CLASS_MARKS)
        else ""
    )
    return f" Marks: share of the {noun}s with one predicted class{sampled}{more}."


def plot_scores(explanation: Explanation, *, unit: str = "feature", of: str = "row") -> Figure:
    """Draw the scores of the first row, best first, with values next to the names.

    The title calls a feature `unit` ("word") and the input `of` ("text").
    """
    scores, k = explanation.scores[0], int(explanation.selected[0].sum())
    shown = ranked(explanation.scores)[0][: max(MOST, min(k, 2 * MOST))]
    shown = shown[np.isfinite(scores[shown])]  # padding cannot be selected
    values = values_of(explanation, 0)
    most_important = f"The most important {unit}" if k == 1 else f"The {k} most important {unit}s"
    with style():
        figure, (axes,) = new_figure(0.9 + 0.27 * len(shown), title=f"{most_important} of this {of}")
        colours = [ACCENT if rank < k else SOFT for rank in range(len(shown))]
        # Dots instead of bars: differences between scores have a meaning, their zero has none.
        left = scores[shown].min() - 0.06 * (np.ptp(scores[shown]) or 1.0)
        axes.hlines(range(len(shown)), left, scores[shown], color=colours, linewidth=1.6)
        axes.scatter(scores[shown], range(len(shown)), color=colours, s=42, zorder=3)
        label_rows(axes, [label(explanation.feature_names[i], values[i]) for i in shown])
        for rank, text in enumerate(axes.get_yticklabels()):
            text.set_color(INK if rank < k else MUTED)
        if k < len(shown):
            axes.axhline(k - 0.5, **DOTTED)
        axes.set_xlim(left=left)
        hidden = len(scores) - len(shown)
        rest = f"; {count(hidden, unit)} with lower scores not shown" if hidden else ""
        note(figure, f"Scores of the selector{rest}.")
    return figure


def plot_sizes(choice: SizeChoice, path: str | Path | None = None) -> Figure:
    """Draw the share of the information in k features over k, with the chosen k marked."""
    with style():
        title = f"{count(choice.k, 'feature')} for {choice.keep:.0%} of the information"
        figure, (axes,) = new_figure(3.0, title=title)
        draw_curve(axes, choice.sizes, choice.shares, limit=choice.keep)
        at = choice.shares[choice.sizes.index(choice.k)]
        axes.plot(choice.k, at, color=SECOND, marker="o", markersize=9)
        axes.annotate(f"k = {choice.k}", (choice.k, at), (8, -14), textcoords="offset points", color=SECOND)
        axes.set_ylabel("share of the information")
    return saved(figure, path)


def draw_curve(axes: Axes, sizes: Sequence[int], values: Sequence[float], *, limit: float) -> None:
    """Draw a value over the number of selected features, with a dotted line at `limit`."""
    axes.axhline(limit, **DOTTED)
    axes.plot(sizes, values, color=ACCENT, linewidth=2, marker="o", markersize=4)
    grid_lines(axes)
    if max(sizes, default=0) <= 16:
        axes.set_xticks(sizes)  # matplotlib would also mark halves
    axes.set_xlabel("selected features, k", loc="left")


def plot_lines(
    x: Sequence[float], series: Mapping[str, Any], *, title: str, x_label: str, y_label: str
) -> Figure:
    """Draw one line per series and write its name at its end.

    A series has shape (points,), or (draws, points): then the line is the mean, with a band from the lowest
    to the highest draw.
    """
    with style():
        figure, (axes,) = new_figure(3.3, title=title)
        ends = {}
        looks = (*(LINES * len(series))[: max(1, len(series) - 1)], (SOFT, "o"))
        for name, (colour, marker) in zip(series, looks, strict=False):
            values = np.atleast_2d(np.asarray(series[name], dtype=float))
            mean = values.mean(axis=0)
            if len(values) > 1:
                low, high = values.min(axis=0), values.max(axis=0)
                axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(x, mean, color=colour, linewidth=2, marker=marker, markersize=5)
            ends[name] = (float(mean[-1]), colour)
        _name_ends(axes, x[-1], ends)
        grid_lines(axes)
        if len(x) <= 12 and all(float(value).is_integer() for value in x):
            axes.set_xticks(list(x))
        axes.set_xlabel(x_label, loc="left")
        axes.set_ylabel(y_label)
    return figure


def _name_ends(axes: Axes, x: float, ends: Mapping[str, tuple[float, str]]) -> None:
    """Write names at the right of the lines, moved apart if lines end close together."""
    low, high = axes.get_ylim()
    gap, previous = 0.075 * (high - low), float("-inf")
    for name, (y, colour) in sorted(ends.items(), key=lambda item: item[1][0]):
        previous = max(y, previous + gap)
        axes.annotate(
            name, (x, previous), (9, 0), textcoords="offset points", va="center", color=colour,
            annotation_clip=False,
        )  # fmt: skip


def draw_estimates(axes: Axes, estimates: Sequence[Estimate], colours: Sequence[str]) -> None:
    """Draw one estimate per line as a dot with its interval, the first on top."""
    for y, (estimate, colour) in enumerate(zip(estimates, colours, strict=True)):
        axes.hlines(y, estimate.low, estimate.high, color=colour, linewidth=3, alpha=0.5)
        axes.plot(estimate.value, y, color=colour, marker="o", markersize=6)
    axes.grid(axis="x", linewidth=0.8)


def plot_comparison(comparison: Comparison, path: str | Path | None = None) -> Figure:
    """Draw each method's post-hoc accuracy (left) and its time per row on a log scale (right).

    Grey dots show the same number of random features.
    """
    lines = comparison.methods
    selected = f"{comparison.k} of {comparison.features} features"
    title = f"{comparison.measure[:1].upper()}{comparison.measure[1:]} with {selected}, and time per row"
    with style():
        figure, (left, right) = new_figure(1.3 + 0.3 * len(lines), columns=2, title=title)
        left.scatter([line.random for line in lines], range(len(lines)), color=SOFT, s=36)
        draw_estimates(left, [line.posthoc_accuracy for line in lines], [ACCENT] * len(lines))
        label_rows(left, [shortened(line.method, 22) for line in lines])
        left.set_xlabel(comparison.measure, loc="left")
        _draw_durations(right, [max(line.seconds_per_row, 1e-7) for line in lines])
        remark = f"{comparison.rows:,} rows; bars: 95 % intervals; grey: the same number of random features."
        if fitted := [f"{line.method} {line.fit_seconds:.0f} s" for line in lines if line.fit_seconds > 0.5]:
            remark += f" Fitted first: {', '.join(fitted)}."
        note(figure, remark)
    return saved(figure, path)


def _draw_durations(axes: Axes, seconds: Sequence[float]) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator

    duration = EngFormatter(unit="s")
    axes.barh(range(len(seconds)), seconds, height=0.6, color=SECOND)
    axes.set_xscale("log")
    label_rows(axes, [""] * len(seconds))
    for y, value in enumerate(seconds):
        text = duration(float(f"{value:.2g}"))
        axes.annotate(text, (value, y), (4, 0), textcoords="offset points", va="center")
    axes.set_xlim(min(seconds) / 3, 30 * max(seconds))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(duration)
    axes.xaxis.set_major_locator(LogLocator(numticks=4))
    axes.tick_params(axis="x", labelcolor=MUTED)
    axes.set_xlabel("seconds per row", loc="left")
