"""How good three columns of a census row can be: the best subset of each row, by the default's own value.

    python benchmarks/limits.py [--rows 3000]

The value, the mean of the surrogate's and the model's log values, is asked about all 220 subsets of a row.
The best one is measured by the model and by the judge, for the distribution and for the class as the target;
told the model's answer, and with the answer that the surrogate expects of the whole row, which is about what
a selector that is not told can know. None of the rows are test rows of `l2x reproduce adult`.
"""

from __future__ import annotations

import argparse
from itertools import combinations

import numpy as np
import torch
from lightgbm import LGBMClassifier

import l2x
from l2x.datasets._adult import adult
from l2x.evaluation import fit_judge
from l2x.learning._agreement import masked_answers
from l2x.learning._training import TrainingPlan
from l2x.model._black_box import as_black_box
from l2x_experiments.machine import machine

K = 3
# Of the experiment's own order: its test rows come later.
LEARN, JUDGE, LOOK = slice(11_000), slice(11_000, 17_000), slice(17_000, 24_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000)
    rows = parser.parse_args().rows
    torch.set_num_threads(1)
    data, plan = adult(), TrainingPlan(progress=False)
    order = np.random.default_rng(0).permutation(len(data))
    X, learn = data.X.iloc[order[LOOK][:rows]], data.X.iloc[order[LEARN]]
    model = LGBMClassifier(n_jobs=1, verbose=-1).fit(learn, data.y[order[LEARN]])
    black_box = as_black_box(model)
    judge = fit_judge(black_box, data.X.iloc[order[JUDGE]], K, training=plan)
    explainer = l2x.Explainer(black_box, K, value="surrogate", training=plan).fit(learn)
    view, q, answers = explainer.features_, explainer.q_, black_box(X)
    classes, everything = answers.argmax(axis=1), np.ones((len(X), view.d), dtype=bool)
    expected = q.predict(X, everything)
    print(machine())
    print(
        f"the surrogate expects the model's class of {(expected.argmax(1) == classes).mean():.3f} of the rows"
    )
    print(f"the judge, of whole rows, {(judge.predict(X, everything).argmax(1) == classes).mean():.3f}")

    logs, model_says, judge_says = [], [], []  # of each subset: (rows, classes), (rows,), (rows,)
    for subset in combinations(range(view.d), K):
        mask = np.zeros_like(everything)
        mask[:, subset] = True
        said = masked_answers(black_box, view, view.check(X), mask)
        logs.append((np.log(np.maximum(said, 1e-6)) + np.log(q.predict(X, mask))) / 2)
        model_says.append(said.argmax(axis=1))
        judge_says.append(judge.predict(X, mask).argmax(axis=1))
    for who, known in (("told", answers), ("expected", expected)):
        certain = np.eye(known.shape[1])[known.argmax(axis=1)]
        for name, target in (("distribution", known), ("class", certain)):
            best = (np.stack(logs) * target).sum(axis=-1).argmax(axis=0)
            kept, confirmed = (
                (np.stack(says)[best, np.arange(len(X))] == classes).mean()
                for says in (model_says, judge_says)
            )
            print(f"{who:9} {name:13} the model keeps {kept:.3f}, the judge confirms {confirmed:.3f}")


if __name__ == "__main__":
    main()
