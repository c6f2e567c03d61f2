"""The third part: do the places of the selected features say more than the values in them?"""

from __future__ import annotations

from typing import Any

import numpy as np

from l2x.data import ask
from l2x.evaluation.bench import BITS, Bench
from l2x.evaluation.bootstrap import Bootstrap, Estimate
from l2x.evaluation.card import Entry, Finding, Part
from l2x.evaluation.encoding import encode_meter
from l2x.foundations.arrays import Array

# The verdict's limit: how much of all there is to know about the answer the places may tell. Chosen on
# development draws (docs/report-card.md): our recipe was at 0.004, the weakest cheater at 0.096.
TOLERANCE = 0.03
# A judge that misses more than this share even with everything selected, or saw fewer rows, acquits nobody.
MOST_MISSED = 0.25
FEWEST_ROWS = 30
# At most so many rows of X_train teach the readers of the places.
READER_ROWS = 50_000


def encoding_part(bench: Bench) -> tuple[Part, Finding, str]:
    """3. Do the places say more than the values in them?"""
    (train_X, train_masks, train_answers), (X, masks, answers) = _reader_rows(bench)
    meter = encode_meter(
        bench.judge, train_X, train_masks, train_answers, test_X=X, test_masks=masks, test_answers=answers,
        plan=bench.plan, seed=bench.seed,
    )  # fmt: skip
    boot = Bootstrap(len(masks), seed=bench.seed)
    read = bench.agreement(bench.as_answers(meter.outputs), answers)
    entries = [
        Entry(
            "own_reader", f"{bench.measure} of a reader of these selections", read, "naive: a code helps it"
        ),
        *_places_alone(bench, boot, meter.places, answers),
    ]
    gain, control = boot.mean(meter.gain * BITS), boot.mean(meter.control * BITS)
    share = bench.share(gain)
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
    missed = max(bench.available * BITS - bench.captured(bench.selectable), 0.0)
    entries.append(
        Entry("missed", "  the judge misses, bits", Estimate(missed), "even with everything selected")
    )
    missed_share = bench.share(Estimate(missed)).value
    proven = gain.low > max(abs(control.low), abs(control.high), missed)
    finding = finding_of(share, proven=proven, missed=missed_share, rows=len(masks))
    return Part("encoding", "Encoding", entries), finding, _verdict(finding, share, missed_share, len(masks))


def finding_of(share: Estimate, *, proven: bool, missed: float, rows: int) -> Finding:
    """Above the limit, below it, or neither with 95 % confidence.

    What fitting noise or a weak judge could explain is not `proven`, and not held against anybody; nor does
    a judge acquit that `missed` much itself, or saw few rows.
    """
    if share.low > TOLERANCE and proven:
        return "encodes"
    if share.high <= TOLERANCE and missed <= MOST_MISSED and rows >= FEWEST_ROWS:
        return "none"
    return "uncertain"


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


def _places_alone(bench: Bench, boot: Bootstrap, places: Array, answers: Array) -> list[Entry]:
    """What the places tell without any value."""
    read = bench.agreement(bench.as_answers(places), answers)
    if not bench.classifies:
        return [Entry("mask_only", "R² of the places alone", read, "0 is chance")]
    classes = answers.argmax(axis=1)
    usual = np.bincount(classes).argmax()
    return [
        Entry("mask_only", "accuracy of the places alone", read),
        Entry("majority", "  the most frequent class", boot.mean(classes == usual), "chance"),
    ]


def _verdict(finding: Finding, share: Estimate, missed: float, rows: int) -> str:
    if np.isnan(share.value):
        return (
            "UNCERTAIN: the model's answer hardly varies on these rows: there is nothing to know, nothing "
            "that features could explain or encode. Measure on rows with different answers."
        )
    told = f"{share.value:.1%} [{share.low:.1%}, {share.high:.1%}] of what there is to know about the answer"
    if finding == "encodes":
        return (
            f"ENCODES: which features are selected tells {told} that their values do not. High fidelity "
            "may come from this code; do not read these features as reasons."
        )
    if finding == "none":
        return (
            f"No encoding found: the choice of features tells {told} beyond their values "
            f"(limit {TOLERANCE:.0%})."
        )
    begin = f"UNCERTAIN: which features are selected seems to tell {told} beyond their values"
    if rows < FEWEST_ROWS:
        return f"{begin}, but {rows} rows are too few to tell: measure on more."
    if share.low > TOLERANCE or missed > MOST_MISSED:
        return (
            f"{begin}, but the judge misses {missed:.1%} even with everything selected. Fit it longer or on "
            "more rows before you trust the explanation."
        )
    return (
        f"{begin}. That neither exceeds the limit of {TOLERANCE:.0%} nor stays below it: measure on more "
        "rows, or fit the judge on more."
    )
