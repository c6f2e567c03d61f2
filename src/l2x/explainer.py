"""The explainer: learn once which features matter, then answer with a single forward pass."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from torch import Tensor, nn

from l2x._base.arrays import Array
from l2x._base.progress import say
from l2x.errors import InputError, NotFittedError, some
from l2x.explanation import Explanation
from l2x.features import Columns, View, checked_k, draws_replacements
from l2x.files import Table, read_answers, read_training_rows
from l2x.learning import (
    TOO_FEW,
    Answer,
    ConcreteMax,
    FittedQ,
    Ingredients,
    Likelihood,
    Model,
    Options,
    PlackettLuce,
    Q,
    ReadsFirst,
    Recipe,
    Run,
    Sampler,
    SelfCheck,
    Sizes,
    TrainingPlan,
    TrainingRows,
    Value,
    as_value,
    check_compatible,
    checked_answers,
    fit_reader,
    fit_selector,
    input_scores,
    networks_of,
    pick_device,
    prepare,
    reading,
    recipes_of,
    scored,
    seen_by_q,
    self_check,
    sizes_of,
)
from l2x.model import (
    BlackBox,
    Memory,
    announce,
    as_black_box,
    check_enough,
    checked_queries,
    default_queries,
    query,
    rows_within,
    without_reserve,
)

# From fewer inputs a selector learns less than the model says when asked about each (docs/method.md).
FEW_ROWS = 1000


@dataclass(eq=False, repr=False)
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
    value : "both", "surrogate", "model", "joint", or a Value such as `l2x.Surrogate()`
        What a subset is worth. "surrogate" (a q(y | x_S, S) fitted on random subsets, then frozen) is not
        trained to encode the answer; "model" asks the black box about masked inputs; "both" averages the two;
        "joint" is the paper's.
    answer : "distribution" or "class"; default the view's own
        What the selected features are to keep: all that the model says, as the paper has it, or which class
        it names.
    sees_answer : bool
        The selector reads the model's answer beside the input. Explaining then needs the answers too: the
        model is asked, or they are given, `explain(X, answers=...)`.
    queries : int, datetime.timedelta or None
        The maximum number of masked rows that the model is queried for, beyond labelling; 0 leaves "both"
        with the surrogate alone. None: 1,048,576 rows of a table, 524,288 images or 65,536 texts; at most
        16,384 for an `Endpoint`, and none if answers are brought, `fit(X, responses=...)`. A `timedelta`
        limits the time of these queries, estimated from the time of labelling: such a fit is not
        reproducible.
    sampler : Sampler, default the view's own: `PlackettLuce()`, for words `Evidence()`
        How subsets are drawn in training and how the gradient comes back.
    selector, predictor : torch module, or options of the default network as a dict
    training : TrainingPlan, default the view's own (`recipes_of(features).ours.plan`)
    seed : int
        The same seed, data and machine give the same explainer; the global generators are left alone.
    device : "auto", "cpu", "cuda", ...

    Attributes
    ----------
    history_ : list of dicts, one per evaluation on held-out rows
    queries_ : int, the number of masked rows that the model was queried for; None in older files
    check_ : `SelfCheck`, what the selection keeps of held-out answers beside chance and its complement; None
        for an explainer that was saved before there was one
    features_, selector_, q_ : the fitted view, w_θ, and the explainer's own q(y | x_S)
    n_features_in_, classes_, rows_asked_, fit_seconds_

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 5))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> explainer = Explainer(model, k=1, training=TrainingPlan.quick()).fit(X)
    >>> explainer.explain(X[:3]).names
    [['x1'], ['x1'], ['x1']]
    """

    model: Any
    k: int
    _: KW_ONLY
    features: View | None = None
    value: Value | str = "both"
    answer: Answer | None = None
    sees_answer: bool = False
    queries: int | timedelta | None = None
    sampler: Sampler | None = None
    selector: nn.Module | Options | None = None
    predictor: nn.Module | Options | None = None
    training: TrainingPlan | None = None
    seed: int = 0
    device: str = "auto"

    @classmethod
    def paper(
        cls,
        model: Any,
        k: int,
        *,
        features: View | None = None,
        to_the_letter: bool = False,
        **options: Any,
    ) -> Explainer:
        """The paper as its authors ran it, which reaches the figures that it prints: joint training, the
        elementwise maximum of k Concrete vectors, zeros for what is not selected.

        It deviates from the text where the text alone misses them; docs/reproduce.md has the measurements.

            tables      the networks of the released code: batch normalisation in q, which by itself lets the
                        text's networks find XOR; Glorot's weights, Adam and L2, with which no run failed
            images      batch normalisation in q: fewer runs end in a code of positions
            texts       a temperature of 0.5: at 0.1 one sentence is always the first; Glorot's weights, and
                        the sum over what is selected divided by k, as the released code has them
            all         the last weights: q's held-out loss is no guide to what its selections are worth

        `to_the_letter=True` keeps to the text: a temperature of 0.1, RMSprop with step size 0.001, networks
        of its sizes without normalisation, and the weights that q finds best.
        """
        features = Columns(standardize=False, bins=0, removal="zero") if features is None else features
        recipe = recipes_of(features).letter if to_the_letter else recipes_of(features).paper
        settings: dict[str, Any] = {
            "value": "joint",
            "answer": "distribution",
            "sampler": recipe.sampler or ConcreteMax(),
            "selector": dict(recipe.selector),
            "predictor": dict(recipe.predictor) | ({"divisor": k} if recipe.divide_by_k else {}),
            "training": recipe.plan,
        }
        return cls(model, k, features=features, **(settings | options))

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        responses: Any = None,
        journal: str | Path | None = None,
        validation: float = 0.1,
        rows: int = 1_000_000,
    ) -> Self:
        """Learn from inputs alone: the model supplies the labels, asked once.

        If the model fails half-way, what it had answered is kept, and `fit` on the same rows asks only about
        the rest; with a `journal`, also in another process.

        Parameters
        ----------
        X : training inputs, as the view takes them; or the path of a .parquet or .csv table
        y : ignored, there for scikit-learn: what is explained is the model's answer
        responses : the model's answers for X, if they are known already: an array, or the .parquet file that
            `l2x.label` wrote of the same rows. The model is then not asked
        journal : a .parquet file for the answers, which are on disk as soon as they are given; those that are
            there already are not asked again, except for a few if `queries` is a time limit
        validation : share of X held out for early stopping and the choice of the best weights
        rows : at most this many rows of a table on disk are drawn at random, in memory that does not grow
            with it; its columns are those that the model knows by name, or all
        """
        started = time.perf_counter()
        # A new one: the model may have been fitted again since the last time.
        black_box, value, features = self._wrap(), as_value(self.value), self.features or Columns()
        recipe = (
            recipes_of(features).ours if value.fixed else Recipe()
        )  # joint training is the paper's affair
        sampler = self.sampler or recipe.sampler or PlackettLuce()
        check_compatible(value, sampler)
        answer, queries = checked_answer(self.answer or recipe.answer), checked_queries(self.queries)
        if not isinstance(self.sees_answer, bool):
            raise InputError(f"sees_answer is {self.sees_answer!r}; expected True or False.")
        run = Run.begin(self.training or recipes_of(features).ours.plan, self.seed, pick_device(self.device))
        if isinstance(responses, str | Path):
            sampled = isinstance(X, str | Path)
            responses = read_answers(responses, rows=rows if sampled else None, seed=run.seed)
        if isinstance(X, str | Path):
            X = read_training_rows(
                Table(Path(X)), features, known=black_box.columns, rows=rows, seed=run.seed
            )
        view = clone(features).fit(X)
        subsets = sampler.subsets_of(view.d) if isinstance(value, Model) else 0
        if queries is None:
            brought = responses is not None
            queries = default_queries(recipes_of(view).queries, black_box.predict, brought=brought)
        if not isinstance(queries, timedelta):
            check_enough(queries, run.plan.selector.steps, subsets)
        data = prepare(
            black_box, view, X, responses,
            k=self.k, validation=validation, run=run, keep_raw=value.asks_model,
            timed=isinstance(queries, timedelta),
            journal=None if journal is None else Path(journal),
        )  # fmt: skip
        with run.seeded():
            selector = self._build_selector(data.view, data.likelihood).to(run.device)
            limit = rows_within(queries, data.seconds_per_row)
            usable = without_reserve(limit) if self.queries is None else limit
            calls = _calls(selector, run.plan)
            check_enough(usable, calls, subsets)
            if value.asks_model:
                wanted = calls * run.plan.selector.batch_size * sampler.subsets_of(view.d)
                announce(min(usable, wanted), data.seconds_per_row, visible=run.plan.progress)
            memory = None if draws_replacements(data.view) else Memory(data.view.d, self.seed)
            q = self._build_q(
                data.view, data.likelihood, black_box, run.device,
                memory=memory, questions_per_call=usable / calls,
            )  # fmt: skip
            value.fit(q, data, run)
            if value.fixed:
                fit_reader(selector, q, data, run)
            finished = fit_selector(
                selector, q, data, sampler, run, answer=answer, sees_answer=self.sees_answer
            )
        sizes = sizes_of(selector, q, data, sees_answer=self.sees_answer)
        if not finished:
            warnings.warn("Training was interrupted; the best weights so far are kept.", stacklevel=2)
        self._keep(data, selector, q, run)
        self.sizes_: Sizes | None = sizes
        self._check(X, data, limit, run.plan.progress)
        self.fit_seconds_ = time.perf_counter() - started
        return self

    def _check(self, X: Any, data: TrainingRows, limit: int, progress: bool) -> None:
        """Look at what was learned, say it in a line, and warn where it is not good. What the model was asked
        is said first, this look included."""

        def explain(raw: Any, answers: Array) -> Explanation:
            return self.explain_quietly(raw, answers=answers if self.sees_answer else None)

        X, left = self.features_.check(X), limit - data.asked_masked
        check = self_check(explain, self.q_, X, data, queries=left, seed=self.seed)
        self.check_: SelfCheck | None = check
        self.rows_asked_ = data.asked
        self.queries_: int | None = data.asked_masked
        if as_value(self.value).asks_model:
            queried = f"Queried the model for {data.labelled:,} rows and {self.queries_:,} masked rows"
            say(f"{queried} (limit {limit:,}).", visible=progress)
        for line in filter(None, (check.sentence, check.hint)):
            say(line, visible=progress)
        if len(data.train) < FEW_ROWS:
            few = f"{len(data.train):,} inputs are few to learn from"
            say(f"{few}; l2x.baselines.KernelShap asks the model about each by itself", visible=progress)
        for message in check.warnings:
            warnings.warn(message, stacklevel=3)

    def _keep(self, data: TrainingRows, selector: nn.Module, q: Q, run: Run) -> None:
        """Set the fitted attributes, all at the end: a failure before leaves an earlier fit as it was."""
        self.features_, self.selector_ = data.view, selector
        self.q_ = FittedQ(data.view, q, data.black_box)
        self.history_ = run.history
        self.n_features_in_ = data.view.d
        self.classes_: Array | None = None
        if data.black_box.task != "regression":
            known = data.black_box.classes
            self.classes_ = np.arange(data.likelihood.outputs) if known is None else known

    def explain(
        self, X: Any, k: int | None = None, *, answers: Any = None, keep: float | None = None
    ) -> Explanation:
        """The k features that decided each answer: one forward pass, no model needed.

        Parameters
        ----------
        X : inputs, as the view takes them
        k : how many features; default the explainer's own
        answers : what the model says of X, for an explainer with `sees_answer=True`: an array or frame of
            class probabilities (n, classes), or of means; default: the model is asked
        keep : as many features as a row needs, k at most: on average this share of what the k features tell
            is kept, as learned on held-out rows; `explanation.sizes` has their numbers, which are learned up
            to the explainer's own k, from a share of 0.5 on; more than 0.999 is all k. What features tell is
            by the explainer's own q, which is asked about 0 .. k features of each row and takes longer than
            the selection; the model may need more of them: `score(X, keep=...)`

        Deterministic; memory beyond X and the scores does not grow with the number of rows. Categories that
        the training rows did not have are taken to say nothing; `explanation.unseen` counts them, and a
        warning says so.
        """
        explanation = self.explain_quietly(X, k, answers=answers, keep=keep)
        warn_unseen(explanation.unseen, stacklevel=3)
        return explanation

    def explain_quietly(
        self, X: Any, k: int | None = None, *, answers: Any = None, keep: float | None = None
    ) -> Explanation:
        """`explain` for callers that add up `unseen` over many batches and warn once."""
        self._check_fitted()
        view = self.features_
        X = view.check(X)
        k = checked_k(view, self.k if k is None else k)
        scores, counts = input_scores(view, self.selector_, X, self._told(X, answers))
        explanation = Explanation(scores, k, view.names_, inputs=X, view=view, unseen=counts)
        if keep is None:
            return explanation
        return self.known_sizes().shortened(explanation, keep, ask=partial(self._seen_by_q, X, scores))

    def known_sizes(self) -> Sizes:
        """What `keep=` needs; an InputError if it was not learned."""
        if self.sizes_ is None:
            raise InputError(
                "This explainer has not learned sizes, for keep=: it was saved by an older l2x, held out "
                f"fewer than {TOO_FEW} rows, or could ask the model about no more; fit it again, with more "
                "rows or queries=."
            )
        return self.sizes_

    def _seen_by_q(self, X: Any, scores: Array, rows: slice) -> Array:
        parts = self.q_.heads(self.features_.take(X, rows), scores[rows], self.known_sizes().k)
        return np.concatenate([seen_by_q(heads, self.q_.likelihood) for heads in parts])

    def _told(self, X: Any, answers: Any) -> Tensor | None:
        """What the selector reads of the model's answers to X, as the view has checked it."""
        if not self.sees_answer:
            if answers is not None:
                raise InputError("answers is for an explainer with sees_answer=True; this one reads X alone.")
            return None
        likelihood = self.q_.likelihood
        if answers is not None:
            logits = self.model is not None and self._black_box().logits
            answers = checked_answers(answers, len(X), likelihood, classes=self.classes_, logits=logits)
        elif not len(X):
            answers = np.zeros((0, likelihood.outputs))
        elif self.model is not None:
            answers = query(self._black_box(), self.features_, X)
        else:
            raise InputError(
                "This explainer reads the model's answers beside the inputs: pass them, "
                "explain(X, answers=...), or load it with its model, l2x.load(path, model=...)."
            )
        return likelihood.told(likelihood.targets(answers))

    def with_model(self, model: Any) -> Explainer:
        """Return a copy with `model` attached, for an explainer that was loaded without one."""
        attached = copy.copy(self)
        attached.model = model
        if hasattr(self, "q_"):
            attached.q_ = self.q_.with_model(attached._black_box())
        return attached

    def transform(self, X: Any) -> Array:
        """What was selected, for pipelines: (n, d), True for the k features of each row."""
        return self.explain(X).mask

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The features' names, for `set_output`."""
        self._check_fitted()
        return np.asarray(self.features_.names_, dtype=object)

    def attribute(self, inputs: Any, target: Any = None) -> Any:
        """As captum's methods have it: a tensor like `inputs` (in a tuple, if that came in one), positive
        where something was selected (how far above the rest), zero elsewhere. What is explained is the whole
        answer: `target` is ignored."""
        from l2x.display import attribution

        if isinstance(inputs, tuple) and len(inputs) == 1:  # as captum's metrics hand tensors on
            return (self.attribute(inputs[0], target),)
        if not isinstance(inputs, Tensor):
            kind = type(inputs).__name__
            raise InputError(f"attribute takes a tensor, as captum's methods do, not a {kind}; use explain.")
        return attribution(self.explain(inputs), inputs)

    def score(self, X: Any, y: Any = None, *, keep: float | None = None) -> float:
        """Post-hoc accuracy: how often the model, shown only the selected features, gives the same answer
        (for regression, the R² of those answers). A float that prints with what random features and all
        others keep. `y` is ignored; it is there for scikit-learn. `keep` is that of `explain`."""
        return scored(self._black_box(), X, self.explain(X, keep=keep))

    def save(self, path: str | Path) -> Path:
        """Write everything that `explain` needs to one file, without pickle; see `l2x.load`."""
        from l2x.export import save

        return save(self, path)

    def export_onnx(self, path: str | Path, X: Any = None) -> Path:
        """Write an ONNX file that explains without l2x and torch: raw inputs in; scores, indices and mask
        out. It is compared with this explainer on made-up rows, or on the rows X, before it is written."""
        from l2x.export import export_onnx

        return export_onnx(self, path, X)

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
        """Return the wrapped model, the same one until `fit` or another `model`."""
        model, black_box = getattr(self, "_wrapped", (None, None))
        return self._wrap() if black_box is None or model is not self.model else black_box

    def _wrap(self) -> BlackBox:
        """Wrap the model and keep the black box, which may hold a session or connections, for later calls."""
        if self.model is None:
            raise InputError(
                "This explainer has no model; pass it: Explainer(model, k=...), l2x.load(path, model=...)."
            )
        black_box = as_black_box(self.model)
        self._wrapped = (self.model, black_box)
        return black_box

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the kept black box: sessions cannot be pickled."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_wrapped"}

    def _build_selector(self, view: View, likelihood: Likelihood) -> nn.Module:
        """A new w_θ for this view."""
        told = {"told": likelihood.outputs} if self.sees_answer else {}
        return _network(self.selector, networks_of(view, likelihood.outputs).selector, **told)

    def _build_q(
        self,
        view: View,
        likelihood: Likelihood,
        black_box: BlackBox | None,
        device: torch.device,
        **asking: Any,
    ) -> Q:
        """A new q, as the value has it."""

        def build_predictor(sees_mask: bool) -> nn.Module:
            build = networks_of(view, likelihood.outputs).predictor
            return _network(self.predictor, build, sees_mask=sees_mask).to(device)

        given = Ingredients(likelihood, build_predictor, black_box, self.seed, **asking)
        return as_value(self.value).build(given)


def _network(given: nn.Module | Options | None, build: Any, **options: Any) -> nn.Module:
    """A copy of the user's own module, or the view's network with these options."""
    if isinstance(given, nn.Module):
        return copy.deepcopy(given)
    network: nn.Module = build(**(options | dict(given or {})))
    return network


def _calls(selector: nn.Module, plan: TrainingPlan) -> int:
    """Count the times that training evaluates subsets; these share the queries evenly."""
    calls = plan.selector.steps + plan.evaluations + 1  # and the sizes
    if isinstance(selector, ReadsFirst):
        calls += reading(selector, plan).steps + plan.evaluations
    return calls


def checked_answer(answer: Any) -> Answer:
    if answer not in get_args(Answer):
        raise InputError(f"answer is {answer!r}; choose 'distribution' or 'class'.")
    chosen: Answer = answer
    return chosen


def warn_unseen(unseen: Mapping[str, int], *, stacklevel: int = 2) -> None:
    """Say that categories turned up which the training rows did not have, and how often."""
    if unseen:
        most = sorted(unseen.items(), key=lambda item: -item[1])
        counts = some([f"{name} ({count:,} rows)" for name, count in most])
        warnings.warn(f"Categories that the training rows did not have: {counts}.", stacklevel=stacklevel)
