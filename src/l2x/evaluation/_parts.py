"""The parts of a report card, one function each: evidence in, numbers with their intervals out.

A part that is new here, and in `measured_parts`, is printed, saved and drawn without a change elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x.baselines import oracle
from l2x.evaluation._card import Entry, Part
from l2x.evaluation._choose_k import candidate_sizes
from l2x.evaluation._encoding import Encoding, encode_meter
from l2x.evaluation._evidence import Evidence
from l2x.evaluation._ranks import exact_rows, false_discovery_rows, median_rank, true_positive_rows
from l2x.evaluation._stability import collapse, distinct_sets, jaccard, overlap
from l2x.evaluation._verdict import TOLERANCE, UNCHECKED, Fidelity, Verdict, fidelity_on, verdict_on
from l2x.explanation import Explanation
from l2x.features import jitter
from l2x.learning import BITS, Bootstrap, Conditional, Estimate, RemovalTest
from l2x.model import query

# At most this many rows of X_train teach the probes of the encode-meter.
PROBE_ROWS = 50_000
# The oracle tries every subset: of at most this many rows.
ORACLE_ROWS = 300
# Kernel SHAP shows the model this many subsets of one row by default (shap.KernelExplainer: 2 d + 2048, or
# all 2^d - 2 if these are fewer), each with the rest filled from every background row; 100 of them are usual
# (shap.sample).
SHAP_SUBSETS, SHAP_BACKGROUND = 2048, 100


def measured_parts(evidence: Evidence, *, brief: bool) -> tuple[list[Part], Verdict]:
    """The parts in the order in which they are read, and the verdict that rests on them."""
    fidelity, judge, information = (part(evidence) for part in (fidelity_part, judge_part, information_part))
    if brief:
        return [fidelity, judge, information], UNCHECKED
    encoding, verdict = encoding_part(evidence)
    parts = [fidelity, judge, encoding, information, stability_part(evidence)]
    if evidence.truth is not None:
        parts.append(truth_part(evidence, np.asarray(evidence.truth, dtype=bool)))
    return [*parts, cost_part(evidence)], verdict


def fidelity_part(evidence: Evidence) -> Part:
    """The model itself, shown only the selection, or everything else."""
    entries = [
        entry
        for i, (removal, predicted) in enumerate(evidence.predictions.items())
        for entry in _fidelity_entries(evidence, removal, predicted, own=i == 0)
    ]
    return Part(
        "fidelity",
        f"Fidelity: post-hoc {evidence.measure} of the model",
        entries,
        "Is the model's answer the same when it is shown only the selected features, the rest removed in "
        "several ways? And when it is shown everything else? A selection that encodes the answer can score "
        "high here.",
    )


def fidelity_verdict(evidence: Evidence) -> tuple[Fidelity, str]:
    """Does the model keep more with the selection than with random features, under the view's own removal?"""
    own = next(iter(evidence.predictions.values()))
    lost = own.map(evidence.losses)
    kept = lost.map(lambda losses: float(1 - losses.mean()))
    advantage = evidence.boot.mean(lost.random[0] - lost.selection)
    return fidelity_on(advantage, kept.selection, kept.random[0], kept.complement)


def _fidelity_entries(
    evidence: Evidence, removal: str | None, predicted: RemovalTest[Array], *, own: bool
) -> list[Entry]:
    """Return the entries for one way of masking, the view's own or another: with the selection, its KL
    divergence, with the complement, and chance."""
    key = removal or "removed"
    label = f"the rest removed ({removal})" if removal else "the rest removed"
    kept = predicted.map(evidence.agreement)
    entries = [Entry(key, label, kept.selection, "high is good")]
    if evidence.classifies:
        kl = evidence.boot.mean(_kl(evidence.answers, predicted.selection) * BITS)
        entries.append(Entry(f"{key}_kl", "  KL from the full answer, bits", kl, "low is good"))
    chance = "random" if own else f"{key}_random"
    return [
        *entries,
        Entry(f"{key}_complement", "  the selection removed", kept.complement, "low is good"),
        Entry(chance, "  random features instead", kept.random[0], "chance"),
    ]


def _kl(p: Array, q: Array) -> Array:
    """(n,) KL(p || q) in nats; a q that is certain and wrong counts as one in a million."""
    return np.asarray((p * (np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-6)))).sum(axis=1))


def judge_part(evidence: Evidence) -> Part:
    """EVAL-X: a q fitted on random subsets of other rows."""
    everything, masks = evidence.selectable, evidence.masks
    cases = [
        ("selection", "the selection", masks.selection),
        # It has never read features that cannot be selected: all that it can read stays.
        ("complement", "all but the selection", everything & masks.complement),
        ("random", "random features instead", masks.random[0]),
        ("everything", "everything selected", everything),
        ("nothing", "nothing selected", np.zeros_like(everything)),
    ]
    entries = []
    for key, label, mask in cases:
        guesses = evidence.judge.predict(evidence.X_test, mask)
        loss = -evidence.judge.log_q(evidence.X_test, mask, evidence.answers)
        entries.append(Entry(key, label, evidence.agreement(guesses)))
        entries.append(Entry(f"{key}_loss", "  log-loss, nats", evidence.boot.mean(loss)))
    return Part(
        "judge",
        f"Independent judge: {evidence.measure}",
        entries,
        "A predictor that was fitted on random subsets of other rows, so that it knows no explainer's code "
        "(EVAL-X).",
    )


def encoding_part(evidence: Evidence) -> tuple[Part, Verdict]:
    """The encode-meter, and the verdict that rests on it."""
    (train_X, train_masks, train_answers), (X, masks, answers) = _probe_rows(evidence)
    meter = encode_meter(
        evidence.judge, train_X, train_masks, train_answers, test_X=X, test_masks=masks, test_answers=answers,
        plan=evidence.plan, seed=evidence.seed,
    )  # fmt: skip
    boot = Bootstrap(len(masks), seed=evidence.seed)
    gain, control = boot.mean(meter.gain * BITS), boot.mean(meter.control * BITS)
    share = evidence.share(gain)
    missed = max(evidence.available - float(evidence.captured(evidence.selectable).mean()), 0.0)
    entries = [
        *_reading_entries(evidence, meter, answers, boot),
        Entry("encode_meter", "encode-meter, bits", boot.mean(meter.divergence * BITS),
              "E KL(g1 || g0); 0: no encoding"),
        Entry("gain", "  as gain on the answer, bits", gain, "what the choice adds to the values"),
        Entry("control", "  noise of fitting, bits", control, "a second g0 against the first"),
        Entry("share", "  share of the information", share, f"over {TOLERANCE:.2f} it encodes"),
        Entry("missed", "  the judge misses, bits", Estimate(missed), "even with everything selected"),
    ]  # fmt: skip
    verdict = verdict_on(
        share,
        proven=gain.low > max(abs(control.low), abs(control.high), missed),
        missed=evidence.share(Estimate(missed)).value,
        rows=len(masks),
        same_for_all=bool((masks == masks[0]).all() and (train_masks == masks[0]).all()),
    )
    about = (
        "A probe of the explainer's own selections (g1) against a probe of the same masks, shuffled across "
        "rows (g0), which can use only the values. What g1 knows more, the choice of features gives away."
    )
    return Part("encoding", "Encoding", entries, about), verdict


def _probe_rows(evidence: Evidence) -> tuple[tuple[Any, Array, Array], tuple[Any, Array, Array]]:
    """Rows, selections and answers: for the probes to learn from, and to measure them on."""
    view, explanation = evidence.view, evidence.explanation
    if evidence.subject.source is None:
        order = np.random.default_rng(evidence.seed).permutation(len(explanation))
        halves = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        learn, measure = (
            (view.take(evidence.X_test, i), explanation.mask[i], evidence.answers[i]) for i in halves
        )
        return learn, measure
    X = view.check(evidence.X_train)
    X = view.take(X, slice(0, min(PROBE_ROWS, len(X))))
    answers = query(evidence.black_box, view, X)
    learn = X, evidence.subject.selections(evidence.subject.source, X).mask, answers
    return learn, (evidence.X_test, explanation.mask, evidence.answers)


def _reading_entries(evidence: Evidence, meter: Encoding, answers: Array, boot: Bootstrap) -> list[Entry]:
    """How well the answer can be read from the selections: by g1, from the mask alone, by chance."""
    in_units = evidence.judge.likelihood.answers
    read, alone = (evidence.agreement(in_units(o), answers) for o in (meter.outputs, meter.mask_only))
    # The key is older than the name "probe": results/honesty.json holds it.
    label = f"{evidence.measure} of a probe of these selections"
    own = Entry("own_reader", label, read, "naive: a code helps it")
    if not evidence.classifies:
        return [own, Entry("mask_only", "R² of the mask alone", alone, "0 is chance")]
    classes = answers.argmax(axis=1)
    usual = boot.mean(classes == np.bincount(classes).argmax())
    return [
        own,
        Entry("mask_only", "accuracy of the mask alone", alone),
        Entry("majority", "  the most frequent class", usual, "chance"),
    ]


def information_part(evidence: Evidence) -> Part:
    """Bits that the judge finds in the selection, of the bits there are."""
    captured = evidence.boot.mean(evidence.captured(evidence.explanation.mask))
    entries = [
        Entry("captured", "captured, bits", captured, "a lower bound, by the judge"),
        Entry("available", "available, bits", Estimate(evidence.available)),
        Entry("share", "share", evidence.share(captured)),
    ]
    about = "What the selected values say about the answer, by the judge."
    return Part("information", "Information about the answer", entries, about)


def information_curve(evidence: Evidence) -> list[tuple[int, Estimate]]:
    """(k, bits captured by the k best features), for all k if they are few."""
    return [
        (k, evidence.boot.mean(evidence.captured(replace(evidence.explanation, k=k, sizes=None).mask)))
        for k in candidate_sizes(evidence.view.d)
    ]


def stability_part(evidence: Evidence) -> Part:
    """Across seeds, under small noise, across rows, and across models."""
    explanation, boot = evidence.explanation, evidence.boot
    chance = boot.mean(overlap(explanation.mask, evidence.masks.random[0]))
    sets = Estimate(float(distinct_sets(explanation)))
    entries = [
        Entry("chance", "overlap with random sets", chance, "Jaccard at k"),
        *_repeated_entries(evidence),
        *_randomised_entries(evidence, chance.value),
        Entry("collapse", "the same for every row", boot.mean(collapse(explanation)), "1: one set for all"),
        Entry("distinct", "different sets", sets, f"in {len(explanation):,} rows", digits=0),
    ]
    about = (
        "How far the same features are selected with another seed, under small noise, for another row, for "
        "another model. 1 is the same set, 0 a disjoint one."
    )
    return Part("stability", "Stability", entries, about)


def _repeated_entries(evidence: Evidence) -> list[Entry]:
    """The same method again: with other seeds, and on rows with a little noise."""
    explanation, others, entries = evidence.explanation, evidence.subject.others, []
    if others:
        across = evidence.boot.mean(np.mean([jaccard(explanation, other) for other in others], axis=0))
        entries.append(Entry("seeds", "overlap across seeds", across, f"{1 + len(others)} seeds"))
    if evidence.subject.source is not None:
        noisy = jitter(evidence.view, evidence.X_test, np.random.default_rng(evidence.seed))
        if noisy is not None:
            other = evidence.subject.selections(evidence.subject.source, noisy)
            shared = evidence.boot.mean(jaccard(explanation, other))
            entries.append(Entry("noise", "overlap under small noise", shared))
    return entries


def _randomised_entries(evidence: Evidence, chance: float) -> list[Entry]:
    """The same method, fitted to a random model: its selections must differ."""
    if evidence.randomised is None:
        return []
    other = evidence.subject.selections(evidence.randomised, evidence.X_test)
    shared = evidence.boot.mean(jaccard(evidence.explanation, other))
    changes = shared.high < (1 + chance) / 2
    meaning = "it changes with the model" if changes else "IT DOES NOT CHANGE WITH THE MODEL"
    return [Entry("randomised", "overlap for a random model", shared, meaning)]


def truth_part(evidence: Evidence, truth: Array) -> Part:
    """Against the truly relevant features, (n, d)."""
    explanation, boot = evidence.explanation, evidence.boot
    # The k best that a method could select, or as many of them as there are.
    sizes = None if explanation.sizes is None else truth.sum(axis=1).clip(max=explanation.k)
    best = Explanation(truth.astype(float), explanation.k, explanation.feature_names, sizes=sizes)
    found, wrong = true_positive_rows(best, truth).mean(), false_discovery_rows(best, truth).mean()
    entries = [
        Entry("median_rank", "median rank", boot.mean(median_rank(explanation, truth)), "lower is better", 2),
        Entry("exact", "exact sets", boot.mean(exact_rows(explanation, truth))),
        Entry("tpr", "true-positive rate", boot.mean(true_positive_rows(explanation, truth)),
              f"at best {found:.3f} with this k"),
        Entry("fdr", "false-discovery rate", boot.mean(false_discovery_rows(explanation, truth)),
              f"at best {wrong:.3f} with this k"),
    ]  # fmt: skip
    if evidence.exact is not None:
        entries.append(_oracle_entry(evidence, evidence.exact))
    return Part("truth", "Truth", entries, "Against the features that truly matter, which are known here.")


def _oracle_entry(evidence: Evidence, exact: Conditional) -> Entry:
    few = min(len(evidence.explanation), ORACLE_ROWS)
    X, k = evidence.view.take(evidence.X_test, slice(0, few)), evidence.explanation.k
    best = oracle(exact, X, k, responses=evidence.answers[:few])
    lost = best.gap_rows(evidence.explanation[:few])
    return Entry("oracle_gap", "bits lost against the best sets", Bootstrap(few).mean(lost))


def cost_part(evidence: Evidence) -> Part:
    """What explaining takes, and when learning to explain pays."""
    subject, entries = evidence.subject, []
    asked, fit_seconds = (getattr(subject.source, name, None) for name in ("rows_asked_", "fit_seconds_"))
    if asked is not None:
        entries.append(Entry("rows_asked", "rows asked of the model", Estimate(asked), digits=0))
    if fit_seconds is not None:
        entries.append(Entry("fit_seconds", "training, seconds", Estimate(fit_seconds), digits=1))
    if subject.explain_seconds is not None:
        each = subject.explain_seconds / len(subject.explanation)
        speed = f"{1 / each:,.0f} rows per second"
        entries.append(Entry("microseconds", "one explanation, µs", Estimate(1e6 * each), speed, 2))
        if fit_seconds is not None:
            entries += _break_even(evidence, fit_seconds, each, asked)
    return Part(
        "cost",
        "Cost",
        entries,
        "What training took, and after how many rows it has paid.",
        remark="" if entries else "precomputed explanations: no cost to report",
    )


def _break_even(evidence: Evidence, fit_seconds: float, each: float, asked: int | None) -> list[Entry]:
    """Rows after which training has paid, against a method that asks the model for every row: in seconds, and
    in rows that the model is asked."""
    subsets = min(SHAP_SUBSETS + 2 * evidence.view.d, max(1, 2**evidence.view.d - 2))
    times = subsets * SHAP_BACKGROUND
    asking = times * evidence.ask_seconds / len(evidence.answers)
    rows = fit_seconds / (asking - each) if asking > each else float("inf")
    meaning = f"against waiting for the model {times:,} times a row, as Kernel SHAP does"
    entries = [Entry("break_even", "rows until training has paid, in seconds", Estimate(rows), meaning, 1)]
    if asked is not None:
        meaning = f"against the {times:,} rows that Kernel SHAP asks it for one"
        label = "  in rows asked of the model"
        entries.append(Entry("break_even_calls", label, Estimate(asked / times), meaning, 2))
    return entries
