"""The other parts of a report card, one function each."""

from __future__ import annotations

from typing import Any

import numpy as np

from l2x.evaluation.agreement import masked_answers
from l2x.evaluation.bench import BITS, Bench
from l2x.evaluation.bootstrap import Bootstrap, Estimate
from l2x.evaluation.card import Entry, Part
from l2x.evaluation.choose_k import curve_rows, some_sizes
from l2x.evaluation.oracle import oracle
from l2x.evaluation.ranks import exact_rows, found_rows, median_rank, wrong_rows
from l2x.evaluation.stability import collapse, distinct_sets, jaccard
from l2x.explanation import Explanation
from l2x.foundations.arrays import Array
from l2x.values import SubsetValue

# Kernel SHAP asks the model this often for one row by default (shap.KernelExplainer: 2 d + 2048).
SHAP_ROWS = 2048


def fidelity_part(bench: Bench) -> Part:
    """1. The model itself, shown only the selection, or everything else."""
    own = getattr(bench.view, "removal", None)
    ways = [own, *(way for way in bench.view.removals if way != own)]
    mask, entries = bench.explanation.mask, []
    for way in ways:
        view = bench.view if way is None or way == own else bench.view.with_removal(way)
        label = f"the rest removed ({way})" if way else "the rest removed"
        for places, shown, ending in ((mask, label, ""), (~mask, "  the selection removed", "_complement")):
            part = masked_answers(bench.black_box, view, bench.X_test, places)
            key = f"{way or 'removed'}{ending}"
            meaning = "high is good" if not ending else "low is good"
            entries.append(Entry(key, shown, bench.agreement(part), meaning))
            if bench.classifies and not ending:
                kl = bench.boot.mean(_kl(bench.answers, part) * BITS)
                entries.append(Entry(f"{key}_kl", "  KL from the full answer, bits", kl, "low is good"))
    chance = masked_answers(bench.black_box, bench.view, bench.X_test, bench.random_masks)
    entries.append(Entry("random", "random features instead", bench.agreement(chance), "chance"))
    return Part("fidelity", f"Fidelity: post-hoc {bench.measure} of the model", entries)


def judge_part(bench: Bench) -> Part:
    """2. EVAL-X: a q fitted on random subsets of other rows, so that no selection can pass it a code."""
    everything = bench.selectable
    cases = [
        ("selection", "the selection", bench.explanation.mask),
        ("random", "random features instead", bench.random_masks),
        ("everything", "everything selected", everything),
        ("nothing", "nothing selected", np.zeros_like(everything)),
    ]
    entries = []
    for key, label, mask in cases:
        outputs = bench.judge.outputs(bench.X_test, mask)
        loss = -bench.judge.log_q(bench.X_test, mask, bench.answers)
        entries.append(Entry(key, label, bench.agreement(bench.as_answers(outputs))))
        entries.append(Entry(f"{key}_loss", "  log-loss, nats", bench.boot.mean(loss)))
    return Part("judge", f"Independent judge: {bench.measure}", entries)


def information_part(bench: Bench) -> tuple[Part, list[tuple[int, Estimate]]]:
    """4. Bits that the judge finds in the selection, of the bits there are, and the curve over k."""
    sizes = some_sizes(bench.view.d)
    k = bench.explanation.k
    rows = dict(
        zip(
            sizes, curve_rows(bench.judge, bench.X_test, bench.explanation, sizes, bench.answers), strict=True
        )
    )
    at_k = rows.get(k, bench.judge.log_q(bench.X_test, bench.explanation.mask, bench.answers))
    base = bench.log_marginal
    curve = [(size, bench.boot.mean((row - base) * BITS)) for size, row in rows.items()]
    captured = bench.boot.mean((at_k - base) * BITS)
    entries = [
        Entry("captured", "captured, bits", captured, "a lower bound, by the judge"),
        Entry("available", "there are, bits", Estimate(bench.available * BITS)),
        Entry("share", "share", bench.share(captured)),
    ]
    return Part("information", "Information about the answer", entries), curve


def stability_part(bench: Bench, randomised: Any) -> Part:
    """5. Across seeds, under small noise, across rows, and across models."""
    explanation, subject, boot = bench.explanation, bench.subject, bench.boot
    rng = np.random.default_rng(bench.seed)
    chance = jaccard(explanation, _with_mask(explanation, bench.random_masks))
    entries = [Entry("chance", "overlap with random sets", boot.mean(chance), "Jaccard at k")]
    if subject.others:
        overlaps = np.mean([jaccard(explanation, other) for other in subject.others], axis=0)
        entries.append(
            Entry("seeds", "overlap across seeds", boot.mean(overlaps), f"{1 + len(subject.others)} seeds")
        )
    noisy = None if subject.source is None else bench.view.jitter(bench.X_test, rng)
    if noisy is not None:
        overlap = boot.mean(jaccard(explanation, subject.explain(noisy)))
        entries.append(Entry("noise", "overlap under small noise", overlap))
    if randomised is not None:
        other = (
            randomised
            if isinstance(randomised, Explanation)
            else randomised.explain(bench.X_test, explanation.k)
        )
        overlap = boot.mean(jaccard(explanation, other))
        halfway = (1 + float(chance.mean())) / 2
        meaning = (
            "it changes with the model" if overlap.high < halfway else "IT DOES NOT CHANGE WITH THE MODEL"
        )
        entries.append(Entry("randomised", "overlap for a random model", overlap, meaning))
    sets = Estimate(float(distinct_sets(explanation)))
    entries += [
        Entry("collapse", "the same for every row", boot.mean(collapse(explanation)), "1: one set for all"),
        Entry("distinct", "different sets", sets, f"in {len(explanation):,} rows", digits=0),
    ]
    return Part("stability", "Stability", entries)


def truth_part(bench: Bench, truth: Array, exact: SubsetValue | None) -> Part:
    """6. Against the truly relevant features."""
    explanation, boot = bench.explanation, bench.boot
    best = _with_mask(explanation, truth)  # the k best that a method could select
    entries = [
        Entry("median_rank", "median rank", boot.mean(median_rank(explanation, truth)), "lower is better", 2),
        Entry("exact", "exact sets", boot.mean(exact_rows(explanation, truth))),
        Entry("tpr", "true-positive rate", boot.mean(found_rows(explanation, truth)),
              f"at best {found_rows(best, truth).mean():.3f} with this k"),
        Entry("fdr", "false-discovery rate", boot.mean(wrong_rows(explanation, truth)),
              f"at best {wrong_rows(best, truth).mean():.3f} with this k"),
    ]  # fmt: skip
    if exact is not None:
        few = min(len(explanation), 300)  # the oracle tries every subset
        X = bench.view.take(bench.X_test, slice(0, few))
        found = oracle(exact, X, explanation.k, responses=bench.answers[:few])
        lost = found.log_q - exact.log_q(X, explanation.mask[:few], bench.answers[:few])
        entries.append(
            Entry("oracle_gap", "bits lost against the best sets", Bootstrap(few).mean(lost * BITS))
        )
    return Part("truth", "Truth", entries)


def cost_part(bench: Bench) -> Part:
    """7. What was paid, and when it pays."""
    subject, n = bench.subject, len(bench.explanation)
    entries = []
    if subject.rows_asked is not None:
        entries.append(
            Entry("rows_asked", "rows asked of the model", Estimate(float(subject.rows_asked)), digits=0)
        )
    if subject.fit_seconds is not None:
        entries.append(Entry("fit_seconds", "training, seconds", Estimate(subject.fit_seconds), digits=1))
    if subject.explain_seconds is not None:
        each = subject.explain_seconds / n
        entries.append(Entry("microseconds", "one explanation, µs", Estimate(1e6 * each), digits=2))
        if subject.fit_seconds is not None:
            asking = (SHAP_ROWS + 2 * bench.view.d) * bench.ask_seconds / n
            rows = subject.fit_seconds / (asking - each) if asking > each else float("inf")
            meaning = f"against asking {SHAP_ROWS + 2 * bench.view.d:,} times a row, as Kernel SHAP does"
            entries.append(Entry("break_even", "rows until training has paid", Estimate(rows), meaning, 0))
    return Part("cost", "Cost", entries, "" if entries else "explanations came ready: nothing was measured")


def _kl(p: Array, q: Array) -> Array:
    """KL(p || q) of each row, in nats; certain and wrong counts as one in a million."""
    return np.asarray((p * (np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-6)))).sum(axis=1))


def _with_mask(explanation: Explanation, mask: Array) -> Explanation:
    """An explanation that selects `mask` first."""
    return Explanation(mask.astype(float), explanation.k, explanation.feature_names)
