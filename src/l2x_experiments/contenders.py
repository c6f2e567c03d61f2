"""Every method that experiments compare, by the name that its records carry: one line each, in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import l2x
from l2x import baselines
from l2x.explanation import Explanation
from l2x_experiments.setting import Setting

# The search for one subset for all rows asks about hundreds of subsets: many rows, since only few of them
# tell subsets apart (nonlinear additive), each against few draws.
GLOBAL_ROWS, GLOBAL_BACKGROUND = 1000, 20
MARGINAL_ROWS = 2000

# What explaining one input costs: a forward pass, a gradient, hundreds of questions, thousands of questions.
Cost = Literal["pass", "gradient", "search", "sampling"]


class Explains(Protocol):
    """A contender that has learned, if there is anything to learn."""

    def explain(self, X: Any, k: int, /) -> Explanation: ...


Learn = Callable[[Setting, int], Explains]


@dataclass(frozen=True)
class Contender:
    """A method under comparison: its name for people, how it learns from a setting and a seed, and what
    explaining one input costs, which decides on how many it is measured."""

    label: str
    learn: Learn
    cost: Cost = "pass"


def learned(setting: Setting, name: str, seed: int) -> Any:
    """The contender after learning; the second time, the same one."""
    if (name, seed) not in setting.learned:
        setting.learned[name, seed] = CONTENDERS[name].learn(setting, seed)
    return setting.learned[name, seed]


def ours(**options: Any) -> Learn:
    """l2x, with these options of `l2x.Explainer`."""

    def learn(setting: Setting, seed: int) -> Explains:
        # With k = 1 the sum over all subsets is affordable, and has no noise.
        sampler = l2x.learning.samplers.ExactSum() if setting.k == 1 else None
        explainer = l2x.Explainer(
            setting.black_box, setting.k, features=setting.our_features or setting.features, sampler=sampler,
            training=setting.plans.ours, queries=setting.queries, seed=seed, **options,
        )  # fmt: skip
        return explainer.fit(setting.train)

    return learn


def papers(*, to_the_letter: bool = False) -> Learn:
    """The paper's recipe, as its authors ran it or as its text has it."""

    def learn(setting: Setting, seed: int) -> Explains:
        view, plan = setting.paper_features, setting.plans.paper
        if to_the_letter:
            view, plan = setting.letter_features, setting.plans.letter
        explainer = l2x.Explainer.paper(
            setting.black_box, setting.k, features=view or setting.features, to_the_letter=to_the_letter,
            training=plan, seed=seed,
        )  # fmt: skip
        if not to_the_letter:
            for network in ("selector", "predictor"):
                explainer.set_params(**{network: getattr(explainer, network) | setting.paper_networks})
        return explainer.fit(setting.train)

    return learn


def white_box(method: Any, *, absolute: bool = False) -> Learn:
    """A method that looks inside the model: a network, or trees."""
    return lambda setting, _: method(
        setting.model, features=setting.features, magnitude=absolute or not setting.signed
    )


def sampling(method: Any, *, absolute: bool = False) -> Learn:
    """LIME and Kernel SHAP, which ask the black box."""
    return lambda setting, seed: method(
        setting.black_box,
        features=setting.features,
        background=setting.background,
        magnitude=absolute or not setting.signed,
        seed=seed,
        progress=False,
        **setting.options.get(method.name, {}),
    )


def search(setting: Setting, _: int) -> Explains:
    options = setting.options.get(baselines.GreedySearch.name, {})
    return baselines.GreedySearch(setting.black_box, features=setting.features, progress=False, **options)


def parzen(setting: Setting, seed: int) -> Explains:
    return baselines.Parzen(setting.black_box, seed=seed, progress=False).fit(setting.background)


def global_subset(setting: Setting, seed: int) -> Explains:
    assert setting.conditional is not None
    value = setting.conditional(GLOBAL_BACKGROUND)
    return baselines.GlobalTopK(value, rows=GLOBAL_ROWS, seed=seed).fit(setting.background, setting.k)


def by_position(setting: Setting, seed: int) -> Explains:
    assert setting.judge is not None
    return baselines.ByPosition(setting.black_box, features=setting.judge.view, seed=seed)


def by_prediction(setting: Setting, seed: int) -> Explains:
    base = learned(setting, "l2x", seed)
    return baselines.ByPrediction(base.q_, features=base.features_)


def by_marginal(setting: Setting, seed: int) -> Explains:
    base = learned(setting, "l2x", seed)
    rows = base.features_.take(base.features_.check(setting.train), slice(0, MARGINAL_ROWS))
    return baselines.ByMarginal(base, base.q_).fit(rows, setting.k)


# A new contender is one line here; experiments that run it list its name, and pages show it wherever
# there are records of it.
CONTENDERS: dict[str, Contender] = {
    "search": Contender("search per input", search, "search"),
    "l2x": Contender("l2x", ours()),
    "l2x-told": Contender("l2x, told the answer", ours(sees_answer=True, answer="class")),
    "l2x-model": Contender("l2x, value = model", ours(value="model")),
    "l2x-surrogate": Contender("l2x, value = surrogate", ours(value="surrogate")),
    "paper": Contender("L2X, paper", papers()),
    "paper-letter": Contender("L2X, to the letter", papers(to_the_letter=True)),
    "taylor": Contender("Taylor", white_box(baselines.Taylor), "gradient"),
    "deeplift": Contender("DeepLIFT", white_box(baselines.DeepLift), "gradient"),
    "lrp": Contender("LRP", white_box(baselines.LRP), "gradient"),
    "lime": Contender("LIME", sampling(baselines.Lime), "sampling"),
    "kernel_shap": Contender("Kernel SHAP", sampling(baselines.KernelShap), "sampling"),
    "tree_shap": Contender("TreeSHAP", white_box(baselines.TreeShap)),
    "saliency": Contender(
        "Saliency",
        lambda setting, _: baselines.Saliency(setting.model, features=setting.features),
        "gradient",
    ),
    "parzen": Contender("Parzen", parzen),
    "taylor-absolute": Contender("Taylor, absolute", white_box(baselines.Taylor, absolute=True), "gradient"),
    "deeplift-absolute": Contender(
        "DeepLIFT, absolute", white_box(baselines.DeepLift, absolute=True), "gradient"
    ),
    "lime-absolute": Contender("LIME, absolute", sampling(baselines.Lime, absolute=True), "sampling"),
    "kernel_shap-absolute": Contender(
        "Kernel SHAP, absolute", sampling(baselines.KernelShap, absolute=True), "sampling"
    ),
    "global": Contender("Global top k", global_subset),
    "random": Contender(
        "Random k", lambda setting, seed: baselines.RandomK(features=setting.features, seed=seed)
    ),
    "position": Contender("cheats by position", by_position),
    "prediction": Contender("cheats by prediction", by_prediction),
    "marginal": Contender("cheats by marginal", by_marginal),
}


# In the order of showing.
LABELS = {name: contender.label for name, contender in CONTENDERS.items()}


def labels(first: Sequence[str]) -> dict[str, str]:
    """The labels in another order: these first, then the others."""
    return {name: LABELS[name] for name in dict.fromkeys((*first, *LABELS))}
