"""`report`: everything that can be measured about explanations, and a verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.evaluation._evaluator import fit_evaluator
from l2x.evaluation._evidence import Evidence, Reference, Subject, subject_of
from l2x.evaluation._parts import Part, fidelity_finding, information_curve, measured_parts
from l2x.evaluation._verdict import Fidelity, Finding
from l2x.features import fitted_view
from l2x.learning import Estimate, FittedSurrogate, Gaussian, TrainingPlan, checked_seed, recipes_of
from l2x.model import BlackBox, as_black_box, query

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The evaluator's seed is this far from the report's, so that it is never an explainer's.
EVALUATOR_SEED = 1_000_003


@dataclass(frozen=True)
class Report:
    """What was measured about explanations, and whether they leak the prediction.

    `print(report)` shows all of it; `report["evaluator"]["selection"]` is one number, an `Estimate`.

    Attributes
    ----------
    name : str
        The method's name.
    task : str
        "classification" or "regression".
    rows, features, k : int
        Number of test rows, of features, and of selected features.
    finding : str
        "leaks", "none" (no leakage found), "inconclusive" (too few rows or too weak an evaluator) or
        "untested" (a brief report).
    fidelity : str
        "faithful", "chance" (no better than random features) or "undecided".
    verdict : str
        Both in sentences.
    parts : sequence of Part
        Fidelity, evaluator, leakage, information, stability, truth (where it is known) and cost; a brief
        report has fidelity, evaluator and information.
    curve : sequence of (int, Estimate)
        Bits captured by the k best features, for each k.
    mean_size : float, optional
        Mean number of selected features where rows differ (`keep=`).

    Examples
    --------
    >>> from l2x.baselines import RandomK
    >>> from l2x.datasets import synthetic
    >>> from l2x.evaluation import report
    >>> from l2x.learning import TrainingPlan
    >>> data = synthetic("xor", 300, seed=0)
    >>> quick = TrainingPlan.quick().with_steps(value=20, selector=20)
    >>> brief = report(RandomK(), data.model, data.X[:200], data.X[200:], k=2, training=quick, brief=True)
    >>> brief.finding, [part.key for part in brief.parts][:2]
    ('untested', ['fidelity', 'evaluator'])
    >>> accuracy = brief["evaluator"]["selection"]
    >>> bool(accuracy.low <= accuracy.value <= accuracy.high)
    True
    """

    name: str
    task: str
    rows: int
    features: int
    k: int
    finding: Finding
    fidelity: Fidelity
    verdict: str
    parts: Sequence[Part]
    curve: Sequence[tuple[int, Estimate]] = ()
    mean_size: float | None = None

    @property
    def selected(self) -> str:
        """How many features are selected, in words."""
        if self.mean_size is None:
            return f"k = {self.k} of {self.features} features"
        return f"at most k = {self.k} of {self.features} features, {self.mean_size:.2f} on average"

    @property
    def leaks(self) -> bool:
        """Whether the leakage test found leakage."""
        return self.finding == "leaks"

    @property
    def tone(self) -> Literal["good", "bad", "unsure"]:
        """How good the verdict is: bad if leakage or fidelity is, good if both are."""
        if self.leaks or self.fidelity == "chance":
            return "bad"
        return "good" if self.finding == "none" and self.fidelity == "faithful" else "unsure"

    def __getitem__(self, key: str) -> Part:
        """Return a part by its key: `report["fidelity"]`."""
        parts = {part.key: part for part in self.parts}
        if key not in parts:
            raise KeyError(f"{key!r}; this report has {', '.join(parts)}")
        return parts[key]

    def __contains__(self, key: str) -> bool:
        return any(part.key == key for part in self.parts)

    def __str__(self) -> str:
        from rich.console import Console

        buffer = StringIO()
        Console(file=buffer, width=110, color_system=None).print(self)
        return buffer.getvalue()

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.table import Table
        from rich.text import Text

        yield Text(f"Report card: {self.name}", style="bold")
        yield Text(f"{self.selected}, {self.rows:,} rows, 95 % intervals\n")
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(style="dim")
        for part in self.parts:
            table.add_row(Text(part.title, style="bold"), "", Text(part.remark))
            for entry in part.entries:
                table.add_row(Text(f"  {entry.label}"), Text(entry.text), Text(entry.meaning))
        yield table
        colour = {"bad": "red", "good": "green", "unsure": "yellow"}[self.tone]
        yield Text(f"\n{self.verdict}", style=f"bold {colour}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python for JSON; `["parts"][part][key]` has "value", "low" and "high", or None."""
        plain = ("name", "task", "rows", "features", "k", "mean_size", "finding", "fidelity", "verdict")
        parts = {part.key: {e.key: e.estimate.to_dict() for e in part.entries} for part in self.parts}
        curve = [{"k": k, **estimate.to_dict()} for k, estimate in self.curve]
        return {name: getattr(self, name) for name in plain} | {"parts": parts, "curve": curve}

    def to_html(self) -> str:
        """Return one self-contained HTML page; all texts are escaped."""
        from l2x.display import report_page

        return report_page(self)

    def _repr_html_(self) -> str:
        from l2x.display import report_table

        return report_table(self)

    def save(self, path: str | Path) -> Path:
        """Write the HTML page to `path`, atomically."""
        from l2x.display import write_file

        return write_file(path, self.to_html().encode())

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw post-hoc accuracy and the information over k, and save the figure if a path is given."""
        from l2x.display import plot_report

        return plot_report(self, path)


def report(
    explainers: Any,
    model: Any,
    X_train: Any,
    X_test: Any,
    k: int | None = None,
    *,
    keep: float | None = None,
    polish: bool | None = None,
    refine: int = 0,
    name: str | None = None,
    reference: Reference | None = None,
    evaluator: FittedSurrogate | None = None,
    training: TrainingPlan | None = None,
    brief: bool = False,
    seed: int = 0,
) -> Report:
    """Measure whether explanations can be trusted: seven kinds of evidence with intervals, and a verdict.

    Parameters
    ----------
    explainers : Explainer, object with explain(X, k), Explanation of X_test, or list of these
        The report is about the first; the others, the same method with other seeds, show how stable it is.
        For precomputed explanations the probes are fitted on one half of X_test and measured on the other.
    model : object
        The model being explained, in any form that `as_black_box` takes.
    X_train : rows
        Rows for the evaluator and the probes, preferably rows that no explainer was fitted on.
    X_test : rows
        Rows on which everything is measured.
    k : int, optional
        Number of features; by default the explainer's own.
    keep : float, optional
        Report on `explain(X, k, keep=...)`, with as many features as each row needs.
    polish : bool, optional
        With False, report on the learned selections; by default, as `explain` does, on polished ones.
    refine : int
        Report on `explain(X, k, refine=...)`, with at most this many queries per row.
    name : str, optional
        The method's name, for the title.
    reference : Reference, optional
        Known truth, and the same method fitted to a random model, to compare with.
    evaluator : FittedSurrogate, optional
        A `fit_evaluator` on rows other than X_test; by default one is fitted on X_train.
    training : TrainingPlan, optional
        Training plan of evaluator and probes, by default the view's.
    brief : bool
        Only measure fidelity, evaluator and information: no probes are trained, leakage is not tested.
    seed : int
        Seed of the evaluator, the probes, the bootstrap and random selections.

    Returns
    -------
    Report
        Print it, save it as a page, or read `.finding` and `["evaluator"]["selection"]`.

    Examples
    --------
    >>> from l2x.baselines import RandomK
    >>> from l2x.datasets import synthetic
    >>> data = synthetic("xor", 300, seed=0)
    >>> quick = TrainingPlan.quick().with_steps(value=20, selector=20)
    >>> brief = report(RandomK(), data.model, data.X[:200], data.X[200:], k=2, training=quick, brief=True)
    >>> brief.finding, brief["information"]["available"].value > 0
    ('untested', True)
    """
    seed, reference, black_box = checked_seed(seed), reference or Reference(), as_black_box(model)
    given = {"keep": keep, "polish": polish, "refine": refine or None}
    how = {option: value for option, value in given.items() if value is not None}
    subject = subject_of(explainers, X_test, k, name, model=model, how=how)
    _check_shapes(subject.explanation.scores.shape, reference, evaluator)
    view = fitted_view(subject.explanation.view, X_test)
    X_test = view.check(X_test)
    started = time.perf_counter()
    predictions = query(black_box, view, X_test)
    query_seconds = time.perf_counter() - started
    _check_outputs(subject, black_box, predictions, evaluator)
    training = training or recipes_of(view).ours.plan
    if evaluator is None:
        k, own_seed = subject.explanation.k, seed + EVALUATOR_SEED
        evaluator = fit_evaluator(black_box, X_train, k, features=view, training=training, seed=own_seed)
    evidence = Evidence(
        subject=subject,
        black_box=black_box,
        view=view,
        X_train=X_train,
        X_test=X_test,
        predictions=predictions,
        evaluator=evaluator,
        training=training,
        seed=seed,
        query_seconds=query_seconds,
        reference=reference,
    )
    parts, verdict = measured_parts(evidence, brief=brief)
    fidelity, sentence = fidelity_finding(evidence)
    sizes = subject.explanation.sizes
    return Report(
        name=subject.name,
        task=str(black_box.task),
        rows=len(predictions),
        features=view.d,
        k=subject.explanation.k,
        mean_size=None if sizes is None else float(sizes.mean()),
        finding=verdict.finding,
        fidelity=fidelity,
        verdict=f"{verdict.sentence} {sentence}",
        parts=parts,
        curve=information_curve(evidence),
    )


def _check_shapes(shape: tuple[int, ...], reference: Reference, evaluator: FittedSurrogate | None) -> None:
    """Check that reference and evaluator fit the (n, d) explanations, before any work is done."""
    truth = reference.truth
    if truth is not None and np.shape(truth) != shape:
        raise InputError(f"truth has the shape {np.shape(truth)}; expected {shape}, rows x features.")
    if evaluator is not None and evaluator.view.d != shape[1]:
        raise InputError(
            f"The evaluator has {evaluator.view.d} features, the explanation has {shape[1]}; fit it with "
            "fit_evaluator(..., features=explainer.features_)."
        )


def _check_outputs(
    subject: Subject, black_box: BlackBox, predictions: Array, evaluator: FittedSurrogate | None
) -> None:
    """Check that explainer and evaluator were fitted to a model with such predictions."""
    outputs, surrogate = predictions.shape[1], getattr(subject.source, "surrogate_", None)
    if surrogate is not None and surrogate.likelihood.outputs != outputs:
        raise InputError(
            f"{black_box.name} has {outputs} outputs, but the explainer was fitted to "
            f"{surrogate.likelihood.outputs}: is this the model that it explains?"
        )
    if evaluator is not None:
        expected = (black_box.task == "regression", outputs)
        if (isinstance(evaluator.likelihood, Gaussian), evaluator.likelihood.outputs) != expected:
            raise InputError(
                "The evaluator was fitted to another kind of model; use fit_evaluator on this one."
            )
