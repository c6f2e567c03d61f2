"""Section 3 of the paper: surrogate, objectives, samplers, selector, training, self-check.

_rows          training rows, the model's predictions as targets, and their likelihood
_training      the training loop, and plans for it
_surrogate     q(y | x_S): a network, the model itself, or both; how it is fitted
objectives     which surrogate training maximises
samplers       how subsets are drawn, and how the gradient is estimated
_selector      w_θ: how it is trained, and its scores for raw inputs
networks       the networks of each view, and the recipes that train them
_sequential    a selector that reads only what it has selected so far, and its training
_effects       signed contributions of the selected features
_polish        selections that are right for every row: explain(X, polish=, verify=, refine=)
_sizes         how many features each row needs: explain(X, keep=...)
_path_sizes    the same for decision paths, which stop by what they have read
_agreement     post-hoc accuracy, the removal test, and intervals
_self_check    what `fit` checks on held-out rows
_drift         counts of training rows, and how far new rows differ from them
_validity      whether an explainer is still valid for new rows
"""

from l2x.learning import objectives, samplers
from l2x.learning._agreement import (
    LEVEL,
    Bootstrap,
    Estimate,
    RemovalTest,
    agreement,
    at_least,
    complement_of,
    confirmed_rows,
    exact_interval,
    losses,
    masked_predictions,
    posthoc_accuracy,
    posthoc_r2,
    random_selections,
    removal_test,
    same_class,
    scored,
)
from l2x.learning._drift import COUNTED_ROWS, Drift, Reference
from l2x.learning._effects import (
    EXACT,
    SurrogateSource,
    shapley_values,
    shapley_weights,
    signed_values,
    subset_outputs,
    subsets_of,
)
from l2x.learning._path_sizes import PathSizes, path_sizes_of
from l2x.learning._polish import CLOSE, PRIOR, Polisher, learned_prior, verified
from l2x.learning._rows import (
    BITS,
    FEW_ROWS,
    Categorical,
    Gaussian,
    Labels,
    Likelihood,
    Problem,
    Rows,
    Target,
    TrainingRows,
    check_outputs,
    checked_predictions,
    likelihood_of,
    prepare,
    split,
    training_predictions,
)
from l2x.learning._selector import (
    evaluations_of,
    fit_selector,
    fit_text_encoder,
    input_scores,
    only_selectable,
)
from l2x.learning._self_check import Guarantee, SelfCheck, guaranteed, self_check
from l2x.learning._sequential import (
    SEQUENTIAL,
    SequentialSelector,
    evaluations_of_paths,
    fit_paths,
    plan_of_paths,
    sampler_of_paths,
)
from l2x.learning._sizes import TOO_FEW, Sizes, checked_share, sizes_of, surrogate_inputs
from l2x.learning._surrogate import (
    CELLS_AT_ONCE,
    BaseSurrogate,
    Conditional,
    ConditionalModel,
    FittedSurrogate,
    NetworkSurrogate,
    fit_probe,
    fit_surrogate,
    network_of,
)
from l2x.learning._training import Phase, Run, TrainingPlan, checked_seed, optimise, pick_device
from l2x.learning._validity import Examiner, Expectation, Status, Tally, Validity, examined
from l2x.learning.networks._columns import ColumnSelector, perceptron
from l2x.learning.networks._patches import channels_last
from l2x.learning.networks._recipes import (
    Networks,
    Options,
    Recipe,
    Recipes,
    in_chunks,
    networks_of,
    plan_in_small_batches,
    recipes_of,
    register,
)
from l2x.learning.networks._sentences import SentenceEncoder
from l2x.learning.networks._words import WindowConvolution, Windows, WordEmbedding, weighted_mean
from l2x.learning.objectives import (
    Ingredients,
    Model,
    Objective,
    as_objective,
    check_compatible,
)
from l2x.learning.samplers import ConcreteMax, PlackettLuce, Sampler

__all__ = [
    "BITS",
    "CELLS_AT_ONCE",
    "CLOSE",
    "COUNTED_ROWS",
    "EXACT",
    "FEW_ROWS",
    "LEVEL",
    "PRIOR",
    "SEQUENTIAL",
    "TOO_FEW",
    "BaseSurrogate",
    "Bootstrap",
    "Categorical",
    "ColumnSelector",
    "ConcreteMax",
    "Conditional",
    "ConditionalModel",
    "Drift",
    "Estimate",
    "Examiner",
    "Expectation",
    "FittedSurrogate",
    "Gaussian",
    "Guarantee",
    "Ingredients",
    "Labels",
    "Likelihood",
    "Model",
    "NetworkSurrogate",
    "Networks",
    "Objective",
    "Options",
    "PathSizes",
    "Phase",
    "PlackettLuce",
    "Polisher",
    "Problem",
    "Recipe",
    "Recipes",
    "Reference",
    "RemovalTest",
    "Rows",
    "Run",
    "Sampler",
    "SelfCheck",
    "SentenceEncoder",
    "SequentialSelector",
    "Sizes",
    "Status",
    "SurrogateSource",
    "Tally",
    "Target",
    "TrainingPlan",
    "TrainingRows",
    "Validity",
    "WindowConvolution",
    "Windows",
    "WordEmbedding",
    "agreement",
    "as_objective",
    "at_least",
    "channels_last",
    "check_compatible",
    "check_outputs",
    "checked_predictions",
    "checked_seed",
    "checked_share",
    "complement_of",
    "confirmed_rows",
    "evaluations_of",
    "evaluations_of_paths",
    "exact_interval",
    "examined",
    "fit_paths",
    "fit_probe",
    "fit_selector",
    "fit_surrogate",
    "fit_text_encoder",
    "guaranteed",
    "in_chunks",
    "input_scores",
    "learned_prior",
    "likelihood_of",
    "losses",
    "masked_predictions",
    "network_of",
    "networks_of",
    "objectives",
    "only_selectable",
    "optimise",
    "path_sizes_of",
    "perceptron",
    "pick_device",
    "plan_in_small_batches",
    "plan_of_paths",
    "posthoc_accuracy",
    "posthoc_r2",
    "prepare",
    "random_selections",
    "recipes_of",
    "register",
    "removal_test",
    "same_class",
    "sampler_of_paths",
    "samplers",
    "scored",
    "self_check",
    "shapley_values",
    "shapley_weights",
    "signed_values",
    "sizes_of",
    "split",
    "subset_outputs",
    "subsets_of",
    "surrogate_inputs",
    "training_predictions",
    "verified",
    "weighted_mean",
]
