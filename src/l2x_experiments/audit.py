"""Audit mode: what a selector costs that cannot leak, because it reads only what it has selected so far.

sets     the paper's synthetic sets, the true P(y|x): exact sets, bits and times
truths   true-positive rates on INVASE's sets, with k = the largest number of relevant features of a row
small    a report on Syn4 with k = 4, which is too small and for which the default selector is flagged
adult    LightGBM on census rows, k = 3, and a report
mnist    3 versus 8, four patches

The default selector is measured next to it, with the first seed of each kind. Nothing is chosen on test rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

import l2x
from l2x._base.arrays import Array
from l2x.datasets import INVASE_SETS, SETS, SetName, synthetic
from l2x.evaluation import mask_only_accuracy, posthoc_accuracy
from l2x.learning import masked_predictions
from l2x_experiments import adult, leakage, mnist
from l2x_experiments import synthetic as sets
from l2x_experiments.cache import evaluator_accuracy
from l2x_experiments.leakage import LeakageBudget
from l2x_experiments.methods import fitted, labels, report_record
from l2x_experiments.records import NOTHING, Record, Records, measured_here, timed
from l2x_experiments.report import Cell, Report, Table, mean_sd, measured_on, name_of
from l2x_experiments.runner import Experiment, Job

COMPARED = ("sequential", "l2x", "tree")
LABELS = labels(("sequential", "l2x")) | {"tree": "best sequential tree, enumerated"}
# The most relevant features that a row has; the sets' own k is a mean.
MOST_RELEVANT = {"syn4": 5, "syn5": 5}
PROBLEMS: dict[str, list[tuple[SetName, str]] | list[tuple[str, str]]] = {
    # XOR and orange skin are the same in both variants.
    "set": [(name, "code") for name in SETS] + [("nonlinear_additive", "paper"), ("switch", "paper")],
    "adult": [("adult", "")],
    "mnist": [("mnist-38", "")],
    "truth": [(name, "code") for name in INVASE_SETS],
    "small": [("syn4", "code")],
}
# Seeds where they are fewer than asked for; the default selector has pages of its own.
SEEDS = {
    ("mnist", "sequential"): 1,
    ("truth", "sequential"): 1,
    ("set", "l2x"): 1,
    ("mnist", "l2x"): 1,
    ("adult", "tree"): 1,
}

FULL = sets.SyntheticBudget(train_rows=100_000, test_rows=10_000, bits_rows=1000, background=200)
QUICK = replace(FULL, train_rows=3000, test_rows=500, value_steps=100, selector_steps=50, bits_rows=100)
# Training rows of INVASE's sets, and images.
TRUTH_ROWS, MNIST_ROWS = 20_000, 6000
# Intervals per column of an enumerated tree, and the fewest rows from which a branch of it is chosen.
BINS, FEWEST = 10, 20


def experiment(*, quick: bool = False, seeds: int = 3, kinds: Sequence[str] | None = None) -> Experiment:
    """Return the jobs, the first seed of everything first; `kinds` are keys of PROBLEMS."""
    jobs = [
        Job(
            {"kind": kind, "set": name, "variant": variant, "method": method, "seed": seed, "quick": quick},
            f"{kind}, {name}, {method}, seed {seed}",
            group=(kind, name, variant, seed),
        )
        for seed in range(seeds)
        for kind in kinds or PROBLEMS
        for name, variant in PROBLEMS[kind]
        for method in COMPARED
        if seed < SEEDS.get((kind, method), seeds if method == "sequential" else 0)
    ]
    return Experiment("audit", jobs, partial(measure_all, quick=quick), belongs={"quick": quick})


def measure_all(jobs: Sequence[Job], quick: bool) -> Iterator[Record]:
    """Measure the jobs of one problem and seed."""
    first = jobs[0]
    measure = MEASURES[first["kind"]](first, quick)
    for job in jobs:
        yield {**measure(job["method"]), **job.key, **measured_here()}


Measure = Callable[[str], Record]


def of_set(job: Job, quick: bool) -> Measure:
    """Set up one of the paper's sets, with the true P(y|x)."""
    problem = sets.Problem(job["set"], job["variant"], "true", job["seed"])
    return partial(sets.measure, sets.set_up(problem, QUICK if quick else FULL))


def of_census(job: Job, quick: bool) -> Measure:
    """Set up Adult with LightGBM."""
    setting = adult.set_up(adult.QUICK if quick else adult.FULL)
    return lambda method: (best_tree if method == "tree" else census_record)(setting, method, job["seed"])


def census_record(setting: adult.Census, method: str, seed: int) -> Record:
    """Return what three columns keep of the prediction, and the report."""
    explainer, fit_seconds = timed(lambda: fitted(setting, method, seed))
    explanation = explainer.explain(setting.test)
    return {
        **_accuracies(setting, explanation),
        "subsets": len(np.unique(explanation.mask, axis=0)),
        "fit_seconds": fit_seconds,
        "card": report_record(setting, explainer, setting.test, seed, name=method),
    }


def _accuracies(setting: adult.Census, explanation: l2x.Explanation) -> Record:
    """Return how often the model and the evaluator predict the model's class from the selected columns."""
    X = explanation.inputs
    predictions = setting.black_box(X)
    return {
        "rows": len(explanation),
        "k": explanation.k,
        "posthoc_accuracy": posthoc_accuracy(setting.black_box, X, explanation, predictions=predictions),
        "judge_accuracy": evaluator_accuracy(setting.evaluator, X, explanation, predictions.argmax(axis=1)),
    }


def best_tree(setting: adult.Census, method: str, seed: int) -> Record:
    """Return the accuracies of the best sequential policy with three steps that was found by enumeration.

    It is a tree: the second column depends on the interval or category of the first, the third on those of
    both. For every first column, the best ones are chosen on half of the test rows by the mean of post-hoc
    accuracy and evaluator; the other half measures the best tree. It is thus an optimistic bound.
    """
    X, d, n = setting.test, setting.features.d, len(setting.test)
    predicted = setting.black_box(X).argmax(axis=1)
    sets_of_three = np.array(list(combinations(range(d), 3)))
    agreed = np.empty((len(sets_of_three), n))
    for i, three in enumerate(sets_of_three):
        mask = np.zeros((n, d), dtype=bool)
        mask[:, three] = True
        by_model = masked_predictions(setting.black_box, setting.features, X, mask).argmax(axis=1)
        by_evaluator = setting.evaluator.predict(X, mask).argmax(axis=1)
        agreed[i] = ((by_model == predicted) + 0.0 + (by_evaluator == predicted)) / 2
    bins = _bins(setting.features.encode(setting.features.check(X)).numpy())
    learn = np.arange(n) < n // 2
    trees = [_tree(first, sets_of_three, agreed, bins, learn) for first in range(d)]
    best = max(trees, key=lambda chosen: agreed[chosen, np.arange(n)][learn].mean())
    scores = np.zeros((n, d))
    np.put_along_axis(scores, sets_of_three[best], 1.0, axis=1)
    tree = l2x.Explanation(scores, 3, setting.features.names_, inputs=X, view=setting.features)
    return _accuracies(setting, tree[~learn]) | {"subsets": len(np.unique(tree.mask, axis=0))}


def _bins(x: Array) -> Array:
    """Return categories, or tenths of the values, of each encoded column, (n, columns)."""
    columns = []
    for column in np.nan_to_num(x, nan=-99.0).T:
        if len(np.unique(column)) > BINS:
            column = np.digitize(column, np.unique(np.quantile(column, np.arange(1, BINS) / BINS)))
        columns.append(np.unique(column, return_inverse=True)[1])
    return np.array(columns).T


def _tree(first: int, sets_of_three: Array, agreed: Array, bins: Array, learn: Array) -> Array:
    """Return the set that the best tree with this first column selects for each row, (n,)."""
    chosen = np.zeros(len(learn), dtype=np.int64)
    for a in np.unique(bins[:, first]):
        rows, options = bins[:, first] == a, []
        for second in (column for column in range(bins.shape[1]) if column != first):
            sets = np.flatnonzero(((sets_of_three == first) | (sets_of_three == second)).sum(axis=1) == 2)
            usual = sets[agreed[sets][:, rows & learn].sum(axis=1).argmax()]
            found = np.full(len(learn), usual)
            for b in np.unique(bins[rows, second]):
                part = rows & (bins[:, second] == b)
                if (part & learn).sum() >= FEWEST:
                    found[part] = sets[agreed[sets][:, part & learn].mean(axis=1).argmax()]
            options.append((agreed[found[rows & learn], np.flatnonzero(rows & learn)].sum(), found))
        chosen[rows] = max(options, key=lambda option: option[0])[1][rows]
    return chosen


def _budget(quick: bool) -> LeakageBudget:
    budget = QUICK if quick else replace(FULL, train_rows=TRUTH_ROWS)
    names = ("train_rows", "value_steps", "selector_steps")
    return LeakageBudget(test_rows=5000, **{name: getattr(budget, name) for name in names})


def of_truth(job: Job, quick: bool) -> Measure:
    """Set up one of INVASE's sets."""
    draw = partial(synthetic, job["set"], d=leakage.DIMENSIONS)
    setting = leakage.drawn(draw, job["seed"], _budget(quick), k=MOST_RELEVANT.get(job["set"]))
    return lambda method: leakage.truth_record(setting, method, job["seed"])


def of_small_k(job: Job, quick: bool) -> Measure:
    """Set up Syn4 with k = 4, and an evaluator."""
    setting = leakage.evaluated(partial(synthetic, job["set"]), job["seed"], _budget(quick))
    return lambda method: leakage.leakage_record(setting, method, job["seed"])


def of_digits(job: Job, quick: bool) -> Measure:
    """Set up MNIST, 3 versus 8."""
    setting = mnist.set_up(mnist.THREE_EIGHT, mnist.QUICK if quick else mnist.FULL)
    setting = replace(setting, train=setting.features.take(setting.train, slice(MNIST_ROWS)))
    return lambda method: digits_record(setting, method, job["seed"])


def digits_record(setting: Any, method: str, seed: int) -> Record:
    """Return what four patches keep of the prediction, and what their positions alone reveal."""
    explainer, fit_seconds = timed(lambda: fitted(setting, method, seed))
    explanation, seconds = timed(lambda: explainer.explain(setting.test, setting.k))
    seen, predicted = explainer.explain(setting.train, setting.k), setting.test_predictions.argmax(axis=1)
    return {
        "k": setting.k,
        "rows": len(explanation),
        "posthoc_accuracy": posthoc_accuracy(
            setting.black_box, setting.test, explanation, predictions=setting.test_predictions
        ),
        "judge_accuracy": evaluator_accuracy(setting.evaluator, setting.test, explanation, predicted),
        "mask_only_accuracy": mask_only_accuracy(
            seen.mask, setting.train_predictions.argmax(axis=1), explanation.mask, predicted
        ),
        "train_rows": len(setting.train),
        "fit_seconds": fit_seconds,
        "explain_seconds": seconds,
    }


MEASURES: dict[str, Callable[[Job, bool], Measure]] = {
    "set": of_set,
    "adult": of_census,
    "truth": of_truth,
    "small": of_small_k,
    "mnist": of_digits,
}
TITLES: dict[str, str] = {
    **sets.TITLES,
    **leakage.TITLES,
    "adult": "Adult, k = 3",
}
TITLES |= {str(name): name.capitalize() for name in INVASE_SETS}


def _share(group: Records) -> str:
    """Return the leakage that the test measured; an enumerated tree has no report."""
    return group.mean_sd("card", "parts", "encoding", "share", "value") if "card" in group[0] else NOTHING


CELLS: dict[str, dict[str, Cell]] = {
    "set": {
        "exact sets": mean_sd("exact"),
        "bits": mean_sd("bits", digits=4),
        "available": mean_sd("bits_available", digits=4),
        "10,000 rows, s": mean_sd("explain_seconds"),
    },
    "truth": {"true positives": mean_sd("tpr"), "k": mean_sd("k", digits=0)},
    "small": {
        "leakage, share of the information": mean_sd("parts", "encoding", "share", "value"),
        "finding": lambda group: " ".join(map(str, group.distinct("finding"))),
    },
    "adult": {
        "post-hoc accuracy": mean_sd("posthoc_accuracy"),
        "evaluator": mean_sd("judge_accuracy"),
        "different subsets": mean_sd("subsets", digits=0),
        "leakage, share of the information": _share,
        "test rows": mean_sd("rows", digits=0),
    },
    "mnist": {
        "post-hoc accuracy": mean_sd("posthoc_accuracy"),
        "evaluator": mean_sd("judge_accuracy"),
        "positions alone": mean_sd("mask_only_accuracy"),
    },
}
HEADINGS = {
    "set": "The paper's sets",
    "truth": "INVASE's sets",
    "small": "Syn4 with k = 4, which is too small",
    "adult": "Adult",
    "mnist": "MNIST, 3 versus 8, four patches",
}


def report(records: Records) -> Report:
    """Return the page: one table for each kind of problem."""
    page = Report(
        "audit",
        title="Explanations that cannot leak",
        subtitle="The sequential selector, which reads only what it has selected so far",
    )
    text = f"Mean ± standard deviation over seeds. {measured_on(records)}"
    page.add("", [text])
    for kind, cells in CELLS.items():
        groups = [
            group
            for name, variant in PROBLEMS.get(kind, [])
            for method in COMPARED
            if (group := records.select(kind=kind, set=name, variant=variant, method=method))
        ]
        if groups:
            shown: dict[str, Cell] = {
                "set": lambda group: _title(group[0]),
                "method": name_of("method", LABELS),
                "seeds": lambda group: str(len(group)),
            }
            page.add(HEADINGS[kind], table=Table.of(groups, shown | cells))
    page.markdown = page.tables_markdown()
    return page


def _title(record: Record) -> str:
    title = TITLES[record["set"]]
    return f"{title} ({record['variant']})" if record["set"] in ("nonlinear_additive", "switch") else title
