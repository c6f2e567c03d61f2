"""Do selections leak the prediction? Reports of l2x, of the paper's L2X, and of three adversaries.

reports   the report of every method on every set and seed
rates     on switch, over ten seeds: how often the verdict flags a method, that is, its error rates
truths    rates against the truth on INVASE's six sets

To add a set, add an entry to SETS. Nothing here was tuned on these seeds: the verdict's limit comes from
other draws (docs/concepts/trust.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import l2x
from l2x.datasets import INVASE_SETS, SyntheticData, synthetic
from l2x.errors import InputError
from l2x.evaluation import exact_sets, false_discovery_rate, fit_evaluator, true_positive_rate
from l2x.features import Columns
from l2x.model import as_black_box
from l2x_experiments.comparison import Comparison
from l2x_experiments.methods import Budget, Setting, fitted, labels, report_record
from l2x_experiments.plots import plot_leakage
from l2x_experiments.records import Record, Records, measured_here, timed
from l2x_experiments.report import FINDINGS, Cell, Report, Table, measured_on, name_of
from l2x_experiments.runner import Experiment, Job

PAPER = ("paper", "paper-letter")
# Methods of l2x.baselines that leak by design.
ADVERSARIES = ("position", "prediction", "marginal")
COMPARED = ("l2x", "l2x-told", *PAPER, *ADVERSARIES)
TRUTH_METHODS = ("l2x", *PAPER)
# Methods of which nobody knows beforehand whether they leak: the verdict's error rates leave them out.
UNKNOWN = ("l2x-told", *PAPER)
Draw = Callable[..., SyntheticData]
# Draws of the three parts never share a seed.
EVALUATOR_SEED, TEST_SEED = 3_000_000, 4_000_000
# Columns of INVASE's sets; `sizes` also has them with 100.
DIMENSIONS = 11
# Rows over which P(y | x_S) itself is averaged.
EXACT_ROWS = 50


@dataclass(frozen=True, kw_only=True)
class LeakageBudget(Budget):
    """Also the numbers of seeds.

    Attributes
    ----------
    quick : bool
        Use the quick budgets of MNIST and IMDB, too.
    first_seed : int
        Seeds start here; nothing was tried on them.
    verdict_seeds : int
        Seeds of switch, whatever the number of seeds of the other sets.
    unknown_seeds : int
        At most this many seeds for methods that the verdict's error rates leave out.
    """

    quick: bool = False
    first_seed: int = 7000
    verdict_seeds: int = 10
    unknown_seeds: int = 3


FULL = LeakageBudget(
    train_rows=100_000, test_rows=5000, value_steps=1500, selector_steps=400, paper_steps=1000
)
QUICK = LeakageBudget(
    train_rows=30_000, test_rows=2000, value_steps=400, selector_steps=200, paper_steps=300,
    quick=True, first_seed=0, verdict_seeds=2,
)  # fmt: skip


def experiment(
    *, quick: bool = False, seeds: int = 3, sets: Sequence[str] | None = None, truth: bool = True
) -> Experiment:
    """Return the jobs: a report of every method on every set and, with `truth`, rates on INVASE's sets."""
    budget = QUICK if quick else FULL
    belongs = {"train_rows": budget.train_rows}
    if unknown := sorted(set(sets or ()) - set(SETS)):
        raise InputError(f"There is no set {unknown[0]!r}; choose among {', '.join(SETS)}.")
    jobs = leakage_jobs(budget, sets or list(SETS), seeds) + (truth_jobs(budget, seeds) if truth else [])
    return Experiment(
        "leakage",
        [Job({**job.key, **belongs}, job.label, job.group) for job in jobs],
        partial(measure_all, budget=budget),
        belongs=belongs,
    )


def leakage_jobs(budget: LeakageBudget, sets: Sequence[str], seeds: int) -> list[Job]:
    """Return the jobs that make reports."""
    first = budget.first_seed
    return [
        Job(
            {"kind": "card", "set": name, "method": method, "seed": seed},
            f"{name}, {method}, seed {seed}",
            group=("card", name, None if name in SAME_DATA else seed),
        )
        for name in sets
        for seed in range(first, first + (budget.verdict_seeds if name == "switch" else seeds))
        for method in COMPARED
        if method not in UNKNOWN or seed < first + budget.unknown_seeds
    ]


def truth_jobs(budget: LeakageBudget, seeds: int) -> list[Job]:
    """Return the jobs that compare selections with the truth."""
    return [
        Job(
            {"kind": "truth", "set": name, "d": DIMENSIONS, "method": method, "seed": seed},
            f"{name}, truth, {method}, seed {seed}",
            group=("truth", name, seed),
        )
        for name in INVASE_SETS
        for method in TRUTH_METHODS
        for seed in range(budget.first_seed, budget.first_seed + seeds)
    ]


def measure_all(jobs: Sequence[Job], budget: LeakageBudget) -> Iterator[Record]:
    """Measure the jobs of one set, kind and seed."""
    first = jobs[0]
    if first["kind"] == "truth":
        setting = drawn(partial(synthetic, first["set"], d=first["d"]), first["seed"], budget)
    else:
        setting = SETS[first["set"]](first["seed"], budget)
    for job in jobs:
        record = truth_record if job["kind"] == "truth" else leakage_record
        yield {**job.key, **record(setting, job["method"], job["seed"]), **measured_here()}


def drawn(draw: Draw, seed: int, budget: LeakageBudget, *, k: int | None = None) -> Setting:
    """Draw a synthetic set, whose true P(y|x) is explained; the test rows are a fresh draw."""
    train, test = draw(budget.train_rows, seed=seed), draw(budget.test_rows, seed=TEST_SEED + seed)
    return Setting(
        black_box=as_black_box(train.model),
        k=k or train.k,
        train=train.X,
        test=test.X,
        plans=budget.plans(Columns),
        truth=test.truth,
        conditional=lambda rows: test.model.conditional(rows=rows, seed=EVALUATOR_SEED - 1),
    )


def evaluated(draw: Draw, seed: int, budget: LeakageBudget, *, k: int | None = None) -> Setting:
    """Draw a synthetic set and fit an evaluator on another fresh draw, which also trains the probes."""
    setting, fresh = drawn(draw, seed, budget, k=k), draw(budget.train_rows, seed=EVALUATOR_SEED + seed).X
    evaluator = fit_evaluator(
        setting.black_box, fresh, setting.k, training=setting.plans.ours, seed=EVALUATOR_SEED + seed
    )
    return replace(setting, evaluator=evaluator, probe_rows=fresh)


def of_comparison(setting: Comparison, *, probe_rows: int, test_rows: int) -> Setting:
    """Return a problem of `l2x reproduce mnist` or `imdb-words` with fewer rows.

    It has the same model, parts of the data, and evaluator, which learned from other inputs than the
    explainers.
    """
    take = setting.features.take
    return replace(
        setting, probe_rows=take(setting.train, slice(probe_rows)), test=take(setting.test, slice(test_rows))
    )


def three_or_eight(seed: int, budget: LeakageBudget) -> Setting:
    """Set up MNIST, 3 versus 8."""
    from l2x_experiments import mnist

    setting = mnist.set_up(mnist.THREE_EIGHT, mnist.QUICK if budget.quick else mnist.FULL)
    return of_comparison(setting, probe_rows=8000, test_rows=2000)


def review_words(seed: int, budget: LeakageBudget) -> Setting:
    """Set up IMDB, ten words; few reviews, because one adversary queries each of 400 words."""
    from l2x_experiments import imdb

    setting = imdb.set_up("words", imdb.QUICK if budget.quick else imdb.FULL)
    return of_comparison(setting, probe_rows=2000, test_rows=500)


# Every set: how to set it up from a seed. The data of two of them do not depend on the seed.
SAME_DATA = ("mnist-38", "imdb-words")
SETS: dict[str, Callable[[int, LeakageBudget], Setting]] = {
    "switch": partial(evaluated, partial(synthetic, "switch")),
    "syn4": partial(evaluated, partial(synthetic, "syn4")),
    "syn5": partial(evaluated, partial(synthetic, "syn5")),
    "syn6": partial(evaluated, partial(synthetic, "syn6")),
    # Some rows of Syn4 and Syn5 have five relevant features. With k = 4 the best selection omits one of
    # them, and which one it omits depends on its value.
    "syn4-k5": partial(evaluated, partial(synthetic, "syn4"), k=5),
    "syn5-k5": partial(evaluated, partial(synthetic, "syn5"), k=5),
    "mnist-38": three_or_eight,
    "imdb-words": review_words,
}


def leakage_record(setting: Setting, method: str, seed: int) -> Record:
    """Return a report, and the seconds it took, training included."""

    def made() -> Record:
        exact = setting.conditional and setting.conditional(EXACT_ROWS)
        explainer = fitted(setting, method, seed)
        return report_record(setting, explainer, setting.test, seed, name=method, exact=exact)

    record, seconds = timed(made)
    return {**record, "seconds": seconds}


def truth_record(setting: Setting, method: str, seed: int) -> Record:
    """Return rates against the truth, and the best rates that a perfect ranking reaches with this k."""
    explainer, truth = fitted(setting, method, seed), setting.truth
    assert truth is not None
    explanation = explainer.explain(setting.test)
    sizes = truth.sum(axis=1)
    # Select as many features as are relevant in the row: the false-discovery rate is then 1 - TPR.
    order = np.argsort(-explanation.scores, axis=1, kind="stable")
    hits = np.take_along_axis(truth, order, axis=1) & (np.arange(truth.shape[1]) < sizes[:, None])
    best = l2x.Explanation(truth.astype(float), setting.k, explanation.feature_names)
    return {
        "k": setting.k,
        "variant": "code",
        "tpr": float(true_positive_rate(explanation, truth).mean()),
        "fdr": float(false_discovery_rate(explanation, truth).mean()),
        "best_tpr": float(true_positive_rate(best, truth).mean()),
        "best_fdr": float(false_discovery_rate(best, truth).mean()),
        "tpr_at_true_size": float((hits.sum(axis=1) / sizes).mean()),
        "exact": float(exact_sets(explanation, truth).mean()),
        "fit_seconds": explainer.fit_seconds_,
        "test_rows": len(setting.test),
    }


LABELS = labels(COMPARED)
# Lines of a set's table, and where their numbers are in a record.
REPORT_LINES = {
    "leakage, share of the information": ("encoding", "share"),
    "leakage, bits": ("encoding", "encode_meter"),
    "own probe": ("encoding", "own_reader"),
    "mask alone": ("encoding", "mask_only"),
    "post-hoc accuracy": ("fidelity", ""),  # with the view's own masking
    "evaluator": ("judge", "selection"),
    "bits captured": ("information", "captured"),
    "exact sets": ("truth", "exact"),
}
EXPECTED = {
    "l2x": "should not be",
    "l2x-told": "sees the prediction: may be",
    "paper": "trained jointly: may be",
    "paper-letter": "trained jointly: may be",
}
TITLES = {
    "switch": "Switch",
    "syn4": "Syn4",
    "syn5": "Syn5",
    "syn6": "Syn6",
    "syn4-k5": "Syn4, k = 5",
    "syn5-k5": "Syn5, k = 5",
    "mnist-38": "MNIST, 3 versus 8",
    "imdb-words": "IMDB, words",
}


def report(records: Records) -> Report:
    """Return the page: leakage on every set, the verdict's error rates, and rates against the truth."""
    page = Report(
        "leakage",
        title="Do the selections leak the prediction?",
        subtitle="Reports of l2x, of the paper's L2X, and of three adversaries that leak by design",
    )
    reports, truths = records.select(kind="card"), records.select(kind="truth")
    page.add("", introduction(records), figures={"": plot_leakage(panels(reports))})
    for group in reports.groups(set=reports.distinct("set")):
        page.add(TITLES[group[0]["set"]], table=report_table(group), caption=caption(group))
    page.add(
        "How often the verdict errs",
        ["On switch, with seeds that nothing was tuned on. Flagged: the report found leakage."],
        table=rate_table(reports),
    )
    if truths:
        text = (
            "The formulas of the released code; the true P(y|x) is explained. In Syn4 and Syn5 a row has 3 "
            "or 5 relevant features, and k is 4, their mean: best TPR and best FDR are what a perfect "
            "ranking reaches with this k. TPR at true size selects as many features as are relevant in the "
            "row; the FDR is then one minus this TPR."
        )
        page.add("INVASE's sets", [text], table=truth_table(truths))
    page.markdown = page.tables_markdown()
    return page


def introduction(records: Records) -> list[str]:
    """Describe what is measured, and on what."""
    return [
        "Post-hoc accuracy can be gamed: a selection may pass on the prediction by which features it "
        "selects. Each report fits an independent evaluator and two probes of the selections. Leakage is "
        "what the probe of the real selections knows beyond the probe of shuffled ones, as a share of the "
        "information about the model's prediction. Above 3 % (dashed), with 95 % confidence and beyond "
        "what the evaluator itself misses, the verdict is that the selection leaks.",
        f"Explainers learned from {records[0]['train_rows']:,} fresh rows of each synthetic set. "
        + measured_on(records),
    ]


def panels(reports: Records) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Return the shares of each set, method and seed, for `plot_leakage`."""
    return {
        TITLES[name]: {
            LABELS[group[0]["method"]]: group.values("parts", "encoding", "share")
            for group in reports.select(set=name).groups(method=LABELS)
        }
        for name in reports.distinct("set")
    }


def spread(*path: str) -> Cell:
    """Return a cell with mean ± standard deviation on one line, without a deviation of zero."""
    return lambda group: group.mean_sd(*path).removesuffix(" ± 0.000").replace(" ", "\u00a0")


def report_table(reports: Records) -> Table:
    """Return one column for each method on a set: means over seeds."""
    own_masking = next(iter(reports[0]["parts"]["fidelity"]))
    cells: dict[str, Cell] = {"": name_of("method", LABELS), "leakage": _findings}
    for title, (part, key) in REPORT_LINES.items():
        cells[title] = spread("parts", part, key or own_masking, "value")
    return Table.of(reports.groups(method=LABELS), cells).transposed()


def _findings(group: Records) -> str:
    counts = {name: len(group.select(finding=key)) for key, name in FINDINGS.items()}
    if len([count for count in counts.values() if count]) == 1:
        return FINDINGS[group[0]["finding"]]
    return ", ".join(f"{name} {count} of {len(group)}" for name, count in counts.items() if count)


def caption(reports: Records) -> str:
    """Return the numbers with which those of the table should be compared."""

    def mean(part: str, key: str) -> str:
        return f"{reports.mean('parts', part, key, 'value'):.3f}"

    first = reports[0]
    return (
        f"{len(reports.distinct('seed'))} seed(s), k = {first['k']} of {first['features']} features, "
        f"{first['rows']:,} rows. The input holds {mean('information', 'available')} bits about the "
        f"prediction. The most frequent class has a share of {mean('encoding', 'majority')}. With all "
        f"features the evaluator misses {mean('encoding', 'missed')} bits. Own probe: accuracy of a "
        "predictor fitted on the method's own selections, a naive measure that leakage raises."
    )


def rates(reports: Records) -> dict[str, tuple[int, int]]:
    """Return how often the verdict flags each method on switch: {method: (flagged, seeds)}."""
    groups = reports.select(set="switch").groups(method=LABELS)
    return {group[0]["method"]: (len(group.select(finding="encodes")), len(group)) for group in groups}


def rate_table(reports: Records) -> Table:
    """Return the verdict's error rates."""
    rows = [
        [LABELS[method], f"{flagged} of {seeds}", EXPECTED.get(method, "should be")]
        for method, (flagged, seeds) in rates(reports).items()
    ]
    return Table(["method", "flagged", "expected"], rows)


def truth_table(truths: Records) -> Table:
    """Return true-positive and false-discovery rates on INVASE's sets."""
    cells: dict[str, Cell] = {
        "set": lambda group: group[0]["set"].capitalize(),
        "d": lambda group: str(group[0]["d"]),
        "k": lambda group: str(group[0]["k"]),
        "method": name_of("method", LABELS),
        "seeds": lambda group: str(len(group)),
        "TPR": spread("tpr"),
        "FDR": spread("fdr"),
        "best TPR": spread("best_tpr"),
        "best FDR": spread("best_fdr"),
        "TPR at true size": spread("tpr_at_true_size"),
        "exact sets": spread("exact"),
    }
    sizes = sorted(truths.distinct("d"))
    return Table.of(truths.groups(d=sizes, set=INVASE_SETS, method=TRUTH_METHODS), cells)
