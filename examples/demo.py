"""`make demo`: explain a LightGBM model on scikit-learn's breast-cancer data, and check the explanations."""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import l2x
from l2x.baselines import RandomK
from l2x.plots.lines import plot_history, plot_lines
from l2x.plots.report import SafeHtml, Section, write_report

K, DRAWS, SIZES = 5, 20, range(1, 9)
HOW = (
    "Columns that are not shown are set to their training mean and the model is asked again: does it give "
    "the same answer? A good selection keeps answers when shown and changes them when hidden.",
    "The judge is a network that guesses the model's answer from any subset of columns. It learned from "
    "random subsets of the training rows, so no selection can pass it a code. Many of these columns say "
    "nearly the same (radius, perimeter, area), which is why random ones tell the judge a lot, too.",
)
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--quick", action="store_true", help="train briefly")
parser.add_argument("--report", type=Path, default=Path("out/demo-report.html"))
options = parser.parse_args()
torch.set_num_threads(1)  # two threads took six times as long on two busy cores (one short run of each)
plan = l2x.TrainingPlan.quick(progress=True) if options.quick else l2x.TrainingPlan()

# A model that we can only ask. Neither it nor the explainer learns from the test rows.
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
model = LGBMClassifier(random_state=0, n_jobs=1, verbose=-1).fit(train, y_train)

# Learn once, from the model's answers alone; from then on an explanation is one forward pass.
explainer = l2x.Explainer(model, k=K, training=plan).fit(train)
started = time.perf_counter()
explanation = explainer.explain(test)
microseconds = (time.perf_counter() - started) / len(test) * 1e6

# How faithful? Against random columns, by the model itself and by a judge that never saw a selection.
judge = l2x.metrics.fit_judge(model, train, k=K, training=plan)
answers = model.predict_proba(test).argmax(axis=1)


def at_random(k: int) -> list[l2x.Explanation]:
    return [RandomK(features=explainer.features_, seed=seed).explain(test, k=k) for seed in range(DRAWS)]


def same(one: l2x.Explanation, *, complement: bool = False) -> float:
    return l2x.metrics.posthoc_accuracy(model, test, one, complement=complement)


def kept(some: list[l2x.Explanation], *, complement: bool = False) -> tuple[float, float]:
    """The share of test rows whose answer stays the same, and of those whose answer the judge guesses."""
    guessed = [judge.probabilities(test, e.mask ^ complement).argmax(axis=1) == answers for e in some]
    return float(np.mean([same(e, complement=complement) for e in some])), float(np.mean(guessed))


selected, random = kept([explanation]), kept(at_random(K))
shares = {
    f"the {K} selected columns": selected,
    f"{K} random columns, mean of {DRAWS} draws": random,
    f"all but the {K} selected": kept([explanation], complement=True),
    f"all but {K} random columns": kept(at_random(K), complement=True),
}
columns = ("the model is shown", "same answer", "judge guesses it")
rows = [(name, f"{unchanged:.1%}", f"{guessed:.1%}") for name, (unchanged, guessed) in shares.items()]
by_size = {
    "selected": [same(explainer.explain(test, k=k)) for k in SIZES],
    "random": np.transpose([[same(e) for e in at_random(k)] for k in SIZES]),
}
unsure = int(np.abs(model.predict_proba(test)[:, 0] - 0.5).argmin())
about = f"P(malignant) = {model.predict_proba(test)[unsure, 0]:.2f}, the test row the model is least sure of"
often = explanation.mask.mean(axis=0)

# Print the summary, write the report.
console = Console()
summary = Table(*columns, title=f"{len(test)} rows not seen before")
for row in rows:
    summary.add_row(*row)
console.print("\n", summary, "\n[bold]Selected most often")
for i in np.argsort(-often)[:K]:
    console.print(f"  {often[i]:4.0%}  {explanation.feature_names[i]}")
console.print(f"\n[bold]One row[/]: {about}")
for name in explanation[unsure].names[0]:
    console.print(f"  {name} = {test.iloc[unsure][name]:.4g}")
learned = f"{explainer.fit_seconds_:.0f} s to learn, once, from {explainer.rows_asked_} rows asked"
console.print(f"\n[bold]Speed[/]: {microseconds:.0f} µs per explanation; {learned}")

lines = plot_lines(
    SIZES,
    by_size,
    title="Same answer from k columns",
    x_label="k, columns shown",
    y_label="share of test rows",
)
facts = [
    (f"{selected[0]:.1%}", f"of answers stay the same with {K} of {X.shape[1]} columns"),
    (f"{random[0]:.1%}", f"with {K} random columns, mean of {DRAWS} draws"),
    (f"{microseconds:.0f} µs", f"per explanation, in a batch of {len(test)} rows"),
    (f"{explainer.fit_seconds_:.0f} s", f"to learn, once, from {explainer.rows_asked_} rows asked"),
]
band = f"One explainer, trained for k = {K}. The band: lowest to highest of {DRAWS} random draws."
report = write_report(
    options.report,
    title="Which columns decide a breast-cancer prediction?",
    subtitle=f"A LightGBM model of {X.shape[1]} measurements, right on {model.score(test, y_test):.1%} of "
    f"{len(test)} test rows. For each of them l2x names the {K} columns that decided the model's answer.",
    sections=[
        Section(facts=facts),
        Section("Which columns matter", figures=[explanation.plot()]),
        Section("One row", [f"{about}."], figures=[explanation[unsure].plot()]),
        Section("How faithful?", HOW, table=(columns, rows), figures=[lines], caption=band),
        Section("Training", figures=[plot_history(explainer.history_)], caption="The dot is what was kept."),
        Section("The first rows", html=SafeHtml(explanation.to_html(rows=8))),
    ],
)
console.print(f"[bold]Report[/]: {report.resolve()}", soft_wrap=True)
