"""The parts of a report, one function each: evidence in, numbers with their intervals out.

A part that is added to `measured_parts` is printed, saved and drawn without a change elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from l2x._base.arrays import Array
from l2x.baselines import oracle
from l2x.evaluation._evidence import Evidence
from l2x.evaluation._information import candidate_sizes
from l2x.evaluation._leakage import ExplainedRows, Leakage, leakage_test
from l2x.evaluation._metrics import (
    collapse,
    distinct_sets,
    exact_sets,
    false_discovery_rate,
    jaccard,
    median_rank,
    overlap,
    true_positive_rate,
)
from l2x.evaluation._verdict import (
    EXCLUDED,
    TOLERANCE,
    UNTESTED,
    Fidelity,
    Verdict,
    fidelity_verdict,
    leakage_verdict,
)
from l2x.explanation import Explanation
from l2x.learning import BITS, Bootstrap, Conditional, Estimate, RemovalTest
from l2x.model import query

# The probes of the leakage test are fitted on at most this many rows of X_train.
PROBE_ROWS = 50_000
# The oracle tries every subset, so it explains at most this many rows.
ORACLE_ROWS = 300
# Kernel SHAP queries the model for this many subsets of one row by default (shap.KernelExplainer: 2 d + 2048,
# or all 2^d - 2 if these are fewer), each filled from every background row; 100 of those are usual
# (shap.sample).
SHAP_SUBSETS, SHAP_BACKGROUND = 2048, 100


@dataclass(frozen=True)
class Entry:
    """One number of a report.

    Attributes
    ----------
    key : str
        The key in `Report.to_dict`.
    label : str
        The name that is printed.
    estimate : Estimate
        The number and its interval.
    meaning : str
        How to read it.
    digits : int
        Number of digits after the point.

    Examples
    --------
    >>> entry = Entry("share", "share", Estimate(0.25))
    >>> entry.key, entry.estimate.value
    ('share', 0.25)
    """

    key: str
    label: str
    estimate: Estimate
    meaning: str = ""
    digits: int = 3

    @property
    def text(self) -> str:
        """The number and its interval, as printed."""
        return self.estimate.text(self.digits)


@dataclass(frozen=True)
class Part:
    """One section of a report.

    Attributes
    ----------
    key, title : str
        Names for programs and for people.
    entries : sequence of Entry
        The numbers.
    about : str
        What is measured, in a sentence or two.
    remark : str
        A note on these numbers, such as why there are none.

    Examples
    --------
    >>> part = Part("cost", "Cost", [Entry("rows", "rows queried", Estimate(300.0))])
    >>> part["rows"].value
    300.0
    """

    key: str
    title: str
    entries: Sequence[Entry]
    about: str = ""
    remark: str = ""

    def __getitem__(self, key: str) -> Estimate:
        """Return a number by its key: `report["leakage"]["gain"]`."""
        estimates = {entry.key: entry.estimate for entry in self.entries}
        if key not in estimates:
            raise KeyError(f"{key!r}; part {self.key!r} has {', '.join(estimates)}")
        return estimates[key]


def measured_parts(evidence: Evidence, *, brief: bool) -> tuple[list[Part], Verdict]:
    """Return the parts in reading order, and the verdict on leakage."""
    fidelity, evaluator, information = (
        part(evidence) for part in (fidelity_part, evaluator_part, information_part)
    )
    if brief:
        return [fidelity, evaluator, information], (
            Verdict("none", EXCLUDED) if evidence.explanation.sequential else UNTESTED
        )
    leakage, verdict = leakage_part(evidence)
    parts = [fidelity, evaluator, leakage, information, stability_part(evidence)]
    if evidence.reference.truth is not None:
        parts.append(truth_part(evidence, np.asarray(evidence.reference.truth, dtype=bool)))
    return [*parts, cost_part(evidence)], verdict


def fidelity_part(evidence: Evidence) -> Part:
    """Measure post-hoc accuracy and the removal test, for every way of masking."""
    entries = [
        entry
        for i, (masking, predicted) in enumerate(evidence.masked.items())
        for entry in _fidelity_entries(evidence, masking, predicted, own=i == 0)
    ]
    return Part(
        "fidelity",
        f"Fidelity: post-hoc {evidence.measure} of the model",
        entries,
        "Does the model predict the same from the selected features alone (sufficiency), and from all others "
        "(removal test, comprehensiveness)? The remaining features are masked in several ways. A selection "
        "that leaks the prediction can score high here.",
    )


def fidelity_finding(evidence: Evidence) -> tuple[Fidelity, str]:
    """Compare the selected features with random ones under the view's own masking."""
    own = next(iter(evidence.masked.values()))
    losses = own.map(evidence.losses)
    agreement = losses.map(lambda rows: float(1 - rows.mean()))
    return fidelity_verdict(
        evidence.boot.mean(losses.random[0] - losses.selected),
        selection=agreement.selected,
        random=agreement.random[0],
        removal=agreement.removal,
        measure=evidence.measure,
    )


def _fidelity_entries(
    evidence: Evidence, masking: str | None, predicted: RemovalTest[Array], *, own: bool
) -> list[Entry]:
    """Return the entries for one way of masking."""
    key = masking or "masked"
    label = f"other features masked ({masking})" if masking else "other features masked"
    agreement = predicted.map(evidence.agreement)
    entries = [Entry(key, label, agreement.selected, "higher is better")]
    if evidence.classifies:
        kl = evidence.boot.mean(_kl(evidence.predictions, predicted.selected) * BITS)
        entries.append(Entry(f"{key}_kl", "  KL from the full prediction, bits", kl, "lower is better"))
    chance = "random" if own else f"{key}_random"
    return [
        *entries,
        Entry(f"{key}_removal", "  selected features masked", agreement.removal, "lower is better"),
        Entry(chance, "  random features instead", agreement.random[0], "chance"),
    ]


def _kl(p: Array, q: Array) -> Array:
    """Return KL(p || q), (n,) nats; q is at least one in a million, so that the result is finite."""
    return np.asarray((p * (np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-6)))).sum(axis=1))


def evaluator_part(evidence: Evidence) -> Part:
    """Measure what an evaluator predicts that was fitted on random subsets of other rows (EVAL-X)."""
    everything, masks = evidence.selectable, evidence.masks
    cases = [
        ("selection", "selected features", masks.selected),
        # The evaluator was never fitted with features that cannot be selected.
        ("removal", "selected features masked", everything & masks.removal),
        ("random", "random features instead", masks.random[0]),
        ("everything", "all features", everything),
        ("nothing", "no features", np.zeros_like(everything)),
    ]
    entries = []
    for key, label, mask in cases:
        guesses = evidence.evaluator.predict(evidence.X_test, mask)
        loss = -evidence.evaluator.log_q(evidence.X_test, mask, evidence.predictions)
        entries.append(Entry(key, label, evidence.agreement(guesses)))
        entries.append(Entry(f"{key}_loss", "  log-loss, nats", evidence.boot.mean(loss)))
    return Part(
        "evaluator",
        f"Independent evaluator: {evidence.measure}",
        entries,
        "A predictor that was fitted on random subsets of other rows (EVAL-X). It has seen no explainer's "
        "selections, so it cannot exploit leakage.",
    )


def leakage_part(evidence: Evidence) -> tuple[Part, Verdict]:
    """Run the leakage test, and return its verdict as well."""
    train, test = _probe_rows(evidence)
    leakage = leakage_test(evidence.evaluator, train, test, training=evidence.training, seed=evidence.seed)
    boot = Bootstrap(len(test.mask), seed=evidence.seed)
    gain, control = boot.mean(leakage.gain * BITS), boot.mean(leakage.control * BITS)
    share = evidence.share(gain)
    missed = max(evidence.available - float(evidence.captured(evidence.selectable).mean()), 0.0)
    entries = [
        *_probe_entries(evidence, leakage, test.predictions, boot),
        Entry("divergence", "leakage, bits", boot.mean(leakage.divergence * BITS),
              "E KL(g1 || g0); 0: no leakage"),
        Entry("gain", "  as gain in log-likelihood, bits", gain, "what the choice adds to the values"),
        Entry("control", "  noise of fitting, bits", control, "a second g0 versus the first"),
        Entry("share", "  share of the information", share, f"above {TOLERANCE:.2f} it leaks"),
        Entry("missed", "  missed by the evaluator, bits", Estimate(missed), "even with all features"),
    ]  # fmt: skip
    verdict = leakage_verdict(
        share,
        proven=gain.low > max(abs(control.low), abs(control.high), missed),
        missed=evidence.share(Estimate(missed)).value,
        rows=len(test.mask),
        same_for_all=bool((test.mask == test.mask[0]).all() and (train.mask == test.mask[0]).all()),
        excluded=evidence.explanation.sequential,
    )
    about = (
        "An explanation leaks if knowing which features were selected says more about the prediction than "
        "their values do. One probe (g1) is fitted on the explainer's selections, another (g0) on the same "
        "masks shuffled across rows, so that it can learn from the values only. The difference is leakage."
    )
    return Part("leakage", "Leakage test", entries, about), verdict


def _probe_rows(evidence: Evidence) -> tuple[ExplainedRows, ExplainedRows]:
    """Return the rows to fit the probes on, and those to measure on."""
    view, explanation = evidence.view, evidence.explanation
    if evidence.subject.source is None:
        order = np.random.default_rng(evidence.seed).permutation(len(explanation))
        train, test = (
            ExplainedRows(view.take(evidence.X_test, i), explanation.mask[i], evidence.predictions[i])
            for i in (np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :]))
        )
        return train, test
    X = view.check(evidence.X_train)
    X = view.take(X, slice(0, min(PROBE_ROWS, len(X))))
    predictions = query(evidence.black_box, view, X)
    train = ExplainedRows(X, evidence.subject.selections(evidence.subject.source, X).mask, predictions)
    return train, ExplainedRows(evidence.X_test, explanation.mask, evidence.predictions)


def _probe_entries(evidence: Evidence, leakage: Leakage, predictions: Array, boot: Bootstrap) -> list[Entry]:
    """Return how well the probe and the mask alone predict, and chance."""
    in_units = evidence.evaluator.likelihood.predictions
    probe, alone = (
        evidence.agreement(in_units(outputs), predictions) for outputs in (leakage.outputs, leakage.mask_only)
    )
    own = Entry("own_probe", f"{evidence.measure} of a probe of these selections", probe, "leakage raises it")
    if not evidence.classifies:
        return [own, Entry("mask_only", "R² of the mask alone", alone, "0 is chance")]
    classes = predictions.argmax(axis=1)
    majority = boot.mean(classes == np.bincount(classes).argmax())
    return [
        own,
        Entry("mask_only", "accuracy of the mask alone", alone),
        Entry("majority", "  the most frequent class", majority, "chance"),
    ]


def information_part(evidence: Evidence) -> Part:
    """Measure the bits that the evaluator finds in the selection."""
    captured = evidence.boot.mean(evidence.captured(evidence.explanation.mask))
    entries = [
        Entry("captured", "captured, bits", captured, "a lower bound, by the evaluator"),
        Entry("available", "available, bits", Estimate(evidence.available)),
        Entry("share", "share", evidence.share(captured)),
    ]
    about = "Bits about the prediction that the evaluator finds in the selected values."
    return Part("information", "Information about the prediction", entries, about)


def information_curve(evidence: Evidence) -> list[tuple[int, Estimate]]:
    """Return (k, bits captured by the k best features) pairs; see `candidate_sizes`."""
    return [
        (k, evidence.boot.mean(evidence.captured(replace(evidence.explanation, k=k, sizes=None).mask)))
        for k in candidate_sizes(evidence.view.d)
    ]


def stability_part(evidence: Evidence) -> Part:
    """Measure overlap across seeds, under small noise, across rows, and across models."""
    explanation, boot = evidence.explanation, evidence.boot
    chance = boot.mean(overlap(explanation.mask, evidence.masks.random[0]))
    sets = Estimate(float(distinct_sets(explanation)))
    entries = [
        Entry("chance", "overlap with random sets", chance, "Jaccard index"),
        *_repeated_entries(evidence),
        *_randomised_entries(evidence, chance.value),
        Entry("collapse", "overlap with the global top-k", boot.mean(collapse(explanation)),
              "1: every row has the same set"),
        Entry("distinct", "different sets", sets, f"in {len(explanation):,} rows", digits=0),
    ]  # fmt: skip
    about = (
        "How far the same features are selected with another seed, under small noise, for another row, and "
        "for another model. 1 is the same set, 0 a disjoint one."
    )
    return Part("stability", "Stability", entries, about)


def _repeated_entries(evidence: Evidence) -> list[Entry]:
    """Return overlaps of the same method with other seeds, and on rows with a little noise."""
    explanation, subject, entries = evidence.explanation, evidence.subject, []
    if subject.repeats:
        overlaps = np.mean([jaccard(explanation, repeat) for repeat in subject.repeats], axis=0)
        across = evidence.boot.mean(overlaps)
        entries.append(Entry("seeds", "overlap across seeds", across, f"{1 + len(subject.repeats)} seeds"))
    if subject.source is not None:
        noisy = evidence.view.jitter(evidence.X_test, np.random.default_rng(evidence.seed))
        if noisy is not None:
            repeat = subject.selections(subject.source, noisy)
            shared = evidence.boot.mean(jaccard(explanation, repeat))
            entries.append(Entry("noise", "overlap under small noise", shared))
    return entries


def _randomised_entries(evidence: Evidence, chance: float) -> list[Entry]:
    """Return the overlap with the same method fitted to a random model, which must be small."""
    if evidence.reference.randomised is None:
        return []
    other = evidence.subject.selections(evidence.reference.randomised, evidence.X_test)
    shared = evidence.boot.mean(jaccard(evidence.explanation, other))
    changes = shared.high < (1 + chance) / 2
    meaning = "changes with the model" if changes else "DOES NOT CHANGE WITH THE MODEL"
    return [Entry("randomised", "overlap for a random model", shared, meaning)]


def truth_part(evidence: Evidence, truth: Array) -> Part:
    """Compare the selection with the truly relevant features, (n, d)."""
    explanation, boot = evidence.explanation, evidence.boot
    # The best possible selection: k truly relevant features, or all of them if there are fewer.
    sizes = None if explanation.sizes is None else truth.sum(axis=1).clip(max=explanation.k)
    best = Explanation(truth.astype(float), explanation.k, explanation.feature_names, sizes=sizes)
    best_tpr, best_fdr = true_positive_rate(best, truth).mean(), false_discovery_rate(best, truth).mean()
    entries = [
        Entry("median_rank", "median rank", boot.mean(median_rank(explanation, truth)), "lower is better", 2),
        Entry("exact", "exact sets", boot.mean(exact_sets(explanation, truth))),
        Entry("tpr", "true-positive rate", boot.mean(true_positive_rate(explanation, truth)),
              f"at best {best_tpr:.3f} with this k"),
        Entry("fdr", "false-discovery rate", boot.mean(false_discovery_rate(explanation, truth)),
              f"at best {best_fdr:.3f} with this k"),
    ]  # fmt: skip
    if evidence.reference.exact is not None:
        entries.append(_oracle_entry(evidence, evidence.reference.exact))
    return Part("truth", "Truth", entries, "Agreement with the features that truly matter, known here.")


def _oracle_entry(evidence: Evidence, exact: Conditional) -> Entry:
    few = min(len(evidence.explanation), ORACLE_ROWS)
    X, k = evidence.view.take(evidence.X_test, slice(0, few)), evidence.explanation.k
    best = oracle(exact, X, k, predictions=evidence.predictions[:few])
    gap = Bootstrap(few).mean(best.gap(evidence.explanation[:few]))
    return Entry("oracle_gap", "bits lost versus the best sets", gap)


def cost_part(evidence: Evidence) -> Part:
    """Measure what explaining takes, and when learning to explain pays off."""
    subject, entries = evidence.subject, []
    queried, fit_seconds = (getattr(subject.source, name, None) for name in ("rows_queried_", "fit_seconds_"))
    if queried is not None:
        entries.append(Entry("rows_queried", "model queries, rows", Estimate(queried), digits=0))
    if fit_seconds is not None:
        entries.append(Entry("fit_seconds", "training, seconds", Estimate(fit_seconds), digits=1))
    if subject.explain_seconds is not None:
        each = subject.explain_seconds / len(subject.explanation)
        speed = f"{1 / each:,.0f} rows per second"
        entries.append(Entry("microseconds", "one explanation, µs", Estimate(1e6 * each), speed, 2))
        if fit_seconds is not None:
            entries += _break_even(evidence, fit_seconds, each, queried)
    return Part(
        "cost",
        "Cost",
        entries,
        "What training took, and after how many explained rows it pays off.",
        remark="" if entries else "precomputed explanations: no cost to report",
    )


def _break_even(evidence: Evidence, fit_seconds: float, each: float, queried: int | None) -> list[Entry]:
    """Return the number of rows after which training pays off compared with Kernel SHAP, which queries the
    model for every row: in seconds, and in model queries."""
    subsets = min(SHAP_SUBSETS + 2 * evidence.view.d, max(1, 2**evidence.view.d - 2))
    times = subsets * SHAP_BACKGROUND
    waiting = times * evidence.query_seconds / len(evidence.predictions)
    rows = fit_seconds / (waiting - each) if waiting > each else float("inf")
    meaning = f"versus Kernel SHAP, which queries the model {times:,} times per row"
    entries = [Entry("break_even", "rows until training pays off, by time", Estimate(rows), meaning, 1)]
    if queried is not None:
        label = "  by model queries"
        entries.append(Entry("break_even_calls", label, Estimate(queried / times), "versus Kernel SHAP", 2))
    return entries
