"""Images: which patches made a small network call it a 3 or an 8? MNIST's digits, or scikit-learn's."""

from __future__ import annotations

import sys
from pathlib import Path

import l2x
from l2x.datasets import ImageData, mnist, small_digits
from l2x.evaluation import posthoc_accuracy
from l2x_experiments.digits import train_digits

K, DIGITS = 4, (3, 8)
PLAN = l2x.TrainingPlan(
    value=l2x.Phase(400, 5e-3, batch_size=64, averaging=0.98),
    selector=l2x.Phase(400, 5e-3, batch_size=64, averaging=0.98),
    evaluations=5,
    validation_rows=500,
)


def digit_images(*, small: bool = False) -> tuple[ImageData, ImageData]:
    """Images to learn from, and others: MNIST's 28 x 28, fetched once, or those of 8 x 8 in scikit-learn."""
    try:
        return (mnist(DIGITS), mnist(DIGITS, split="test")) if not small else _small_digits()
    except l2x.DataError as error:
        print(f"{error}\nscikit-learn's small digits take their place.", file=sys.stderr)
        return _small_digits()


def _small_digits() -> tuple[ImageData, ImageData]:
    data = small_digits(DIGITS)
    return tuple(ImageData(data.X[rows], data.y[rows], DIGITS) for rows in (slice(100, None), slice(100)))


def explain_digits(seen: ImageData, others: ImageData) -> tuple[l2x.Explainer, l2x.Explanation]:
    """An explainer of a network on digits, and its explanation of images that neither saw."""
    small = seen.X.shape[-1] < 28
    network = train_digits(seen, epochs=30 if small else 2)
    model = l2x.as_black_box(network, logits=True)
    # 4 x 4 or 7 x 7 patches; what is not selected is black.
    features = l2x.Patches(size=2 if small else 4)
    explainer = l2x.Explainer(model, K, features=features, value="model", training=PLAN).fit(seen.X)
    return explainer, explainer.explain(others.X)


def main(output: str = "digits.png") -> None:
    explainer, explanation = explain_digits(*digit_images())
    chance = l2x.baselines.RandomK(features=explainer.features_).explain(explanation.inputs, K)
    kept, random = (posthoc_accuracy(explainer.model, explanation.inputs, e) for e in (explanation, chance))
    print(f"{K} of {explainer.features_.d} patches keep the model's answer on {kept:.0%} of the images,")
    print(f"random ones on {random:.0%}. The first was decided by {'; '.join(explanation.names[0])}.")
    explanation.plot(output)
    print(f"saved      {Path(output).resolve()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
