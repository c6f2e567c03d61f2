"""Section 4.2's human evaluation, with stand-ins for the humans: what do readers see in the selections?

A study (l2x.apps.study) of the first test reviews, with the selections that the IMDB experiments kept. The
readers are a sentiment lexicon's, marked as simulated; nobody was asked.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from l2x.apps.study import Settings, Study, results, simulate
from l2x.apps.study._content import selected_content, whole_content
from l2x.apps.study._making import CONSENT, NEUTRAL, described
from l2x.apps.study._methods import WHOLE
from l2x.apps.study._study import Cell, Item
from l2x.datasets import TextData, imdb
from l2x.errors import InputError
from l2x_experiments.black_boxes.reviews import Problem
from l2x_experiments.comparison_report import explanation_of
from l2x_experiments.imdb import ITEMS, VIEWS
from l2x_experiments.records import Record, Records
from l2x_experiments.runner import Experiment, Job

PROBLEMS: tuple[Problem, ...] = ("words", "sentences")
METHODS = ("l2x-told", "l2x", "paper", "taylor", "random")
RATERS, QUICK_RATERS = 5, 2
QUICK_ITEMS = 60


def experiment(*, quick: bool = False, seeds: int = 1, source: Path = Path("results")) -> Experiment:
    """One study for each problem of which selections were kept; `seeds` is 1, as in the selections."""
    items, raters = (QUICK_ITEMS, QUICK_RATERS) if quick else (ITEMS, RATERS)
    kept = {problem: kept_selections(source, problem) for problem in PROBLEMS}
    jobs = [
        Job(
            # Other selections, or of other methods, are another study.
            {"problem": problem, "method": method, "selections": digest(methods), "wanted": items},
            f"{problem}, {method}",
            group=problem,
        )
        for problem, methods in kept.items()
        if methods
        for method in (*methods, WHOLE)
    ]
    return Experiment(
        "human",
        jobs,
        partial(measure_all, source=source, raters=raters),
        fetch=lambda progress: imdb("test", progress=progress),
    )


def kept_selections(source: Path, problem: Problem) -> dict[str, Record]:
    """The records of seed 0 that keep what was selected in the first test reviews, by method."""
    records = Records.load(source / f"imdb-{problem}.json").select(seed=0)
    found = {record["method"]: record for record in records if record.get("items")}
    return {method: found[method] for method in METHODS if method in found}


def digest(methods: dict[str, Record]) -> str:
    content = json.dumps({name: record["items"] for name, record in methods.items()}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def measure_all(jobs: Sequence[Job], *, source: Path, raters: int) -> Iterator[Record]:
    """The jobs of one problem: one study of all its methods."""
    problem, items = jobs[0]["problem"], jobs[0]["wanted"]
    methods, reviews = kept_selections(source, problem), imdb("test", progress=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{problem}.study"
        with as_study(path, problem, methods, reviews, items=items, raters=raters) as study:
            # Every reader reads each review once, under one method: as many readers as fill the quotas.
            simulate(study, raters=raters * len(study.settings.methods))
            found = {record["method"]: record for record in results(study, simulated=True).to_records()}
    for job in jobs:
        yield {**job.key, **found[job["method"]]}


def as_study(
    path: Path, problem: Problem, methods: dict[str, Record], reviews: TextData, *, items: int, raters: int
) -> Study:
    """The study of these selections and of the whole reviews."""
    answers = same_answers(methods, items)
    texts = reviews.texts[: len(answers)]
    view = VIEWS[problem]().fit(texts)
    k = next(iter(methods.values()))["k"]
    explanations = {
        name: explanation_of(record["items"]["selections"][: len(answers)], k, view, view.check(texts))
        for name, record in methods.items()
    }
    some = next(iter(explanations.values()))

    def cells(row: int) -> list[Cell]:
        shown = [
            Cell(selected_content(explanation, row), *_classes(methods[name], row))
            for name, explanation in explanations.items()
        ]
        return [*shown, Cell(whole_content(some, row), posthoc=answers[row])]

    settings = Settings(
        title=f"IMDB: {described(view, k)}",
        question="What did the model say?",
        classes=reviews.classes,
        neutral=NEUTRAL,
        methods=(*methods, WHOLE),
        kind="text",
        selected=described(view, k),
        raters=raters,
        per_rater=len(answers),
        practice=0,
        checks=0,
        seed=0,
        consent=CONSENT,
        patience=1800.0,
    )
    return Study.create(path, settings, [Item(row, answer, cells(row)) for row, answer in enumerate(answers)])


def same_answers(methods: dict[str, Record], items: int) -> list[int]:
    """The model's classes for the reviews; selections of different models cannot be compared."""
    lengths = [len(record["items"]["answers"]) for record in methods.values()]
    found = {name: record["items"]["answers"][: min(items, *lengths)] for name, record in methods.items()}
    if len(set(found.values())) > 1:
        raise InputError(
            f"The selections of {', '.join(found)} were kept for models that answer differently; run these "
            "methods again, with one model."
        )
    return [int(digit) for digit in next(iter(found.values()))]


def _classes(record: Record, row: int) -> tuple[int | None, int | None]:
    """What the model and the judge say of the selection, where it was kept."""
    kept: list[Any] = [record["items"].get(name) for name in ("posthoc", "judge")]
    posthoc, judge = (None if digits is None else int(digits[row]) for digits in kept)
    return posthoc, judge


def latest(records: Records) -> Records:
    """Of each problem only the last study: an earlier one was of other selections, or of fewer reviews."""
    last = {record["problem"]: _study(record) for record in records}
    return Records(record for record in records if _study(record) == last[record["problem"]])


def _study(record: Record) -> tuple[str, int]:
    return record["selections"], record["wanted"]
