"""An independent judge: q(y | x_S, S) fitted on random subsets, of rows that no explainer saw."""

from __future__ import annotations

from typing import Any

from l2x.features import View, fitted_view
from l2x.learning import (
    FittedQ,
    NetworkQ,
    Options,
    Run,
    TrainingPlan,
    fit_surrogate,
    networks_of,
    prepare,
    recipes_of,
)
from l2x.model import as_black_box


def fit_judge(
    model: Any,
    X: Any,
    k: int,
    *,
    responses: Any = None,
    features: View | None = None,
    predictor: Options | None = None,
    training: TrainingPlan | None = None,
    seed: int = 1_000_003,
) -> FittedQ:
    """EVAL-X (Jethani et al. 2021): a q that was fitted on random subsets and so knows no explainer's code.

    Parameters
    ----------
    model : the model that is explained
    X : rows to fit on, best rows that were not used to fit the explainers it judges
    k : how many features are selected; half of the random subsets have this size, the others any
    responses : the model's answers for X, if they are known
    features : what one feature is; a fitted view, such as `explainer.features_`, is taken as it is: the judge
        then reads inputs as the explainer does. By default `Columns()`, fitted on X
    predictor : options of the view's predictor, for a judge of another kind than the explainer's own q
    training : how it is trained, by default as the view has it; only the plan's value phase counts
    seed : another default than an explainer's, so that the two are fitted independently

    Returns
    -------
    A `FittedQ`: `predict(X, mask)` are q(y | x_S), `log_q(X, mask, answers)` its log-likelihoods.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> quick = TrainingPlan.quick().with_steps(value=20)
    >>> judge = fit_judge(lambda X: np.full((len(X), 2), 0.5), X, k=1, training=quick)
    >>> judge.predict(X[:2], np.ones((2, 3), dtype=bool)).round(1).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    view = fitted_view(features, X)
    run = Run.begin(training or recipes_of(view).ours.plan, seed)
    data = prepare(as_black_box(model), view, X, responses, k=k, validation=0.1, run=run)
    with run.seeded():
        q = NetworkQ(
            networks_of(view, data.likelihood.outputs).predictor(**(predictor or {})), data.likelihood
        )
        fit_surrogate(q, data, run, label="fitting the judge")
    return FittedQ(view, q, data.black_box)
