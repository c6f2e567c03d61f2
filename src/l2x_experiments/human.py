"""Section 4.2's human evaluation with simulated readers: which class do readers infer from the selections?

A study (l2x.apps.study) of the first test reviews, with the selections in the records of the IMDB
experiments. The readers are simulated by a sentiment lexicon and marked as simulated; no people took part.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from l2x.apps.study import Settings, Study, results, simulate
from l2x.apps.study._new import WHOLE, described
from l2x.apps.study._study import Cell, Item
from l2x.datasets import LabelledData, imdb
from l2x.display import (
    ACCENT,
    GRID,
    MUTED,
    SECOND,
    label_rows,
    new_figure,
    note,
    selected_content,
    style,
    whole_content,
)
from l2x.errors import InputError
from l2x_experiments.black_boxes import Problem
from l2x_experiments.comparison import explanation_of
from l2x_experiments.imdb import ITEMS, VIEWS
from l2x_experiments.methods import LABELS
from l2x_experiments.records import NOTHING, Record, Records
from l2x_experiments.report import Report, Table
from l2x_experiments.runner import Experiment, Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEMS: tuple[Problem, ...] = ("words", "sentences")
COMPARED = ("l2x-told", "l2x", "paper", "taylor", "random")
RATERS, QUICK_RATERS = 5, 2
QUICK_ITEMS = 60


def experiment(*, quick: bool = False, seeds: int = 1, source: Path = Path("results")) -> Experiment:
    """Return the jobs: one study for each problem with selections on file; `seeds` is always 1."""
    items, raters = (QUICK_ITEMS, QUICK_RATERS) if quick else (ITEMS, RATERS)
    selections = {problem: stored_selections(source, problem) for problem in PROBLEMS}
    jobs = [
        Job(
            # Other selections, or other methods, make another study.
            {"problem": problem, "method": method, "selections": digest(methods), "wanted": items},
            f"{problem}, {method}",
            group=problem,
        )
        for problem, methods in selections.items()
        if methods
        for method in (*methods, WHOLE)
    ]
    return Experiment(
        "human",
        jobs,
        partial(measure_all, source=source, raters=raters),
        fetch=lambda progress: imdb("test", progress=progress),
    )


def stored_selections(source: Path, problem: Problem) -> dict[str, Record]:
    """Return the records of seed 0, by method, that hold selections in the first test reviews."""
    records = Records.load(source / f"imdb-{problem}.json").select(seed=0)
    stored = {record["method"]: record for record in records if record.get("items")}
    return {method: stored[method] for method in COMPARED if method in stored}


def digest(methods: dict[str, Record]) -> str:
    """Return a hash of the selections."""
    content = json.dumps({name: record["items"] for name, record in methods.items()}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def measure_all(jobs: Sequence[Job], *, source: Path, raters: int) -> Iterator[Record]:
    """Measure the jobs of one problem by one study of all its methods."""
    problem, items = jobs[0]["problem"], jobs[0]["wanted"]
    methods, reviews = stored_selections(source, problem), imdb("test", progress=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{problem}.study"
        with as_study(path, problem, methods, reviews, items=items, raters=raters) as study:
            # Each reader reads each review once, under one method: this many readers fill the quotas.
            simulate(study, raters=raters * len(study.settings.methods))
            measured = {record["method"]: record for record in results(study, simulated=True).to_records()}
    for job in jobs:
        # The key in results/human.json is older than the name "evaluator".
        names = {"evaluator_accuracy": "judge_accuracy"}
        yield {**job.key, **{names.get(key, key): value for key, value in measured[job["method"]].items()}}


def as_study(
    path: Path,
    problem: Problem,
    methods: dict[str, Record],
    reviews: LabelledData,
    *,
    items: int,
    raters: int,
) -> Study:
    """Create the study of these selections and of the whole reviews."""
    classes = model_classes(methods, items)
    texts = reviews.X[: len(classes)]
    view = VIEWS[problem]().fit(texts)
    k = next(iter(methods.values()))["k"]
    explanations = {
        name: explanation_of(record["items"]["selections"][: len(classes)], k, view, view.check(texts))
        for name, record in methods.items()
    }
    any_explanation = next(iter(explanations.values()))

    def cells(row: int) -> list[Cell]:
        shown = [
            Cell(selected_content(explanation, row), *_classes(methods[name], row))
            for name, explanation in explanations.items()
        ]
        return [*shown, Cell(whole_content(any_explanation, row), posthoc=classes[row])]

    settings = Settings(
        title=f"IMDB: {described(view, k)}",
        classes=reviews.classes,
        methods=(*methods, WHOLE),
        kind="text",
        selected=described(view, k),
        raters=raters,
        per_rater=len(classes),
        practice=0,
        checks=0,
        seed=0,
    )
    return Study.create(path, settings, [Item(row, label, cells(row)) for row, label in enumerate(classes)])


def model_classes(methods: dict[str, Record], items: int) -> list[int]:
    """Return the model's classes of the reviews.

    Raises
    ------
    InputError
        If the records disagree: selections for different models cannot be compared.
    """
    lengths = [len(record["items"]["answers"]) for record in methods.values()]
    classes = {name: record["items"]["answers"][: min(items, *lengths)] for name, record in methods.items()}
    if len(set(classes.values())) > 1:
        raise InputError(
            f"The selections of {', '.join(classes)} belong to models with different predictions; run these "
            "methods again, with one model."
        )
    return [int(digit) for digit in next(iter(classes.values()))]


def _classes(record: Record, row: int) -> tuple[int | None, int | None]:
    """Return the classes that model and evaluator predict from the selection, if they were recorded."""
    recorded: list[Any] = [record["items"].get(name) for name in ("posthoc", "judge")]
    posthoc, evaluator = (None if digits is None else int(digits[row]) for digits in recorded)
    return posthoc, evaluator


def latest(records: Records) -> Records:
    """Return the records of each problem's last study; earlier ones had other selections or fewer reviews."""
    last = {record["problem"]: _study(record) for record in records}
    return Records(record for record in records if _study(record) == last[record["problem"]])


def _study(record: Record) -> tuple[str, int]:
    return record["selections"], record["wanted"]


# The paper's people (Table 3 and section 4.2), shown L2X's selections; and whole reviews, from its citation.
HUMANS: dict[Problem, float] = {"words": 0.844, "sentences": 0.774}
WHOLE_REVIEW = 0.833
NAN = float("nan")
SHOWN: dict[Problem, str] = {"words": "Ten words", "sentences": "One sentence"}
NOBODY = (
    "No people took part. The readers below are simulated: they add up the sentiment of the shown words by a "
    "lexicon (vaderSentiment). In the paper, people on Mechanical Turk agreed with the model on "
    f"{HUMANS['words']:.1%} of 500 reviews when shown ten words that L2X had selected, and on "
    f"{HUMANS['sentences']:.1%} when shown one sentence. Whole reviews gave {WHOLE_REVIEW:.1%} in earlier "
    "work."
)
CAPTION = (
    "Accuracy: the share of reviews for which the majority of readers chooses the model's class, with 95 % "
    "intervals over reviews and readers. Single: the share of single ratings. Post-hoc and evaluator: "
    "accuracy of the model and of an independent evaluator on the same reviews, from the selection alone."
)


def report(records: Records) -> Report:
    """Return the page; its first sentence states that no people took part."""
    records = latest(records)
    page = Report(
        "human",
        title="What do readers infer from the selections?",
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
        f"{first['items']:,} test reviews. Each reader reads each review once, under one method, in a random "
        "order; “cannot tell” counts for no class. Readers have different thresholds and overlook one word "
        "in ten. Taylor and the prediction-aware l2x see the prediction: they select features with an effect "
        "for the predicted class. The command l2x study runs the same study with people."
    )


def _missing(group: Records) -> list[str]:
    missing = [LABELS[method] for method in COMPARED if not group.has(method=method)]
    return [f"No selections on file: {'; '.join(missing)}."] if missing else []


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
        "evaluator",
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
    """Draw simulated accuracies with their intervals, and the paper's result with people."""
    with style():
        drawn, (axes,) = new_figure(
            1.3 + 0.36 * len(group), title=f"{SHOWN[problem]}: simulated readers agree with the model"
        )
        for i, record in enumerate(group):
            axes.hlines(i, record["low"], record["high"], color=GRID, linewidth=7, zorder=1)
        values = [record["human_accuracy"] for record in group]
        axes.scatter(values, range(len(group)), color=ACCENT, s=46, zorder=3, label="simulated readers")
        values = [NAN if record["judge_accuracy"] is None else record["judge_accuracy"] for record in group]
        axes.scatter(values, range(len(group)), color=SECOND, marker="D", s=30, zorder=3, label="evaluator")
        axes.axvline(HUMANS[problem], color=MUTED, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
        label_rows(axes, [_name(record) for record in group])
        axes.grid(visible=True, axis="x", linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("share of reviews; bars: 95 % intervals", loc="left")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=2, borderaxespad=0, handletextpad=0.1)
        note(
            drawn,
            "Dotted: people in the paper, shown selections of L2X. Here no people took part.",
        )
    return drawn
