"""The explainer: learn once which features matter, then answer with a single forward pass."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from torch import Tensor, nn

from l2x.blackbox import BlackBox, as_black_box
from l2x.data import TrainingRows, prepare
from l2x.errors import InputError, NotFittedError, some
from l2x.explanation import Explanation
from l2x.features.columns import Columns
from l2x.features.texts import TextView
from l2x.features.view import View
from l2x.foundations.arrays import Array, batches
from l2x.likelihood import Gaussian, Response
from l2x.sampling import ConcreteMax, PlackettLuce, Sampler, k_hot, only_selectable, top_k
from l2x.training import History, TrainingPlan, optimise
from l2x.values import (
    FittedValue,
    ModelValue,
    NetworkValue,
    Value,
    ValueName,
    check_compatible,
    fit_reader,
    fit_surrogate,
    log_value,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Explainer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Which k features decided the model's answer, for each input.

    Parameters
    ----------
    model : anything that predicts
        A callable, an estimator, a torch module, a booster, an `.onnx` path: see `as_black_box`.
    k : int
        How many features an explanation has; `explain(X, k=...)` can ask for another number later.
    features : View, default `Columns()`
        What one feature is.
    value : "surrogate", "model" or "joint"
        What a subset is worth. "surrogate" (a q(y | x_S, S) fitted on random subsets, then frozen) leaves
        the selection no way to encode the answer; "joint" is the paper's; "model" asks the black box.
    sampler : Sampler, default `PlackettLuce()`
        How subsets are drawn in training and how the gradient comes back.
    selector, predictor : torch module, or options of the default network as a dict
    training : TrainingPlan, default the view's own (`features.plan`)
    seed : int
        The same seed, data and machine give the same explainer; the global generators are left alone.
    device : "auto", "cpu", "cuda", ...

    Attributes
    ----------
    history_ : list of dicts, one per evaluation on held-out rows
    features_, selector_, value_ : the fitted view, w_θ, and q
    n_features_in_, classes_, rows_asked_, fit_seconds_

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> explainer = Explainer(model, k=1, training=TrainingPlan.quick()).fit(X)
    >>> explainer.explain(X[:3]).names
    [['x1'], ['x1'], ['x1']]
    """

    features_: View
    selector_: nn.Module
    value_: Value
    response_: Response
    history_: History

    def __init__(
        self,
        model: Any,
        k: int,
        *,
        features: View | None = None,
        value: ValueName = "surrogate",
        sampler: Sampler | None = None,
        selector: nn.Module | Mapping[str, Any] | None = None,
        predictor: nn.Module | Mapping[str, Any] | None = None,
        training: TrainingPlan | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.model = model
        self.k = k
        self.features = features
        self.value = value
        self.sampler = sampler
        self.selector = selector
        self.predictor = predictor
        self.training = training
        self.seed = seed
        self.device = device

    @classmethod
    def paper(cls, model: Any, k: int, *, features: View | None = None, **options: Any) -> Explainer:
        """The paper to the letter: joint training, the elementwise maximum of k Concrete vectors at
        temperature 0.1, RMSprop with step size 0.001, its networks, zeros for what is not selected."""
        features = Columns(standardize=False, bins=0, removal="zero") if features is None else features
        settings: dict[str, Any] = {
            "value": "joint",
            "sampler": ConcreteMax(temperature=0.1),
            "selector": features.paper_selector,
            "predictor": features.paper_predictor,
            "training": features.paper_plan,
        }
        return cls(model, k, features=features, **(settings | options))

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        responses: Any = None,
        validation: float = 0.1,
        rows: int = 1_000_000,
    ) -> Self:
        """Learn from inputs alone: the model supplies the labels, asked once.

        Parameters
        ----------
        X : training inputs, as the view takes them; or the path of a .parquet or .csv table
        y : ignored, there for scikit-learn: what is explained is the model's answer
        responses : the model's answers for X, if they are at hand; the model is then not asked
        validation : share of X held out for early stopping and the choice of the best weights
        rows : of a table on disk so many rows are drawn at random, in memory that does not grow with it;
            its columns are those that the model knows by name, or all
        """
        started = time.perf_counter()
        if isinstance(X, str | Path):
            from l2x.files.tables import Table, known_columns, read_sample

            table = Table(Path(X))
            columns = known_columns(table, self._black_box().columns)
            X = read_sample(table, columns, rows, seed=self.seed, as_text=isinstance(self.features, TextView))
        features = self.features or Columns()
        plan = self.training or features.plan
        sampler = self.sampler or PlackettLuce()
        check_compatible(self.value, needs_gradient=sampler.needs_gradient)
        device = pick_device(self.device)
        data = prepare(
            self._black_box(),
            clone(features).fit(X),
            X,
            responses,
            k=self.k,
            validation=validation,
            plan=plan,
            seed=self.seed,
            device=device,
            keep_raw=self.value == "model",
        )
        view, response, k = data.view, data.response, data.k
        generator = torch.Generator(device=device).manual_seed(self.seed)
        history: History = []

        # Initial weights and dropout draw from torch's global generator: seed it here, restore it after.
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            selector = self.build_selector(view, response).to(device)
            value = self._value(data, device)
            if self.value == "surrogate":
                assert isinstance(value, NetworkValue)
                fit_surrogate(value, data, k=k, plan=plan, generator=generator, history=history)
            reader = getattr(selector, "reader", None)
            if self.value != "joint" and isinstance(reader, nn.Module):
                fit_reader(reader, value, data, plan=plan, generator=generator, history=history)
            finished = _fit_selector(
                selector, value, data, k=k, sampler=sampler, plan=plan, generator=generator, history=history
            )
        if not finished:
            warnings.warn("Training was interrupted; the best weights so far are kept.", stacklevel=2)

        # Set only now: a failure above leaves an earlier fit as it was.
        self.features_, self.selector_, self.value_, self.response_ = view, selector, value, response
        self.history_ = history
        self.n_features_in_ = view.d
        self.classes_ = _classes(data.black_box, response)
        self.rows_asked_ = data.asked
        self.fit_seconds_ = time.perf_counter() - started
        return self

    def explain(self, X: Any, k: int | None = None) -> Explanation:
        """The k features that decided each answer: one forward pass, no model needed.

        Deterministic; memory beyond X and the scores does not grow with the number of rows. Categories that
        the training rows did not have are taken to say nothing; `explanation.unseen` counts them, and a
        warning says so.
        """
        explanation = self.explain_quietly(X, k)
        warn_unseen(explanation.unseen, stacklevel=3)
        return explanation

    def explain_quietly(self, X: Any, k: int | None = None) -> Explanation:
        """`explain` for callers that add up `unseen` over many batches and warn once."""
        self._check_fitted()
        view = self.features_
        X = view.check(X)
        k = view.checked_k(self.k if k is None else k)
        scores = np.empty((len(X), view.d), dtype=np.float32)
        device = next(self.selector_.parameters()).device
        unseen: Counter[str] = Counter()
        with torch.inference_mode():
            for rows in batches(len(X), view.rows_at_once):
                x = view.encode(view.take(X, rows), first_row=rows.start).to(device)
                found = only_selectable(self.selector_(x), view.selectable(x), never=-torch.inf)
                scores[rows] = found.cpu().numpy()
                unseen.update(view.unseen(x))
        return Explanation(scores, k, view.names_, inputs=X, view=view, unseen=unseen)

    def transform(self, X: Any) -> Array:
        """What was selected, for pipelines: (n, d), True for the k features of each row."""
        return self.explain(X).mask

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The features' names, for `set_output`."""
        self._check_fitted()
        return np.asarray(self.features_.names_, dtype=object)

    def attribute(self, inputs: Tensor, target: Any = None) -> Tensor:
        """As captum's methods have it: a tensor like `inputs`, positive where something was selected (how far
        above the rest), zero elsewhere. What is explained is the whole answer: `target` is ignored."""
        from l2x.interop import attribution

        if not isinstance(inputs, Tensor):
            kind = type(inputs).__name__
            raise InputError(f"attribute takes a tensor, as captum's methods do, not a {kind}; use explain.")
        return attribution(self.explain(inputs), inputs)

    def summary_plot(self, X: Any, path: str | Path | None = None, *, k: int | None = None) -> Figure:
        """Many rows at a glance: when is each feature selected, and at which of its values? For texts, which
        words are selected most often. Saved if a path is given."""
        from l2x.plots.summary import plot_summary

        return plot_summary(self.explain(X, k), path)

    def score(self, X: Any, y: Any = None) -> float:
        """Post-hoc accuracy: how often the model, shown only the selected features, gives the same answer
        (for regression, the R² of those answers). `y` is ignored; it is there for scikit-learn."""
        from l2x.evaluation.agreement import posthoc_accuracy, posthoc_r2

        explanation = self.explain(X)
        measure = posthoc_r2 if isinstance(self.response_, Gaussian) else posthoc_accuracy
        return measure(self._black_box(), X, explanation)

    @property
    def q_(self) -> FittedValue:
        """The explainer's own q(y | x_S), for metrics and the oracle."""
        self._check_fitted()
        return FittedValue(self.features_, self.value_, None if self.model is None else self._black_box())

    def save(self, path: str | Path) -> Path:
        """Write everything that `explain` needs to one file, without pickle; see `l2x.load`."""
        from l2x.artifact import save

        return save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # `transform` gives booleans
        return tags

    def __sklearn_clone__(self) -> Explainer:
        """A new explainer of the same model: scikit-learn's own clone would forget what the model learned."""
        settings = self.get_params(deep=False)
        model = settings.pop("model")
        return type(self)(model, **{name: clone(value, safe=False) for name, value in settings.items()})

    def _check_fitted(self) -> None:
        if not hasattr(self, "selector_"):
            raise NotFittedError("This Explainer is not fitted yet; call fit(X) first, or l2x.load(path).")

    def _black_box(self) -> BlackBox:
        if self.model is None:
            raise InputError("This explainer has no model at hand; pass it with l2x.load(path, model=...).")
        return as_black_box(self.model)

    def _value(self, data: TrainingRows, device: torch.device) -> Value:
        view, response = data.view, data.response
        if self.value == "model":
            return ModelValue(data.black_box, response, seed=self.seed)
        return NetworkValue(self.build_predictor(view, response).to(device), response)

    def build_selector(self, view: View, response: Response) -> nn.Module:
        """A new w_θ for this view."""
        return _network(self.selector, lambda **options: view.selector(response.outputs, **options))

    def build_predictor(self, view: View, response: Response) -> nn.Module:
        """A new g_α. The paper's sees x̃_S alone; a surrogate also sees S, to tell absent from zero."""
        options = {"sees_mask": self.value == "surrogate"}
        return _network(self.predictor, lambda **more: view.predictor(response.outputs, **(options | more)))


def _fit_selector(
    selector: nn.Module,
    value: Value,
    data: TrainingRows,
    *,
    k: int,
    sampler: Sampler,
    plan: TrainingPlan,
    generator: torch.Generator,
    history: History,
) -> bool:
    """Maximise E[log q(Y | X_S)] over θ - and over α too where q still learns (equation 5)."""
    train, held = data.train, data.held
    networks = nn.ModuleDict({"selector": selector})
    if isinstance(value, NetworkValue) and any(p.requires_grad for p in value.predictor.parameters()):
        networks["predictor"] = value.predictor

    def objective(index: Tensor, progress: float) -> Tensor:
        rows = train[index]
        scores = only_selectable(selector(rows.x), rows.view.selectable(rows.x))
        return sampler.objective(scores, k, lambda masks: log_value(value, rows, masks), generator, progress)

    def validate(candidate: nn.Module) -> Tensor:
        """The value of the *hard* top-k selection on held-out rows."""
        assert isinstance(candidate, nn.ModuleDict)
        q = NetworkValue(candidate["predictor"], value.response) if "predictor" in candidate else value
        with torch.no_grad():
            scores = only_selectable(candidate["selector"](held.x), held.view.selectable(held.x))
            masks = k_hot(top_k(scores, k), held.view.d)
            return log_value(q, held, masks[None])[0]

    networks.train()
    return optimise(
        networks,
        objective,
        validate,
        phase=plan.selector,
        plan=plan,
        n=len(train),
        generator=generator,
        label="training the selector",
        history=history,
    )


def _network(given: nn.Module | Mapping[str, Any] | None, build: Any) -> nn.Module:
    if isinstance(given, nn.Module):
        import copy

        return copy.deepcopy(given)
    network: nn.Module = build(**(given or {}))
    return network


def warn_unseen(unseen: Mapping[str, int], *, stacklevel: int = 2) -> None:
    """Say that categories turned up which the training rows did not have, and how often."""
    if unseen:
        most = sorted(unseen.items(), key=lambda item: -item[1])
        counts = some([f"{name} ({count:,} rows)" for name, count in most])
        warnings.warn(f"Categories that the training rows did not have: {counts}.", stacklevel=stacklevel)


def pick_device(name: str) -> torch.device:
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _classes(black_box: BlackBox, response: Response) -> Array | None:
    if black_box.task == "regression":
        return None
    return np.arange(response.outputs) if black_box.classes is None else black_box.classes
