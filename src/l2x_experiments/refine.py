"""Right for every row: learned, polished and refined selections, compared with methods that query each row.

tables     breast cancer with three models, Adult, and the eight tables of tables.py, four of which were not
           looked at before the settings were final. Rows are shuffled and split: half for the model and the
           explainers, a quarter for two evaluators (a network and gradient-boosted trees), and of the last
           quarter the first rows for all methods alike.
truths     synthetic sets with the true model: the share of rows with exactly the true features; and a table
           of 500 rows in which one column decides which other one matters
leakage    the report's leakage test of learned and of polished selections of the same explainer
inputs     four patches of ten digits and one sentence of a review, polished and refined
adult      on Adult: how stable learned and polished selections are, and what polishing costs
records    one for each method and seed; post-hoc accuracy and the removal test under three maskings, or R²
goals      added by the page: a measure, its value, the goal, and whether it holds

Methods that query the model for each row are measured with the first seed only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

import l2x
from l2x import baselines
from l2x._base.arrays import Array
from l2x.datasets import INVASE_SETS, SyntheticData, adult, synthetic
from l2x.display import ACCENT, MUTED, SECOND, THIRD, new_figure, note, style
from l2x.evaluation import exact_sets, fit_boosted_evaluator, fit_evaluator, jaccard, posthoc_accuracy
from l2x.explanation import Explanation
from l2x.learning import exact_interval, losses, masked_predictions
from l2x.model import as_black_box, query
from l2x_experiments import adult as adult_experiment
from l2x_experiments import imdb, leakage, mnist, robustness
from l2x_experiments.cache import evaluator_accuracy
from l2x_experiments.comparison import Comparison
from l2x_experiments.methods import Budget, Setting, fitted, report_record
from l2x_experiments.records import NOTHING, Record, Records, measured_here, timed
from l2x_experiments.report import FINDINGS, Cell, Report, Table, mean_sd, measured_on
from l2x_experiments.runner import Experiment, Job
from l2x_experiments.tables import DEVELOPMENT, FINAL, TABLES, fetch_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MASKINGS = ("mean", "median", "resample")
# Queries per row of our methods; None where the model is not queried for masked rows.
OURS: Mapping[str, Mapping[str, Any]] = {
    "learned": {"polish": False},
    "polished": {},
    "refined, 1": {"refine": 1},
    "refined, 10": {"refine": 10},
    "refined, 30": {"refine": 30},
    "refined, 100": {"refine": 100},
}


class Peer(NamedTuple):
    """A baseline, its options, and its queries per row."""

    name: str
    options: Mapping[str, Any]
    queries: int


def _shap(subsets: int, rows: int) -> Mapping[str, Any]:
    return {"samples": subsets, "background_rows": rows}


PEERS: Mapping[str, Peer] = {
    "Kernel SHAP, 100": Peer("kernel_shap", _shap(20, 5), 100),
    "Kernel SHAP, 1,000": Peer("kernel_shap", _shap(100, 10), 1000),
    "Kernel SHAP, 10,000": Peer("kernel_shap", _shap(500, 20), 10_000),
    "LIME, 1,000": Peer("lime", {"samples": 1000}, 1000),
    "LIME, 5,000": Peer("lime", {"samples": 5000}, 5000),
    "shapiq, 1,000": Peer("shapiq", _shap(100, 10), 1000),
    "TreeSHAP": Peer("tree_shap", {}, 0),
    "greedy search": Peer("search", {}, 0),  # k d queries, entered where it is measured
}
METHODS = (*OURS, *PEERS, "global top-k", "random")
# How the records call the breast cancer problems of robustness.py.
CANCER = [name for name in robustness.PROBLEMS if name.startswith("breast cancer")]
CANCER_K, CENSUS_ROWS = 5, 24_000
PROBLEMS = (*CANCER, "Adult", *DEVELOPMENT, *FINAL)
TRUTHS = ("xor", "orange_skin", "nonlinear_additive", "switch")
GATE_ROWS, GATE_COLUMNS = 500, 15
# Problems of the leakage test.
LEAKAGE = ("switch", *INVASE_SETS, "Adult")
# Images and texts, with the most queries per input of our methods, and the goals of post-hoc accuracy for the
# last method and of the evaluator for polished selections.
INPUTS: Mapping[str, tuple[Callable[[Budget], Comparison], int, float, float]] = {
    "ten digits": (partial(mnist.set_up, range(10)), 30, 0.97, 0.95),
    "one sentence": (partial(imdb.set_up, "sentences"), 15, 0.99, 0.93),
}
# Explainers of Adult whose selections are compared; noise in standard deviations of a column.
COMPARED_SEEDS, NOISE = 3, 0.01
# Goals: the Jaccard index between seeds and under noise, and ms of polishing per row.
STABLE, UNDER_NOISE, POLISHING = 0.80, 0.95, 0.3
# Where the figure's logarithmic axis has methods that do not query the model.
NO_QUERIES = 1 / 3
# Offset of the seeds of test rows, as in synthetic.py.
TEST_SEED = 1_000_000


@dataclass(frozen=True, kw_only=True)
class RefineBudget(Budget):
    """Also `truth_rows`, from which explainers of synthetic sets learn, and those of the other parts."""

    truth_rows: int = 100_000
    leakage_rows: int = 20_000
    leakage_test_rows: int = 5000
    input_rows: int = 2000
    polished_rows: int = 8000


FULL = RefineBudget(test_rows=150)
QUICK = RefineBudget(
    test_rows=12, truth_rows=1500, value_steps=60, selector_steps=40, evaluations=4,
    leakage_rows=600, leakage_test_rows=300, input_rows=40, polished_rows=300,
)  # fmt: skip


def experiment(*, quick: bool = False, seeds: int = 3, problems: Sequence[str] | None = None) -> Experiment:
    """Return the jobs: every method and the leakage test with the first seed, ours with all seeds."""
    jobs = []
    for seed in range(seeds):
        for problem in problems or PROBLEMS:
            for method in METHODS:
                if seed == 0 or method in OURS:
                    key = {"part": "tables", "problem": problem, "method": method, "seed": seed}
                    jobs.append(Job(key, f"{problem}: {method}, seed {seed}", (problem, seed)))
        for problem in () if problems else truths():
            for method in OURS:
                key = {"part": "truths", "problem": problem, "method": method, "seed": seed}
                jobs.append(Job(key, f"{problem}: {method}, seed {seed}", (problem, seed)))
    for problem in () if problems else LEAKAGE:
        for method in ("learned", "polished"):
            key = {"part": "leakage", "problem": problem, "method": method, "seed": 0}
            jobs.append(Job(key, f"leakage of {problem}: {method}", ("leakage", problem)))
    if not problems:
        for method in ("learned", "polished"):
            key = {"part": "adult", "problem": "Adult", "method": method, "seed": 0}
            jobs.append(Job(key, f"stability and cost: {method}", ("adult",)))
        for problem, (_, queries, _, _) in INPUTS.items():
            for method in ("learned", "polished", f"refined, {queries}"):
                key = {"part": "inputs", "problem": problem, "method": method, "seed": 0}
                jobs.append(Job(key, f"{problem}: {method}", ("inputs", problem)))
    budget = QUICK if quick else FULL

    def fetch(progress: bool) -> None:
        adult(progress=progress)
        fetch_all()

    return Experiment(
        "refine", jobs, partial(measure_all, budget=budget), fetch=fetch, belongs={"quick": quick}
    )


def truths() -> list[str]:
    """Return the names of the problems with known truth."""
    return [f"{name}, {variant}" for name in TRUTHS for variant in ("code", "paper")] + ["gate"]


def measure_all(jobs: Sequence[Job], budget: RefineBudget) -> Iterator[Record]:
    """Measure the methods on one problem with one seed."""
    problem, seed = jobs[0]["problem"], jobs[0]["seed"]
    measure: Callable[[str], Record | None]
    if jobs[0]["part"] == "truths":
        measure = partial(measure_truth, *known_truth(problem, seed, budget))
    elif jobs[0]["part"] == "leakage":
        measure = partial(measure_leakage, *leakage_setting(problem, seed, budget), seed)
    elif jobs[0]["part"] == "adult":
        measure = partial(measure_adult, *adult_explainers(budget))
    elif jobs[0]["part"] == "inputs":
        measure = partial(measure_inputs, *input_setting(problem, seed, budget))
    else:
        measure = partial(measure_table, set_up(problem, seed, budget))
    for job in jobs:
        if found := measure(job["method"]):
            yield {**job.key, "quick": budget == QUICK, **found, **measured_here()}


@dataclass(kw_only=True)
class TableSetting:
    """One table with its model, split once."""

    model: Any
    trees: bool
    k: int
    train: Any
    test: Any
    seed: int
    explainer: l2x.Explainer
    fit_seconds: float
    evaluators: Sequence[Any]
    predictions: Array
    fitted: dict[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> bool:
        """Whether the model is a classifier."""
        return self.explainer.classes_ is not None

    def agreement(self, guesses: Array) -> float:
        """Return the share of test rows with the same class, or R²."""
        guesses = guesses.reshape(len(self.predictions), -1)
        return float(1 - losses(guesses, self.predictions, classes=self.classes).mean())


def set_up(problem: str, seed: int, budget: RefineBudget) -> TableSetting:
    """Split the rows of a table, train its model, fit the explainer and both evaluators."""
    trees, k = problem in CANCER[:2], CANCER_K
    if problem in CANCER:
        source = robustness.PROBLEMS[problem]()
        X, y, made = source.X, source.y, source.model()
        trees = "SV" not in problem
    elif problem == "Adult":
        from lightgbm import LGBMClassifier

        data = adult(progress=False)
        X, y, made, k, trees = data.X, data.y, LGBMClassifier(n_jobs=1, verbose=-1), 3, True
    else:
        table = TABLES[problem]
        (X, y), made, k, trees = table.load(), table.model(), table.k, table.trees
    order = np.random.default_rng((seed, crc32(problem.encode()))).permutation(len(X))[:CENSUS_ROWS]
    half, rest = len(order) // 2, len(order) * 3 // 4
    train = order[:half]
    # Explainers refuse a gap where the training rows have none; such rows are left out.
    gaps = X.isna()
    usable = ~(gaps & ~gaps.iloc[train].any()).any(axis=1).to_numpy()
    others, test = (part[usable[part]] for part in (order[half:rest], order[rest:]))
    test = test[: budget.test_rows]
    model = made.fit(X.iloc[train], y[train])
    plan = budget.plans(l2x.Columns).ours
    explainer, seconds = timed(lambda: l2x.Explainer(model, k, training=plan, seed=seed).fit(X.iloc[train]))
    view, black_box = explainer.features_, explainer.black_box()
    evaluators = [
        fit_evaluator(black_box, X.iloc[others], k, features=view, training=plan),
        fit_boosted_evaluator(black_box, X.iloc[others], k, features=view),
    ]
    predictions = query(black_box, view, view.check(X.iloc[test]))
    return TableSetting(
        model=model,
        trees=trees,
        k=k,
        train=X.iloc[train],
        test=X.iloc[test],
        seed=seed,
        explainer=explainer,
        fit_seconds=seconds,
        evaluators=evaluators,
        predictions=predictions,
    )


def measure_table(setting: TableSetting, method: str) -> Record | None:
    """Return the record of one method; None if it cannot explain this model."""
    made = explained(setting, method)
    if made is None:
        return None
    (explanation, seconds), queries = made
    view, black_box, mask = setting.explainer.features_, setting.explainer.black_box(), explanation.mask
    X = view.check(setting.test)
    under = [
        [
            setting.agreement(masked_predictions(black_box, view, X, each, masking=masking))
            for masking in MASKINGS
        ]
        for each in (mask, ~mask)
    ]
    network, boosted = (setting.agreement(one.predict(setting.test, mask)) for one in setting.evaluators)
    return {
        "rows": len(mask),
        "k": setting.k,
        "columns": view.d,
        "train_rows": len(setting.train),
        "measure": "accuracy" if setting.classes else "R²",
        "queries": queries if explanation.queries is None else float(explanation.queries.mean()),
        "masking": list(MASKINGS),
        "posthoc_accuracy": under[0],
        "complement_accuracy": under[1],
        "judge_accuracy": network,
        "boosted_accuracy": boosted,
        "confirmed": None if explanation.confirmed is None else float(explanation.confirmed.mean()),
        "explain_seconds": seconds,
        "fit_seconds": setting.fit_seconds if method in OURS else 0.0,
        "prior": setting.explainer.prior_,
        "selected": explanation.indices.tolist(),
    }


def explained(setting: TableSetting, method: str) -> tuple[tuple[Explanation, float], float] | None:
    """Return the explanation of the test rows, its seconds, and the queries per row."""
    explainer, X, k = setting.explainer, setting.test, setting.k
    if method in OURS:
        return timed(lambda: explainer.explain(X, **OURS[method])), 0.0
    if method == "global top-k":
        control = baselines.GlobalTopK(explainer.surrogate_, features=explainer.features_)
        control.fit(setting.train, k)
        return timed(lambda: control.explain(X, k)), 0.0
    if method == "random":
        random = baselines.RandomK(features=explainer.features_, seed=setting.seed)
        return timed(lambda: random.explain(X, k)), 0.0
    peer = PEERS[method]
    view = explainer.features_
    gaps = bool(np.isnan(view.numbers(view.check(setting.train))).any())
    if (peer.name == "tree_shap" and not setting.trees) or (peer.name == "lime" and gaps):
        return None
    inside = setting.model if peer.name == "tree_shap" else explainer.black_box()
    made = baselines.make_method(
        peer.name, model=inside, features=view, background=setting.train, magnitude=peer.name != "search",
        seed=setting.seed, progress=False, **peer.options,
    )  # fmt: skip
    queries = k * view.d if peer.name == "search" else peer.queries
    return timed(lambda: made.explain(X, k)), queries


def known_truth(problem: str, seed: int, budget: RefineBudget) -> tuple[SyntheticData, l2x.Explainer, Array]:
    """Return test rows with their truth, the explainer, and the model's predictions for the rows."""
    if problem == "gate":
        data, test = gate(GATE_ROWS, seed), gate(2000, seed + TEST_SEED)
        k = 2
    else:
        name, variant = problem.split(", ")
        data = synthetic(name, budget.truth_rows, variant=variant, seed=seed)  # type: ignore[arg-type]
        test = synthetic(name, 2000, variant=variant, seed=seed + TEST_SEED)  # type: ignore[arg-type]
        k = int(test.truth[0].sum())
    plan = budget.plans(l2x.Columns).ours
    explainer = l2x.Explainer(data.model, k, training=plan, seed=seed).fit(data.X)
    return test, explainer, as_black_box(data.model)(test.X)


class Gate:
    """P(y = 1 | x): the sign of the first column decides which of two others matters."""

    def __call__(self, X: Array) -> Array:
        p = 1 / (1 + np.exp(-4 * np.where(X[:, 0] > 0, X[:, 1], X[:, 2])))
        return np.stack([1 - p, p], axis=1)


class GateData(NamedTuple):
    """Rows of the gated table, with their truth and the model."""

    X: Array
    truth: Array
    model: Gate


def gate(n: int, seed: int) -> Any:
    """Draw rows of 15 standard normal columns, of which two matter in each row."""
    X = np.random.default_rng((seed, 7)).normal(size=(n, GATE_COLUMNS))
    truth = np.zeros(X.shape, dtype=bool)
    truth[:, 0] = True
    truth[np.arange(n), np.where(X[:, 0] > 0, 1, 2)] = True
    return GateData(X, truth, Gate())


def measure_truth(test: SyntheticData, explainer: l2x.Explainer, predictions: Array, method: str) -> Record:
    """Return the share of rows with exactly the true features."""
    options = {**OURS[method], "predictions": predictions}
    explanation, seconds = timed(lambda: explainer.explain(test.X, **options))
    return {
        "rows": len(test.X),
        "exact": float(exact_sets(explanation, test.truth).mean()),
        "queries": 0.0 if explanation.queries is None else float(explanation.queries.mean()),
        "explain_seconds": seconds,
        "prior": explainer.prior_,
    }


def leakage_setting(problem: str, seed: int, budget: RefineBudget) -> tuple[Setting, l2x.Explainer]:
    """Return a problem with its evaluator, and the explainer."""
    setting: Setting
    if problem == "Adult":
        full = adult_experiment.QUICK if budget == QUICK else adult_experiment.FULL
        setting = adult_experiment.set_up(replace(full, test_rows=budget.leakage_test_rows))
        return setting, fitted(setting, "l2x", seed)
    rows, steps = budget.leakage_rows, (budget.value_steps, budget.selector_steps)
    few = leakage.LeakageBudget(
        train_rows=rows, test_rows=budget.leakage_test_rows, value_steps=steps[0], selector_steps=steps[1]
    )
    setting = leakage.evaluated(partial(synthetic, problem), seed, few)  # type: ignore[arg-type]
    return setting, fitted(setting, "l2x", seed)


def measure_leakage(setting: Setting, explainer: l2x.Explainer, seed: int, method: str) -> Record:
    """Return what the report finds about learned or polished selections."""
    how = OURS[method]
    found = report_record(setting, explainer, setting.test, seed, name=method, **how)
    share = found["parts"]["encoding"]["share"]
    return {"rows": found["rows"], "finding": found["finding"], "leakage": share}


def adult_explainers(budget: RefineBudget) -> tuple[list[l2x.Explainer], Any, Any]:
    """Return explainers of one model of Adult with different seeds, test rows, and these with noise."""
    full = adult_experiment.QUICK if budget == QUICK else adult_experiment.FULL
    setting = adult_experiment.set_up(replace(full, test_rows=budget.polished_rows))
    explainers = [fitted(setting, "l2x", seed) for seed in range(COMPARED_SEEDS)]
    rows, rng = setting.test, np.random.default_rng(0)
    noisy = rows.copy()
    for name in rows.select_dtypes("number"):
        noisy[name] = rows[name] + NOISE * rows[name].std() * rng.normal(size=len(rows))
    return explainers, rows, noisy


def measure_adult(explainers: Sequence[l2x.Explainer], rows: Any, noisy: Any, method: str) -> Record:
    """Return the Jaccard index between seeds and under noise, and the CPU time of polishing per row."""
    options = OURS[method]
    selections = [explainer.explain(rows, **options) for explainer in explainers]
    again = explainers[0].explain(noisy, **options)
    predictions = as_black_box(explainers[0].model)(rows)

    def cpu(how: Mapping[str, Any]) -> float:
        started = time.process_time()
        _ = explainers[0].explain(rows, predictions=predictions, **how).indices
        return time.process_time() - started

    seconds = min(cpu(options) for _ in range(3)) - min(cpu(OURS["learned"]) for _ in range(3))
    return {
        "rows": len(rows),
        "k": selections[0].k,
        "columns": explainers[0].n_features_in_,
        "seeds": len(explainers),
        "between_seeds": float(np.mean([jaccard(a, b).mean() for a, b in combinations(selections, 2)])),
        "noise": NOISE,
        "under_noise": float(jaccard(selections[0], again).mean()),
        "cpu_ms_per_row": 1e3 * seconds / len(rows),
    }


def input_setting(problem: str, seed: int, budget: RefineBudget) -> tuple[Comparison, l2x.Explainer, int]:
    """Return images or texts with their model and evaluator, an explainer, and the test inputs' number."""
    module = mnist if problem == "ten digits" else imdb
    setting = INPUTS[problem][0](module.QUICK if budget == QUICK else module.FULL)
    return setting, fitted(setting, "l2x", seed), budget.input_rows


def measure_inputs(setting: Comparison, explainer: l2x.Explainer, number: int, method: str) -> Record:
    """Return how often the model and the evaluator predict the same from the selected features."""
    X, predictions = setting.features.take(setting.test, slice(number)), setting.test_predictions[:number]
    options = OURS[method] if method in OURS else {"refine": int(method.split()[-1])}
    explanation, seconds = timed(lambda: explainer.explain(X, setting.k, predictions=predictions, **options))
    return {
        "rows": len(explanation),
        "k": setting.k,
        "queries": 0.0 if explanation.queries is None else float(explanation.queries.mean()),
        "posthoc_accuracy": float(
            posthoc_accuracy(setting.black_box, X, explanation, predictions=predictions)
        ),
        "judge_accuracy": evaluator_accuracy(setting.evaluator, X, explanation, predictions.argmax(axis=1)),
        "explain_seconds": seconds,
        "prior": explainer.prior_,
    }


def report(records: Records) -> Report:
    """Return the page: means over the tables, each table, exact sets, goals."""
    page = Report(
        "refine",
        title="Right for every row",
        subtitle="Learned, polished and refined selections, compared with methods that query each row",
    )
    tables = records.select(part="tables")
    page.add(
        "",
        [
            f"Seeds: {len(records.distinct('seed'))}; methods that query the model for each row: the first. "
            f"Test rows: {tables[0]['rows'] if tables else NOTHING}, the same for all methods of a seed. "
            "Numbers after a method are its maximum of queries per row. Agreement is the share of rows with "
            "the same class, or R² for regression, with all unselected columns at their mean, their median, "
            "or the values of 20 random training rows; evaluators are a network and gradient-boosted trees.",
            measured_on(records),
        ],
    )
    if tables:
        groups = {
            "Tables looked at once": FINAL,
            "Tables used for settings": DEVELOPMENT,
            "Breast cancer, three models": CANCER,
            "Adult": ["Adult"],
        }
        for title, names in groups.items():
            chosen = Records(record for record in tables if record["problem"] in names)
            if chosen:
                figures = {"queries": fidelity_figure(chosen)} if names is FINAL else None
                page.add(title, [", ".join(names)], table=table(chosen), figures=figures)
    if known := records.select(part="truths"):
        cells: dict[str, Cell] = {"problem": lambda group: str(group[0]["problem"])}
        for method in OURS:
            cells[method] = partial(_exact_of, method)
        page.add(
            "Rows with exactly the true features",
            table=Table.of(known.groups(problem=known.distinct("problem")), cells),
        )
    if tested := records.select(part="leakage"):
        cells = {"problem": lambda group: str(group[0]["problem"])}
        for method in ("learned", "polished"):
            cells[method] = partial(_leakage_of, method)
        page.add(
            "Leakage",
            ["The share of the information that the choice of features carries beyond their values, with the "
             "95 % interval and the finding of the report."],
            table=Table.of(tested.groups(problem=LEAKAGE), cells),
        )  # fmt: skip
    if others := records.select(part="inputs"):
        cells = {
            "inputs": lambda group: str(group[0]["problem"]),
            "method": lambda group: str(group[0]["method"]),
            "post-hoc accuracy": mean_sd("posthoc_accuracy"),
            "evaluator": mean_sd("judge_accuracy"),
            "queries per input": mean_sd("queries", digits=1),
            "rows": mean_sd("rows", digits=0),
        }
        groups_of_inputs = others.groups(problem=INPUTS, method=others.distinct("method"))
        page.add("Digits and reviews", table=Table.of(groups_of_inputs, cells))
    if census := records.select(part="adult"):
        cells = {
            "method": lambda group: str(group[0]["method"]),
            "Jaccard index between seeds": mean_sd("between_seeds"),
            "under noise of 1 %": mean_sd("under_noise"),
            "CPU ms per row, beyond the forward pass": mean_sd("cpu_ms_per_row"),
            "rows": mean_sd("rows", digits=0),
        }
        page.add("Stability and cost, Adult", table=Table.of(census.groups(method=OURS), cells))
    lines = [[g["measure"], _number(g["value"]), _number(g["goal"]), g["holds"]] for g in goals(records)]
    page.add("Goals", table=Table(["measure", "value", "goal", "holds"], lines))
    page.markdown = page.tables_markdown()
    return page


def _exact_of(method: str, group: Records) -> str:
    return group.select(method=method).mean_sd("exact")


def _leakage_of(method: str, group: Records) -> str:
    for record in group.select(method=method):
        share = record["leakage"]
        interval = f"{share['value']:.3f} [{share['low']:.3f}, {share['high']:.3f}]"
        return f"{interval} {FINDINGS[record['finding']]}"
    return NOTHING


def _number(value: float) -> str:
    return f"{value:.3f}"


def table(records: Records) -> Table:
    """Return one line for each method: means over tables and seeds."""
    cells: dict[str, Cell] = {
        "method": lambda group: str(group[0]["method"]),
        **{name: mean_sd("posthoc_accuracy", i) for i, name in enumerate(MASKINGS)},
        "removal (median)": mean_sd("complement_accuracy", 1),
        "evaluator": mean_sd("judge_accuracy"),
        "boosted evaluator": mean_sd("boosted_accuracy"),
        "queries per row": mean_sd("queries", digits=1),
        "tables": lambda group: str(len(group.distinct("problem"))),
    }
    return Table.of(records.groups(method=METHODS), cells)


def fidelity_figure(records: Records) -> Figure:
    """Draw the mean of all five measures against queries per row; no queries are drawn at one third.

    Methods that cannot explain all tables have empty circles.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    some_tables: set[str] = set()
    for method in METHODS:
        if group := records.select(method=method):
            family = "l2x" if method in OURS else method.split(",")[0]
            lines.setdefault(family, []).append((max(NO_QUERIES, group.mean("queries")), overall(group)))
            if len(group.distinct("problem")) < len(records.distinct("problem")):
                some_tables.add(family)
    colours = [ACCENT, SECOND, THIRD, *[MUTED] * len(lines)]
    with style():
        figure, (axes,) = new_figure(3.3, title="Agreement with the model against queries per row")
        for (name, points), colour in zip(lines.items(), colours, strict=False):
            xs, ys = zip(*sorted(points), strict=True)
            inside = "white" if name in some_tables else colour
            axes.plot(xs, ys, color=colour, marker="o", markersize=4, linewidth=1.5, markerfacecolor=inside)
            axes.annotate(
                name,
                (xs[-1], ys[-1]),
                (5, 0),
                textcoords="offset points",
                color=colour,
                va="center",
                fontsize=8,
            )
        axes.set_xscale("log")
        counts = (1, 10, 100, 1000, 10_000)
        axes.set_xticks([NO_QUERIES, *counts], ["none", *(f"{count:,}" for count in counts)])
        axes.minorticks_off()
        axes.set_xlabel("queries of the model per row", loc="left")
        axes.set_ylabel("mean of five measures")
        text = "Mean over tables of agreement under three maskings and with two evaluators."
        note(figure, text + " Empty circles: not all tables." * bool(some_tables))
    return figure


def overall(records: Records) -> float:
    """Return the mean of the five measures over records."""
    return float(np.mean([measures(record) for record in records]))


def measures(record: Record) -> list[float]:
    """Return agreement under three maskings and with two evaluators."""
    return [*record["posthoc_accuracy"], record["judge_accuracy"], record["boosted_accuracy"]]


def goals(records: Records) -> list[Record]:
    """Return a list of measure, value, goal, and whether it holds, as far as there are records."""
    found: list[Record] = []

    def add(measure: str, value: float, goal: float, *, rows: int | None = None) -> None:
        """Add a goal; with `rows`, a share of this many rows may also have it within its 95 % interval."""
        holds = "yes" if value >= goal else "no"
        if rows is not None and value < goal <= exact_interval(round(value * rows), rows).high:
            holds = "within the interval"
        found.append({"measure": measure, "value": value, "goal": goal, "holds": holds})

    tables, first = records.select(part="tables"), records.select(part="tables", seed=0)
    for name, i in {"resampled": 2, "evaluator": 3, "boosted evaluator": 4}.items():
        final = Records(record for record in first if record["problem"] in FINAL)
        for peer in ("TreeSHAP", "LIME, 5,000", "Kernel SHAP, 1,000"):
            rivals = final.select(method=peer)
            same = Records(
                r for r in final.select(method="polished") if r["problem"] in rivals.distinct("problem")
            )
            if rivals and same:
                value, goal = (float(np.mean([measures(r)[i] for r in group])) for group in (same, rivals))
                add(f"polished against {peer}, tables looked at once, {name}", value, goal)
    for i, name in enumerate((*MASKINGS, "evaluator", "boosted evaluator")):
        for problem in first.distinct("problem"):
            ours, theirs = (
                first.select(problem=problem, method=m) for m in ("refined, 30", "Kernel SHAP, 10,000")
            )
            if ours and theirs:
                value, goal = measures(ours[0])[i], measures(theirs[0])[i]
                rows = ours[0]["rows"] if ours[0]["measure"] == "accuracy" else None
                add(f"refined, 30 against Kernel SHAP, 10,000: {problem}, {name}", value, goal, rows=rows)
    for problem in (*CANCER, "Adult"):
        if group := tables.select(problem=problem, method="refined, 30"):
            census = problem == "Adult"
            values = np.mean([measures(record) for record in group], axis=0)
            targets = (0.96, 0.96, 0.90, 0.955, 0.955) if census else (None, 0.99, None, 0.98, 0.98)
            for name, value, target in zip(
                (*MASKINGS, "evaluator", "boosted evaluator"), values, targets, strict=True
            ):
                if target is not None:
                    add(f"{problem}, refined, 30: {name}", float(value), target)
    tested = records.select(part="leakage")
    for problem in tested.distinct("problem"):
        findings = {record["method"]: record["finding"] for record in tested.select(problem=problem)}
        if len(findings) == 2:
            clean = [float(findings[method] != "encodes") for method in ("learned", "polished")]
            add(f"leakage, {problem}: polished not flagged, unless learned is", clean[1], clean[0])
    for problem, (_, queries, alone, evaluated) in INPUTS.items():
        group = records.select(part="inputs", problem=problem)
        if refined := group.select(method=f"refined, {queries}"):
            add(f"{problem}, refined, {queries}: post-hoc", refined.mean("posthoc_accuracy"), alone)
        if of_surrogate := group.select(method="polished"):
            add(f"{problem}, polished: evaluator", of_surrogate.mean("judge_accuracy"), evaluated)
    for record in records.select(part="adult", method="polished"):
        add("Adult, polished: Jaccard index between seeds", record["between_seeds"], STABLE)
        add("Adult, polished: Jaccard index under noise of 1 %", record["under_noise"], UNDER_NOISE)
        value = record["cpu_ms_per_row"]
        holds = "yes" if value <= POLISHING else "no"
        found.append(
            {
                "measure": "Adult, polishing: CPU ms per row, at most",
                "value": value,
                "goal": POLISHING,
                "holds": holds,
            }
        )
    known = records.select(part="truths")
    for problem in known.distinct("problem"):
        polished = known.select(problem=problem, method="polished").mean("exact")
        goal = known.select(problem=problem, method="learned").mean("exact")
        add(f"exact sets, {problem}: polished", polished, max(0.98, goal) if problem == "gate" else goal)
    return found
