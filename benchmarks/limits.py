"""Measure how good three columns of a census row can be: search all subsets for the best one of each row.

    python benchmarks/limits.py [--rows 3000]

All 220 subsets are valued by the default objective, the mean of the surrogate's and the model's log-
probability. The best subset of each row is measured by the model and by the evaluator, for the target
distribution and the target class. The value uses either the model's prediction, as a prediction-aware
selector does, or the surrogate's prediction for the whole row, which is about what other selectors can know.
None of the rows are test rows of `l2x reproduce adult`.
"""

from __future__ import annotations

import argparse
from itertools import combinations

import numpy as np
import torch
from lightgbm import LGBMClassifier

import l2x
from l2x.datasets import adult
from l2x.evaluation import fit_evaluator
from l2x.learning._agreement import masked_predictions
from l2x.learning._training import TrainingPlan
from l2x.model._black_box import as_black_box
from l2x_experiments.records import machine

K = 3
# Rows in the order of the experiment, whose test rows come later.
LEARN, EVALUATE, SEARCH = slice(11_000), slice(11_000, 17_000), slice(17_000, 24_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000)
    rows = parser.parse_args().rows
    torch.set_num_threads(1)
    data, plan = adult(), TrainingPlan(progress=False)
    order = np.random.default_rng(0).permutation(len(data))
    X, learn = data.X.iloc[order[SEARCH][:rows]], data.X.iloc[order[LEARN]]
    model = LGBMClassifier(n_jobs=1, verbose=-1).fit(learn, data.y[order[LEARN]])
    black_box = as_black_box(model)
    evaluator = fit_evaluator(black_box, data.X.iloc[order[EVALUATE]], K, training=plan)
    explainer = l2x.Explainer(black_box, K, objective="surrogate", training=plan).fit(learn)
    view, q, predictions = explainer.features_, explainer.surrogate_, black_box(X)
    classes, everything = predictions.argmax(axis=1), np.ones((len(X), view.d), dtype=bool)
    expected = q.predict(X, everything)
    print(machine())
    for name, output in (("surrogate", expected), ("evaluator", evaluator.predict(X, everything))):
        print(f"whole rows: the {name} predicts the class of {(output.argmax(1) == classes).mean():.3f}")

    logs, by_model, by_evaluator = [], [], []  # for each subset: (rows, classes), (rows,), (rows,)
    for subset in combinations(range(view.d), K):
        mask = np.zeros_like(everything)
        mask[:, subset] = True
        masked = masked_predictions(black_box, view, view.check(X), mask)
        logs.append((np.log(np.maximum(masked, 1e-6)) + np.log(q.predict(X, mask))) / 2)
        by_model.append(masked.argmax(axis=1))
        by_evaluator.append(evaluator.predict(X, mask).argmax(axis=1))
    for source, given in (("model", predictions), ("surrogate", expected)):
        certain = np.eye(given.shape[1])[given.argmax(axis=1)]
        for name, target in (("distribution", given), ("class", certain)):
            best = (np.stack(logs) * target).sum(axis=-1).argmax(axis=0)
            accuracies = (
                (np.stack(labels)[best, np.arange(len(X))] == classes).mean()
                for labels in (by_model, by_evaluator)
            )
            model_accuracy, evaluator_accuracy = accuracies
            print(f"{source:9} {name:13} model {model_accuracy:.3f}, evaluator {evaluator_accuracy:.3f}")


if __name__ == "__main__":
    main()
