"""A table: which of 30 measurements made LightGBM call a tumour malignant? Data from scikit-learn."""

from __future__ import annotations

from typing import Any

import l2x

K = 5


def explain_tumours(training: l2x.TrainingPlan | None = None) -> tuple[l2x.Explainer, l2x.Explanation, Any]:
    """Return an explainer, its explanation of 171 new rows, and the training rows."""
    from lightgbm import LGBMClassifier
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer(as_frame=True)
    y = data.target_names[data.target]  # "malignant" or "benign"
    train, test, labels, _ = train_test_split(data.data, y, test_size=0.3, random_state=0, stratify=y)
    model = LGBMClassifier(random_state=0, n_jobs=1, verbose=-1).fit(train, labels)
    # The explainer learns from the model's predictions: it needs no labels.
    explainer = l2x.Explainer(model, K, training=training).fit(train)
    return explainer, explainer.explain(test), train


if __name__ == "__main__":
    explainer, explanation, _ = explain_tumours()
    share = explainer.score(explanation.inputs)
    print(f"{K} of 30 columns reproduce the prediction for {share:.0%} of {len(explanation)} rows.")
    print(explanation.to_frame().head())
