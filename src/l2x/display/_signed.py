"""Figures of signed effects: a waterfall for one row, a beeswarm for many, one feature against its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._base.arrays import Array, ranked
from l2x.display._interop import numbers_of
from l2x.display._readings import REST, Reading, affordable, class_name, direction_words, readings
from l2x.display._style import (
    AGAINST,
    DOTTED,
    GRID,
    INK,
    MUTED,
    SOFT,
    TOWARDS,
    amount,
    count,
    label,
    label_rows,
    level,
    new_figure,
    note,
    percent,
    saved,
    shortened,
    size_text,
    style,
    values_of,
)
from l2x.errors import InputError, require, some
from l2x.explanation import Explanation, Scale, own_names
from l2x.features import as_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 15  # lines of a figure; a reader does not take in more
DOTS = 1000  # rows that are drawn; more dots would cover each other
TEXTS = 200  # texts that are drawn: their effects take milliseconds each
VALUE_COLOURS = "viridis"
# Effects are written with one decimal of a percentage point, and smaller differences are rounding errors.
LEAST_SPAN: dict[Scale, float] = {"probability": 0.005, "log-odds": 0.005}
ROUNDING = 1e-6  # the same for predicted values, relative to the largest one
AXIS = {"probability": "percentage points", "log-odds": "log-odds", "value": "units of the prediction"}


def with_effects(explanation: Explanation) -> Explanation:
    """Return the explanation for a figure, which queries a remote model only if nothing else is available."""
    return affordable(explanation) or explanation


# One row


def plot_waterfall(explanation: Explanation) -> Figure:
    """Draw the first row: from the base, by signed steps of features and the rest, to the prediction."""
    one = with_effects(explanation[0])
    (reading,) = readings(one)
    values, names = values_of(one, 0), one.names[0]
    chosen = one.indices[0][one.selected[0]]
    labels = [label(name, values[i]) for name, i in zip(names, chosen, strict=True)]
    with style():
        steps = Steps.of(reading, labels)
        figure, (axes,) = new_figure(1.35 + 0.29 * len(steps.labels), title=reading.title)
        draw_waterfall(axes, steps)
        note(
            figure,
            f"{how_to_read(reading)} Selected: {len(chosen)} of {count(one.scores.shape[1], 'feature')}.",
        )
    return figure


def how_to_read(reading: Reading) -> str:
    """Return the line below a figure of one row."""
    towards, against = reading.directions
    comparison = reading.comparison[0].upper() + reading.comparison[1:]
    return f"{comparison}. Solid: {towards}; hatched: {against}."


@dataclass(frozen=True)
class Steps:
    """The steps of a waterfall, from the base to the prediction."""

    labels: Sequence[str]
    sizes: Sequence[float]  # of the steps, without base and prediction
    base: float
    scale: Scale

    @classmethod
    def of(cls, reading: Reading, labels: Sequence[str]) -> Steps:
        """Return one step per selected feature and one for the rest; small effects beyond MOST are joined."""
        sizes = reading.effects.tolist()
        if len(sizes) > MOST:
            kept = sorted(np.argsort(-np.abs(reading.effects), kind="stable")[: MOST - 1].tolist())
            joined = f"{count(len(sizes) - len(kept), 'other selected feature')}"
            labels = [*(labels[i] for i in kept), joined]
            sizes = [*(sizes[i] for i in kept), float(reading.effects.sum() - reading.effects[kept].sum())]
        steps = ["no feature", *labels, REST, "prediction"]
        return cls(steps, [*sizes, reading.rest], reading.base, reading.scale)


def draw_waterfall(axes: Axes, steps: Steps) -> None:
    """Draw the steps from top to bottom, each from where the one above ends."""
    totals = steps.base + np.concatenate([[0.0], np.cumsum(steps.sizes)])
    last = len(steps.sizes)
    least = LEAST_SPAN.get(steps.scale, ROUNDING * float(np.abs(totals).max()) or 1.0)
    span = max(float(np.ptp(totals)), least)
    margin = (span - float(np.ptp(totals))) / 2
    axes.vlines(totals, np.arange(last + 1), np.arange(1, last + 2), color=SOFT, linewidth=1, zorder=1)
    for line, size in enumerate(steps.sizes, 1):
        before, after = totals[line - 1], totals[line]
        rest = line == last
        look: dict[str, Any] = {"color": TOWARDS} if size >= 0 else {"facecolor": AGAINST, **HATCHED}
        axes.barh(line, size, left=before, height=0.66, zorder=2, alpha=0.55 if rest else 1.0, **look)
        text = amount(size, steps.scale)
        axes.annotate(text, (max(before, after), line), (4, 0), textcoords="offset points", va="center")
    for line, value in ((0, totals[0]), (last + 1, totals[-1])):
        axes.plot(value, line, marker="D", markersize=6, color=INK, zorder=3)
        text = level(float(value), steps.scale)
        axes.annotate(text, (value, line), (7, 0), textcoords="offset points", va="center", weight="bold")
    label_rows(axes, steps.labels)
    for line in (0, last, last + 1):
        axes.get_yticklabels()[line].set_color(MUTED)
    axes.set_xlim(totals.min() - margin - 0.04 * span, totals.max() + margin + 0.2 * span)
    axes.grid(axis="x", linewidth=0.8)
    low, high = axes.get_xlim()
    if steps.scale == "probability":  # a step may lead beyond, but no probability is there
        low, high = max(low, 0.0), min(high, 1.0)
    ticks = _ticks().tick_values(*axes.get_xlim())
    rounding = 1e-9 * (high - low)
    ticks = ticks[(ticks >= low - rounding) & (ticks <= high + rounding)]
    axes.set_xticks(ticks, tick_texts(ticks, steps.scale))


HATCHED: dict[str, Any] = {"hatch": "////", "edgecolor": "white", "linewidth": 0}


def _ticks() -> Any:
    return require("matplotlib.ticker", extra="plots").MaxNLocator(7, steps=[1, 2, 2.5, 5, 10])


def tick_texts(ticks: Array, scale: Scale) -> list[str]:
    """Return the values at the ticks of an axis, with more digits than usual if they would look equal.

    >>> tick_texts(np.array([0.5, 0.6]), "probability"), tick_texts(np.array([0.5, 0.501]), "probability")
    (['50%', '60%'], ['50.0%', '50.1%'])
    """
    texts = [level(_inside(value, scale), scale) for value in ticks.tolist()]
    if len(set(texts)) == len(texts):
        return texts
    shown, unit = (100 * ticks, "%") if scale == "probability" else (ticks, "")
    step = float(np.diff(shown).min())
    exact = (digits for digits in range(10) if np.abs(shown.round(digits) - shown).max() < 0.01 * step)
    digits = next(exact, 10)
    comma = "," if np.abs(shown).max() >= 1e4 else ""
    return [f"{value:{comma}.{digits}f}{unit}".replace("-", "−") for value in (shown + 0.0).tolist()]


def _inside(value: float, scale: Scale) -> float:
    """Return a value of the axis; the margin next to 0 % and 100 % is within rounding."""
    return float(np.round(value, 6)) if scale == "probability" else value


# Many rows


def plot_beeswarm(explanation: Explanation, path: str | Path | None = None) -> Figure:
    """Draw a line of dots per feature: a dot for every row that selects it, at its effect on one class."""
    words = explanation.view is not None and explanation.view.kind == "text"
    drawn = sample(for_one_class(explanation), TEXTS if words else DOTS)
    found = drawn.contributions
    swarms = sorted(_swarms(drawn), key=lambda swarm: -np.abs(swarm.effects).sum())
    shown, hidden = swarms[:MOST], len(swarms) - MOST
    on = output_text(drawn)
    size = 9 if len(drawn) > TEXTS else 16
    with style():
        title = f"Effects on {on} ({size_text(explanation)})"
        figure, (axes,) = new_figure(1.5 + 0.33 * len(shown), title=title)
        for line, swarm in enumerate(shown):
            heights = line + _heights(swarm.effects)
            if swarm.colours is None:
                for sign, colour, marker in ((1, TOWARDS, "o"), (-1, AGAINST, "v")):
                    part = np.where(swarm.effects >= 0, 1, -1) == sign
                    axes.scatter(swarm.effects[part], heights[part], s=size, c=colour, marker=marker, lw=0)
            else:
                axes.scatter(
                    swarm.effects, heights, s=size, c=swarm.colours, cmap=_colour_map(), plotnonfinite=True,
                    vmin=0, vmax=1, linewidths=0,
                )  # fmt: skip
        axes.axvline(0, **DOTTED)
        label_rows(axes, [f"{shortened(s.name, 30)} ({percent(len(s.effects) / len(drawn))})" for s in shown])
        effect_axis(axes.xaxis, found.scale)
        axes.set_xlabel(f"effect on {on}, {AXIS[found.scale]}", color=MUTED, loc="left")
        if any(swarm.colours is not None for swarm in shown):
            _value_bar(figure, axes)
        grey = any(swarm.colours is not None and np.isnan(swarm.colours).any() for swarm in shown)
        note(figure, _beeswarm_note(explanation, drawn, hidden) + " Grey: category or missing." * grey)
    return saved(figure, path)


def _beeswarm_note(explanation: Explanation, drawn: Explanation, hidden: int) -> str:
    n, m = len(explanation), len(drawn)
    noun = "text" if drawn.view is not None and drawn.view.kind == "text" else "row"
    rows = f"{m:,} of {count(n, noun)}" if m < n else count(n, noun)
    towards, against = direction_words(explained_class(drawn), drawn.contributions.scale)
    more = f" {count(hidden, 'further feature')} with smaller effects not shown." if hidden > 0 else ""
    return (
        f"One dot for every {noun} that selects the feature, from {rows}; in brackets: their share. "
        f"Right of the dotted line: {towards}; left: {against}.{more}"
    )


@dataclass(frozen=True)
class Swarm:
    """The effects of one feature in the rows that select it; colours are its values from 0 to 1, or None."""

    name: str
    effects: Array
    colours: Array | None = None


def _swarms(drawn: Explanation) -> list[Swarm]:
    """Return the effects by feature or, for texts, by word."""
    rows, ranks = np.nonzero(drawn.selected)
    effects, own = drawn.effects[rows, ranks], own_names(drawn)
    if own is not None:
        words: dict[str, list[float]] = {}
        for word, effect in zip(own[rows, ranks], effects, strict=True):
            words.setdefault(str(word).lower(), []).append(float(effect))
        return [Swarm(word, np.array(found)) for word, found in words.items()]
    features, colours = drawn.indices[rows, ranks], _value_colours(drawn)
    return [
        Swarm(str(drawn.feature_names[i]), effects[at], None if colours is None else colours[rows[at], i])
        for i in np.unique(features)
        for at in [features == i]
    ]


def _value_colours(explanation: Explanation) -> Array | None:
    """Return (n, d) positions of values between the 5 % and 95 % quantiles of their column, from 0 to 1.

    Categories and missing values are NaN. Return None if no feature is a number.
    """
    numbers = numbers_of(explanation)
    if numbers is None:
        return None
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    numbers[:, list(getattr(explanation.view, "levels_", {}))] = np.nan  # codes of categories have no order
    known = ~np.isnan(numbers).all(axis=0)
    if not known.any():
        return None
    colours = np.full(numbers.shape, np.nan)
    for low, high in ((5, 95), (0, 100)):  # all values, if nearly all are equal
        ends = np.nanpercentile(numbers[:, known], [low, high], axis=0)
        open_ends = (ends[1] > ends[0]) & np.isnan(colours[:, known]).all(axis=0)
        span = np.where(ends[1] > ends[0], ends[1] - ends[0], 1.0)
        part = ((numbers[:, known] - ends[0]) / span).clip(0, 1)
        colours[:, known] = np.where(open_ends, part, colours[:, known])
    return colours


def _colour_map() -> Any:
    return require("matplotlib", extra="plots").colormaps[VALUE_COLOURS].with_extremes(bad=MUTED)


def _value_bar(figure: Figure, axes: Axes) -> None:
    """Draw the colour bar of values; the note explains grey, for values without an order."""
    cm: Any = require("matplotlib.cm", extra="plots")
    bar = figure.colorbar(cm.ScalarMappable(cmap=_colour_map()), ax=axes, ticks=[0, 1], aspect=30, pad=0.02)
    bar.ax.set_yticklabels(["low", "high"], color=INK)
    bar.ax.tick_params(length=0)
    bar.set_label("value", color=MUTED)
    bar.outline.set_visible(False)


def _heights(x: Array) -> Array:
    """Return heights within ±0.38 that spread dots with about the same x apart."""
    bins = np.clip(((x - x.min()) / ((np.ptp(x) or 1.0) / 60)).astype(int), 0, 59)
    order = np.argsort(bins, kind="stable")
    firsts = np.searchsorted(bins[order], np.arange(60))
    rank = np.empty(len(x), dtype=int)
    rank[order] = np.arange(len(x)) - firsts[bins[order]]
    # 0, 1, -1, 2, -2, ... steps from the middle.
    steps = np.where(rank % 2 == 1, (rank + 1) / 2, -rank / 2)
    return np.asarray(0.38 * steps / max(4.0, (rank.max() + 1) / 2))


# One feature


def plot_dependence(explanation: Explanation, feature: str | int, path: str | Path | None = None) -> Figure:
    """Draw the effect of one feature against its value, a dot for every row that selects it."""
    i = _feature_index(explanation, feature)
    drawn = sample(for_one_class(explanation), DOTS)
    numbers = numbers_of(drawn)
    if numbers is None:
        raise InputError("A dependence plot needs features with values: a table whose features are columns.")
    rows, ranks = np.nonzero(drawn.selected & (drawn.indices == i))
    effects, values = drawn.effects[rows, ranks], numbers[:, i]
    if not len(rows):
        raise InputError(
            f"'{explanation.feature_names[i]}' is selected in none of {count(len(drawn), 'row')}; "
            "choose another feature."
        )
    columns = None if drawn.view is None else as_columns(drawn.view)
    levels = None if columns is None else columns.levels_.get(i)
    on, name = output_text(drawn), shortened(explanation.feature_names[i])
    with style():
        figure, (axes,) = new_figure(3.3, title=f"{name}: effect on {on}")
        axes.axhline(0, **DOTTED)
        x = (
            values
            if levels is None
            else _categories(axes, values, [*map(str, levels.values), "missing or new"])
        )
        shown = np.isfinite(x)
        for sign, colour, marker in ((1, TOWARDS, "o"), (-1, AGAINST, "v")):
            part = (np.where(effects >= 0, 1, -1) == sign) & shown[rows]
            axes.scatter(x[rows][part], effects[part], s=13, c=colour, marker=marker, alpha=0.7, linewidths=0)
        other = np.setdiff1d(np.flatnonzero(shown), rows)
        floor = axes.get_xaxis_transform()
        axes.plot(x[other], np.full(len(other), 0.02), "|", color=SOFT, markersize=6, transform=floor)
        effect_axis(axes.yaxis, drawn.contributions.scale)
        axes.set_ylabel(f"effect, {AXIS[drawn.contributions.scale]}")
        axes.set_xlabel(name, loc="left")
        axes.grid(axis="y", linewidth=0.8, color=GRID)
        axes.tick_params(axis="x", labelcolor=INK)
        note(figure, _dependence_note(drawn, len(rows), int((~shown).sum())))
    return saved(figure, path)


def _dependence_note(drawn: Explanation, selected: int, missing: int) -> str:
    towards, against = direction_words(explained_class(drawn), drawn.contributions.scale)
    lost = f" {count(missing, 'row')} with a missing value not shown." if missing else ""
    return (
        f"One dot for each of {count(selected, 'row')} that select the feature, of {len(drawn):,}; "
        f"grey marks: all other rows. Above the dotted line: {towards}; below: {against}.{lost}"
    )


def _feature_index(explanation: Explanation, feature: str | int) -> int:
    names = [str(name) for name in explanation.feature_names]
    if isinstance(feature, int | np.integer) and 0 <= feature < len(names):
        return int(feature)
    if str(feature) in names:
        return names.index(str(feature))
    raise InputError(f"There is no feature {feature!r}; choose one of {some(names)}.")


def _categories(axes: Axes, codes: Array, names: Sequence[str]) -> Array:
    """Return positions of categories, the most frequent first, spread to keep dots apart."""
    codes = np.where((codes >= 0) & (codes < len(names) - 1), codes, len(names) - 1).astype(int)
    present, counts = np.unique(codes, return_counts=True)
    order = present[np.argsort(-counts, kind="stable")]
    place = np.full(len(names), np.nan)
    place[order[:MOST]] = np.arange(len(order[:MOST]))
    shown = [shortened(names[c], 14) for c in order[:MOST]]
    axes.set_xticks(range(len(shown)), shown, rotation=35 if len(shown) > 5 else 0,
                    ha="right" if len(shown) > 5 else "center", rotation_mode="anchor")  # fmt: skip
    return np.asarray(place[codes] + np.random.default_rng(0).uniform(-0.3, 0.3, len(codes)))


# Common to figures of many rows


def for_one_class(explanation: Explanation) -> Explanation:
    """Return the explanation with effects on the same class in all rows, so that directions are comparable.

    Unless the user chose one by `for_class`, it is the second of two classes, as in shap, or the class that
    is predicted most often.
    """
    shown = with_effects(explanation)
    source = shown.source
    if shown.explained is not None or source is None or source.classes is None:
        return shown
    output = 1 if len(source.classes) == 2 else int(np.bincount(shown.predictions.argmax(axis=1)).argmax())
    return replace(shown[:], explained=np.full(len(shown), output))


def sample(explanation: Explanation, most: int) -> Explanation:
    """Return at most this many rows, drawn at random, always the same."""
    n = len(explanation)
    if n <= most:
        return explanation
    return explanation[np.sort(np.random.default_rng(0).choice(n, most, replace=False))]


def explained_class(explanation: Explanation) -> str | None:
    """Return the class that all effects refer to; None for regression."""
    source, outputs = explanation.source, explanation.contributions.outputs
    return None if source is None or source.classes is None else class_name(source.classes, int(outputs[0]))


def output_text(explanation: Explanation) -> str:
    """Return what effects refer to, for titles: "the probability of >50K", "the prediction"."""
    name = explained_class(explanation)
    if name is None:
        return "the prediction"
    return f"the {'log-odds' if explanation.contributions.scale == 'log-odds' else 'probability'} of {name}"


def effect_axis(axis: Any, scale: Scale) -> None:
    """Write signed effects at the ticks of an axis, which is not so short that they would look equal."""
    low, high = axis.get_view_interval()
    margin = (LEAST_SPAN.get(scale, 0.0) - (high - low)) / 2
    if margin > 0:
        axis.axes.set(**{f"{axis.axis_name}lim": (low - margin, high + margin)})
    axis.set_major_locator(_ticks())
    axis.set_major_formatter(lambda value, _: amount(value, scale).removesuffix(" pp"))


def rows_by_class(explanation: Explanation) -> Mapping[str, Array] | None:
    """Return, by predicted class, which rows have it; None for regression, or if predictions are unknown.

    The classes that are predicted most often come first, with their number of rows in brackets.
    """
    shown = affordable(explanation)
    if shown is None or shown.source is None or shown.source.classes is None:
        return None
    predicted = shown.predictions.argmax(axis=1)
    counts = np.bincount(predicted, minlength=len(shown.source.classes))
    order = ranked(counts[None].astype(float))[0]
    names = {
        int(c): f"{class_name(shown.source.classes, int(c))} ({counts[c]:,})" for c in order if counts[c]
    }
    return {name: predicted == c for c, name in names.items()}
