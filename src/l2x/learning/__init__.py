"""Section 3 of the paper: surrogate, objectives, samplers, training, self-check."""

from l2x.learning import _sizes, _surrogate, objectives, samplers
from l2x.learning._agreement import (
    LEVEL,
    Bootstrap,
    Estimate,
    RemovalTest,
    agreement,
    complement_of,
    losses,
    masked_answers,
    posthoc_accuracy,
    posthoc_r2,
    random_selections,
    removal_test,
    same_class,
    scored,
)
from l2x.learning._likelihood import BITS, Categorical, Gaussian, Likelihood
from l2x.learning._phases import fit_probe, fit_reader, fit_selector, fit_surrogate, reading
from l2x.learning._plackett_luce import only_selectable
from l2x.learning._rows import (
    Rows,
    TrainingRows,
    checked_answers,
    checked_responses,
    likelihood_of,
    prepare,
    split,
)
from l2x.learning._selection import input_scores
from l2x.learning._self_check import SelfCheck, self_check
from l2x.learning._sizes import TOO_FEW, Sizes, checked_share, seen_by_q, sizes_of
from l2x.learning._surrogate import Conditional, ConditionalModel, FittedQ, NetworkQ, Q
from l2x.learning._training import Phase, Run, TrainingPlan, checked_seed, pick_device
from l2x.learning.networks._columns import ColumnSelector, perceptron
from l2x.learning.networks._patches import channels_last
from l2x.learning.networks._recipes import (
    Answer,
    Options,
    ReadsFirst,
    Recipe,
    in_chunks,
    networks_of,
    plan_in_small_batches,
    recipes_of,
)
from l2x.learning.networks._sentences import SentenceEncoder
from l2x.learning.networks._words import WindowConvolution, Windows, WordEmbedding, weighted_mean
from l2x.learning.objectives import Ingredients, Model, Value, as_value, check_compatible
from l2x.learning.samplers import ConcreteMax, PlackettLuce, Sampler

__all__ = [
    "BITS",
    "LEVEL",
    "TOO_FEW",
    "Answer",
    "Bootstrap",
    "Categorical",
    "ColumnSelector",
    "ConcreteMax",
    "Conditional",
    "ConditionalModel",
    "Estimate",
    "FittedQ",
    "Gaussian",
    "Ingredients",
    "Likelihood",
    "Model",
    "NetworkQ",
    "Options",
    "Phase",
    "PlackettLuce",
    "Q",
    "ReadsFirst",
    "Recipe",
    "RemovalTest",
    "Rows",
    "Run",
    "Sampler",
    "SelfCheck",
    "SentenceEncoder",
    "Sizes",
    "TrainingPlan",
    "TrainingRows",
    "Value",
    "WindowConvolution",
    "Windows",
    "WordEmbedding",
    "_sizes",
    "_surrogate",
    "agreement",
    "as_value",
    "channels_last",
    "check_compatible",
    "checked_answers",
    "checked_responses",
    "checked_seed",
    "checked_share",
    "complement_of",
    "fit_probe",
    "fit_reader",
    "fit_selector",
    "fit_surrogate",
    "in_chunks",
    "input_scores",
    "likelihood_of",
    "losses",
    "masked_answers",
    "networks_of",
    "objectives",
    "only_selectable",
    "perceptron",
    "pick_device",
    "plan_in_small_batches",
    "posthoc_accuracy",
    "posthoc_r2",
    "prepare",
    "random_selections",
    "reading",
    "recipes_of",
    "removal_test",
    "same_class",
    "samplers",
    "scored",
    "seen_by_q",
    "self_check",
    "sizes_of",
    "split",
    "weighted_mean",
]
