"""Images: which patches made a small network call it a 3 or an 8? MNIST's digits, or scikit-learn's."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPClassifier

import l2x
from l2x.datasets import ImageData, mnist, small_digits
from l2x.evaluation import posthoc_accuracy

K, DIGITS = 4, (3, 8)
PHASE = l2x.Phase(400, 5e-3, batch_size=64, averaging=0.98)
PLAN = l2x.TrainingPlan(value=PHASE, selector=PHASE, evaluations=5, validation_rows=500)


def digit_images(*, small: bool = False) -> tuple[ImageData, ImageData]:
    """Images to learn from, and others: MNIST's 28 x 28, fetched once, or those of 8 x 8 in scikit-learn."""
    try:
        if not small:
            return mnist(DIGITS), mnist(DIGITS, split="test")
    except l2x.errors.DataError as error:
        print(f"{error}\nscikit-learn's small digits take their place.", file=sys.stderr)
    data = small_digits(DIGITS)
    return tuple(ImageData(data.X[rows], data.y[rows], DIGITS) for rows in (slice(100, None), slice(100)))


def train_network(data: ImageData) -> Callable[[np.ndarray], np.ndarray]:
    """A small network on pixels: images (n, h, w) -> probabilities (n, 2)."""

    def pixels(images: np.ndarray) -> np.ndarray:
        return images.reshape(len(images), -1) / data.X.max()

    network = MLPClassifier(64, tol=1e-3, random_state=0).fit(pixels(data.X), data.y)
    return lambda images: network.predict_proba(pixels(images))


def explain_digits(seen: ImageData, others: ImageData) -> tuple[l2x.Explainer, l2x.Explanation]:
    """An explainer of a network on digits, and its explanation of images that neither saw."""
    model = l2x.as_black_box(train_network(seen))
    # 4 x 4 or 7 x 7 patches; what is not selected is black.
    features = l2x.Patches(size=2 if seen.X.shape[-1] < 28 else 4)
    explainer = l2x.Explainer(model, K, features=features, value="model", training=PLAN).fit(seen.X)
    return explainer, explainer.explain(others.X)


def main(output: str = "digits.png") -> None:
    explainer, explanation = explain_digits(*digit_images())
    X, chance = explanation.inputs, l2x.baselines.RandomK(features=explainer.features_)
    kept, random = (posthoc_accuracy(explainer.model, X, e) for e in (explanation, chance.explain(X, K)))
    print(f"{K} of {explainer.features_.d} patches keep the model's answer on {kept:.0%} of the images,")
    print(f"random ones on {random:.0%}. The first was decided by {'; '.join(explanation.names[0])}.")
    explanation.plot(output)
    print(f"saved      {Path(output).resolve()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
