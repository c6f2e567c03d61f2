"""The explainer: learn once which features matter, then explain with a single forward pass."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from torch import Tensor, nn

from l2x._base import say
from l2x._base.arrays import Array, is_whole, tensor_to_array
from l2x.errors import InputError, NotFittedError, shown, some
from l2x.explanation import Explanation
from l2x.features import Columns, View, checked_k
from l2x.files import Table, read_predictions, read_training_rows
from l2x.learning import (
    CLOSE,
    COUNTED_ROWS,
    FEW_ROWS,
    PRIOR,
    SEQUENTIAL,
    TOO_FEW,
    BaseSurrogate,
    ConcreteMax,
    Examiner,
    Expectation,
    FittedSurrogate,
    Ingredients,
    Labels,
    Likelihood,
    Model,
    Objective,
    Options,
    PathSizes,
    PlackettLuce,
    Polisher,
    Problem,
    Recipe,
    Reference,
    Run,
    Sampler,
    SelfCheck,
    SequentialSelector,
    Sizes,
    SurrogateSource,
    Target,
    TrainingPlan,
    TrainingRows,
    Validity,
    as_objective,
    check_compatible,
    check_outputs,
    checked_predictions,
    evaluations_of,
    evaluations_of_paths,
    examined,
    fit_paths,
    fit_selector,
    fit_text_encoder,
    guaranteed,
    input_scores,
    learned_prior,
    network_of,
    networks_of,
    path_sizes_of,
    pick_device,
    plan_of_paths,
    prepare,
    recipes_of,
    sampler_of_paths,
    scored,
    self_check,
    signed_values,
    sizes_of,
    surrogate_inputs,
    verified,
)
from l2x.model import (
    BlackBox,
    Endpoint,
    Memory,
    announce,
    as_black_box,
    check_enough,
    checked_queries,
    default_queries,
    per_call,
    query,
    rows_within,
    without_reserve,
)

# To choose how much to polish, `fit` may use the queries that training has left, divided by this.
CALIBRATING = 4
# Number of rows that the function `explain` learns from if it is given fewer.
MIXED_ROWS = 1000


@dataclass(eq=False, repr=False)
class Explainer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Explain each prediction of a model by the k features that it depends on most.

    Parameters
    ----------
    model : anything that predicts
        A callable, an estimator, a torch module, a booster, an `.onnx` path, a `transformers` pipeline: see
        `as_black_box`.
    k : int
        Features per explanation; `explain(X, k=...)` can use another number later.
    features : View, default `Columns()`
        What one feature is.
    objective : "both", "surrogate", "model", "joint", or an Objective such as `l2x.objectives.Surrogate()`
        What the selector maximises. "surrogate" fits a network q(y | x_S, S) on random subsets and freezes
        it, so that selections cannot leak the prediction to it. "model" queries the model for masked rows.
        "both" averages the two. "joint" is the paper's.
    target : "distribution" or "class", default the view's own
        What to preserve: the full predicted distribution, as in the paper, or only the predicted class.
    uses_prediction : bool
        Whether the selector reads the model's prediction as well as the input. `explain` then needs
        predictions: it queries the model, or takes `explain(X, predictions=...)`.
    queries : int, datetime.timedelta or None
        Maximum number of masked rows that the model is queried for, beyond labelling; with 0, "both" uses the
        surrogate alone. None means 1,048,576 rows of a table, 524,288 images of up to 1,024 pixels, 65,536
        larger images, or 262,144 texts; at most 65,536 for a model of `transformers`, 16,384 for an
        `Endpoint`, and 0 if `fit(X, predictions=...)` is used.
        A `timedelta` limits the time of these queries, estimated from the time of labelling; such a fit is
        not reproducible.
    mixed : int or None
        Number of rows to learn from if a table has fewer: the rest are mixed from pairs of its rows, each
        column from one of the two, and labelled by the model. None means 3,000, and no mixed rows for
        an `Endpoint`, with `queries=...`, with `fit(predictions=...)`, with `samplers.Shapley()`, and with
        objectives other than "both" and "model".
    sampler : Sampler, default the view's own: `PlackettLuce()`, for words `Evidence()`
        How subsets are drawn in training, and how the gradient is estimated.
    selector : "sequential", torch module, or dict
        "sequential" selects one feature at a time and reads only the features selected so far, so that
        explanations cannot leak the prediction: see the page "Audit mode". Otherwise a network, or
        options of the default network.
    predictor : torch module, or dict
        The surrogate's network, or options of the default network.
    training : TrainingPlan, default the view's own
        How long and how fast to train; the default is `recipes_of(features).ours.plan`, in which
        `samplers.Shapley()` has more steps for the selector. For a sequential selector, the learning rate of
        any plan is raised, and for tables the steps are multiplied by four.
    seed : int
        The same seed, data and machine give the same explainer. Global random generators are not changed.
    device : "auto", "cpu", "cuda", ...
        Where to train and explain; "auto" is the GPU if there is one.

    Attributes
    ----------
    history_ : list of dict
        One entry per evaluation on held-out rows.
    queries_ : int
        Masked rows that the model was queried for.
    rows_queried_ : int
        All rows that the model was queried for.
    check_ : SelfCheck
        Post-hoc accuracy on held-out rows, compared with random features, the removal test and a global set.
    features_ : View
        The fitted view.
    selector_ : torch module
        The fitted selector, w_θ.
    surrogate_ : FittedSurrogate
        The explainer's own q(y | x_S).
    sizes_ : Sizes, PathSizes or None
        What `explain(X, keep=...)` needs.
    prior_ : float
        The weight of the learned ranking when selections are polished.
    classes_ : array or None
        The classes; None for regression.
    n_features_in_ : int
        The number of features.
    fit_seconds_ : float
        The duration of `fit`.
    fitted_at_ : datetime
        When `fit` ended.
    reference_ : Reference or None
        Counts of what the training rows were like, for `still_valid`.

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
    objective: Objective | str = "both"
    target: Target | None = None
    uses_prediction: bool = False
    queries: int | timedelta | None = None
    mixed: int | None = None
    sampler: Sampler | None = None
    selector: nn.Module | Options | Literal["sequential"] | None = None
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
        as_published: bool = False,
        **options: Any,
    ) -> Explainer:
        """Return an explainer that is L2X as released.

        Training is joint, the sampler is the elementwise maximum of k Concrete vectors, and unselected
        features are zero. The released recipe deviates from the text where the text alone misses the
        published figures; docs/benchmarks/reproduce.md has all figures, also those that neither reaches.

            tables   the networks of the released code: batch normalisation in q, Glorot initialisation, Adam
                     and L2; with the published networks XOR is not learned
            images   batch normalisation in q: in fewer runs the selected positions leak the class
            texts    temperature 0.5, Glorot initialisation, and the sum over selected words divided by k
            all      the last weights: q's held-out loss does not predict post-hoc accuracy

        Parameters `model`, `k` and `features` are those of the constructor; other `options` replace the
        recipe's. `as_published=True` follows the text: temperature 0.1, RMSprop with step size 0.001,
        networks of the published sizes without normalisation, and the weights with q's best held-out loss.
        """
        features = Columns(standardize=False, bins=0, masking="zero") if features is None else features
        recipe = recipes_of(features).published if as_published else recipes_of(features).released
        settings: dict[str, Any] = {
            "objective": "joint",
            "target": "distribution",
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
        predictions: Any = None,
        journal: str | Path | None = None,
        validation: float = 0.1,
        rows: int = 1_000_000,
    ) -> Self:
        """Learn from inputs alone; the model labels them.

        Parameters
        ----------
        X : inputs or path
            Inputs that the view accepts, a .parquet or .csv table, or a folder of images.
        y : ignored
            For compatibility with scikit-learn: the explainer learns from the model's predictions.
        predictions : array, frame or path, optional
            The model's predictions for X, or the .parquet file that `l2x.label` wrote for the same rows. The
            model is then not queried for labels.
        journal : path, optional
            A .parquet file that stores predictions as they arrive. If the model fails, the next `fit` queries
            only the remaining rows; if `queries` is a time limit, also a few rows again.
        validation : float
            Share of X that is held out, for early stopping and the choice of the best weights.
        rows : int
            Maximum number of rows that are drawn at random from a table on disk; memory does not grow with
            the table. The columns are those that the model knows by name, or all.
        """
        started = time.perf_counter()
        settings, black_box = self._settings(), self._wrap()
        run, objective = settings.run, settings.objective
        X, predictions = _read(X, predictions, rows, settings, black_box)
        view = clone(settings.features).attach(self.model).fit(X)
        queries = settings.limit(black_box, view, known=predictions is not None)
        timed = isinstance(queries, timedelta)
        labels = Labels(predictions, None if journal is None else Path(journal), timed)
        fill = settings.rows_to_fill(black_box, known=predictions is not None)
        data = prepare(
            black_box, view, X, labels, settings.problem, run=run, validation=validation, fill=fill
        )
        with run.seeded():
            selector = self.build_selector(view, data.likelihood).to(run.device)
            limit = rows_within(queries, data.seconds_per_row)
            most = settings.queries_per_call(limit, selector, data)
            memory = None if view.draws_replacements else Memory(view.d, self.seed)
            surrogate = self.build_surrogate(
                view, data.likelihood, black_box, run.device, memory=memory, queries_per_call=most
            )
            objective.fit(surrogate, data, run)  # section 3.1: q(y | x_S)
            if objective.fixed:
                fit_text_encoder(selector, surrogate, data, run)
            train = fit_paths if isinstance(selector, SequentialSelector) else fit_selector
            finished = train(selector, surrogate, data, settings.sampler, run)  # equation 5
        sequential = isinstance(selector, SequentialSelector)
        sizes = (path_sizes_of if sequential else sizes_of)(selector, surrogate, data)
        prior = PRIOR
        if objective.queries_model and self._no_polish(selector, surrogate) is None:
            prior = learned_prior(selector, surrogate, data, (limit - data.queried_masked) // CALIBRATING)
        if not finished:
            warnings.warn("Training was interrupted; the best weights so far are used.", stacklevel=2)
        self._set_fitted(data, selector, surrogate, sizes, prior, run)
        self._check(data, limit, progress=run.plan.progress)
        self.fit_seconds_ = time.perf_counter() - started
        self.fitted_at_: datetime | None = datetime.now(UTC)
        return self

    def _settings(self) -> _Settings:
        """Check everything that can be checked without data."""
        objective, features = as_objective(self.objective), _checked_view(self.features)
        ours, recipe = recipes_of(features).ours, _recipe(objective, features)
        sampler = self.sampler or recipe.sampler or PlackettLuce()
        if self.selector == SEQUENTIAL:
            sampler = sampler_of_paths(self.sampler, objective, uses_prediction=self.uses_prediction)
        elif not isinstance(self.selector, nn.Module | Mapping | None):
            raise InputError(
                f"selector is {shown(self.selector)}; choose 'sequential', a network or its options."
            )
        if not isinstance(self.predictor, nn.Module | Mapping | None):
            raise InputError(f"predictor is {shown(self.predictor)}; choose a network or its options.")
        check_compatible(objective, sampler)
        target = self.target or recipe.target
        if target not in get_args(Target):
            raise InputError(f"target is {target!r}; choose 'distribution' or 'class'.")
        if not isinstance(self.uses_prediction, bool):
            raise InputError(f"uses_prediction is {self.uses_prediction!r}; expected True or False.")
        if sampler.signed and self.uses_prediction:
            raise InputError(
                f"{type(sampler).__name__}() explains the surrogate, which does not read the model's "
                "prediction; remove uses_prediction=True."
            )
        problem = Problem(self.k, target, self.uses_prediction, sampler.signed)
        queries = checked_queries(self.queries)
        if self.mixed is not None and not is_whole(self.mixed, least=0):
            raise InputError(f"mixed is {shown(self.mixed)}; expected a number of rows, 0 or more, or None.")
        plan = self.training or replace(ours.plan, selector=sampler.phase(ours.plan.selector))
        if self.selector == SEQUENTIAL:
            plan = plan_of_paths(plan, features)
        run = Run.begin(plan, self.seed, pick_device(self.device))
        return _Settings(features, objective, sampler, problem, queries, self.mixed, run)

    def _set_fitted(
        self,
        data: TrainingRows,
        selector: nn.Module,
        surrogate: BaseSurrogate,
        sizes: Sizes | PathSizes | None,
        prior: float,
        run: Run,
    ) -> None:
        """Set the fitted attributes, all at the end: an earlier failure leaves a previous fit unchanged."""
        self.features_, self.selector_ = data.view, selector
        self.surrogate_ = FittedSurrogate(data.view, surrogate, data.black_box)
        self.sizes_, self.prior_ = sizes, prior
        self.history_ = run.history
        self.n_features_in_ = data.view.d
        self.classes_: Array | None = None
        if data.black_box.task != "regression":
            known = data.black_box.classes
            self.classes_ = np.arange(data.likelihood.outputs) if known is None else known
        self.reference_: Reference | None = Reference.of(data, lambda X, given: self._ranked(X, given)[0])

    def _check(self, data: TrainingRows, limit: int, *, progress: bool) -> None:
        """Run the self-check; print the queries so far and the result; warn if needed."""
        left = limit - data.queried_masked
        check = self_check(self._explain_to_check, self.surrogate_, data, queries=left, seed=self.seed)
        self.check_: SelfCheck = check
        if check.by_model is not None:
            left = limit - data.queried_masked
            found = guaranteed(self.explain_quietly, data, queries=left)
            self.check_ = check = replace(check, guarantees=found)
        self.rows_queried_, self.queries_ = data.queried, data.queried_masked
        lines = [check.sentence, check.guarantee, check.hint]
        if as_objective(self.objective).queries_model:
            queried = f"Queried the model for {data.labelled:,} rows and {self.queries_:,} masked rows"
            lines.insert(0, f"{queried} (limit {limit:,}).")
        for line in filter(None, lines):
            say(line, visible=progress)
        for message in check.warnings:
            warnings.warn(message, stacklevel=3)

    def _explain_to_check(self, X: Any, predictions: Array) -> Explanation:
        """Explain X as `check_` and `still_valid` do, so that their figures can be compared."""
        return self.explain_quietly(X, predictions=predictions)

    def explain(
        self,
        X: Any,
        k: int | None = None,
        *,
        predictions: Any = None,
        keep: float | None = None,
        polish: bool | None = None,
        verify: bool = False,
        refine: int = 0,
    ) -> Explanation:
        """Return the k features that each prediction depends on most.

        The selector proposes features in one forward pass. If the model's predictions are known, the
        surrogate then polishes the proposal of each row. Without them, and with `polish=False`, the forward
        pass is all, and the model is never called. The result is deterministic, and memory beyond X and the
        scores does not grow with the number of rows. Categories that did not occur in training carry no
        information; `explanation.unseen` counts them, and a warning names them.

        Parameters
        ----------
        X : inputs
            As the view accepts them.
        k : int, optional
            Features per explanation; default the explainer's own.
        predictions : array or frame, optional
            The model's predictions for X, class probabilities (n, classes) or predicted values. They spare
            polishing, `explanation.predictions` and effects a query; an explainer with `uses_prediction=True`
            needs them and queries the model by default.
        keep : float, optional
            Keep only as many features, at most k, as a row needs, so that on average this share of the
            information in the k features remains; `explanation.sizes` has the numbers. Shares from 0.5 to
            0.999 and sizes up to the explainer's own k are learned on held-out rows; larger shares keep all
            k. Information is measured by the surrogate, which is evaluated for 0 .. k features of each row
            and takes longer than the selection. The model may need more features: see `score(X, keep=...)`.
            The selection is not polished.
        polish : bool, optional
            Whether to search near the proposed features for those from which the surrogate best predicts the
            model's prediction for this row. By default it does if `predictions` are passed or a local model
            is attached, which is then queried once per row. An `Endpoint` is queried only with
            `polish=True`, `verify` or `refine`.
        verify : bool
            Query the model for each row with its selected features alone; `explanation.confirmed` shows where
            it predicts the same: the same class, or a value within the tolerance of `check_`.
        refine : int
            Maximum number of such queries per row. Where the model does not confirm the selection, it is
            queried for other features that the surrogate ranks highly, until it confirms some.
            `explanation.queries` has the numbers.

        Returns
        -------
        Explanation
            The scores and the selected features of each row.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 5))
        >>> def model(X):
        ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
        ...     return np.stack([1 - p, p], axis=1)
        >>> explainer = Explainer(model, k=1, training=TrainingPlan.quick()).fit(X)
        >>> refined = explainer.explain(X[:3], refine=10)
        >>> refined.confirmed.tolist(), refined.queries.tolist()
        ([True, True, True], [1, 1, 1])
        """
        explanation = self.explain_quietly(
            X, k, predictions=predictions, keep=keep, polish=polish, verify=verify, refine=refine
        )
        warn_unseen(explanation.unseen, stacklevel=3)
        return explanation

    def explain_quietly(
        self,
        X: Any,
        k: int | None = None,
        *,
        predictions: Any = None,
        keep: float | None = None,
        polish: bool | None = None,
        verify: bool = False,
        refine: int = 0,
    ) -> Explanation:
        """Explain without a warning, for callers that collect `unseen` over many batches; see `explain`."""
        self.check_fitted()
        view = self.features_
        X = view.check(X)
        k = checked_k(view, self.k if k is None else k)
        polish = self.polishes(polish, keep, verify=verify, refine=refine, given=predictions is not None)
        known = self._known_predictions(X, predictions)
        scores, counts = self._ranked(X, known)
        if known is None and (polish or verify or refine):
            known = self._queried(X)
        explanation = Explanation(
            scores,
            k,
            view.names_,
            inputs=X,
            view=view,
            unseen=counts,
            source=SurrogateSource(
                self.surrogate_,
                None if self.classes_ is None else list(self.classes_),
                self.selector_ if self._signed else None,
            ),
            known_predictions=known,
            sequential=isinstance(self.selector_, SequentialSelector),
        )
        if keep is not None:
            explanation = self._shortened(explanation, keep)
        return self._right_for_every_row(explanation, polish, verify, refine)

    def _shortened(self, explanation: Explanation, keep: float) -> Explanation:
        """Return the explanation with as many features as each row needs."""
        X, scores, sizes = explanation.inputs, explanation.scores, self.known_sizes()
        if isinstance(sizes, PathSizes):
            prefixes = self.surrogate_.prefixes(X, scores, sizes.k)
            return sizes.shortened(explanation, keep, prefixes, self.surrogate_.likelihood)
        return sizes.shortened(explanation, keep, partial(self._surrogate_inputs, X, scores))

    def would_query(
        self,
        *,
        given: bool = False,
        keep: float | None = None,
        polish: bool | None = None,
        verify: bool = False,
        refine: int = 0,
    ) -> bool:
        """Return whether `explain` would query the model.

        Parameters `polish`, `keep`, `verify` and `refine` are those of `explain`; `given` is whether it gets
        predictions.
        """
        polish = self.polishes(polish, keep, verify=verify, refine=refine, given=given)
        return verify or refine > 0 or (not given and (polish or self.uses_prediction))

    def _right_for_every_row(
        self, explanation: Explanation, polish: bool, verify: bool, refine: int
    ) -> Explanation:
        """Polish, refine or verify the proposals of the selector."""
        X, known = explanation.inputs, explanation.known_predictions
        if known is None or not (polish or verify or refine):
            return explanation
        polisher = Polisher(self.surrogate_, self.preserved, self.prior_)
        proposal = X, explanation.scores, explanation.k, known
        if refine:
            found = polisher.refine(self.black_box(), *proposal, queries=refine, tolerance=self._tolerance)
            return replace(explanation, chosen=found.chosen, confirmed=found.confirmed, queries=found.queries)
        if polish:
            explanation = replace(explanation, chosen=polisher.polish(*proposal))
        if not verify:
            return explanation
        confirmed = verified(self.black_box(), self.surrogate_, X, explanation.mask, known, self._tolerance)
        return replace(explanation, confirmed=confirmed, queries=np.ones(len(X), dtype=np.int64))

    def polishes(
        self,
        polish: bool | None = None,
        keep: float | None = None,
        *,
        verify: bool = False,
        refine: int = 0,
        given: bool = False,
    ) -> bool:
        """Return whether `explain` would polish; raise an InputError for options that exclude each other.

        Parameters `polish`, `keep`, `verify` and `refine` are those of `explain`; `given` is whether it gets
        predictions.
        """
        _check_refine(refine)
        if not isinstance(verify, bool | np.bool_):
            raise InputError(f"verify is {shown(verify)}; expected True or False.")
        if polish is not None and not isinstance(polish, bool | np.bool_):
            raise InputError(f"polish is {shown(polish)}; expected True, False or None.")
        if keep is not None and (polish or refine):
            option = "polish=True" if polish else f"refine={refine}"
            raise InputError(f"keep= selects by the learned scores alone; leave out {option}, or keep=.")
        if (verify or refine) and self.model is None:
            option = f"refine={refine}" if refine else "verify=True"
            raise InputError(
                f"{option} queries the model, and this explainer has none: l2x.load(path, model=...)."
            )
        if polish is not None and not polish:
            if refine:
                raise InputError("refine= begins with polished selections; leave out polish=False.")
            return False
        unable = self._no_polish(self.selector_, self.surrogate_.surrogate, refine=refine > 0)
        if (polish or refine) and unable:
            raise InputError(f"Selections cannot be polished: {unable}.")
        if polish is not None or unable or keep is not None:
            return bool(polish)
        local = self.model is not None and not isinstance(self.black_box().predict, Endpoint)
        usual = as_objective(self.objective).fixed  # joint training is the paper's: one forward pass
        return usual and (given or self.uses_prediction or local or refine > 0)

    def _no_polish(
        self, selector: nn.Module, surrogate: BaseSurrogate, *, refine: bool = False
    ) -> str | None:
        """Return why selections cannot be polished, or refined; None if they can."""
        if self._signed:
            return f"features are ranked by the values that {type(self.sampler).__name__}() learned"
        if isinstance(selector, SequentialSelector):
            return (
                "a sequential selector guarantees that selections do not leak, and polishing would break that"
            )
        if network_of(surrogate) is None and not refine:
            return "objective='model' has no surrogate network"
        return None

    @property
    def preserved(self) -> Target:
        """What the selected features preserve: `target`, or the default of the view's recipe."""
        return self.target or _recipe(as_objective(self.objective), self.features_).target

    @property
    def _tolerance(self) -> float | None:
        """The error within which predicted values count as the same; None for classes."""
        if self.classes_ is not None:
            return None
        checked = self.check_.decisive
        if checked is not None and checked.tolerance is not None:
            return checked.tolerance
        return CLOSE * float(max(self.surrogate_.likelihood.scale))  # type: ignore[attr-defined]

    def _ranked(self, X: Any, known: Array | None) -> tuple[Array, Mapping[str, int]]:
        """Return the scores (n, d) of checked inputs, and by column the rows with unseen categories."""
        if not self._signed:
            return input_scores(self.features_, self.selector_, X, self._prediction_input(known))
        outputs = None if known is None or self.classes_ is None else known.argmax(axis=1)
        found = signed_values(self.surrogate_, self.selector_, X, outputs)
        return found.ranking, found.unseen

    @property
    def _signed(self) -> bool:
        """Whether the selector returns signed values of one output of each row."""
        return self.sampler is not None and self.sampler.signed

    def known_sizes(self) -> Sizes | PathSizes:
        """Return what `keep=` needs; raise an InputError if it was not learned."""
        if self.sizes_ is None:
            raise InputError(
                f"keep= is not available: the explainer held out fewer than {TOO_FEW} rows, or could not "
                "query the model for them; fit it again, with more rows or queries=."
            )
        return self.sizes_

    def _surrogate_inputs(self, X: Any, scores: Array, rows: slice) -> Array:
        parts = self.surrogate_.prefixes(self.features_.take(X, rows), scores[rows], self.known_sizes().k)
        return np.concatenate([surrogate_inputs(part, self.surrogate_.likelihood) for part in parts])

    def _known_predictions(self, X: Any, predictions: Any) -> Array | None:
        """Return checked predictions for checked inputs; None unless given or needed by the selector."""
        likelihood = self.surrogate_.likelihood
        if predictions is not None:
            logits = self.model is not None and self.black_box().logits
            return checked_predictions(predictions, len(X), likelihood, classes=self.classes_, logits=logits)
        return self._queried(X) if self.uses_prediction else None

    def _queried(self, X: Any) -> Array:
        """Query the model for checked inputs."""
        if not len(X):
            return np.zeros((0, self.surrogate_.likelihood.outputs))
        if self.model is None:
            what = (
                "This explainer is prediction-aware"
                if self.uses_prediction
                else "Polishing needs predictions"
            )
            raise InputError(
                f"{what}: pass explain(X, predictions=...), or load the explainer with its model, "
                "l2x.load(path, model=...)."
            )
        black_box = self.black_box()
        predictions = query(black_box, self.features_, X)
        check_outputs(predictions, self.surrogate_.likelihood, black_box)
        return predictions

    def _prediction_input(self, known: Array | None) -> Tensor | None:
        """Return what a prediction-aware selector reads of the predictions, else None."""
        if not self.uses_prediction or known is None:
            return None
        likelihood = self.surrogate_.likelihood
        return likelihood.prediction_input(likelihood.targets(known))

    def with_model(self, model: Any) -> Explainer:
        """Return a copy with `model` attached, for an explainer that was loaded without one."""
        attached = copy.copy(self)
        attached.model = model
        if hasattr(self, "surrogate_"):
            attached.features_ = copy.copy(self.features_).attach(model)
            attached.surrogate_ = replace(
                self.surrogate_.with_model(attached.black_box()), view=attached.features_
            )
        return attached

    def transform(self, X: Any) -> Array:
        """Return the mask of the features selected in X, (n, d), for pipelines."""
        return self.explain(X).mask

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features, for `set_output`; `input_features` is ignored."""
        self.check_fitted()
        return np.asarray(self.features_.names_, dtype=object)

    def attribute(self, inputs: Any, target: Any = None) -> Any:
        """Return attributions in the form of captum's methods.

        The result is a tensor like `inputs`, in a tuple if `inputs` is one: the signed effect of each
        selected feature, and zero for unselected features. `target` is the position of the class that is
        explained; by default it is the predicted class of each row.
        """
        from l2x.display import attribution

        if isinstance(inputs, tuple) and len(inputs) == 1:  # captum's metrics pass tensors in tuples
            return (self.attribute(inputs[0], target),)
        if not isinstance(inputs, Tensor):
            kind = type(inputs).__name__
            raise InputError(f"attribute takes a tensor, as captum's methods do, not a {kind}; use explain.")
        explanation = self.explain(inputs)
        if target is not None:
            outputs = _positions(target, len(inputs), self.surrogate_.likelihood.outputs)
            explanation = replace(explanation, explained=outputs)
        return attribution(explanation, inputs)

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        keep: float | None = None,
        polish: bool | None = None,
        refine: int = 0,
    ) -> float:
        """Return the post-hoc accuracy: how often the selected features of X alone give the same class.

        For regression it is the R² of these predictions. The float prints with the values for random features
        and for all other features. `y` is ignored, for compatibility with scikit-learn; `keep`, `polish` and
        `refine` are those of `explain`.
        """
        return scored(self.black_box(), X, self.explain(X, keep=keep, polish=polish, refine=refine))

    def still_valid(
        self, X: Any, *, rows: int = 1000, expected: float | None = None, seed: int = 0
    ) -> Validity:
        """Check whether the explainer is still valid for new rows, or whether model or inputs have changed.

        A sample is verified: the model is queried for whole rows and for their selected features alone. The
        share of rows with the same class (for regression, with an error that 90 % of the held-out rows of
        `fit` stayed below) is compared with that of `fit`. Inputs, predictions and scores are compared with
        the counts of training rows that the explainer stores.

        Parameters
        ----------
        X : inputs
            New rows, at least 30; a thousand or more give a clear result.
        rows : int
            Maximum number of rows that the model is queried for, twice each. Inputs are compared on up to
            10,000 rows.
        expected : float, optional
            The share of confirmed rows to expect, if `fit` did not query the model for masked rows.
        seed : int
            For the samples.

        Returns
        -------
        Validity
            Its `status` is "valid", "drifting" or "stale". It prints as sentences.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> def model(X, column=1):
        ...     p = 1 / (1 + np.exp(-4 * X[:, column]))
        ...     return np.stack([1 - p, p], axis=1)
        >>> plan = TrainingPlan.quick()
        >>> explainer = Explainer(model, k=1, training=plan).fit(rng.normal(size=(300, 5)))
        >>> new = rng.normal(size=(200, 5))
        >>> explainer.still_valid(new).status
        'valid'
        >>> explainer.with_model(lambda X: model(X, column=2)).still_valid(new).status
        'stale'
        >>> explainer.still_valid(new + [0, 0, 0, 0, 3]).columns
        ('x4',)
        """
        examiner = self.examiner(expected=expected)
        X = self.features_.check(X)
        return examiner.conclude(examined(examiner, X, rows=rows, most=COUNTED_ROWS, seed=seed))

    def examiner(self, *, expected: float | None = None) -> Examiner:
        """Return what `still_valid` verifies rows with, for callers that verify rows as they arrive.

        Parameters
        ----------
        expected : float, optional
            See `still_valid`.

        Returns
        -------
        Examiner
            Its `verify` and `count` return tallies, and `conclude` compares their sum with `fit`.
        """
        self.check_fitted()
        likelihood = self.surrogate_.likelihood
        return Examiner(
            self.features_,
            self.black_box(),
            likelihood,
            self.reference_,
            Expectation.of(self.check_, likelihood, expected),
            lambda X, predictions: self._explain_to_check(X, predictions).mask,
            lambda X, predictions: self._ranked(X, predictions)[0],
        )

    def save(self, path: str | Path) -> Path:
        """Write everything that `explain` needs to one file, without pickle; see `l2x.load`."""
        from l2x.export import save

        return save(self, path)

    def export_onnx(self, path: str | Path, X: Any = None, *, effects: bool = False) -> Path:
        """Write an ONNX file that explains without l2x and torch.

        The graph maps raw inputs to scores, indices and mask; with `effects`, for k up to 6, also to signed
        effects on every class, and what they add up to. Before it is written to `path`, it is compared
        with this explainer on generated rows, or on the rows X.
        """
        from l2x.export import export_onnx

        return export_onnx(self, path, X, effects=effects)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # `transform` returns booleans
        return tags

    def __sklearn_clone__(self) -> Explainer:
        """Return a new explainer of the same model: scikit-learn's own clone would reset a fitted model."""
        settings = self.get_params(deep=False)
        model = settings.pop("model")
        return type(self)(model, **{name: clone(value, safe=False) for name, value in settings.items()})

    def check_fitted(self) -> None:
        """Raise a NotFittedError unless the explainer was fitted or loaded."""
        if not hasattr(self, "selector_"):
            raise NotFittedError("This Explainer is not fitted yet; call fit(X) first, or l2x.load(path).")

    def black_box(self) -> BlackBox:
        """Return the wrapped model: the same object until `fit` is called or `model` is replaced."""
        model, black_box = getattr(self, "_wrapped", (None, None))
        return self._wrap() if black_box is None or model is not self.model else black_box

    def _wrap(self) -> BlackBox:
        """Wrap the model again and store the black box, which may hold a session or connections."""
        if self.model is None:
            raise InputError(
                "This explainer has no model; pass it: Explainer(model, k=...), l2x.load(path, model=...)."
            )
        black_box = as_black_box(self.model)
        self._wrapped = (self.model, black_box)
        return black_box

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the black box: sessions cannot be pickled."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_wrapped"}

    def build_selector(self, view: View, likelihood: Likelihood) -> nn.Module:
        """Return a new selector, w_θ, for a fitted view and a likelihood."""
        if isinstance(self.selector, str):
            return SequentialSelector(view, self.k)
        second = self.uses_prediction or self._signed
        options = {"prediction_size": likelihood.outputs} if second else {}
        return _network(self.selector, networks_of(view, likelihood.outputs).selector, **options)

    def build_surrogate(
        self,
        view: View,
        likelihood: Likelihood,
        black_box: BlackBox | None,
        device: torch.device,
        **limits: Any,
    ) -> BaseSurrogate:
        """Return a new surrogate, q, as the objective needs it; see `Ingredients`."""

        def build_predictor(sees_mask: bool) -> nn.Module:
            build = networks_of(view, likelihood.outputs).predictor
            return _network(self.predictor, build, sees_mask=sees_mask).to(device)

        given = Ingredients(likelihood, build_predictor, black_box, self.seed, **limits)
        return as_objective(self.objective).build(given)


def explain(
    model: Any,
    X: Any,
    k: int,
    *,
    features: View | None = None,
    refine: int = 30,
    mixed: int = MIXED_ROWS,
    seed: int = 0,
) -> Explanation:
    """Explain a few rows without a separate `fit`: learn from them, polish, and refine with the model.

    A short training plan learns from X and, for tables, from rows mixed from pairs of them, which the model
    labels. For more than a few hundred rows, or for rows to come, fit an `Explainer`: it learns once.

    Parameters
    ----------
    model : anything that predicts
        See `as_black_box`.
    X : inputs
        At least two rows, which are explained.
    k : int
        Features per explanation.
    features : View, optional
        What one feature is; default `Columns()`.
    refine : int
        Maximum number of queries per row, as in `Explainer.explain`; 0 for none.
    mixed : int
        As in `Explainer`.
    seed : int
        The same seed, data and machine give the same explanation.

    Returns
    -------
    Explanation
        `confirmed` shows in which rows the model predicts the same from the selected features alone.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 1]))
    ...     return np.stack([1 - p, p], axis=1)
    >>> explanation = explain(model, X, k=1)
    >>> explanation.names[0], bool(explanation.confirmed.mean() > 0.9)
    (['x1'], True)
    """
    _check_refine(refine)
    view = clone(_checked_view(features))
    plan = TrainingPlan.quick(view)
    explainer = Explainer(model, k, features=view, mixed=mixed, training=plan, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about few rows: each row is verified
        explainer.fit(X)
    return explainer.explain(X, refine=refine)


@dataclass(frozen=True)
class _Settings:
    """The checked settings of one fit."""

    features: View
    objective: Objective
    sampler: Sampler
    problem: Problem
    queries: int | timedelta | None
    mixed: int | None
    run: Run

    def rows_to_fill(self, black_box: BlackBox, *, known: bool) -> int:
        """Return up to how many rows mixed ones are added, by default 0 if predictions are `known`."""
        if self.mixed is not None:
            return self.mixed
        local = not isinstance(black_box.predict, Endpoint)
        usual = self.objective.queries_model and self.objective.fixed and self.queries is None
        return FEW_ROWS if local and usual and not (known or self.sampler.signed) else 0

    def limit(self, black_box: BlackBox, view: View, *, known: bool) -> int | timedelta:
        """Return the limit of queries, by default 0 if predictions are `known`; fail if it is too low."""
        queries = self.queries
        if queries is None:
            most = recipes_of(view).default_queries(view)
            queries = default_queries(most, black_box.predict, brought=known)
        if isinstance(self.objective, Model) and not isinstance(queries, timedelta):
            check_enough(queries, self.run.plan.selector.steps, self.sampler.subsets_of(view.d))
        return queries

    def queries_per_call(self, limit: int, selector: nn.Module, data: TrainingRows) -> float:
        """Return how many masked rows one evaluation in training may query; announce slow queries."""
        usable = without_reserve(limit) if self.queries is None else limit
        evaluations = evaluations_of_paths if isinstance(selector, SequentialSelector) else evaluations_of
        calls = evaluations(selector, self.run.plan, data, self.sampler)
        if isinstance(self.objective, Model):
            check_enough(usable, sum(times for times, _ in calls), self.sampler.subsets_of(data.view.d))
        if self.objective.queries_model and not self.sampler.signed:
            wanted = sum(times * rows for times, rows in calls)
            subsets = len(data.train) << min(data.view.d, 40)  # none is queried twice
            announce(min(usable, wanted, subsets), data.seconds_per_row, visible=self.run.plan.progress)
        return per_call(usable, calls)


def _positions(target: Any, n: int, outputs: int) -> Array:
    """Return the explained class, or predicted value, of n rows, as captum's `target` gives it."""
    given = np.asarray(tensor_to_array(target))
    fits = given.dtype.kind in "iu" and given.shape in ((), (1,), (n,))
    if not fits or ((given < 0) | (given >= outputs)).any():
        raise InputError(
            f"target is {shown(target)}; expected the position of a class or predicted value, 0 to "
            f"{outputs - 1}, or one for each of {n} rows."
        )
    return np.broadcast_to(given.astype(np.int64), n)


def _check_refine(refine: Any) -> None:
    if not is_whole(refine, least=0):
        raise InputError(
            f"refine is {shown(refine)}; expected a number of queries per row, such as 30, or 0."
        )


def _checked_view(features: Any) -> View:
    """Return the view, by default `Columns()`; raise an InputError for anything else, such as a class."""
    if features is None:
        return Columns()
    if not isinstance(features, View):
        example = f"{features.__name__}()" if isinstance(features, type) else "l2x.Words()"
        raise InputError(f"features is {shown(features)}; expected a view, such as {example}, or None.")
    return features


def _read(X: Any, predictions: Any, rows: int, settings: _Settings, black_box: BlackBox) -> tuple[Any, Any]:
    """Read inputs and predictions that are given as paths; return others unchanged."""
    on_disk, seed = isinstance(X, str | Path) and settings.features.kind != "image", settings.run.seed
    if isinstance(predictions, str | Path):
        predictions = read_predictions(predictions, rows=rows if on_disk else None, seed=seed)
    if on_disk:
        table = Table(Path(X))
        X = read_training_rows(
            table, settings.features, model_columns=black_box.columns, rows=rows, seed=seed
        )
    return X, predictions


def _recipe(objective: Objective, features: View) -> Recipe:
    """Return our recipe for a view; for joint training the paper's."""
    return recipes_of(features).ours if objective.fixed else Recipe()


def _network(given: nn.Module | Options | None, build: Any, **options: Any) -> nn.Module:
    """Return a copy of the user's own module, or the view's network with these options."""
    if isinstance(given, nn.Module):
        return copy.deepcopy(given)
    try:
        network: nn.Module = build(**(options | dict(given or {})))
    except TypeError as error:
        raise InputError(f"The network cannot have the options {shown(given)}: {error}.") from error
    return network


def warn_unseen(unseen: Mapping[str, int], *, stacklevel: int = 2) -> None:
    """Warn about categories that did not occur in training, with the number of rows."""
    if unseen:
        most = sorted(unseen.items(), key=lambda item: -item[1])
        counts = some([f"{name} ({count:,} rows)" for name, count in most])
        warnings.warn(f"Categories that did not occur in the training rows: {counts}.", stacklevel=stacklevel)
