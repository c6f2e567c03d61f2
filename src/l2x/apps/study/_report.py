"""The report of a study as a page, and its answers as CSV. Simulated raters are always called so."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2x._base.atomic import write_atomically
from l2x.apps.study._results import PARTS, PASS, Results, results
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


CAPTION = (
    "Careful raters: without those who failed the checks. Post-hoc: the model's own answer to the selection "
    "alone; judge: that of a network fitted on random subsets; both on the same items. Single answers: the "
    "share of them that are the model's. Alpha: Krippendorff's, 1 is full agreement between raters, 0 chance."
)
SIMULATED = "No human was asked: these answers are of simulated raters."
COLUMNS = ("simulated", "rater", "place", "kind", "item", "row", "method", "model", "answer", "agrees",
           "seconds", "given")  # fmt: skip


def render(study: Study) -> str:
    """The report as one page: of people and, apart from them, of simulated raters, where there are any."""
    found = _found(study)
    sections = [section for result in found for section in _sections(study, result)]
    if not found:
        sections = [Section(text=["There are no answers yet."])]
    return render_report(title=study.settings.title, subtitle=_subtitle(study), sections=sections)


def write_report(study: Study, path: str | Path) -> Path:
    """Write the report as one self-contained page.

    study : with answers, of people or of stand-ins
    path : of the page, .html

    Returns
    -------
    The path of the page.
    """
    return write_file(path, render(study).encode())


def write_answers(study: Study, path: str | Path) -> Path:
    """Write every answer as a line of CSV; raters by number, nobody's name or link.

    study : with answers, of people or of stand-ins
    path : of the file, .csv

    Returns
    -------
    The path of the file.
    """
    return write_atomically(path, answers_csv(study).encode())


def answers_csv(study: Study) -> str:
    text = StringIO()
    lines = csv.writer(text)
    lines.writerow(COLUMNS)
    for simulated in (False, True):
        for answer in study.answers(simulated=simulated):
            lines.writerow(_line(study.settings, answer, simulated))
    return text.getvalue()


def _line(settings: Settings, answer: Answer, simulated: bool) -> list[object]:
    check = answer.item is None
    return [
        int(simulated),
        answer.number + 1,
        answer.place,
        "check" if check else "item",
        "" if check else answer.item,
        "" if check else answer.row,
        "" if answer.method is None else settings.methods[answer.method],
        settings.classes[answer.model],
        settings.label(answer.choice),
        int(answer.choice == answer.model),
        "" if answer.seconds is None else f"{answer.seconds:.2f}",
        datetime.fromtimestamp(answer.given, UTC).isoformat(timespec="seconds"),
    ]


def _found(study: Study) -> list[Results]:
    return [
        results(study, simulated=simulated)
        for simulated in (False, True)
        if any(given for _, given, _ in study.quotas(simulated=simulated))
    ]


def _subtitle(study: Study) -> str:
    settings = study.settings
    return f"“{settings.question}” asked of {settings.selected}; methods: {', '.join(settings.methods)}"


def _sections(study: Study, result: Results) -> list[Section]:
    who = "Simulated raters" if result.simulated else "People"
    text = [SIMULATED] if result.simulated else []
    text.append(
        f"{count(result.raters, 'simulated rater' if result.simulated else 'rater')} gave "
        f"{count(result.answers, 'answer')}. Human accuracy is the share of items where its raters together "
        f"choose the model's class; “{study.settings.neutral}” counts for no class. Intervals hold "
        "95 %, over other items and other raters."
    )
    first = [
        Section(f"{who}: what they see in the selections", text, figures=[figure(result)]),
        Section("", table=_accuracies(result)),
        Section("", table=_answers(result), caption=CAPTION),
        Section("Differences", table=_differences(result), caption="Paired by item; an interval without zero "
                "is a difference that other items and raters would most likely show, too."),
    ]  # fmt: skip
    return [*first, *_confusions(study, result), _learning(result), _checks(result)]


def _accuracies(result: Results) -> tuple[list[str], list[list[object]]]:
    columns = ["method", "human accuracy, %", "careful raters only, %", "post-hoc, %", "judge, %", "items"]
    rows: list[list[object]] = [
        [
            one.method,
            _percent(one.accuracy),
            _percent(one.careful),
            _share(one.posthoc),
            _share(one.judge),
            one.items,
        ]
        for one in result.methods
    ]
    return columns, rows


def _answers(result: Results) -> tuple[list[str], list[list[object]]]:
    columns = ["method", "single answers, %", "neutral, %", "alpha", "median s", "answers"]
    rows: list[list[object]] = [
        [
            one.method,
            _share(one.single),
            _share(one.neutral),
            _plain(one.alpha, 3),
            _plain(one.seconds, 1),
            one.answers,
        ]
        for one in result.methods
    ]
    return columns, rows


def _differences(result: Results) -> tuple[list[str], list[list[object]]]:
    rows: list[list[object]] = [
        [f"{one.first} − {one.second}", _percent(one.difference, sign=True)] for one in result.differences
    ]
    return ["methods", "difference in points"], rows


def _confusions(study: Study, result: Results) -> list[Section]:
    classes = study.settings.classes
    return [
        Section(
            "Confusion" if i == 0 else "",
            [f"{one.method}: items by the model's class (rows) and what raters decided (columns)."],
            table=(
                ["the model", *classes, "undecided"],
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
    table = (["part of the session", "answers", "single answers, %", "median s"], rows)
    return Section("Learning over the session", table=table)


def _checks(result: Results) -> Section:
    if not result.careless:
        return Section("Checks of attention", ["Nobody failed them."])
    rows: list[list[object]] = [[one.number + 1, f"{one.passed} of {one.checks}"] for one in result.careless]
    text = [
        f"Raters with less than {PASS:.0%} of their checks right. The first table counts without them, too."
    ]
    return Section("Checks of attention", text, table=(["rater", "checks passed"], rows))


def figure(result: Results) -> Figure:
    """Each method's human accuracy with its interval, beside what model and judge say of the same items."""
    methods = result.methods
    with style():
        drawn, (axes,) = new_figure(1.1 + 0.36 * len(methods), title="Agreement with the model's answer")
        for i, one in enumerate(methods):
            if np.isfinite(one.accuracy.low):
                axes.hlines(i, one.accuracy.low, one.accuracy.high, color=GRID, linewidth=7, zorder=1)
        looks = {
            "simulated raters" if result.simulated else "people": (
                [m.accuracy.value for m in methods],
                ACCENT,
                "o",
            ),
            "the model, shown the selection": ([m.posthoc for m in methods], SECOND, "D"),
            "judge": ([m.judge for m in methods], THIRD, "s"),
        }
        for name, (values, colour, marker) in looks.items():
            if np.isfinite(values).any():
                axes.scatter(
                    values, range(len(methods)), color=colour, marker=marker, s=40, zorder=3, label=name
                )
        label_rows(axes, [one.method for one in methods])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.grid(visible=True, axis="x", linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("share of items; bars: 95 % intervals", loc="left")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, borderaxespad=0, handletextpad=0.1)
    return drawn


def _percent(estimate: Estimate, *, sign: bool = False) -> str:
    if np.isnan(estimate.value):
        return "–"
    value, low, high = (
        f"{100 * x:{'+' if sign else ''}.1f}" for x in (estimate.value, estimate.low, estimate.high)
    )
    # Blanks that do not break: an interval stays on its line.
    return value if np.isnan(estimate.low) else f"{value}\u00a0[{low},\u00a0{high}]"


def _share(value: float) -> str:
    return _plain(100 * value, 1)


def _plain(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"
