"""Reviews: which words made a TF-IDF model call a film good? Thousands of IMDB reviews, from raw strings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import l2x
from l2x.baselines import RandomK
from l2x.display._texts import verdict_table
from l2x.evaluation import posthoc_accuracy

K, ROWS, OTHERS = 10, 8000, 500
PHASE = l2x.Phase(600, 5e-3, batch_size=128, averaging=0.95)
PLAN = l2x.TrainingPlan(
    value=PHASE, selector=replace(PHASE, steps=200, learning_rate=1e-2), evaluations=5, validation_rows=300
)  # brief: half a minute or so


@dataclass(frozen=True)
class Reviews:
    """A part of a report, and what it was made of."""

    title: str
    html: str
    sentence: str
    explainer: l2x.Explainer
    explanation: l2x.Explanation
    train: list[str]


def explain_reviews(*, rows: int = ROWS, others: int = OTHERS, plan: l2x.TrainingPlan = PLAN) -> Reviews:
    """Train a model on some training reviews, learn to explain it, explain test reviews."""
    seen, new = l2x.datasets.imdb("train"), l2x.datasets.imdb("test")
    train, test = seen.texts[:rows], new.texts[:others]
    model = make_pipeline(
        TfidfVectorizer(min_df=3, sublinear_tf=True), LogisticRegression(C=100, max_iter=300)
    )
    model.fit(train, seen.y[:rows])
    # A reader has the verdict already and asks for its reasons; "the" is none.
    view = l2x.Words(length=400, stop_words="english")
    explainer = l2x.Explainer(
        model, K, features=view, sees_answer=True, answer="class", training=plan
    ).fit(train)  # fmt: skip
    explanation = explainer.explain(test)
    answers = model.predict_proba(test)
    random = RandomK(features=explainer.features_).explain(test, K)
    kept, by_chance = (posthoc_accuracy(model, test, e, responses=answers) for e in (explanation, random))
    right = float((answers.argmax(axis=1) == new.y[:others]).mean())
    sentence = (
        f"A logistic regression on TF-IDF, right on {right:.1%} of {others:,} test reviews, gives the same "
        f"answer from the {K} words that l2x selected on {kept:.1%} of them; from {K} random words on "
        f"{by_chance:.1%}. l2x is told the answer whose reasons it selects."
    )
    table = verdict_table(explanation, new.y[:others], answers.argmax(axis=1), classes=new.classes)
    return Reviews("Which words decide a review?", table, sentence, explainer, explanation, train)


if __name__ == "__main__":
    reviews = explain_reviews()
    print(f"{reviews.sentence} The first was decided by: {', '.join(reviews.explanation.names[0])}.")
