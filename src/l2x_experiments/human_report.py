"""The report of results/human.json; its first line says that no human was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from l2x.display import ACCENT, GRID, MUTED, SECOND, label_rows, new_figure, note, style
from l2x_experiments.black_boxes.reviews import Problem
from l2x_experiments.contenders import LABELS
from l2x_experiments.human import METHODS, PROBLEMS, latest
from l2x_experiments.records import NOTHING, Record, Records
from l2x_experiments.report import Report
from l2x_experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's humans (Table 3 and section 4.2): from its recipe's selections; from whole reviews, as it cites.
HUMANS: dict[Problem, float] = {"words": 0.844, "sentences": 0.774}
WHOLE_REVIEW = 0.833
NAN = float("nan")
SHOWN: dict[Problem, str] = {"words": "Ten words", "sentences": "One sentence"}
NOBODY = (
    "No human was asked: the answers below are those of simulated readers, who add up the sentiment of the "
    "shown words by a lexicon (vaderSentiment). In the paper, people on Mechanical Turk agreed with the "
    f"model on {HUMANS['words']:.1%} of 500 reviews from ten words that its recipe selected, and on "
    f"{HUMANS['sentences']:.1%} from one sentence; on {WHOLE_REVIEW:.1%} from whole reviews, in earlier work."
)
CAPTION = (
    "Accuracy: the share of reviews where its readers together choose the model's class, with 95 % intervals "
    "over reviews and readers. Single: of single answers. Post-hoc and judge: what the model, shown the "
    "selection alone, and an independent judge say of the same reviews."
)


def report(records: Records) -> Report:
    records = latest(records)
    page = Report(
        "human",
        title="What do readers see in the selections?",
        subtitle="Section 4.2 of Learning to Explain, with simulated readers",
    )
    page.add("", [NOBODY, _about(records)])
    for group in records.groups(problem=PROBLEMS):
        problem: Problem = group[0]["problem"]
        page.add(
            SHOWN[problem],
            _missing(group),
            table=_table(group),
            figures={problem: figure(group, problem)},
            caption=CAPTION,
        )
    return page


def _about(records: Records) -> str:
    first = records[0]
    return (
        f"{first['items']:,} test reviews. Every reader reads each review once, under one method, in a "
        "random order; “cannot tell” counts for no class. Readers have thresholds of their own and overlook "
        "one word in ten. Taylor is told the answer, as is the explainer that says so: they select what "
        "speaks for the class that the model predicted. The command l2x study asks people in the same way."
    )


def _missing(group: Records) -> list[str]:
    gone = [LABELS[method] for method in METHODS if not group.has(method=method)]
    return [f"No selections were kept of: {'; '.join(gone)}."] if gone else []


def _name(record: Record) -> str:
    return LABELS.get(record["method"], "the whole review")


def _table(group: Records) -> Table:
    columns = [
        "method",
        "simulated accuracy",
        "95 % interval",
        "single",
        "neutral",
        "alpha",
        "post-hoc",
        "judge",
    ]
    rows = [
        [
            _name(record), f"{record['human_accuracy']:.3f}", f"{record['low']:.3f} to {record['high']:.3f}",
            *(_number(record[key]) for key in
              ("single_accuracy", "neutral", "alpha", "posthoc_accuracy", "judge_accuracy")),
        ]
        for record in group
    ]  # fmt: skip
    return Table(columns, rows)


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def figure(group: Records, problem: Problem) -> Figure:
    """Simulated accuracies with their intervals, and where the paper's humans were."""
    with style():
        drawn, (axes,) = new_figure(
            1.3 + 0.36 * len(group), title=f"{SHOWN[problem]}: simulated readers agree with the model"
        )
        for i, record in enumerate(group):
            axes.hlines(i, record["low"], record["high"], color=GRID, linewidth=7, zorder=1)
        values = [record["human_accuracy"] for record in group]
        axes.scatter(values, range(len(group)), color=ACCENT, s=46, zorder=3, label="simulated readers")
        judged = [NAN if record["judge_accuracy"] is None else record["judge_accuracy"] for record in group]
        axes.scatter(judged, range(len(group)), color=SECOND, marker="D", s=30, zorder=3, label="judge")
        axes.axvline(HUMANS[problem], color=MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        label_rows(axes, [_name(record) for record in group])
        axes.grid(visible=True, axis="x", linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("share of reviews; bars: 95 % intervals", loc="left")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=2, borderaxespad=0, handletextpad=0.1)
        note(
            drawn,
            "Dotted: the paper's humans, shown selections of its recipe. Here no human was asked.",
        )
    return drawn
