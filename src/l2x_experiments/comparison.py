"""What sections 4.2 and 4.3 have in common: how well do a method's k features reproduce the prediction?

The training inputs are split in three parts: for explainers, for the evaluator, and for choosing recipes;
nothing is chosen on test inputs. `l2x` is the default, `l2x-told` its prediction-aware version; l2x with one
objective alone, model or surrogate, is compared as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from l2x._base.arrays import Array
from l2x.evaluation import information, mask_only_accuracy, posthoc_accuracy, selected_words
from l2x.explanation import Explanation
from l2x.features import View
from l2x.learning import (
    BITS,
    FittedSurrogate,
    NetworkSurrogate,
    Options,
    Rows,
    Run,
    fit_probe,
    masked_predictions,
)
from l2x.model import BlackBox, as_black_box, query
from l2x_experiments.black_boxes import Trained
from l2x_experiments.cache import cached_evaluator, evaluator_accuracy
from l2x_experiments.methods import LABELS, METHODS, Budget, Cost, Setting, fitted
from l2x_experiments.plots import plot_accuracies
from l2x_experiments.records import NOTHING, Record, Records, measured_here, timed
from l2x_experiments.report import Cell, Table, mean_sd, measured_on, name_of
from l2x_experiments.runner import Experiment, Job, only_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = ("l2x", "l2x-told", "l2x-surrogate", "l2x-model")
COMPARED = (*OURS, "paper", "paper-letter", "random", "search", "taylor", "deeplift", "lime",
            "kernel_shap", "saliency", "taylor-absolute", "deeplift-absolute", "lime-absolute",
            "kernel_shap-absolute")  # fmt: skip
SEEDED = (*OURS, "paper", "paper-letter", "random")
# Training inputs whose selections train the mask-only predictor.
MASK_ROWS = 8000
# The fewest inputs whose selections a surrogate can be fitted to.
VMI_ROWS = 1000
# A record holds this many of the words selected most often.
COMMON_WORDS = 20


@dataclass(kw_only=True)
class Comparison(Setting):
    """A problem of sections 4.2 and 4.3; the same for every seed, which varies only the explainers."""

    features: View
    evaluator: FittedSurrogate
    validation: Any  # inputs on which our recipes are chosen
    labels: Array  # of the test inputs
    examples: Array  # rows of the test inputs that the page shows
    # Records of seed 0 hold the selections of this many first test inputs, for studies with people.
    items: int = 0
    # Numbers of test inputs to explain, and of training inputs for the mask-only predictor, by cost.
    limits: Mapping[Cost, tuple[int, int]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)  # options of the view, in every record

    def predictions(self, X: Any) -> Array:
        """Return P_m(y|x) for each input."""
        return query(self.black_box, self.features, self.features.check(X))

    @cached_property
    def test_predictions(self) -> Array:
        """P_m(y|x) for the test inputs."""
        return self.predictions(self.test)

    @cached_property
    def train_predictions(self) -> Array:
        """P_m(y|x) for the training inputs."""
        return self.predictions(self.train)


def experiment(
    name: str,
    problem: str,
    problems: Sequence[Any],
    set_up: Callable[[Any], Comparison],
    *,
    seeds: int,
    only: Sequence[str] | None,
    without: Sequence[str] = (),
    fetch: Callable[[bool], object],
) -> Experiment:
    """Return the jobs: every method, except `without`, on every problem.

    The entry `problem` of a record holds its problem. The first seed comes first; only methods that depend
    on the seed have others. `set_up` must be picklable.
    """
    jobs = [
        Job(
            {problem: which, "seed": seed, "method": method},
            f"{which}, {method}, seed {seed}",
            group=(str(which), method, seed),
        )
        for seed in range(seeds)
        for method in COMPARED
        if method not in without and (seed == 0 or method in SEEDED)
        for which in problems
    ]
    return Experiment(
        name,
        only_methods(jobs, only),
        partial(measure_all, set_up=set_up, problem=problem),
        fetch=fetch,
        prepare=[partial(set_up, which) for which in problems],
    )


def measure_all(
    jobs: Sequence[Job], *, set_up: Callable[[Any], Comparison], problem: str
) -> Iterator[Record]:
    """Measure the jobs of one group."""
    for job in jobs:
        setting = set_up(job[problem])
        yield {**job.key, **setting.about, **measure(setting, job["method"], job["seed"])}


def compare(
    name: str,
    trained: Trained,
    X: Any,
    view_of: Callable[[Any], View],
    *,
    evaluator_view: View | None = None,
    evaluator_options: Options | None = None,
    shares: tuple[float, float],
    k: int,
    classes: int,
    budget: Budget,
    about: Mapping[str, Any],
    black_box: BlackBox | None = None,
    **fields: Any,
) -> Comparison:
    """Return the setting of a network and its inputs.

    Explainers learn from the first of the `shares` of X, the evaluator from the second, which may have a
    view of its own; the rest is for choosing recipes. `about` holds the options of the view, `fields` the
    other fields of `Comparison`. The black box is by default the network, which returns logits.
    """
    black_box = black_box or as_black_box(trained.network, logits=True)
    first = round(shares[0] * len(X))
    second = first + round(shares[1] * len(X))
    for_evaluator, view = X[first:second], view_of(X[:first])
    plans, search, sampling = budget.plans(view), budget.search_rows, budget.sampling_rows
    key = {"model": trained.key, **about}
    evaluator = cached_evaluator(
        name, key, black_box, evaluator_view or view_of(for_evaluator), for_evaluator,
        k=k, classes=classes, plan=plans.evaluator, options=evaluator_options or {},
    )  # fmt: skip
    return Comparison(
        **fields,
        black_box=black_box,
        k=k,
        train=view.check(X[:first]),
        validation=view.check(X[second:]),
        plans=plans,
        features=view,
        model=trained.network,
        evaluator=evaluator,
        signed=True,
        limits={"search": (search, search), "sampling": (sampling, sampling)},
        about=about,
    )


def measure(setting: Comparison, method: str, seed: int) -> Record:
    """Return the scores of one method: post-hoc accuracy, and what guards against misreading it."""
    view, k = setting.features, setting.k
    rows, mask_rows = setting.limits.get(METHODS[method].cost, (len(setting.test), MASK_ROWS))
    X, predictions = view.take(setting.test, slice(rows)), setting.test_predictions[:rows]
    predicted, seen = predictions.argmax(axis=1), view.take(setting.train, slice(mask_rows))
    explainer, fit_seconds = timed(lambda: fitted(setting, method, seed))
    explanation, explain_seconds = timed(lambda: ranked(explainer.explain(X, k)))
    masks, targets = explainer.explain(seen, k).mask, setting.train_predictions[:mask_rows]
    shown = setting.examples[setting.examples < len(X)]
    validation = validated(setting, explainer) if method in OURS else {}

    def accuracy(*, removal: bool = False) -> float:
        return posthoc_accuracy(setting.black_box, X, explanation, removal=removal, predictions=predictions)

    return (
        {
            "k": k,
            "rows": len(X),
            "posthoc_accuracy": accuracy(),
            "judge_accuracy": evaluator_accuracy(setting.evaluator, X, explanation, predicted),
            "mask_only_accuracy": mask_only_accuracy(
                masks, targets.argmax(axis=1), explanation.mask, predicted
            ),
            "vmi": variational_information(
                setting, (seen, masks, targets), (X, explanation, predictions), seed
            ),
            "complement_accuracy": accuracy(removal=True),
            "fit_seconds": fit_seconds,
            "explain_seconds": explain_seconds,
            "model_accuracy": float((setting.test_predictions.argmax(axis=1) == setting.labels).mean()),
            "majority": float(max((predicted == label).mean() for label in set(predicted.tolist()))),
            "train_rows": len(setting.train),
            "mask_rows": len(seen),
            "example_rows": shown.tolist(),
            "examples": explanation.indices[shown].tolist(),
            "example_answers": predicted[shown].tolist(),
            "common_words": common_words(explanation),
            "items": items(setting, explanation[: setting.items], predictions) if seed == 0 else None,
        }
        | validation
        | measured_here()
    )


def validated(setting: Comparison, explainer: Any) -> Record:
    """Return the accuracies by which recipes are chosen."""
    X, explanation = setting.validation, explainer.explain(setting.validation, setting.k)
    predictions = setting.predictions(X)
    return {
        "validation_posthoc": posthoc_accuracy(setting.black_box, X, explanation, predictions=predictions),
        "validation_judge": evaluator_accuracy(setting.evaluator, X, explanation, predictions.argmax(axis=1)),
    }


def items(setting: Comparison, explanation: Explanation, predictions: Array) -> Record | None:
    """Return the selections in the first test inputs, best first, and their predicted classes.

    Classes are strings of digits: the model's for the whole input, the model's and the evaluator's for the
    selected features alone. None if there are no inputs.
    """
    n, view, mask = len(explanation), setting.features, explanation.mask
    if not n:
        return None
    X = view.take(setting.test, slice(n))
    classes = {
        "answers": predictions[:n],
        "posthoc": masked_predictions(setting.black_box, view, X, mask),
        "judge": setting.evaluator.outputs(X, mask),
    }
    pairs = zip(explanation.indices, explanation.selected, strict=True)
    return {"selections": [indices[selected].tolist() for indices, selected in pairs]} | {
        name: "".join(map(str, outputs.argmax(axis=1))) for name, outputs in classes.items()
    }


def common_words(explanation: Explanation) -> list[str] | None:
    """Return the words selected most often, or None if features are not words."""
    if explanation.view is None or explanation.view.unit != "word":
        return None
    return [word for word, _ in selected_words(explanation).most_common(COMMON_WORDS)]


def variational_information(
    setting: Comparison, train: tuple[Any, Array, Array], test: tuple[Any, Explanation, Array], seed: int
) -> float | None:
    """Return H(Y) + E[log q(Y | X_S)] in nats on test inputs: "VMI" in comments of the paper's source.

    The surrogate q is fitted to the method's own selections: (inputs, masks, predictions) of training
    inputs. Like a probe of the leakage test it starts from the evaluator, which can read values already. The
    bound is at most log 2 for two classes. None if there are too few inputs to fit q.
    """
    inputs, masks, targets = train
    X, explanation, predictions = test
    view, evaluator = setting.evaluator.view, setting.evaluator.surrogate
    if len(inputs) < VMI_ROWS:
        return None
    assert isinstance(evaluator, NetworkSurrogate)
    rows = Rows(view, None, view.encode(view.check(inputs)), evaluator.likelihood.targets(targets))
    run = Run.begin(setting.plans.ours, seed)
    q = fit_probe(evaluator, rows, torch.from_numpy(masks).float(), run, shuffled=False)
    bits = information(FittedSurrogate(view, q), X, explanation, predictions=predictions)
    return float(bits.captured / BITS)


def ranked(explanation: Explanation) -> Explanation:
    """Return the explanation after ranking its features: ranking is part of the work that is timed."""
    _ = explanation.indices
    return explanation


class Page:
    """The table, figure and captions of one problem.

    `inputs` and `features` are plural nouns for the texts, such as "images" and "patches".
    """

    def __init__(self, records: Records, *, inputs: str, features: str) -> None:
        self.records, self.inputs, self.features = records, inputs, features
        self.groups = {group[0]["method"]: group for group in records.groups(method=list(LABELS))}

    def table(self, printed: Mapping[str, float], printed_vmi: Mapping[str, float] | None = None) -> Table:
        """Return one line for each method; `printed` holds the paper's own numbers."""
        cells: dict[str, Cell] = {
            "method": name_of("method", LABELS),
            "post-hoc": mean_sd("posthoc_accuracy"),
            "printed": _printed(printed),
            "evaluator": mean_sd("judge_accuracy"),
            "mask alone": mean_sd("mask_only_accuracy"),
            "removal test": mean_sd("complement_accuracy"),
            "VMI": mean_sd("vmi"),
            "VMI printed": _printed(printed_vmi or {}),
            "training, s": mean_sd("fit_seconds", digits=0),
            "s / 1,000": lambda group: (
                f"{np.mean([1e3 * r['explain_seconds'] / r['rows'] for r in group]):.3g}"
            ),
        }
        return Table.of(self.groups.values(), cells)

    def figure(self, *, title: str, chance: float) -> Figure:
        """Draw the accuracies of all methods, the best post-hoc accuracy on top."""
        keys = ("posthoc_accuracy", "judge_accuracy", "mask_only_accuracy")
        methods = {LABELS[m]: [group.mean(key) for key in keys] for m, group in self.groups.items()}
        return plot_accuracies(
            dict(sorted(methods.items(), key=lambda item: -item[1][0])),
            title=title,
            chance=chance,
            inputs=self.inputs,
            caption="Dotted: chance. Post-hoc: the model on the selected features. Evaluator: fitted on "
            f"random subsets.\nMask alone: a logistic regression that sees which {self.features} were "
            "selected, not their content.",
        )

    def caption(self) -> str:
        """Explain the columns, and name the methods that were measured on fewer inputs."""
        whole = max(self.records.values("rows"))
        fewer = {LABELS[r["method"]]: r["rows"] for r in self.records if r["rows"] < whole}
        exceptions = "".join(f"; {name}: {rows:,}" for name, rows in fewer.items())
        counts = sorted({len(group) for group in self.groups.values()} - {1})
        seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "1"
        return (
            "Printed: in the paper or in comments of its source. Mask alone: a logistic regression that sees "
            f"which {self.features} were selected, not their content. Removal test: accuracy of the model "
            "without the selected features. VMI: variational lower bound of the mutual information between "
            "selection and prediction, in nats, by a surrogate fitted to the method's own selections. "
            f"s / 1,000: seconds to explain 1,000 {self.inputs}. Measured on {whole:,} test "
            f"{self.inputs}{exceptions}. Mean ± standard deviation over {seeds} seed(s) for methods that "
            "learn or draw."
        )

    def percent(self, method: str, key: str = "posthoc_accuracy") -> str:
        """Return a mean accuracy in percent."""
        return f"{100 * self.groups[method].mean(key):.1f} %"


def _printed(numbers: Mapping[str, float]) -> Cell:
    return lambda group: f"{numbers[m]:.3f}" if (m := group[0]["method"]) in numbers else NOTHING


def introduction(records: Records, *, inputs: str, features: str, masked: str, about: str = "") -> list[str]:
    """Describe what is measured, and on what.

    `masked` is what unselected features are replaced by; `about` names the problem of the first record.
    """
    one = inputs.removesuffix("s")
    return [
        f"Post-hoc accuracy is the share of test {inputs} for which the model predicts the same class from "
        f"the selected {features} alone, with {masked} elsewhere, as from the whole {one}. A selection can "
        "reach it by pushing the model towards that class without being the reason for it; the search per "
        "input, which knows the prediction, shows how far that goes. Therefore an independent evaluator is "
        f"reported as well: a network fitted on random subsets of {inputs} that no explainer saw.",
        f"Explainers learned from {records[0]['train_rows']:,} training {inputs}{about}, the evaluator from "
        f"others, and our recipe was chosen on a third part; nothing was chosen on test {inputs}. "
        f"{measured_on(records)}",
    ]


def selection(record: Record, view: View, inputs: Any) -> Explanation:
    """Return the explanation of a record's examples, which are `inputs`."""
    return explanation_of(record["examples"], record["k"], view, inputs)


def explanation_of(selections: Sequence[Sequence[int]], k: int, view: View, inputs: Any) -> Explanation:
    """Return the explanation of `inputs` that selects these features, best first, at most k in each."""
    scores = np.full((len(selections), view.d), -np.inf)
    for row, selected in enumerate(selections):
        scores[row, list(selected)] = np.arange(k, k - len(selected), -1.0)
    return Explanation(scores, k, view.names_, inputs=inputs, view=view)


def with_examples(records: Records, methods: Sequence[str]) -> list[Record]:
    """Return the first record with examples of each of these methods that has one."""
    first = (next((r for r in group if r["examples"]), None) for group in records.groups(method=methods))
    return [record for record in first if record is not None]
