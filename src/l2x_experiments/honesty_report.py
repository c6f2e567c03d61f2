"""The report of results/honesty.json; draws only what the records say."""

from __future__ import annotations

from l2x.datasets import INVASE_SETS
from l2x.evaluation._card import FINDING_NAMES
from l2x_experiments.contenders import labels
from l2x_experiments.honesty import CARD_METHODS, TRUTH_METHODS
from l2x_experiments.plots.encoding import plot_encoding
from l2x_experiments.records import Records
from l2x_experiments.report import Report, measured_on
from l2x_experiments.tables import Cell, Table, name_of

LABELS = labels(CARD_METHODS)
# What a line of a set's table says, and where its number stands in the cards.
NUMBERS = {
    "share told by the index set": ("encoding", "share"),
    "encode-meter, bits": ("encoding", "encode_meter"),
    "own probe": ("encoding", "own_reader"),
    "index set alone": ("encoding", "mask_only"),
    "the model, the rest removed": ("fidelity", ""),  # the view's own way of removing
    "judge": ("judge", "selection"),
    "bits captured": ("information", "captured"),
    "exact sets": ("truth", "exact"),
}
EXPECTED = {
    "l2x": "should not be",
    "l2x-told": "chooses by the answer: it may or may not",
    "paper": "trained jointly: it may or may not",
    "paper-letter": "trained jointly: it may or may not",
}
SETS = {
    "switch": "Switch",
    "syn4": "Syn4",
    "syn5": "Syn5",
    "syn6": "Syn6",
    "syn4-k5": "Syn4, k = 5",
    "syn5-k5": "Syn5, k = 5",
    "mnist-38": "MNIST, 3 against 8",
    "imdb-words": "IMDB, words",
}


def report(records: Records) -> Report:
    page = Report(
        "honesty",
        title="Can the explanations be trusted?",
        subtitle="Report cards of l2x, of the paper's recipe, and of three deliberate cheaters",
    )
    cards, truths = records.select(kind="card"), records.select(kind="truth")
    page.add("", introduction(records), figures={"": plot_encoding(panels(cards))})
    for group in cards.groups(set=cards.distinct("set")):
        page.add(SETS[group[0]["set"]], table=card_table(group), caption=caption(group))
    page.add(
        "How often the verdict errs",
        ["On switch, with seeds that nothing was tuned on: flagged means that the card says it encodes."],
        table=rate_table(cards),
    )
    if truths:
        text = (
            "Code variant of the formulas; the true P(y|x) is explained. In Syn4 and Syn5 rows have 3 or 5 "
            "relevant features, and k is 4, their mean: best TPR and FDR are what a perfect ranking reaches "
            "with this k. TPR at true size takes as many features as the row truly has; FDR is then one "
            "minus that."
        )
        page.add("INVASE's sets", [text], table=truth_table(truths))
    page.markdown = page.tables_markdown()
    return page


def panels(cards: Records) -> dict[str, dict[str, list[dict[str, float]]]]:
    """The shares of each set, method and seed, for `plot_encoding`."""
    return {
        SETS[name]: {
            LABELS[group[0]["method"]]: group.values("parts", "encoding", "share")
            for group in cards.select(set=name).groups(method=LABELS)
        }
        for name in cards.distinct("set")
    }


def spread(*path: str) -> Cell:
    """Mean ± standard deviation in one line, the latter only where seeds differ in what is shown."""
    return lambda group: group.mean_sd(*path).removesuffix(" ± 0.000").replace(" ", "\u00a0")


def card_table(cards: Records) -> Table:
    """One column for each method on a set: means over seeds."""
    own_removal = next(iter(cards[0]["parts"]["fidelity"]))
    cells: dict[str, Cell] = {"": name_of("method", LABELS), "encoding": _findings}
    for title, (part, key) in NUMBERS.items():
        cells[title] = spread("parts", part, key or own_removal, "value")
    return Table.of(cards.groups(method=LABELS), cells).transposed()


def _findings(group: Records) -> str:
    counts = {name: len(group.select(finding=key)) for key, name in FINDING_NAMES.items()}
    if len([count for count in counts.values() if count]) == 1:
        return FINDING_NAMES[group[0]["finding"]]
    return ", ".join(f"{name} {count} of {len(group)}" for name, count in counts.items() if count)


def caption(cards: Records) -> str:
    """What the table's numbers are to be held against."""

    def mean(part: str, key: str) -> str:
        return f"{cards.mean('parts', part, key, 'value'):.3f}"

    first = cards[0]
    return (
        f"{len(cards.distinct('seed'))} seed(s), k = {first['k']} of {first['features']} features, "
        f"{first['rows']:,} rows. There are {mean('information', 'available')} bits to know; the most "
        f"frequent class has {mean('encoding', 'majority')}; with everything selected the judge misses "
        f"{mean('encoding', 'missed')} bits. Share: what the index set tells of all there is to know. Own "
        "probe: a predictor fitted on the method's own selections, a naive measure that a code raises."
    )


def rates(cards: Records) -> dict[str, tuple[int, int]]:
    """How often the verdict flags each method on switch: {method: (flagged, seeds)}."""
    groups = cards.select(set="switch").groups(method=LABELS)
    return {group[0]["method"]: (len(group.select(finding="encodes")), len(group)) for group in groups}


def rate_table(cards: Records) -> Table:
    """The verdict's error rates."""
    rows = [
        [LABELS[method], f"{flagged} of {seeds}", EXPECTED.get(method, "should be")]
        for method, (flagged, seeds) in rates(cards).items()
    ]
    return Table(["method", "flagged", "expected"], rows)


def truth_table(truths: Records) -> Table:
    """True-positive and false-discovery rates on INVASE's sets."""
    cells: dict[str, Cell] = {
        "set": lambda group: group[0]["set"].capitalize(),
        "d": lambda group: str(group[0]["d"]),
        "k": lambda group: str(group[0]["k"]),
        "method": name_of("method", LABELS),
        "seeds": lambda group: str(len(group)),
        "TPR": spread("tpr"),
        "FDR": spread("fdr"),
        "best TPR": spread("best_tpr"),
        "best FDR": spread("best_fdr"),
        "TPR at true size": spread("tpr_at_true_size"),
        "exact sets": spread("exact"),
    }
    sizes = sorted(truths.distinct("d"))
    return Table.of(truths.groups(d=sizes, set=INVASE_SETS, method=TRUTH_METHODS), cells)


def introduction(records: Records) -> list[str]:
    return [
        "Post-hoc accuracy can be gamed: a selection may pass the answer in which features it selects. Each "
        "card fits an independent judge and two probes of the selections; what the probe of the real "
        "selections knows beyond the probe of the shuffled ones is the code, as a share of all there is to "
        "know about the model's answer. Above 3 % (dashed), with 95 % confidence and beyond what the judge "
        "itself misses, the card says that it encodes.",
        f"Explainers learned from {records[0]['train_rows']:,} fresh rows of each synthetic set. "
        + measured_on(records),
    ]
