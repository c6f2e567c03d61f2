"""`make demo`: explain models of a table, texts and images, check the explanations, and write one page."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from images import PLAN, digit_images, explain_digits
from reviews import explain_reviews, short_review
from rich.console import Console
from rich.table import Table
from table import explain_tumours

import l2x
from l2x.baselines import RandomK
from l2x.display import SafeHtml, Section, plot_images, plot_lines, readings, write_report
from l2x.evaluation import fit_evaluator, posthoc_accuracy

DRAWS, SIZES = 10, range(1, 9)
COLUMNS = ("features", "post-hoc accuracy", "by the evaluator", "random features", "by the evaluator")
FOUR = "The model classifies the first two reviews correctly, and the last two wrongly."
HOW = (
    "Post-hoc accuracy: the share of inputs for which the model makes the same prediction when all other "
    f"features are masked. Random features: as many, drawn again for each input, mean of {DRAWS} draws.",
    "The evaluator is a network that predicts the model's output from any subset of features. It was fitted "
    "on random subsets, so it cannot read a prediction that leaks through the choice of features.",
)


@dataclass(frozen=True)
class Part:
    """One kind of data: its explainer, its explanation of held-out inputs, and sections of the page."""

    shown: str  # "5 of 30 columns of a table"
    explainer: l2x.Explainer
    explanation: l2x.Explanation
    evaluator: l2x.learning.FittedSurrogate
    sections: Sequence[Section]

    def checked(self) -> list[float]:
        """Return the shares of inputs, in the order of COLUMNS."""
        draws = at_random(self.explainer, self.explanation.inputs, self.explanation.k)
        random = np.mean([self._accuracy(draw) for draw in draws], axis=0)
        return [*self._accuracy(self.explanation), *random.tolist()]

    def microseconds(self) -> float:
        X, started = self.explanation.inputs, time.perf_counter()
        self.explainer.explain(X)
        return (time.perf_counter() - started) / len(X) * 1e6

    def _accuracy(self, explanation: l2x.Explanation) -> tuple[float, float]:
        """Return the post-hoc accuracy, measured with the model and with the evaluator."""
        X = explanation.inputs
        evaluated = self.evaluator.predict(X, explanation.mask).argmax(axis=1)
        predictions = self.evaluator.predictions(X).argmax(axis=1)
        return posthoc_accuracy(self.explainer.model, X, explanation), float(
            (evaluated == predictions).mean()
        )


def at_random(explainer: l2x.Explainer, X: Any, k: int) -> list[l2x.Explanation]:
    return [RandomK(features=explainer.features_, seed=seed).explain(X, k) for seed in range(DRAWS)]


def table_part(*, quick: bool) -> Part:
    """Explain LightGBM on scikit-learn's breast-cancer data."""
    plan = l2x.TrainingPlan.quick(progress=True) if quick else l2x.TrainingPlan()
    explainer, explanation, train = explain_tumours(plan)
    model, X, k = explainer.model, explanation.inputs, explanation.k
    malignant = model.predict_proba(X)[:, list(model.classes_).index("malignant")]
    unsure = int(np.abs(malignant - 0.5).argmin())
    by_size = {
        "selected": [posthoc_accuracy(model, X, explainer.explain(X, k=size)) for size in SIZES],
        "random": np.transpose(
            [[posthoc_accuracy(model, X, e) for e in at_random(explainer, X, size)] for size in SIZES]
        ),
    }
    lines = plot_lines(
        SIZES,
        by_size,
        title="Post-hoc accuracy of k columns",
        x_label="k, columns selected",
        y_label="share of test rows",
    )
    about = (
        f"A LightGBM model reads {explanation.scores.shape[1]} measurements of a tumour. For each of "
        f"{len(X)} tumours l2x names the {k} that decided the prediction. The first figure shows the tumour "
        "that the model is least sure of, the second one the effects in all tumours."
    )
    figures = [explanation[unsure].plot(), explanation.for_class("malignant").beeswarm()]
    band = f"One explainer, trained for k = {k}. The band shows the range of {DRAWS} random draws."
    sections = [
        Section("A table: malignant or not?", [about], figures=figures),
        Section(html=SafeHtml(explanation.to_html(rows=6))),
        Section(figures=[lines], caption=band),
    ]
    evaluator = fit_evaluator(model, train, k, training=plan)
    shown = f"{k} of {explanation.scores.shape[1]} columns of a table"
    return Part(shown, explainer, explanation, evaluator, sections)


def images_part(*, quick: bool) -> Part:
    """Explain a small network on 3s and 8s."""
    train, test = digit_images(small=quick)
    explainer, explanation = explain_digits(train, test)
    model, X, k = explainer.model, explanation.inputs, explanation.k
    predictions = model(X).argmax(axis=1)
    alone = model(explainer.features_.for_model(X, explanation.mask)).argmax(axis=1)
    examples = np.random.default_rng(1).choice(len(X), 10, replace=False)
    examples = examples[np.argsort(predictions[examples], kind="stable")]
    d = explainer.features_.d
    about = (
        f"A small network distinguishes 3 from 8. l2x names {k} of {d} patches for each image; with all "
        "other patches black, the network should make the same prediction, which is shown above each image."
    )
    shown = explanation[examples]
    labels = [reading.predicted for reading in readings(shown)]
    title = f"The {k} of {d} patches that decided"
    figures = [shown[0].plot(), plot_images(shown, labels=labels, title=title)]
    sections = [Section("Images: a 3 or an 8?", [about], figures=figures)]
    if (changed := np.flatnonzero(alone != predictions)).size:
        text = (
            f"For {changed.size:,} of {len(X):,} images the prediction changes. Above each image are "
            "the predictions for the whole image and for its selected patches alone."
        )
        first = changed[:10]
        named = [f"{test.classes[predictions[i]]} → {test.classes[alone[i]]}" for i in first]
        figure = plot_images(explanation[first], labels=named, title="The prediction changes")
        sections.append(Section("Where the patches are not enough", [text], figures=[figure]))
    evaluator = fit_evaluator(
        model, train.X, k, features=l2x.Patches(explainer.features_.size), training=PLAN
    )
    return Part(f"{k} of {d} patches of an image", explainer, explanation, evaluator, sections)


def text_part(*, quick: bool) -> Part:
    """Explain a logistic regression on the words of IMDB reviews, which are downloaded once."""
    reviews = explain_reviews(rows=600, others=200) if quick else explain_reviews()
    explainer, explanation, k = reviews.explainer, reviews.explanation, reviews.explanation.k
    about = (
        "A logistic regression on TF-IDF classifies reviews as good or bad. l2x names the "
        f"{k} words that decided; from these words alone, the model should make the same prediction."
    )
    sections = [
        Section("Texts: a good film or a bad one?", [about], figures=[short_review(explanation).plot()]),
        Section("", [FOUR], html=SafeHtml(reviews.html)),
        Section(figures=[explanation.plot()]),
    ]
    evaluator = fit_evaluator(
        explainer.model, reviews.train, k, features=explainer.features, training=explainer.training
    )
    return Part(f"{k} words of a review", explainer, explanation, evaluator, sections)


# One function per kind of data, in the order of the page.
PARTS = (table_part, text_part, images_part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="train for fewer steps, on less data")
    parser.add_argument("--report", type=Path, default=Path("out/demo-report.html"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # on two busy cores, two threads were six times slower in a short run
    console, started = Console(), time.perf_counter()
    parts: list[Part] = []
    for make in PARTS:
        try:
            parts.append(make(quick=options.quick))
        except l2x.errors.DataError as error:  # without a network, the other parts are still shown
            console.print(f"[yellow]Left out[/]: {error}")
        else:
            console.print(f"[bold]{parts[-1].shown}[/], after {time.perf_counter() - started:.0f} s")
            console.print(parts[-1].explanation[:2], "\n", markup=False, highlight=False, soft_wrap=True)

    summary = Table(*COLUMNS, title="held-out inputs")
    rows, facts = [], []
    for part in parts:
        shares = part.checked()
        rows.append((part.shown, *(f"{share:.1%}" for share in shares)))
        facts.append((f"{shares[0]:.1%}", f"post-hoc accuracy of {part.shown}; random: {shares[2]:.0%}"))
        speed = f"{part.microseconds():.0f} µs"
        fitted = f"fitted once in {part.explainer.fit_seconds_:.0f} s"
        facts.append((speed, f"per explanation, in a batch of {len(part.explanation):,}; {fitted}"))
        summary.add_row(*rows[-1])
        console.print(f"[bold]{part.shown}[/]: {speed} per explanation; {fitted}")
    console.print("\n", summary)
    report = write_report(
        options.report,
        title="Why did the model predict that?",
        subtitle="The few features that decided each prediction, found by l2x in one forward pass.",
        sections=[
            Section(facts=facts),
            *(section for part in parts for section in part.sections),
            Section("How faithful?", HOW, table=(COLUMNS, rows)),
        ],
    )
    console.print(f"[bold]Report[/]: {report.resolve()}", soft_wrap=True)


if __name__ == "__main__":
    main()
