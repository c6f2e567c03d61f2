"""Images: which patches made a small network call it a 3 or an 8? Digits come with scikit-learn."""

from __future__ import annotations

import sys
from pathlib import Path

import l2x
from l2x.datasets import ImageData, small_digits
from l2x.experiments.digits import train_digits
from l2x.metrics import posthoc_accuracy

PLAN = l2x.TrainingPlan(
    value=l2x.Phase(300, 5e-3, batch_size=128, averaging=0.98),
    selector=l2x.Phase(300, 5e-3, batch_size=128, averaging=0.98),
    evaluations=5,
    progress=False,
)


def explain_digits(digits: tuple[int, ...] = (3, 8), k: int = 4) -> tuple[l2x.Explainer, l2x.Explanation]:
    """An explainer of a network on 8 x 8 digits, and its explanation of 100 images that neither saw."""
    data = small_digits(digits)
    seen = ImageData(data.X[100:], data.y[100:], data.digits)
    network = train_digits(seen, epochs=30)
    model = l2x.as_black_box(network, logits=True)
    # Patches of 2 x 2 pixels, 16 of them; what is not selected is black.
    explainer = l2x.Explainer(model, k, features=l2x.Patches(size=2), value="model", training=PLAN)
    explainer.fit(seen.X)
    return explainer, explainer.explain(data.X[:100])


def main(output: str = "digits.png") -> None:
    explainer, explanation = explain_digits()
    chance = l2x.baselines.RandomK(features=explainer.features_).explain(explanation.inputs, explanation.k)
    kept = posthoc_accuracy(explainer.model, explanation.inputs, explanation)
    random = posthoc_accuracy(explainer.model, explanation.inputs, chance)
    print(f"{explanation.k} of 16 patches keep the model's answer on {kept:.0%} of the images,")
    print(f"random ones on {random:.0%}. The first was decided by {'; '.join(explanation.names[0])}.")
    explanation.plot(output)
    print(f"saved      {Path(output).resolve()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
