"""How sections 4.2 and 4.3 compare: how much of the model's answer do a contender's k features keep?

The training inputs are split in three parts: for explainers, for the judge, and for choosing recipes;
nothing is chosen on test inputs. `l2x` is our default recipe, `l2x-told` the same with the model's answer
beside the input; what the default is made of, one value or the other, stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch

from l2x._base.arrays import Array
from l2x.evaluation import information, mask_only_accuracy, posthoc_accuracy, selected_words
from l2x.explanation import Explanation
from l2x.features import View, unit_of
from l2x.learning import BITS, FittedQ, NetworkQ, Options, Rows, Run, fit_probe, masked_answers
from l2x.model import as_black_box, query
from l2x_experiments.black_boxes.training import Trained
from l2x_experiments.contenders import CONTENDERS, Cost, learned
from l2x_experiments.judges import Judge, cached_judge, judge_accuracy
from l2x_experiments.machine import measured_here, timed
from l2x_experiments.records import Record
from l2x_experiments.runner import Experiment, Job, only_methods
from l2x_experiments.setting import Budget, Setting

OURS = ("l2x", "l2x-told", "l2x-surrogate", "l2x-model")
METHODS = (*OURS, "paper", "paper-letter", "random", "search", "taylor", "deeplift", "lime",
           "kernel_shap", "saliency", "taylor-absolute", "deeplift-absolute", "lime-absolute",
           "kernel_shap-absolute")  # fmt: skip
SEEDED = (*OURS, "paper", "paper-letter", "random")
# Training inputs whose selections teach the mask-only predictor.
MASK_ROWS = 8000
# A q can be fitted to the selections of this many.
VMI_ROWS = 1000
# Words selected most often that a record keeps.
COMMON_WORDS = 20


@dataclass(kw_only=True)
class Comparison(Setting):
    """A problem of sections 4.2 and 4.3; the same for every seed, which is the explainers'."""

    features: View
    judge: Judge
    validation: Any  # inputs on which our recipes are chosen
    labels: Array  # of the test inputs
    examples: Array  # rows of the test inputs whose selections are kept, to be shown
    # Of the first test inputs this many keep their selections by seed 0: people can be asked about them.
    items: int = 0
    # Test inputs to explain, and training inputs for the mask-only predictor, by what one input costs.
    limits: Mapping[Cost, tuple[int, int]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)  # options of the view, in every record

    def answers(self, X: Any) -> Array:
        """P_m(y|x) of each input."""
        return query(self.black_box, self.features, self.features.check(X))

    @cached_property
    def test_answers(self) -> Array:
        return self.answers(self.test)

    @cached_property
    def train_answers(self) -> Array:
        return self.answers(self.train)


def experiment(
    name: str,
    problem: str,
    problems: Sequence[Any],
    set_up: Callable[[Any], Comparison],
    *,
    seeds: int,
    only: Sequence[str] | None,
    without: Sequence[str] = (),
    fetch: Callable[[bool], object],
) -> Experiment:
    """Every contender, but some, on every problem, which the entry `problem` of its records tells; the first
    seed first, and the other seeds only for contenders that depend on them. `set_up` is picklable."""
    jobs = [
        Job(
            {problem: which, "seed": seed, "method": method},
            f"{which}, {method}, seed {seed}",
            group=(str(which), method, seed),
        )
        for seed in range(seeds)
        for method in METHODS
        if method not in without and (seed == 0 or method in SEEDED)
        for which in problems
    ]
    return Experiment(
        name,
        only_methods(jobs, only),
        partial(measure_all, set_up=set_up, problem=problem),
        fetch=fetch,
        prepare=[partial(set_up, which) for which in problems],
    )


def measure_all(
    jobs: Sequence[Job], *, set_up: Callable[[Any], Comparison], problem: str
) -> Iterator[Record]:
    for job in jobs:
        setting = set_up(job[problem])
        yield {**job.key, **setting.about, **measure(setting, job["method"], job["seed"])}


def compare(
    name: str,
    trained: Trained,
    X: Any,
    view_of: Callable[[Any], View],
    *,
    judge_view: View | None = None,
    judge_options: Options | None = None,
    shares: tuple[float, float],
    k: int,
    classes: int,
    budget: Budget,
    about: Mapping[str, Any],
    **others: Any,
) -> Comparison:
    """The setting of a network and its inputs. Explainers learn from the first of the `shares` of X, the
    judge from the second, which it may read by a view of its own, and the rest is for choosing. `about` has
    the options of the view; `others` are fields that need no work here."""
    black_box = as_black_box(trained.network, logits=True)
    first = round(shares[0] * len(X))
    second = first + round(shares[1] * len(X))
    for_judge, view = X[first:second], view_of(X[:first])
    plans, search, sampling = budget.plans(view), budget.search_rows, budget.sampling_rows
    key = {"model": trained.key, **about}
    judge = cached_judge(
        name, key, black_box, judge_view or view_of(for_judge), for_judge,
        k=k, classes=classes, plan=plans.ours, options=judge_options or {},
    )  # fmt: skip
    return Comparison(
        **others,
        black_box=black_box,
        k=k,
        train=view.check(X[:first]),
        validation=view.check(X[second:]),
        plans=plans,
        features=view,
        model=trained.network,
        judge=judge,
        signed=True,
        limits={"search": (search, search), "sampling": (sampling, sampling)},
        about=about,
    )


def measure(setting: Comparison, method: str, seed: int) -> Record:
    """What a contender scores; post-hoc accuracy never without its companions."""
    view, k = setting.features, setting.k
    rows, mask_rows = setting.limits.get(CONTENDERS[method].cost, (len(setting.test), MASK_ROWS))
    X, responses = view.take(setting.test, slice(rows)), setting.test_answers[:rows]
    answers, seen = responses.argmax(axis=1), view.take(setting.train, slice(mask_rows))
    explainer, fit_seconds = timed(lambda: learned(setting, method, seed))
    explanation, explain_seconds = timed(lambda: ranked(explainer.explain(X, k)))
    selected, said = explainer.explain(seen, k).mask, setting.train_answers[:mask_rows]
    shown = setting.examples[setting.examples < len(X)]
    validation = validated(setting, explainer) if method in OURS else {}

    def kept(*, complement: bool = False) -> float:
        return posthoc_accuracy(setting.black_box, X, explanation, complement=complement, responses=responses)

    return (
        {
            "k": k,
            "rows": len(X),
            "posthoc_accuracy": kept(),
            "judge_accuracy": judge_accuracy(setting.judge, X, explanation, answers),
            "mask_only_accuracy": mask_only_accuracy(
                selected, said.argmax(axis=1), explanation.mask, answers
            ),
            "vmi": variational_information(
                setting, (seen, selected, said), (X, explanation, responses), seed
            ),
            "complement_accuracy": kept(complement=True),
            "fit_seconds": fit_seconds,
            "explain_seconds": explain_seconds,
            "model_accuracy": float((setting.test_answers.argmax(axis=1) == setting.labels).mean()),
            "majority": float(max((answers == label).mean() for label in set(answers.tolist()))),
            "train_rows": len(setting.train),
            "mask_rows": len(seen),
            "example_rows": shown.tolist(),
            "examples": explanation.indices[shown].tolist(),
            "example_answers": answers[shown].tolist(),
            "common_words": common_words(explanation),
            "items": items(setting, explanation[: setting.items], responses) if seed == 0 else None,
        }
        | validation
        | measured_here()
    )


def validated(setting: Comparison, explainer: Any) -> Record:
    """What recipes are chosen by."""
    X, explanation = setting.validation, explainer.explain(setting.validation, setting.k)
    answers = setting.answers(X)
    return {
        "validation_posthoc": posthoc_accuracy(setting.black_box, X, explanation, responses=answers),
        "validation_judge": judge_accuracy(setting.judge, X, explanation, answers.argmax(axis=1)),
    }


def items(setting: Comparison, explanation: Explanation, responses: Array) -> Record | None:
    """What was selected in these first test inputs, best first, and their classes, a digit each: the model's
    for the whole input, the model's for the selection alone, the judge's. None if there are no inputs."""
    n, view, mask = len(explanation), setting.features, explanation.mask
    if not n:
        return None
    X = view.take(setting.test, slice(n))
    classes = {
        "answers": responses[:n],
        "posthoc": masked_answers(setting.black_box, view, X, mask),
        "judge": setting.judge.outputs(X, mask),
    }
    pairs = zip(explanation.indices, explanation.selected, strict=True)
    return {"selections": [indices[selected].tolist() for indices, selected in pairs]} | {
        name: "".join(map(str, outputs.argmax(axis=1))) for name, outputs in classes.items()
    }


def common_words(explanation: Explanation) -> list[str] | None:
    """The words selected most often, where words are selected."""
    if explanation.view is None or unit_of(explanation.view) != "word":
        return None
    return [word for word, _ in selected_words(explanation).most_common(COMMON_WORDS)]


def variational_information(
    setting: Comparison, learn: tuple[Any, Array, Array], test: tuple[Any, Explanation, Array], seed: int
) -> float | None:
    """H(Y) + E[log q(Y | X_S)] in nats, on test inputs, of a q that was fitted to the contender's own
    selections, (inputs, masks, answers) of training inputs: "VMI" in comments of the paper's source.

    As a probe of the encode-meter q starts from the judge, which can read values already. It is at most log 2
    for two classes. None where too few inputs were explained to fit a q.
    """
    inputs, masks, answers = learn
    X, explanation, responses = test
    view, judge = setting.judge.view, setting.judge.q
    if len(inputs) < VMI_ROWS:
        return None
    assert isinstance(judge, NetworkQ)
    rows = Rows(view, None, view.encode(view.check(inputs)), judge.likelihood.targets(answers))
    run = Run.begin(setting.plans.ours, seed)
    q = fit_probe(judge, rows, torch.from_numpy(masks).float(), run, shuffled=False)
    found = information(FittedQ(view, q), X, explanation, responses=responses)
    return float(found.captured / BITS)


def ranked(explanation: Explanation) -> Explanation:
    """The explanation, with its features in order: ranking is part of the work that is timed."""
    _ = explanation.indices
    return explanation
