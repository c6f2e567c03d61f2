"""The report of a study as a page, and its answers as CSV; simulated raters are always labelled as such."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x._base.atomic import write_atomically
from l2x.apps.study._results import PARTS, PASS, MethodResult, Results, results
from l2x.apps.study._study import Answer, Settings, Study
from l2x.display import (
    ACCENT,
    GRID,
    INK,
    SECOND,
    THIRD,
    Section,
    count,
    label_rows,
    new_figure,
    render_report,
    style,
    write_file,
)
from l2x.learning import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = tuple[list[str], list[list[object]]]

CAPTION = (
    "Careful raters: without those who failed the checks. Post-hoc: the share of items for which the model "
    "itself predicts the same class from the selected features alone; evaluator: the same for an independent "
    "network, fitted on random subsets of features. Single answers: the share that match the prediction. "
    "Alpha: Krippendorff's alpha, 1 for full agreement between raters and 0 for chance."
)
DIFFERENCES = (
    "Differences are paired by item. If an interval excludes zero, other items and raters would most likely "
    "show a difference, too."
)
SIMULATED = "No human was asked: these answers come from simulated raters."
# Spreadsheets take a cell that begins with one of these for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
COLUMNS = ("simulated", "rater", "place", "kind", "item", "row", "method", "expected", "answer", "agrees",
           "seconds", "given")  # fmt: skip


def write_report(study: Study, path: str | Path) -> Path:
    """Write the report as one self-contained page, for people and simulated raters separately.

    Parameters
    ----------
    study : Study
        An open study.
    path : str or Path
        The page, .html.

    Returns
    -------
    Path
        The file that was written.
    """
    return write_file(path, render(study).encode())


def write_answers(study: Study, path: str | Path) -> Path:
    """Write every answer as a line of CSV; raters have numbers, without nicknames and links.

    Parameters
    ----------
    study : Study
        An open study.
    path : str or Path
        The file, .csv.

    Returns
    -------
    Path
        The file that was written.
    """
    return write_atomically(path, answers_csv(study).encode())


def answers_csv(study: Study) -> str:
    """Return the CSV of `write_answers`."""
    text = StringIO()
    lines = csv.writer(text)
    lines.writerow(COLUMNS)
    for simulated in (False, True):
        for answer in study.answers(simulated=simulated):
            lines.writerow(_line(study.settings, answer, simulated))
    return text.getvalue()


def _cell(name: str) -> str:
    """Return a name for a CSV, so that spreadsheets take it for a text and not for a formula.

    >>> _cell("=1+1"), _cell("-1"), _cell("positive")
    ("'=1+1", '-1', 'positive')
    """
    try:
        float(name)
    except ValueError:
        risky = name.startswith(FORMULA) or name.lstrip().startswith(FORMULA)
        return f"'{name}" if risky else name
    return name


def _line(settings: Settings, answer: Answer, simulated: bool) -> list[object]:
    check = answer.item is None
    return [
        int(simulated),
        answer.number + 1,
        answer.place,
        "check" if check else "item",
        "" if check else answer.item,
        "" if check else answer.row,
        "" if answer.method is None else _cell(settings.methods[answer.method]),
        _cell(settings.classes[answer.expected]),
        _cell(settings.label(answer.choice)),
        int(answer.choice == answer.expected),
        "" if answer.seconds is None else f"{answer.seconds:.2f}",
        datetime.fromtimestamp(answer.given, UTC).isoformat(timespec="seconds"),
    ]


def render(study: Study) -> str:
    """Return the page of `write_report`."""
    settings = study.settings
    sections = [
        section
        for simulated in (False, True)
        if any(given for _, given, _ in study.quotas(simulated=simulated))
        for section in _sections(study, results(study, simulated=simulated))
    ]
    return render_report(
        title=settings.title,
        subtitle=f"“{settings.question}” about {settings.selected}; methods: {', '.join(settings.methods)}",
        sections=sections or [Section(text=["There are no answers yet."])],
    )


def _sections(study: Study, result: Results) -> list[Section]:
    who = "Simulated raters" if result.simulated else "People"
    text = [SIMULATED] if result.simulated else []
    text.append(
        f"{count(result.raters, 'simulated rater' if result.simulated else 'rater')} gave "
        f"{count(result.answers, 'answer')}. Human accuracy is the share of items whose raters together "
        f"choose the class that the model predicts; “{study.settings.neutral}” counts for no class. "
        "Intervals are 95 % bootstrap intervals over items and raters."
    )
    differences: Table = (
        ["methods", "difference in points"],
        [[f"{one.first} − {one.second}", _percent(one.difference)] for one in result.differences],
    )
    return [
        Section(f"{who}: what they see in the selected features", text, figures=[figure(result)]),
        Section(table=_by_method(result, ACCURACIES)),
        Section(table=_by_method(result, ANSWERS), caption=CAPTION),
        Section("Differences", table=differences, caption=DIFFERENCES),
        *_confusions(study, result),
        _learning(result),
        _checks(result),
    ]


def _by_method(result: Results, columns: dict[str, Callable[[MethodResult], object]]) -> Table:
    rows = [[one.method, *(column(one) for column in columns.values())] for one in result.methods]
    return ["method", *columns], rows


def _confusions(study: Study, result: Results) -> list[Section]:
    classes = study.settings.classes
    return [
        Section(
            "Confusion" if i == 0 else "",
            [f"{one.method}: items by predicted class (rows) and by the raters' decision (columns)."],
            table=(
                ["prediction", *classes, "undecided"],
                [[name, *map(int, row)] for name, row in zip(classes, one.confusion, strict=True)],
            ),
        )
        for i, one in enumerate(result.methods)
    ]


def _learning(result: Results) -> Section:
    rows: list[list[object]] = [
        [f"{part.part + 1} of {PARTS}", part.answers, _share(part.single), _plain(part.seconds, 1)]
        for part in result.learning
    ]
    columns = ["part of the session", "answers", "single answers, %", "median s"]
    return Section("Learning during the session", table=(columns, rows))


def _checks(result: Results) -> Section:
    if not result.careless:
        return Section("Attention checks", ["Nobody failed them."])
    rows: list[list[object]] = [[one.number + 1, f"{one.passed} of {one.checks}"] for one in result.careless]
    text = (
        f"Raters who passed less than {PASS:.0%} of their checks. The first table also counts without them."
    )
    return Section("Attention checks", [text], table=(["rater", "checks passed"], rows))


def figure(result: Results) -> Figure:
    """Draw each method's human accuracy with its interval, and the agreement of model and evaluator."""
    methods = result.methods
    people = "simulated raters" if result.simulated else "people"
    series = {
        people: ([m.accuracy.value for m in methods], ACCENT, "o"),
        "model, selected features alone": ([m.posthoc for m in methods], SECOND, "D"),
        "evaluator": ([m.evaluator for m in methods], THIRD, "s"),
    }
    with style():
        drawn, (axes,) = new_figure(1.1 + 0.36 * len(methods), title="Agreement with the model's prediction")
        for i, one in enumerate(methods):
            if np.isfinite(one.accuracy.low):
                axes.hlines(i, one.accuracy.low, one.accuracy.high, color=GRID, linewidth=7, zorder=1)
        for name, (values, colour, marker) in series.items():
            if np.isfinite(values).any():
                at = range(len(methods))
                axes.scatter(values, at, color=colour, marker=marker, s=40, zorder=3, label=name)
        label_rows(axes, [one.method for one in methods])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.grid(visible=True, axis="x", linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("share of items; bars: 95 % intervals", loc="left")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, borderaxespad=0, handletextpad=0.1)
    return drawn


def _percent(estimate: Estimate) -> str:
    return estimate.scaled(100).text(1)


def _share(value: float) -> str:
    return _plain(100 * value, 1)


def _plain(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


ACCURACIES: dict[str, Callable[[MethodResult], object]] = {
    "human accuracy, %": lambda one: _percent(one.accuracy),
    "careful raters only, %": lambda one: _percent(one.careful),
    "post-hoc, %": lambda one: _share(one.posthoc),
    "evaluator, %": lambda one: _share(one.evaluator),
    "items": lambda one: one.items,
}
ANSWERS: dict[str, Callable[[MethodResult], object]] = {
    "single answers, %": lambda one: _share(one.single),
    "neutral, %": lambda one: _share(one.neutral),
    "alpha": lambda one: _plain(one.alpha, 3),
    "median s": lambda one: _plain(one.seconds, 1),
    "answers": lambda one: one.answers,
}
