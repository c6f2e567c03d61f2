"""Images: which patches made a small network predict a 3 or an 8? On MNIST, or scikit-learn's digits."""

import sys
from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import l2x
from l2x.datasets import LabelledData, mnist, small_digits
from l2x.display import plot_images, readings
from l2x.evaluation import posthoc_accuracy

K, DIGITS = 4, (3, 8)
PHASE = l2x.Phase(400, 5e-3, batch_size=64, averaging=0.98)
PLAN = l2x.TrainingPlan(value=PHASE, selector=PHASE, evaluations=5, validation_rows=500)


def digit_images(*, small: bool = False) -> tuple[LabelledData, LabelledData]:
    """Return training and test images: MNIST (28 x 28), downloaded once, or scikit-learn's digits (8 x 8)."""
    try:
        if not small:
            return mnist(DIGITS), mnist(DIGITS, split="test")
    except l2x.errors.DataError as error:
        print(f"{error}\nUsing scikit-learn's small digits instead.", file=sys.stderr)
    data = small_digits(DIGITS)
    return tuple(LabelledData(data.X[rows], data.y[rows], DIGITS) for rows in (slice(100, None), slice(100)))


def train_network(data: LabelledData) -> Pipeline:
    """Train a small network on pixels: images (n, h, w) -> probabilities (n, 2)."""
    pixels = FunctionTransformer(lambda images: images.reshape(len(images), -1) / data.X.max())
    network = MLPClassifier(64, tol=1e-3, random_state=0)
    return make_pipeline(pixels, network).fit(data.X, np.take(data.classes, data.y))


def explain_digits(train: LabelledData, test: LabelledData) -> tuple[l2x.Explainer, l2x.Explanation]:
    """Return an explainer of a network on digits, and its explanation of images that neither saw."""
    model = l2x.as_black_box(train_network(train))
    # There are 4 x 4 or 7 x 7 patches; unselected patches are black.
    features = l2x.Patches(size=2 if train.X.shape[-1] < 28 else 4)
    explainer = l2x.Explainer(model, K, features=features, objective="model", training=PLAN).fit(train.X)
    return explainer, explainer.explain(test.X)


def main(output: str = "digits.png") -> None:
    explainer, explanation = explain_digits(*digit_images())
    X, chance = explanation.inputs, l2x.baselines.RandomK(features=explainer.features_)
    shares = [posthoc_accuracy(explainer.model, X, e) for e in (explanation, chance.explain(X, K))]
    print(f"{K} of {explainer.features_.d} patches reproduce {shares[0]:.0%} of the predictions,")
    print(f"random patches for {shares[1]:.0%}. The first depends on {'; '.join(explanation.names[0])}.")
    shown = explanation[:5]
    plot_images(shown, output, labels=[reading.predicted for reading in readings(shown)])
    print(f"saved      {Path(output).resolve()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
