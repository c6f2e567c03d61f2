"""Compare l2x with the Taylor baseline on 10,000 IMDB reviews and the same network, in reviews per second.

    python benchmarks/reviews.py [--threads N] [--rows N]

Both start from tokenised texts; the time of tokenising is printed as well. The first run downloads IMDB. The
network is untrained and the explainer barely trained, which does not change their speed.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

import l2x
from l2x import baselines
from l2x.datasets import imdb
from l2x.learning._training import Phase
from l2x_experiments.black_boxes import WordNetwork
from l2x_experiments.records import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rows", type=int, default=10_000)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    texts = imdb("test").X[: arguments.rows]
    view = l2x.Words(reads="ids").fit(texts)
    view.set_params(vocabulary=view.vocabulary_)
    network = WordNetwork(len(view.vocabulary_)).eval()
    plan = l2x.TrainingPlan(Phase(2, 1e-3, 32), Phase(2, 1e-3, 32), progress=False, threads=arguments.threads)
    black_box = l2x.as_black_box(network, logits=True)
    explainer = l2x.Explainer(black_box, k=10, features=view, objective="model", training=plan).fit(
        texts[:200]
    )

    def seconds(view: l2x.Words, explain: object) -> tuple[float, float]:
        """Return the seconds to tokenise, and then to explain."""
        started = time.perf_counter()
        tokenised = view.check(texts)
        _ = tokenised.tokens
        ready = time.perf_counter()
        _ = explain(tokenised).indices  # type: ignore[operator]
        return ready - started, time.perf_counter() - ready

    tokens, ours = seconds(explainer.features_, explainer.explain)
    taylor = baselines.Taylor(network, features=view)
    _, theirs = seconds(view, lambda X: taylor.explain(X, k=10))
    figures = {
        "machine": machine(),
        "threads": arguments.threads,
        "reviews": len(texts),
        "l2x_reviews_per_second": round(len(texts) / ours),
        "taylor_reviews_per_second": round(len(texts) / theirs),
        "l2x_is_times_faster": round(theirs / ours, 2),
        "tokenising_reviews_per_second": round(len(texts) / tokens),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
