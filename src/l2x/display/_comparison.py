"""Methods side by side: what they keep of the model's answers, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from l2x.display._labels import shortened
from l2x.display._style import ACCENT, MUTED, SECOND, SOFT, label_rows, new_figure, note, saved, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from l2x.evaluation._comparison import Comparison


def plot_comparison(comparison: Comparison, path: str | Path | None = None) -> Figure:
    """Left, what is kept, with its interval, and what random features keep; right, seconds on a log scale."""
    lines = comparison.methods
    height = 1.3 + 0.3 * len(lines)
    title = f"What {comparison.k} of {comparison.features} features keep, and what finding them costs"
    with style():
        from matplotlib.ticker import LogLocator

        figure, (left, right) = new_figure(height, columns=2, title=title)
        for y, line in enumerate(lines):
            left.hlines(y, line.kept.low, line.kept.high, color=ACCENT, linewidth=3, alpha=0.5)
            left.plot(line.random, y, color=SOFT, marker="o", markersize=6)
            left.plot(line.kept.value, y, color=ACCENT, marker="o", markersize=7)
        label_rows(left, [shortened(line.method, 22) for line in lines])
        left.grid(axis="x", linewidth=0.8)
        left.set_xlabel(comparison.measure, loc="left")
        seconds = [max(line.seconds_per_row, 1e-7) for line in lines]
        right.barh(range(len(lines)), seconds, height=0.6, color=SECOND)
        right.set_xscale("log")
        label_rows(right, [""] * len(lines))
        for y, each in enumerate(seconds):
            right.annotate(duration(each), (each, y), (4, 0), textcoords="offset points", va="center")
        right.set_xlim(min(seconds) / 3, 30 * max(seconds))
        right.minorticks_off()
        right.xaxis.set_major_formatter(lambda each, _: duration(each))
        right.xaxis.set_major_locator(LogLocator(numticks=4))
        right.tick_params(axis="x", labelcolor=MUTED)
        right.set_xlabel("seconds per row", loc="left")
        remark = f"{comparison.rows:,} rows; bars: 95 % intervals; grey: as many random features."
        if learning := [
            f"{line.method} {line.fit_seconds:.0f} s" for line in lines if line.fit_seconds > 0.5
        ]:
            remark += f" Learning first: {', '.join(learning)}."
        note(figure, remark)
    return saved(figure, path)


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(1.2), duration(0.0031), duration(4.2e-6), duration(470e-6)
    ('1.2 s', '3.1 ms', '4.2 µs', '470 µs')
    """
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    unit = next((unit for unit, size in units.items() if seconds >= 0.9995 * size), "µs")
    number = seconds / units[unit]
    return f"{number:.2g} {unit}" if number < 99.5 else f"{number:,.0f} {unit}"
