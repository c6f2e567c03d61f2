"""`make demo`: models of a table, of texts and of images, explained and checked, on one page."""

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
from reviews import explain_reviews
from rich.console import Console
from rich.table import Table
from table import explain_tumours

import l2x
from l2x.baselines import RandomK
from l2x.display._images import plot_images
from l2x.display._lines import plot_lines
from l2x.display._report import SafeHtml, Section, write_report
from l2x.evaluation import fit_judge, posthoc_accuracy

DRAWS, SIZES = 10, range(1, 9)
COLUMNS = ("the model is shown", "same answer", "judge guesses it", "random: same", "judge")
HOW = (
    "Same answer: all but the selected features are removed and the model is asked again. Random: as many "
    f"features, drawn again for each input, mean of {DRAWS} draws.",
    "The judge is a network that guesses the model's answer from any subset. It learned from random subsets "
    "of the training data, so it has learned no code that a selection could pass on.",
)


@dataclass(frozen=True)
class Part:
    """One kind of data: its explainer, what it says about inputs that nothing was fitted on, and the page."""

    shown: str  # "5 of 30 columns of a table"
    explainer: l2x.Explainer
    explanation: l2x.Explanation
    judge: l2x.learning.objectives.FittedQ
    sections: Sequence[Section]

    def checked(self) -> list[float]:
        """Shares of inputs, in the order of COLUMNS."""
        draws = at_random(self.explainer, self.explanation.inputs, self.explanation.k)
        random = np.mean([self._kept(draw) for draw in draws], axis=0)
        return [*self._kept(self.explanation), *random.tolist()]

    def microseconds(self) -> float:
        X, started = self.explanation.inputs, time.perf_counter()
        self.explainer.explain(X)
        return (time.perf_counter() - started) / len(X) * 1e6

    def _kept(self, explanation: l2x.Explanation) -> tuple[float, float]:
        """How often the model's answer stays the same, and how often the judge guesses it."""
        X = explanation.inputs
        guessed = self.judge.predict(X, explanation.mask).argmax(axis=1)
        answers = self.judge.answers(X).argmax(axis=1)
        return posthoc_accuracy(self.explainer.model, X, explanation), float((guessed == answers).mean())


def at_random(explainer: l2x.Explainer, X: Any, k: int) -> list[l2x.Explanation]:
    return [RandomK(features=explainer.features_, seed=seed).explain(X, k) for seed in range(DRAWS)]


def table_part(*, quick: bool) -> Part:
    """LightGBM on scikit-learn's breast-cancer data."""
    plan = l2x.TrainingPlan.quick(progress=True) if quick else l2x.TrainingPlan()
    explainer, explanation, train = explain_tumours(plan)
    model, X, k = explainer.model, explanation.inputs, explanation.k
    malignant = model.predict_proba(X)[:, 0]
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
        title="Same answer from k columns",
        x_label="k, columns shown",
        y_label="share of test rows",
    )
    about = (
        f"A LightGBM model reads {explanation.scores.shape[1]} measurements of a tumour. For each of "
        f"{len(X)} tumours l2x names the {k} that decided what the model says. Below them, the row that the "
        f"model is least sure of: P(malignant) = {malignant[unsure]:.2f}."
    )
    figures = [explanation.plot(), explanation[unsure].plot()]
    band = f"One explainer, trained for k = {k}. The band: lowest to highest of {DRAWS} random draws."
    sections = [
        Section("A table: malignant or not?", [about], figures=figures),
        Section(html=SafeHtml(explanation.to_html(rows=6))),
        Section(figures=[lines], caption=band),
    ]
    judge = fit_judge(model, train, k, training=plan)
    shown = f"{k} of {explanation.scores.shape[1]} columns of a table"
    return Part(shown, explainer, explanation, judge, sections)


def images_part(*, quick: bool) -> Part:
    """A convolutional network on 3s and 8s."""
    seen, others = digit_images(small=quick)
    explainer, explanation = explain_digits(seen, others)
    model, X, k = explainer.model, explanation.inputs, explanation.k
    answers = model(X).argmax(axis=1)
    alone = model(explainer.features_.for_model(X, explanation.mask)).argmax(axis=1)
    examples = np.random.default_rng(1).choice(len(X), 10, replace=False)
    examples = examples[np.argsort(answers[examples], kind="stable")]
    d = explainer.features_.d
    about = (
        f"A small convolutional network tells 3 from 8. l2x names {k} of {d} patches for each image; with "
        "everything else black, the network should give the same answer. Above each image, what it says."
    )
    named = [str(others.digits[answer]) for answer in answers[examples]]
    figure = plot_images(explanation[examples], labels=named, title=f"The {k} of {d} patches that decided")
    sections = [Section("Images: a 3 or an 8?", [about], figures=[figure])]
    if (changed := np.flatnonzero(alone != answers)).size:
        text = (
            f"Of {len(X):,} images, {changed.size:,} change their answer. Above each, what the network says "
            "of the whole image, and of its patches alone."
        )
        first = changed[:10]
        named = [f"{others.digits[answers[i]]} → {others.digits[alone[i]]}" for i in first]
        figure = plot_images(explanation[first], labels=named, title="The answer changes")
        sections.append(Section("Where the patches are not enough", [text], figures=[figure]))
    judge = fit_judge(model, seen.X, k, features=l2x.Patches(explainer.features_.size), training=PLAN)
    return Part(f"{k} of {d} patches of an image", explainer, explanation, judge, sections)


def text_part(*, quick: bool) -> Part:
    """A logistic regression on the words of IMDB reviews, which are fetched once."""
    reviews = explain_reviews(rows=600, others=200) if quick else explain_reviews()
    explainer, explanation, k = reviews.explainer, reviews.explanation, reviews.explanation.k
    about = (
        "A logistic regression on TF-IDF tells good reviews from bad ones, from nothing but a list of texts. "
        f"l2x names the {k} words that decided; with all others dropped, the model should say the same."
    )
    sections = [
        Section("Texts: a good film or a bad one?", [about], html=SafeHtml(reviews.html)),
        Section(figures=[explanation.plot()]),
    ]
    judge = fit_judge(
        explainer.model, reviews.train, k, features=explainer.features, training=explainer.training
    )
    return Part(f"{k} words of a review", explainer, explanation, judge, sections)


# One function for each kind of data, in the order of the page: a further kind is one more Part here.
PARTS = (table_part, text_part, images_part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="train briefly, on little data")
    parser.add_argument("--report", type=Path, default=Path("out/demo-report.html"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # two threads took six times as long on two busy cores (one short run of each)
    console = Console()
    parts = []
    for part in PARTS:
        try:
            parts.append(part(quick=options.quick))
        except l2x.DataError as error:  # no network: the others can be shown all the same
            console.print(f"[yellow]Left out[/]: {error}")

    summary = Table(*COLUMNS, title="inputs that nothing was fitted on")
    rows, facts = [], []
    for part in parts:
        shares = part.checked()
        rows.append((part.shown, *(f"{share:.1%}" for share in shares)))
        facts.append((f"{shares[0]:.1%}", f"same answer with {part.shown}; random ones {shares[2]:.0%}"))
        speed = f"{part.microseconds():.0f} µs"
        learned = f"{part.explainer.fit_seconds_:.0f} s to learn, once"
        facts.append((speed, f"per explanation, in a batch of {len(part.explanation):,}; {learned}"))
        summary.add_row(*rows[-1])
        console.print(f"[bold]{part.shown}[/]: {speed} per explanation; {learned}")
    console.print("\n", summary)
    report = write_report(
        options.report,
        title="Why did the model say that?",
        subtitle="Explained by l2x: the few features that decided each answer, found by one forward pass.",
        sections=[
            Section(facts=facts),
            *(section for part in parts for section in part.sections),
            Section("How faithful?", HOW, table=(COLUMNS, rows)),
        ],
    )
    console.print(f"[bold]Report[/]: {report.resolve()}", soft_wrap=True)


if __name__ == "__main__":
    main()
