"""Make a study from an explainer and data: draw items, and let every method select features in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x._base.arrays import cells as cells_of
from l2x.apps.study._store import check_new
from l2x.apps.study._study import Cell, Item, Lesson, Settings, Study
from l2x.baselines import METHODS, make_method
from l2x.display import count, selected_content, whole_content
from l2x.errors import InputError
from l2x.evaluation import fit_evaluator
from l2x.export import load
from l2x.features import View, checked_k
from l2x.learning import TrainingPlan, masked_predictions
from l2x.model import BlackBox, as_black_box, query

EXAMPLES = 2
EVALUATOR_ROWS = 50
WHOLE = "whole"
OURS = "l2x"


def new(
    path: str | Path,
    explainer: Any,
    X: Any,
    settings: Settings | None = None,
    *,
    against: Sequence[str] | Mapping[str, Any] = (),
    evaluator: bool = True,
    training: TrainingPlan | None = None,
) -> Study:
    """Make a study, write it to a new file, and open it.

    Parameters
    ----------
    path : str or Path
        The new file; an existing one is never overwritten.
    explainer : Explainer
        A fitted explainer of a classifier, with its model.
    X : array, data frame or list of texts
        Rows that the explainer was not fitted on. Items, worked examples and practice tasks are drawn from
        them, without duplicates; the evaluator is fitted on the rest.
    settings : Settings, optional
        Numbers of items, raters and checks, and the texts of the pages.
    against : sequence of str, or mapping
        Methods to compare with: names ("taylor", "lime", "random", "whole", ...), paths of other saved
        explainers, or {name: object with explain(X, k)}.
    evaluator : bool
        Whether to fit an independent evaluator on the rows that are not drawn.
    training : TrainingPlan, optional
        How the evaluator is trained.

    Returns
    -------
    Study
        The open study.

    Raises
    ------
    InputError
        If the explainer has no model, the model is a regression, or there are too few rows.

    Examples
    --------
    >>> import tempfile
    >>> import l2x
    >>> data = l2x.datasets.synthetic("orange_skin", 400, seed=0)
    >>> plan = TrainingPlan.quick().with_steps(value=40, selector=20)
    >>> explainer = l2x.Explainer(data.model, 2, training=plan, objective="surrogate").fit(data.X[:300])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path, settings = f"{folder}/xor.study", Settings(items=9)
    ...     study = new(path, explainer, data.X[300:], settings, evaluator=False)
    ...     answers = l2x.apps.study.simulate(study, raters=0, careless=1)
    ...     outcome = l2x.apps.study.results(study, simulated=True)
    ...     page = l2x.apps.study.write_report(study, f"{folder}/report.html")
    ...     table = l2x.apps.study.write_answers(study, f"{folder}/answers.csv")
    ...     study.close()
    >>> answers, page.name, table.name
    (9, 'report.html', 'answers.csv')
    """
    check_new(Path(path))
    settings, view = settings or Settings(), explainer.features_
    if explainer.model is None:
        raise InputError("The explainer has no model; load it with load(path, model=...).")
    black_box = as_black_box(explainer.model)
    k = checked_k(view, explainer.k if settings.k is None else settings.k)
    methods = contenders(against, explainer, black_box, seed=settings.seed)
    X = view.check(X)
    items, taught, rest = _draw(X, settings)
    inputs = view.take(X, np.concatenate([taught, items]))
    predictions = query(black_box, view, inputs)
    if black_box.task == "regression":
        raise InputError("A study asks which class the model predicts; this model is a regression.")
    settings = replace(
        settings,
        title=settings.title or f"What did the model see? {count(len(items), 'item')}",
        classes=_class_names(settings.classes, explainer, predictions.shape[1]),
        methods=tuple(methods),
        kind=view.kind,
        selected=described(view, k),
        per_rater=min(len(items), settings.per_rater),
        k=k,
    )
    fitted = _evaluator(black_box, view, view.take(X, rest), k, training) if evaluator else None
    shown = _Shown(inputs, predictions, k, view, black_box, fitted)
    cells = [shown.cells(method or explainer, whole=method is None) for method in methods.values()]
    return _write(path, settings, cells, predictions.argmax(axis=1), items)


@dataclass(frozen=True)
class _Shown:
    """The inputs that are shown, predictions for them, and what predicts from selected features."""

    inputs: Any
    predictions: Array  # (n, classes) for whole inputs
    k: int
    view: View
    black_box: BlackBox
    evaluator: Any

    def cells(self, method: Any, *, whole: bool) -> list[Cell]:
        """Let a method select features, and return every input as raters see it; `whole` shows all of it."""
        explanation = method.explain(self.inputs, self.k)
        mask, predictions, content = explanation.mask, self.predictions, selected_content
        if whole:
            mask, content = np.ones_like(mask), whole_content
        else:
            predictions = masked_predictions(self.black_box, self.view, self.inputs, mask)
        evaluated = None if self.evaluator is None else self.evaluator.outputs(self.inputs, mask)
        return [
            Cell(
                content(explanation, row),
                posthoc=int(predictions[row].argmax()),
                evaluator=None if evaluated is None else int(evaluated[row].argmax()),
            )
            for row in range(len(explanation))
        ]


def _evaluator(black_box: BlackBox, view: View, X: Any, k: int, training: TrainingPlan | None) -> Any:
    if len(X) < EVALUATOR_ROWS:
        raise InputError(
            f"Only {count(len(X), 'row')} would be left for the evaluator, which needs {EVALUATOR_ROWS}; "
            "give more data, draw fewer items, or leave the evaluator out (evaluator=False, --no-evaluator)."
        )
    return fit_evaluator(black_box, X, k, features=view, training=training)


def _write(
    path: str | Path, settings: Settings, cells: Sequence[list[Cell]], predicted: Array, items: Array
) -> Study:
    """Write the study: the last inputs are the items, the others are for examples and practice."""
    first = len(predicted) - len(items)
    # In lessons the methods take turns, so that raters do not get used to one of them.
    lessons = [Lesson(cells[i % len(cells)][i].content, int(predicted[i])) for i in range(first)]
    made = [
        Item(int(row), int(predicted[i]), [each[i] for each in cells]) for i, row in enumerate(items, first)
    ]
    return Study.create(path, settings, made, examples=lessons[:EXAMPLES], practice=lessons[EXAMPLES:])


def described(view: View, k: int) -> str:
    """Return what raters see of an input: "10 words of a text"."""
    whole = {"text": "a text", "image": "an image", "table": "a table row"}[view.kind]
    return f"{count(k, view.unit)} of {whole}"


def _draw(X: Any, settings: Settings) -> tuple[Array, Array, Array]:
    """Return rows for items, rows for examples and practice, and the rest; each in random order.

    Only one of several equal inputs is drawn, so that no rater sees an input twice, under two methods.
    """
    n, items, taught = len(X), settings.items, EXAMPLES + settings.practice
    order = np.random.default_rng(settings.seed).permutation(n)
    drawn: dict[str, int] = {}
    tried = 0
    while tried < n and len(drawn) < items + taught:
        row = int(order[tried])
        drawn.setdefault(repr(cells_of(X, row) or X[row]), row)
        tried += 1
    if len(drawn) < items + taught:
        different = "" if len(drawn) == n else f", {len(drawn):,} of them different"
        raise InputError(
            f"The data have {count(n, 'row')}{different}; {count(items, 'item')} and {taught} rows for "
            "examples and practice are needed."
        )
    rows = np.array(list(drawn.values()))
    return rows[taught:], rows[:taught], order[tried:]


def _class_names(given: Sequence[str], explainer: Any, classes: int) -> tuple[str, ...]:
    names = given or getattr(explainer, "classes_", None)
    names = tuple(str(name) for name in (range(classes) if names is None else names))
    if len(names) != classes:
        raise InputError(f"{len(names)} names were given for the model's {classes} classes.")
    return names


# Methods of the registry that need neither training nor a surrogate.
BY_NAME = [
    name
    for name, method in METHODS.items()
    if not method.needs_training and "surrogate" not in method.options()
]


def contenders(
    against: Sequence[str] | Mapping[str, Any], explainer: Any, black_box: BlackBox, *, seed: int
) -> dict[str, Any]:
    """Return {name: object with explain(X, k), or None for the whole input}; the explainer comes first.

    `against` is that of `new`; saved explainers are named after their files.
    """
    given = against if isinstance(against, Mapping) else dict.fromkeys(against)
    methods: dict[str, Any] = {OURS: explainer}
    for name, method in given.items():
        label = Path(name).stem if name.endswith(".l2x") else name
        if label in methods:
            raise InputError(f"Two methods are called '{label}'; rename one.")
        if method is not None or name == WHOLE:
            methods[label] = method
        elif name.endswith(".l2x"):
            methods[label] = load(name, model=black_box)
        elif name in BY_NAME:
            methods[label] = make_method(
                name,
                model=black_box if METHODS[name].model_agnostic else explainer.model,
                features=explainer.features_,
                magnitude=explainer.features_.kind == "table",  # words and patches: by support for the class
                seed=seed,
            )
        else:
            raise InputError(
                f"There is no method {name!r}; choose among {', '.join(BY_NAME)}, {WHOLE}, or give a saved "
                "explainer (other.l2x)."
            )
    return methods
