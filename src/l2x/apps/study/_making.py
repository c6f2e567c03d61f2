"""A new study from an explainer, its model and data: items are drawn, and every method selects in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from l2x._base.arrays import Array, cells
from l2x.apps.study._content import selected_content, whole_content
from l2x.apps.study._methods import contenders
from l2x.apps.study._store import check_new
from l2x.apps.study._study import Cell, Item, Lesson, Settings, Study
from l2x.display import count
from l2x.errors import InputError
from l2x.evaluation import fit_judge
from l2x.explanation import Explanation
from l2x.features import View, checked_k, kind_of, unit_of
from l2x.learning import TrainingPlan, masked_answers
from l2x.model import as_black_box, query

EXAMPLES = 2
JUDGE_ROWS = 50
NEUTRAL = "cannot tell"
QUESTION = "What did the model say?"
CONSENT = (
    "You will see parts of inputs of a computer model and say what you think the model answered.\n\n"
    "Taking part is voluntary, and you can stop at any time by closing the page. Your answers, and the time "
    "that each takes, are stored without your name and used for research."
)


@dataclass(frozen=True)
class Selections:
    """What one method selected in some rows, as raters see it, and what model and judge say of it."""

    explanation: Explanation
    whole: bool = False
    posthoc: Array | None = None
    judge: Array | None = None

    def cell(self, row: int) -> Cell:
        content = (whole_content if self.whole else selected_content)(self.explanation, row)
        classes = (None if found is None else int(found[row]) for found in (self.posthoc, self.judge))
        return Cell(content, *classes)


def new(
    path: str | Path,
    explainer: Any,
    model: Any,
    X: Any,
    *,
    items: int = 500,
    raters: int = 5,
    against: Sequence[str] | Mapping[str, Any] = (),
    per_rater: int | None = None,
    practice: int = 3,
    checks: int = 3,
    k: int | None = None,
    classes: Sequence[str] | None = None,
    question: str = QUESTION,
    neutral: str = NEUTRAL,
    title: str = "",
    consent: str = CONSENT,
    patience: float = 1800.0,
    judge: bool = True,
    training: TrainingPlan | None = None,
    seed: int = 0,
) -> Study:
    """Make a study and return it, opened.

    Parameters
    ----------
    path : of the new file; an existing one is never overwritten
    explainer : a fitted `l2x.Explainer`
    model : the model that it explains, a classifier
    X : rows that the explainer was not fitted on: items, worked examples and practice are drawn from them,
        and the judge learns from the rest
    items : how many inputs raters are asked about; at most those of X that differ and are not used for
        examples
    raters : answers that each input gets under each method
    against : methods to compare with, by name ("taylor", "lime", "random", "whole", ...), paths of other
        saved explainers, or {name: object with explain(X, k)}
    per_rater : inputs that one person is asked about, by default at most 100
    practice, checks : tasks with feedback at the beginning, and checks of attention in between
    classes : names of the model's classes, by default its own
    k : how many features are shown, by default the explainer's own
    question, neutral, title, consent : texts of the pages; `neutral` is the answer that counts for no class
    patience : seconds after which a task that was left is given to somebody else
    seed : of what is drawn, and of who sees what
    judge : fit an independent judge on the rows that are not drawn; its plan is `training`

    Returns
    -------
    The `Study`.

    Raises
    ------
    InputError
        If the model predicts numbers, or there are too few rows.

    >>> import tempfile
    >>> import l2x
    >>> data = l2x.datasets.synthetic("xor", 300, seed=0)
    >>> plan = TrainingPlan.quick().with_steps(value=8, selector=8)
    >>> explainer = l2x.Explainer(data.model, 2, training=plan, value="surrogate").fit(data.X[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = new(f"{folder}/xor.study", explainer, data.model, data.X[200:], items=9, judge=False)
    ...     answers = l2x.apps.study.simulate(study, raters=0, careless=1)
    ...     found = l2x.apps.study.results(study, simulated=True)
    ...     page = l2x.apps.study.write_report(study, f"{folder}/report.html")
    ...     table = l2x.apps.study.write_answers(study, f"{folder}/answers.csv")
    ...     study.close()
    >>> answers, page.name, table.name
    (9, 'report.html', 'answers.csv')
    """
    check_new(Path(path))
    black_box, view = as_black_box(model), explainer.features_
    k = checked_k(view, explainer.k if k is None else k)
    found = contenders(against, explainer, model, black_box, seed=seed)
    X = view.check(X)
    drawn, taught, rest = _drawn(X, items, practice, seed)
    shown = view.take(X, np.concatenate([taught, drawn]))
    answers = query(black_box, view, shown)
    if black_box.task == "regression":
        raise InputError("A study asks which class the model chose; this model predicts numbers.")
    names = _class_names(classes, explainer, answers.shape[1])
    if judge and len(rest) < JUDGE_ROWS:
        raise InputError(
            f"Only {count(len(rest), 'row')} would be left for the judge, which needs {JUDGE_ROWS}; give "
            "more data, ask about fewer items, or leave the judge out (judge=False, --no-judge)."
        )
    fitted = fit_judge(black_box, view.take(X, rest), k, features=view, training=training) if judge else None
    selections: list[Selections] = []
    for method in found.values():
        explanation = (method or explainer).explain(shown, k)
        whole = method is None
        mask = np.ones_like(explanation.mask) if whole else explanation.mask
        posthoc = answers if whole else masked_answers(black_box, view, shown, mask)
        judged = None if fitted is None else fitted.outputs(shown, mask).argmax(axis=1)
        selections.append(Selections(explanation, whole, posthoc.argmax(axis=1), judged))
    first = len(taught)
    lessons = [
        # Each method in turn, so that nobody is trained to read one of them.
        Lesson(selections[i % len(selections)].cell(i).content, int(answers[i].argmax()))
        for i in range(first)
    ]
    settings = Settings(
        title=title or f"What did the model see? {count(len(drawn), 'item')}",
        question=question,
        classes=names,
        neutral=neutral,
        methods=tuple(found),
        kind=kind_of(view),
        selected=described(view, k),
        raters=raters,
        per_rater=min(len(drawn), per_rater or 100),
        practice=practice,
        checks=checks,
        seed=seed,
        consent=consent,
        patience=patience,
    )
    made = [
        Item(int(row), int(answers[first + i].argmax()), [s.cell(first + i) for s in selections])
        for i, row in enumerate(drawn)
    ]
    return Study.create(path, settings, made, examples=lessons[:EXAMPLES], practice=lessons[EXAMPLES:])


def described(view: View, k: int) -> str:
    """What a rater sees of an input, in words."""
    whole = {"text": "a text", "image": "an image", "table": "a table row"}[kind_of(view)]
    unit = unit_of(view)
    return f"{count(k, 'patche' if unit == 'patch' and k > 1 else unit)} of {whole}"


def _drawn(X: Any, items: int, practice: int, seed: int) -> tuple[Array, Array, Array]:
    """Rows for items, for examples and practice, and the rest; each in random order.

    Of inputs that are the same, one is drawn: nobody is to see a review twice, under two methods.
    """
    n, taught = len(X), EXAMPLES + practice
    if items < 1:
        raise InputError(f"items is {items}; a study needs at least one.")
    order = np.random.default_rng(seed).permutation(n)
    found: dict[str, int] = {}
    tried = 0
    while tried < n and len(found) < items + taught:
        row = int(order[tried])
        found.setdefault(repr(cells(X, row) or X[row]), row)
        tried += 1
    if len(found) < items + taught:
        different = "" if len(found) == n else f", {len(found):,} of them different"
        raise InputError(
            f"The data have {count(n, 'row')}{different}; {count(items, 'item')} and {taught} rows for "
            "examples and practice are needed."
        )
    rows = np.array(list(found.values()))
    return rows[taught:], rows[:taught], order[tried:]


def _class_names(given: Sequence[str] | None, explainer: Any, classes: int) -> tuple[str, ...]:
    known = given if given is not None else getattr(explainer, "classes_", None)
    names = tuple(str(name) for name in (range(classes) if known is None else known))
    if len(names) != classes:
        raise InputError(f"{len(names)} names were given for the model's {classes} classes.")
    return names
