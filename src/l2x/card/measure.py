"""The seven parts of a report card, one function each, and `report_card`, which puts them together."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from l2x.baselines.method import selectable_units
from l2x.blackbox import BlackBox, as_black_box
from l2x.card.card import Entry, Finding, Part, ReportCard
from l2x.card.subject import Subject, subject_of
from l2x.explanation import Array, Explanation
from l2x.features.columns import Columns
from l2x.features.view import View
from l2x.metrics.bootstrap import Bootstrap, Estimate
from l2x.metrics.encoding import encode_meter, mask_only_classes
from l2x.metrics.fidelity import masked_answers
from l2x.metrics.information import entropy_bits
from l2x.metrics.judge import fit_judge
from l2x.metrics.ranks import exact_rows, found_rows, median_rank, wrong_rows
from l2x.metrics.stability import collapse, distinct_sets, jaccard
from l2x.rows import ask
from l2x.size import curve_rows, some_sizes
from l2x.training import TrainingPlan
from l2x.values import FittedValue, SubsetValue
from l2x.yardstick import oracle

# The verdict: an explanation encodes if the places tell more than this share of all there is to know about
# the answer, with 95 % confidence, and more than fitting noise and the judge's own weakness could explain.
# Chosen on development draws (docs/report-card.md): our recipe was at 0.004, the weakest cheater at 0.096.
TOLERANCE = 0.03
# At most so many rows of X_train teach the readers of the places.
READER_ROWS = 50_000
# Kernel SHAP asks the model this often for one row by default (shap.KernelExplainer: 2 d + 2048).
SHAP_ROWS = 2048
BITS = 1 / np.log(2)
CHANCE = 0x6368616E6365


@dataclass(frozen=True)
class Bench:
    """What all parts share."""

    black_box: BlackBox
    view: View
    X_train: Any
    X_test: Any
    answers: Array  # of the model for X_test
    judge: FittedValue
    plan: TrainingPlan
    subject: Subject
    boot: Bootstrap
    seed: int
    ask_seconds: float  # for all test rows

    @property
    def classifies(self) -> bool:
        return self.black_box.task == "classification"

    @property
    def explanation(self) -> Explanation:
        return self.subject.explanation

    @cached_property
    def selectable(self) -> Array:
        """(n, d): what is there to be selected in each test row; padding is not."""
        found = selectable_units(self.view, self.X_test)
        return np.ones_like(self.explanation.mask) if found is None else found

    @property
    def available(self) -> float:
        """All there is to know, in nats: I(X; Y), or half the variance of standardised means."""
        if not self.classifies:
            return 0.5 * float(self.answers.shape[1])
        bits = entropy_bits(self.answers.mean(axis=0)) - entropy_bits(self.answers).mean()
        return float(bits / BITS)

    def agreement(self, guesses: Array, answers: Array | None = None) -> Estimate:
        """The share of rows with the model's own answer; for regression, R²."""
        answers = self.answers if answers is None else answers
        boot = self.boot if len(answers) == len(self.answers) else Bootstrap(len(answers), seed=self.seed)
        if self.classifies:
            return boot.mean(guesses.argmax(axis=1) == answers.argmax(axis=1))
        errors = np.square(guesses - answers).sum(axis=1)
        return boot.ratio(errors, np.square(answers - answers.mean(axis=0)).sum(axis=1), one_minus=True)

    @property
    def measure(self) -> str:
        return "accuracy" if self.classifies else "R²"


def report_card(
    explainers: Any,
    model: Any,
    X_train: Any,
    X_test: Any,
    k: int | None = None,
    *,
    name: str | None = None,
    truth: Array | None = None,
    exact: SubsetValue | None = None,
    randomised: Any = None,
    judge: FittedValue | None = None,
    training: TrainingPlan | None = None,
    seed: int = 0,
) -> ReportCard:
    """Can this explanation be trusted? Seven kinds of evidence, each figure with its 95 % bootstrap interval.

    Parameters
    ----------
    explainers : an Explainer, anything with explain(X, k), explanations of X_test, or a list of one kind
        The first is judged; the others, the same method with other seeds, show how stable it is. For ready
        explanations the readers of the places learn from one half of X_test and are measured on the other.
    model : the model that is explained
    X_train : rows for the judge and for the readers of the places, best rows that no explainer was fitted on
    X_test : rows on which everything is measured
    k : how many features; by default the explainer's own
    truth : (n, d) booleans, the truly relevant features of X_test, where they are known
    exact : P_m(y | x_S) itself, where it is known; adds the gap to the best subsets
    randomised : the same method fitted to another, random model (`l2x.metrics.random_model`), or its
        explanations of X_test: they must differ
    judge : a fitted `l2x.metrics.fit_judge`, if there is one already; it must not come from X_test
    training : how the judge is trained, by default as the view has it
    """
    subject = subject_of(explainers, X_test, k, name)
    black_box = as_black_box(model)
    view = subject.explanation.view or Columns().fit(X_test)
    X_test = view.check(X_test)
    plan = training or view.plan
    started = time.perf_counter()
    answers = ask(black_box, view, X_test, progress=False)
    seconds = time.perf_counter() - started
    judge = judge or fit_judge(
        black_box, X_train, subject.explanation.k, features=view, training=plan, seed=seed + 1_000_003
    )
    bench = Bench(
        black_box=black_box,
        view=view,
        X_train=X_train,
        X_test=X_test,
        answers=answers,
        judge=judge,
        plan=plan,
        subject=subject,
        boot=Bootstrap(len(X_test), seed=seed),
        seed=seed,
        ask_seconds=seconds,
    )
    information, curve = information_part(bench)
    encoding, finding, verdict = encoding_part(bench)
    parts = [
        fidelity_part(bench),
        judge_part(bench),
        encoding,
        information,
        stability_part(bench, randomised),
    ]
    if truth is not None:
        parts.append(truth_part(bench, np.asarray(truth, dtype=bool), exact))
    parts.append(cost_part(bench))
    return ReportCard(
        name=subject.name,
        task=str(black_box.task),
        rows=len(X_test),
        features=view.d,
        k=subject.explanation.k,
        finding=finding,
        verdict=verdict,
        parts=parts,
        curve=curve,
    )


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
    chance = masked_answers(bench.black_box, bench.view, bench.X_test, _random_masks(bench))
    entries.append(Entry("random", "random features instead", bench.agreement(chance), "chance"))
    return Part("fidelity", f"Fidelity: post-hoc {bench.measure} of the model", entries)


def judge_part(bench: Bench) -> Part:
    """2. EVAL-X: a q fitted on random subsets of other rows, so that no selection can pass it a code."""
    everything = bench.selectable
    cases = [
        ("selection", "the selection", bench.explanation.mask),
        ("random", "random features instead", _random_masks(bench)),
        ("everything", "everything selected", everything),
        ("nothing", "nothing selected", np.zeros_like(everything)),
    ]
    entries = []
    for key, label, mask in cases:
        outputs = bench.judge.outputs(bench.X_test, mask)
        loss = -bench.judge.log_q(bench.X_test, mask, bench.answers)
        entries.append(Entry(key, label, bench.agreement(_as_answers(bench, outputs))))
        entries.append(Entry(f"{key}_loss", "  log-loss, nats", bench.boot.mean(loss)))
    return Part("judge", f"Independent judge: {bench.measure}", entries)


def encoding_part(bench: Bench) -> tuple[Part, Finding, str]:
    """3. Do the places say more than the values in them?"""
    (train_X, train_masks, train_answers), (X, masks, answers) = _reader_rows(bench)
    meter = encode_meter(
        bench.judge, train_X, train_masks, train_answers, test_X=X, test_masks=masks, test_answers=answers,
        plan=bench.plan, seed=bench.seed,
    )  # fmt: skip
    boot = Bootstrap(len(masks), seed=bench.seed)
    entries = _mask_only(bench, boot, train_masks, train_answers, masks, answers)
    gain, control = boot.mean(meter.gain * BITS), boot.mean(meter.control * BITS)
    share = _scaled(gain, 1 / max(bench.available * BITS, 1e-12))
    entries += [
        Entry(
            "encode_meter",
            "encode-meter, bits",
            boot.mean(meter.divergence * BITS),
            "E KL(g1 || g0); 0 is honest",
        ),
        Entry("gain", "  as gain on the answer, bits", gain, "what the places add to the values"),
        Entry("control", "  noise of fitting, bits", control, "a second g0 against the first"),
        Entry("share", "  share of all there is to know", share, f"over {TOLERANCE:.2f} it encodes"),
    ]
    missed = max(bench.available * BITS - _captured(bench, bench.selectable), 0.0)
    entries.append(
        Entry("missed", "  the judge misses, bits", Estimate(missed), "even with everything selected")
    )
    # What fitting noise or a weak judge could explain is not held against the explanation.
    proven = gain.low > max(abs(control.low), abs(control.high), missed)
    finding: Finding = "none" if share.low <= TOLERANCE else "encodes" if proven else "uncertain"
    return (
        Part("encoding", "Encoding", entries),
        finding,
        _verdict(finding, share, missed / bench.available / BITS),
    )


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
    base = _log_marginal(bench)
    curve = [(size, bench.boot.mean((row - base) * BITS)) for size, row in rows.items()]
    captured = bench.boot.mean((at_k - base) * BITS)
    entries = [
        Entry("captured", "captured, bits", captured, "a lower bound, by the judge"),
        Entry("available", "there are, bits", Estimate(bench.available * BITS)),
        Entry("share", "share", _scaled(captured, 1 / max(bench.available * BITS, 1e-12))),
    ]
    return Part("information", "Information about the answer", entries), curve


def stability_part(bench: Bench, randomised: Any) -> Part:
    """5. Across seeds, under small noise, across rows, and across models."""
    explanation, subject, boot = bench.explanation, bench.subject, bench.boot
    rng = np.random.default_rng(bench.seed)
    chance = jaccard(explanation, _with_mask(explanation, _random_masks(bench)))
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


def _reader_rows(bench: Bench) -> tuple[tuple[Any, Array, Array], tuple[Any, Array, Array]]:
    """Rows, selections and answers: to learn reading from, and to measure it on."""
    view, explanation = bench.view, bench.explanation
    if bench.subject.source is None:
        order = np.random.default_rng(bench.seed).permutation(len(explanation))
        parts = [np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])]
        first, second = ((view.take(bench.X_test, i), explanation.mask[i], bench.answers[i]) for i in parts)
        return first, second
    X = view.check(bench.X_train)
    X = view.take(X, slice(0, min(READER_ROWS, len(X))))
    answers = ask(bench.black_box, view, X, progress=False)
    return (X, bench.subject.explain(X).mask, answers), (bench.X_test, explanation.mask, bench.answers)


def _mask_only(
    bench: Bench, boot: Bootstrap, train_masks: Array, train_answers: Array, masks: Array, answers: Array
) -> list[Entry]:
    """What the places tell without any value."""
    if not bench.classifies:
        from sklearn.linear_model import Ridge

        guesses = np.asarray(Ridge().fit(train_masks, train_answers).predict(masks)).reshape(len(masks), -1)
        return [
            Entry("mask_only", "R² of the places alone", bench.agreement(guesses, answers), "0 is chance")
        ]
    classes, predicted = answers.argmax(axis=1), train_answers.argmax(axis=1)
    read = mask_only_classes(train_masks, predicted, masks)
    usual = np.bincount(predicted).argmax()
    return [
        Entry("mask_only", "accuracy of the places alone", boot.mean(read == classes)),
        Entry("majority", "  the most frequent class", boot.mean(classes == usual), "chance"),
    ]


def _verdict(finding: Finding, share: Estimate, missed: float) -> str:
    told = f"{share.value:.1%} [{share.low:.1%}, {share.high:.1%}] of what there is to know about the answer"
    if finding == "encodes":
        return (
            f"ENCODES: which features are selected tells {told} that their values do not. High fidelity "
            "may come from this code; do not read these features as reasons."
        )
    if finding == "uncertain":
        return (
            f"UNCERTAIN: which features are selected seems to tell {told}, but the judge misses {missed:.1%} "
            "even with everything selected. Fit it longer or on more rows before you trust the explanation."
        )
    return (
        f"No encoding found: the choice of features tells {told} beyond their values (limit {TOLERANCE:.0%})."
    )


def _captured(bench: Bench, mask: Array) -> float:
    """Bits that the judge finds in a selection."""
    told = bench.judge.log_q(bench.X_test, mask, bench.answers) - _log_marginal(bench)
    return float(told.mean() * BITS)


def _as_answers(bench: Bench, outputs: Array) -> Array:
    """A judge's outputs in the units of the model's answers; classes need only their order."""
    response = bench.judge.value.response
    if bench.classifies:
        return outputs
    return outputs * np.asarray(response.scale) + np.asarray(response.mean)  # type: ignore[attr-defined]


def _log_marginal(bench: Bench) -> Array:
    """log q(y) of each row from the mean answer alone, in nats."""
    target = bench.judge.value.response.encode(bench.answers).numpy()
    if bench.classifies:
        return np.asarray(target @ np.log(np.maximum(bench.answers.mean(axis=0), 1e-12)))
    return np.asarray(-0.5 * np.square(target - target.mean(axis=0)).sum(axis=1))


def _kl(p: Array, q: Array) -> Array:
    """KL(p || q) of each row, in nats; certain and wrong counts as one in a million."""
    return np.asarray((p * (np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-6)))).sum(axis=1))


def _random_masks(bench: Bench) -> Array:
    """As many features as each row's selection has, at random among those that may be selected."""
    # A stream of its own: a method with the same seed must not look like chance, or like its opposite.
    noise = np.random.default_rng((bench.seed, CHANCE)).random(bench.explanation.mask.shape)
    ranks = np.where(bench.selectable, noise, 2.0).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < bench.explanation.mask.sum(axis=1, keepdims=True))


def _with_mask(explanation: Explanation, mask: Array) -> Explanation:
    """An explanation that selects `mask` first."""
    return Explanation(mask.astype(float), explanation.k, explanation.feature_names)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor)
