"""A data frame with categories and missing cells, LightGBM on it as it is: which columns decided each answer?

Fetches the Adult census rows (3 MB) the first time; `python examples/adult.py people.png` saves the figure.
"""

from __future__ import annotations

import sys

from lightgbm import LGBMClassifier

import l2x
from l2x.baselines import RandomK
from l2x.datasets import AdultData, adult
from l2x.evaluation import posthoc_accuracy


def explain_people(data: AdultData, *, k: int = 3) -> tuple[l2x.Explainer, l2x.Explanation]:
    """An explainer of a model of these people's income, and its explanation of 1,000 whom neither saw."""
    known, new = data.X[1000:], data.X[:1000]
    model = LGBMClassifier(verbose=-1, n_jobs=1).fit(known, data.y[1000:])
    # Categories, gaps and numbers are told apart by the frame's own types.
    explainer = l2x.Explainer(model, k=k, training=l2x.TrainingPlan.quick(progress=False))
    explainer.fit(known)
    return explainer, explainer.explain(new)


def main(figure: str | None = None) -> None:
    explainer, explanation = explain_people(adult())
    people, k = explanation.inputs, explanation.k
    random = RandomK(features=explainer.features_).explain(people, k)
    for name, some in ((f"{k} selected columns", explanation), (f"{k} random columns", random)):
        share = posthoc_accuracy(explainer.model, people, some)
        print(f"{name:20} keep the model's answer for {share:.0%} of the people")
    print(explanation[:3].to_frame())
    if figure is not None:
        explanation.summary_plot(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
