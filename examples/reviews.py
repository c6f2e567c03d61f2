"""Reviews: which words made a TF-IDF model call a film good? Thousands of IMDB reviews, as raw strings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import l2x
from l2x.baselines import RandomK
from l2x.evaluation import posthoc_accuracy

K, ROWS, OTHERS, SHORT, CLEAR = 10, 8000, 500, 300, 0.9
PHASE = l2x.Phase(600, 5e-3, batch_size=128, averaging=0.95)
PLAN = l2x.TrainingPlan(
    value=PHASE, selector=replace(PHASE, steps=200, learning_rate=1e-2), evaluations=5, validation_rows=300
)  # short: about half a minute


@dataclass(frozen=True)
class Reviews:
    """A section of a report, and what it was made from."""

    title: str
    html: str
    sentence: str
    explainer: l2x.Explainer
    explanation: l2x.Explanation
    train: list[str]


def explain_reviews(*, rows: int = ROWS, others: int = OTHERS, plan: l2x.TrainingPlan = PLAN) -> Reviews:
    """Train a model on training reviews, fit an explainer to it, and explain test reviews."""
    labelled, new = l2x.datasets.imdb("train"), l2x.datasets.imdb("test")
    train, test = labelled.X[:rows], new.X[:others]
    model = make_pipeline(
        TfidfVectorizer(min_df=3, sublinear_tf=True), LogisticRegression(C=100, max_iter=300)
    )
    model.fit(train, [labelled.classes[i] for i in labelled.y[:rows]])
    # Reasons for a known verdict are wanted: the explainer is prediction-aware, and "the" is no reason.
    view = l2x.Words(length=400, stop_words="english")
    explainer = l2x.Explainer(
        model, K, features=view, uses_prediction=True, target="class", training=plan
    ).fit(train)  # fmt: skip
    explanation = explainer.explain(test)
    predictions = model.predict_proba(test)
    random = RandomK(features=explainer.features_).explain(test, K)
    selected, by_chance = (
        posthoc_accuracy(model, test, e, predictions=predictions) for e in (explanation, random)
    )
    correct = predictions.argmax(axis=1) == new.y[:others]
    sentence = (
        f"A logistic regression on TF-IDF classifies {correct.mean():.1%} of {others:,} test reviews "
        f"correctly. From the {K} words that l2x selects, it makes the same prediction for {selected:.1%} of "
        f"them; from {K} random words, for {by_chance:.1%}. The explainer is prediction-aware."
    )
    # Two reviews that the model classifies correctly, and two that it does not, highlighted.
    html = explanation[np.argsort(~correct, kind="stable")[[0, 1, -2, -1]]].to_html()
    return Reviews("Which words decide a review?", html, sentence, explainer, explanation, train)


def short_review(explanation: l2x.Explanation) -> l2x.Explanation:
    """Return the shortest review of SHORT characters with a clear prediction and words for and against."""
    texts = explanation.inputs
    rows = sorted((row for row in range(len(texts)) if len(texts[row]) >= SHORT), key=lambda i: len(texts[i]))
    return next(
        (
            one
            for one in explanation[rows]
            if one.predictions.max() > CLEAR and one.effects.min() < 0 < one.effects.max()
        ),
        explanation[0],
    )


if __name__ == "__main__":
    reviews = explain_reviews()
    short_review(reviews.explanation).plot("review.svg")
    print(
        f"{reviews.sentence} The first prediction was decided by: {', '.join(reviews.explanation.names[0])}."
    )
