"""Explain a LightGBM model of a data frame with categories and missing cells: which columns decided?

The first run downloads the Adult census (3 MB). `python examples/adult.py people.png` saves a figure.
"""

from __future__ import annotations

import sys

from lightgbm import LGBMClassifier

import l2x
from l2x.baselines import RandomK
from l2x.datasets import LabelledData, adult
from l2x.evaluation import posthoc_accuracy


def explain_people(data: LabelledData, *, k: int = 3) -> tuple[l2x.Explainer, l2x.Explanation]:
    """Return an explainer of a model of income, and its explanation of 1,000 people that neither saw."""
    train, new = data.X[1000:], data.X[:1000]
    model = LGBMClassifier(verbose=-1, n_jobs=1).fit(train, data.y[1000:])
    # The types of the frame distinguish numbers from categories; missing cells need no preparation.
    explainer = l2x.Explainer(model, k=k, training=l2x.TrainingPlan.quick(progress=False))
    explainer.fit(train)
    return explainer, explainer.explain(new)


def main(figure: str | None = None) -> None:
    explainer, explanation = explain_people(adult())
    people, k = explanation.inputs, explanation.k
    random = RandomK(features=explainer.features_).explain(people, k)
    for name, selection in ((f"{k} selected columns", explanation), (f"{k} random columns", random)):
        share = posthoc_accuracy(explainer.model, people, selection)
        print(f"{name:20} reproduce the prediction for {share:.0%} of the people")
    print(explanation[:3].to_frame())
    if figure is not None:
        explanation.beeswarm(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
