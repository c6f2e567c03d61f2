"""What is compared, and where: budgets, settings, and the table of all methods, one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

import l2x
from l2x import baselines
from l2x._base.arrays import Array
from l2x.evaluation import Reference
from l2x.explanation import Explanation
from l2x.features import View
from l2x.learning import Conditional, FittedSurrogate, TrainingPlan, recipes_of
from l2x.model import BlackBox
from l2x_experiments.records import Record

# The search for the global top-k evaluates hundreds of subsets. It needs many rows, because few of them
# distinguish subsets (nonlinear additive), but only few background draws for each.
GLOBAL_ROWS, GLOBAL_BACKGROUND = 1000, 20
MARGINAL_ROWS = 2000

# What one explanation costs: a forward pass, a gradient, hundreds of queries, thousands of queries.
Cost = Literal["pass", "gradient", "search", "sampling"]


class Plans(NamedTuple):
    """Training plans: l2x; evaluators of texts and images; L2X as released; L2X as published."""

    ours: TrainingPlan
    evaluator: TrainingPlan
    released: TrainingPlan
    published: TrainingPlan


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much work a run does; None means all rows, or the steps of the view's own plans."""

    train_rows: int | None = None
    test_rows: int | None = None
    search_rows: int = 0  # explained by the search, which needs hundreds of queries per row
    sampling_rows: int = 0  # explained by LIME and Kernel SHAP, which need thousands of queries
    model_steps: int = 0  # of the black box; epochs if it is trained by epochs
    value_steps: int | None = None  # of the surrogate
    selector_steps: int | None = None
    paper_steps: int | None = None  # of L2X as released and as published
    evaluations: int | None = None  # how often training looks at held-out rows

    def plans(self, view: View | type[View]) -> Plans:
        """Return the view's own plans with this budget's steps, and without progress bars."""
        recipes, steps = recipes_of(view), self.paper_steps
        ours, evaluator = (
            replace(plan, evaluations=self.evaluations or plan.evaluations, progress=False).with_steps(
                value=self.value_steps, selector=self.selector_steps
            )
            for plan in (recipes.ours.plan, recipes.ours.thorough or recipes.ours.plan)
        )
        released, published = (
            replace(recipe.plan.with_steps(value=steps, selector=steps), progress=False)
            for recipe in (recipes.released, recipes.published)
        )
        return Plans(ours, evaluator, released, published)


@dataclass(kw_only=True)
class Setting:
    """One problem, set up once for all methods: a black box, inputs to learn from, inputs to explain."""

    black_box: BlackBox
    k: int
    train: Any  # explainers learn from these
    test: Any  # and are measured on these
    plans: Plans
    features: View | None = None  # None leaves it to the method, whose default is columns
    # Views of l2x, of L2X as released and of L2X as published, if they differ from `features`.
    our_features: View | None = None
    released_features: View | None = None
    published_features: View | None = None
    model: Any = None  # the network or the trees inside the black box, for methods that look inside
    background: Any = None  # rows that some methods compare with, or learn from
    evaluator: FittedSurrogate | None = None  # fitted on other inputs than the explainers
    probe_rows: Any = None  # from which the probes of a report learn
    truth: Array | None = None  # (n, d) booleans: the relevant features of each test row
    # P_m(y | x_S), by the number of rows it averages over; only for independent features
    conditional: Callable[[int], Conditional] | None = None
    # Limit of masked queries for l2x. A fixed number, so that records do not depend on how busy the machine
    # was; this one is never reached.
    queries: int = 20_000_000
    signed: bool = False  # rank features by their effect for the predicted class, not by absolute effect
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of baselines, by name
    released_networks: Mapping[str, Any] = field(default_factory=dict)  # options of L2X as released
    fitted: dict[tuple[str, int], Any] = field(default_factory=dict)  # methods, by name and seed


# Keys of reports in results/*.json that differ from those of `l2x.evaluation.Report`.
REPORT_KEYS = {
    "evaluator": "judge", "leakage": "encoding", "own_probe": "own_reader", "divergence": "encode_meter",
    "removal": "complement", "masked": "removed",
}  # fmt: skip
REPORT_FINDINGS = {"leaks": "encodes", "none": "none", "inconclusive": "uncertain", "untested": "unchecked"}


def report_record(
    setting: Setting, explained: Any, X: Any, seed: int, *, exact: Any = None, **options: Any
) -> Record:
    """Return the report (`l2x.report`) of an explainer or explanation on X, with the keys of the records."""
    made = l2x.report(
        explained, setting.black_box, setting.probe_rows, X, setting.k, evaluator=setting.evaluator,
        reference=Reference(setting.truth, exact), training=setting.plans.ours, seed=seed, **options,
    ).to_dict()  # fmt: skip
    parts = {
        _record_key(part): {_record_key(key): number for key, number in numbers.items()}
        for part, numbers in made["parts"].items()
    }
    return made | {"parts": parts, "finding": REPORT_FINDINGS[made["finding"]]}


def _record_key(key: str) -> str:
    """Return the key in results/*.json; for example, mean_removal is mean_complement there."""
    if key in REPORT_KEYS:
        return REPORT_KEYS[key]
    return "_".join(REPORT_KEYS.get(word, word) for word in key.split("_"))


class Explains(Protocol):
    """A method that is ready to explain."""

    def explain(self, X: Any, k: int, /) -> Explanation:
        """Return the explanation of X with k features per row."""
        ...


Fit = Callable[[Setting, int], Explains]


@dataclass(frozen=True)
class Method:
    """A method under comparison.

    Attributes
    ----------
    label : str
        Its name on the pages.
    fit : callable
        Takes a setting and a seed, returns the method ready to explain.
    cost : {"pass", "gradient", "search", "sampling"}
        What one explanation costs; decides how many inputs it is measured on.
    """

    label: str
    fit: Fit
    cost: Cost = "pass"


def fitted(setting: Setting, name: str, seed: int) -> Any:
    """Return the method, fitted in this setting with this seed; it is fitted only once."""
    if (name, seed) not in setting.fitted:
        setting.fitted[name, seed] = METHODS[name].fit(setting, seed)
    return setting.fitted[name, seed]


def ours(**options: Any) -> Fit:
    """Return how to fit l2x with these options of `l2x.Explainer`."""

    def fit(setting: Setting, seed: int) -> Explains:
        # With k = 1 the sum over all subsets is affordable, and has no noise.
        sampler = l2x.learning.samplers.ExactSum() if setting.k == 1 else None
        settings = {
            "features": setting.our_features or setting.features, "sampler": sampler,
            "training": setting.plans.ours, "queries": setting.queries, "seed": seed,
        }  # fmt: skip
        return l2x.Explainer(setting.black_box, setting.k, **(settings | options)).fit(setting.train)

    return fit


def papers(*, as_published: bool = False) -> Fit:
    """Return how to fit L2X as released, or as published."""

    def fit(setting: Setting, seed: int) -> Explains:
        view, plan = setting.released_features, setting.plans.released
        if as_published:
            view, plan = setting.published_features, setting.plans.published
        explainer = l2x.Explainer.paper(
            setting.black_box, setting.k, features=view or setting.features, as_published=as_published,
            training=plan, seed=seed,
        )  # fmt: skip
        if not as_published:
            for network in ("selector", "predictor"):
                explainer.set_params(**{network: getattr(explainer, network) | setting.released_networks})
        return explainer.fit(setting.train)

    return fit


def baseline(name: str, *, absolute: bool = False) -> Fit:
    """Return how to make a method of l2x's registry that needs no training."""
    method = baselines.METHODS[name]

    def fit(setting: Setting, seed: int) -> Explains:
        options = {
            "model": setting.black_box if method.model_agnostic else setting.model,
            "features": setting.features,
            "background": setting.background,
            "magnitude": absolute or not setting.signed,
            "seed": seed,
            "progress": False,
        }
        return baselines.make_method(name, **options, **setting.options.get(method.name, {}))

    return fit


def fastshap(setting: Setting, seed: int) -> Explains:
    """Fit FastSHAP: an explainer with the sampler `Shapley`, which sets how long the selector is trained."""
    sampler, plan = l2x.learning.samplers.Shapley(), setting.plans.ours
    plan = replace(plan, selector=sampler.phase(plan.selector))
    return ours(objective="surrogate", sampler=sampler, training=plan)(setting, seed)


def invase(setting: Setting, seed: int) -> Explains:
    """Fit INVASE, with the plan of L2X as released: the networks have the same sizes."""
    return baselines.Invase(
        setting.black_box, setting.k, features=setting.released_features or setting.features,
        training=setting.plans.released, seed=seed, progress=False,
    ).fit(setting.train)  # fmt: skip


def realx(setting: Setting, seed: int) -> Explains:
    """Fit REAL-X, with the plan of l2x."""
    return baselines.RealX(
        setting.black_box, setting.k, features=setting.our_features or setting.features,
        training=setting.plans.ours, seed=seed, progress=False,
    ).fit(setting.train)  # fmt: skip


def parzen(setting: Setting, seed: int) -> Explains:
    """Fit the Parzen-window baseline to the background rows."""
    return baselines.Parzen(setting.black_box, seed=seed, progress=False).fit(setting.background)


def global_top_k(setting: Setting, seed: int) -> Explains:
    """Search for the global top-k: the features that are best for all rows together."""
    assert setting.conditional is not None
    conditional = setting.conditional(GLOBAL_BACKGROUND)
    return baselines.GlobalTopK(conditional, rows=GLOBAL_ROWS, seed=seed).fit(setting.background, setting.k)


def by_position(setting: Setting, seed: int) -> Explains:
    """Set up the adversary that selects one fixed set of features for each predicted class."""
    assert setting.evaluator is not None
    return baselines.PositionLeak(setting.black_box, features=setting.evaluator.view, seed=seed)


def by_prediction(setting: Setting, seed: int) -> Explains:
    """Set up the adversary that selects the features which, each alone, best predict the predicted class."""
    base = fitted(setting, "l2x", seed)
    return baselines.PredictionLeak(base.surrogate_, features=base.features_)


def by_marginal(setting: Setting, seed: int) -> Explains:
    """Fit the adversary that hides the feature on which l2x's selection depends."""
    base = fitted(setting, "l2x", seed)
    rows = base.features_.take(base.features_.check(setting.train), slice(0, MARGINAL_ROWS))
    return baselines.MarginalLeak(base, base.surrogate_).fit(rows, setting.k)


# To add a method, add a line. Experiments list the names they run; pages show every name with records.
METHODS: dict[str, Method] = {
    "search": Method("search per input", baseline("search"), "search"),
    "l2x": Method("l2x", ours()),
    "l2x-told": Method("l2x, prediction-aware", ours(uses_prediction=True, target="class")),
    "l2x-model": Method("l2x, objective = model", ours(objective="model")),
    "l2x-surrogate": Method("l2x, objective = surrogate", ours(objective="surrogate")),
    "sequential": Method("l2x, sequential", ours(selector="sequential", sampler=None)),
    "fastshap": Method("FastSHAP", fastshap),
    "invase": Method("INVASE", invase),
    "realx": Method("REAL-X", realx),
    "paper": Method("L2X as released", papers()),
    "paper-letter": Method("L2X as published", papers(as_published=True)),
    "taylor": Method("Taylor", baseline("taylor"), "gradient"),
    "deeplift": Method("DeepLIFT", baseline("deeplift"), "gradient"),
    "integrated_gradients": Method("Integrated Gradients", baseline("integrated_gradients"), "gradient"),
    "lrp": Method("LRP", baseline("lrp"), "gradient"),
    "lime": Method("LIME", baseline("lime"), "sampling"),
    "kernel_shap": Method("Kernel SHAP", baseline("kernel_shap"), "sampling"),
    "shapiq": Method("shapiq", baseline("shapiq"), "sampling"),
    "tree_shap": Method("TreeSHAP", baseline("tree_shap")),
    "saliency": Method("Saliency", baseline("saliency"), "gradient"),
    "parzen": Method("Parzen", parzen),
    "taylor-absolute": Method("Taylor, absolute", baseline("taylor", absolute=True), "gradient"),
    "deeplift-absolute": Method("DeepLIFT, absolute", baseline("deeplift", absolute=True), "gradient"),
    "lime-absolute": Method("LIME, absolute", baseline("lime", absolute=True), "sampling"),
    "kernel_shap-absolute": Method(
        "Kernel SHAP, absolute", baseline("kernel_shap", absolute=True), "sampling"
    ),
    "global": Method(baselines.GlobalTopK.name, global_top_k),
    "random": Method(baselines.RandomK.name, baseline("random")),
    "position": Method("leaks by position", by_position),
    "prediction": Method("leaks by prediction", by_prediction),
    "marginal": Method("leaks by marginal", by_marginal),
}


# In the order of the pages.
LABELS = {name: method.label for name, method in METHODS.items()}


def labels(first: Sequence[str]) -> dict[str, str]:
    """Return the labels in another order: these first, then all others."""
    return {name: LABELS[name] for name in dict.fromkeys((*first, *LABELS))}
