"""Tables, figures and a page from results/synthetic.json; draws only what the records say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from l2x import baselines
from l2x.datasets.synthetic import RELEVANT, SETS
from l2x.plots.comparison import plot_ranks, plot_times
from l2x.plots.report import Section, write_report
from l2x.plots.style import save_figure, write_file
from l2x_experiments.results import Record

TITLES = {
    "xor": "XOR",
    "orange_skin": "Orange skin",
    "nonlinear_additive": "Nonlinear additive",
    "switch": "Switch",
}
# Names for people, in the order of the paper's figures, then what it only tabulates, then controls.
LABELS = {
    "l2x": "l2x",
    "paper": "L2X, paper",
    "taylor": baselines.Taylor.name,
    "saliency": baselines.Saliency.name,
    "deeplift": baselines.DeepLift.name,
    "kernel_shap": baselines.KernelShap.name,
    "lime": baselines.Lime.name,
    "lrp": baselines.LRP.name,
    "parzen": baselines.Parzen.name,
    "global": baselines.GlobalTopK.name,
    "random": baselines.RandomK.name,
}
# XOR and orange skin are the same in both variants.
DIFFERENT = ("nonlinear_additive", "switch")
MODEL_NAMES = {"network": "a trained network", "true": "the true P(y|x)"}
VARIANT_NOTE = {
    "code": "formulas of the authors' released code, its copying bug repaired",
    "paper": "formulas of the paper's text",
}


def select(records: Iterable[Record], **key: Any) -> list[Record]:
    """The records that agree with `key`."""
    return [record for record in records if all(record[name] == value for name, value in key.items())]


def present(records: Sequence[Record]) -> list[str]:
    """The methods that occur, in the order of showing."""
    found = {record["method"] for record in records}
    return [name for name in LABELS if name in found]


def mean_sd(values: Sequence[float], digits: int = 3) -> str:
    """Mean over seeds, with the standard deviation where there are several."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def summary_table(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """One line for each set and method: mean over seeds ± standard deviation."""
    columns = ["set", "method", "median rank", "exact sets", "true positives", "bits", "there are", "claimed",
               "training s", "10,000 rows s"]  # fmt: skip
    rows = []
    for name in SETS:
        for method in present(records):
            some = select(records, set=name, method=method)
            if not some:
                continue
            column = {key: [record[key] for record in some] for key in some[0]}
            per_10k = [r["explain_seconds"] * 10_000 / r["test_rows"] for r in some]
            rows.append(
                [
                    TITLES[name],
                    LABELS[method],
                    mean_sd(column["median_rank_mean"], 2),
                    mean_sd(column["exact"]),
                    mean_sd(column["true_positive_rate"]),
                    mean_sd(column["bits"]),
                    f"{np.mean(column['bits_available']):.3f}",
                    _claimed(some),
                    mean_sd(column["fit_seconds"], 1),
                    f"{np.mean(per_10k):.3g}",
                ]
            )
    return columns, rows


def _claimed(records: Sequence[Record]) -> str:
    """What a learned explainer's own q says of its selections; far above the bits, it encodes."""
    values = [value for record in records if (value := record.get("bits_claimed")) is not None]
    return mean_sd(values) if values else "–"


def markdown(records: Sequence[Record]) -> str:
    """The short table: shares of exact sets, a trained network explained, and the price of a row."""
    columns = [(name, variant) for variant in ("code", "paper") for name in SETS]
    columns = [(name, variant) for name, variant in columns if variant == "code" or name in DIFFERENT]
    network = select(records, model="network")
    lines = [
        "| method | "
        + " | ".join(f"{TITLES[name]} ({variant})" for name, variant in columns)
        + " | µs per row |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for method in present(network):
        cells = [_mean_or_dash(select(network, method=method, set=n, variant=v), "exact") for n, v in columns]
        some = select(network, method=method, variant="code")
        price = 1e6 * _mean(some, "explain_seconds") / some[0]["test_rows"] if some else float("nan")
        cost = f"{price:,.2f}" if price < 100 else f"{price:,.0f}"
        lines.append(f"| {LABELS[method]} | " + " | ".join(cells) + f" | {cost} |")
    return "\n".join(lines) + "\n"


def _mean_or_dash(records: Sequence[Record], key: str) -> str:
    return mean_sd([record[key] for record in records]) if records else "–"


def show(records: Sequence[Record]) -> None:
    """The summary in the terminal."""
    from rich.console import Console
    from rich.table import Table

    for variant in sorted({record["variant"] for record in records}):
        for model in sorted({record["model"] for record in records}):
            columns, rows = summary_table(select(records, variant=variant, model=model))
            table = Table(*columns, title=f"{variant} variant, {MODEL_NAMES[model]}")
            for row in rows:
                table.add_row(*row)
            Console().print(table)


def break_even(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """After how many rows learning an explainer is cheaper than asking the model anew for each row."""
    columns = ["set", "against", "in seconds: rows", "in model calls: rows", "per row: times cheaper"]
    rows = []
    for name in SETS:
        ours = select(records, set=name, method="l2x")
        for other in ("kernel_shap", "lime"):
            theirs = select(records, set=name, method=other)
            if not ours or not theirs:
                continue
            cost = _mean(theirs, "explain_seconds") / theirs[0]["test_rows"]
            own = _mean(ours, "explain_seconds") / ours[0]["test_rows"]
            rows.append(
                [
                    TITLES[name],
                    LABELS[other],
                    f"{_mean(ours, 'fit_seconds') / (cost - own):,.0f}",
                    f"{_mean(ours, 'model_rows_fit') / _mean(theirs, 'model_rows_per_explanation'):,.0f}",
                    f"{cost / own:,.0f}",
                ]
            )
    return columns, rows


def ratios(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Explaining time of each method as a multiple of ours, in the same runs."""
    methods = [method for method in present(records) if method not in ("l2x", "random", "global")]
    columns = ["set", *(LABELS[method] for method in methods)]
    rows = []
    for name in SETS:
        ours = select(records, set=name, method="l2x")
        cells = []
        for method in methods:
            theirs = select(records, set=name, method=method)
            known = bool(ours and theirs)
            cells.append(
                f"{_mean(theirs, 'explain_seconds') / _mean(ours, 'explain_seconds'):,.1f}" if known else "–"
            )
        rows.append([TITLES[name], *cells])
    return columns, rows


def rank_panels(records: Sequence[Record]) -> dict[str, dict[str, tuple[list[float], float]]]:
    """Quantiles and means of median ranks, averaged over seeds, for `plot_ranks`."""
    panels: dict[str, dict[str, tuple[list[float], float]]] = {}
    for name in SETS:
        panels[TITLES[name]] = {}
        for method in present(records):
            some = select(records, set=name, method=method)
            if some:
                quantiles = np.mean([record["median_rank_quantiles"] for record in some], axis=0).tolist()
                panels[TITLES[name]][LABELS[method]] = (quantiles, _mean(some, "median_rank_mean"))
    return panels


def time_panels(records: Sequence[Record]) -> dict[str, dict[str, tuple[float, float]]]:
    """Seconds of explaining 10,000 rows and of training, averaged over seeds, for `plot_times`."""
    return {
        TITLES[name]: {
            LABELS[method]: (
                _mean(some, "explain_seconds") * 10_000 / some[0]["test_rows"],
                _mean(some, "fit_seconds"),
            )
            for method in present(records)
            if method not in ("random", "global") and (some := select(records, set=name, method=method))
        }
        for name in SETS
    }


def write(records: Sequence[Record], folder: Path) -> Path:
    """Figures (SVG and PNG), a short table and one self-contained page into `folder`."""
    optimum = {TITLES[name]: (RELEVANT[name] + 1) / 2 for name in SETS}
    sections = [_introduction(records)]
    for variant in sorted({record["variant"] for record in records}):
        for model in ("network", "true"):
            some = select(records, variant=variant, model=model)
            if not some:
                continue
            what = MODEL_NAMES[model]
            seeds = len({record["seed"] for record in some})
            where = f"{VARIANT_NOTE[variant]}; {what}; {seeds} seed(s)"
            ranks = plot_ranks(
                rank_panels(some), optimum, title=f"Median ranks of the true features ({variant})",
                caption=f"{where}. Red: median, dotted blue: mean, dotted green: optimum; lower is better. "
                "Whiskers: 5 and 95 %.",
            )  # fmt: skip
            times = plot_times(
                time_panels(some), title=f"Clock time for 10,000 rows ({variant})",
                caption=f"{where}. Log scale; translucent: training. {_extrapolated(some)}",
            )  # fmt: skip
            for figure, kind in ((ranks, "ranks"), (times, "times")):
                for ending in ("svg", "png"):
                    save_figure(figure, folder / "figures" / f"synthetic-{kind}-{variant}-{model}.{ending}")
            heading = f"{variant.capitalize()} variant, {what}"
            sections.append(Section(heading, [_accuracy(some)], figures=[ranks, times]))
            sections.append(
                Section(
                    "",
                    table=summary_table(some),
                    caption=f"Mean ± standard deviation: {where}. Bits: in the selection, in the whole "
                    f"input, and by a learned explainer's own q. {_extrapolated(some)}",
                )
            )
            if model == "network":
                sections += _cost_sections(some)
    write_file(folder / "synthetic.md", markdown(records).encode())
    return write_report(
        folder / "synthetic.html",
        title="Synthetic benchmark",
        subtitle="Section 4.1 of Learning to Explain: median ranks and clock time of every method",
        sections=sections,
    )


def _introduction(records: Sequence[Record]) -> Section:
    first = records[0]
    return Section(
        "",
        [
            f"Each method explains {first['test_rows']:,} fresh rows; those that ask the model thousands of "
            "times per row explain fewer, and their time is extrapolated. The number of selected features is "
            f"the number of true ones. Learning methods saw {first['train_rows']:,} training rows; nothing "
            "was chosen on test rows.",
            "Bits: H(Y) minus the cross-entropy of P_m(Y | x_S), which is exact up to Monte Carlo error "
            "because the features are independent. Median rank is lenient - ranks 1, 2, 3, 9 have the "
            "optimal median - so the share of exact sets stands beside it. XOR and orange skin have one "
            "formula in both variants: measured once, listed under both.",
            f"Measured on {first['machine']}, {first['threads']} thread(s) per run.",
        ],
    )


def _cost_sections(records: Sequence[Record]) -> list[Section]:
    milliseconds = {
        LABELS[method].replace("l2x", "L2X"): 1000 * _mean(some, "explain_seconds") / some[0]["test_rows"]
        for method in present(records)
        if method != "paper" and (some := select(records, method=method))
    }  # fmt: skip
    table = baselines.method_table(milliseconds)
    columns = list(table[0])
    return [
        Section("Table 1, measured", table=(columns, [[row[column] for column in columns] for row in table])),
        Section(
            "When learning pays", table=break_even(records), caption="Rows after which training has paid."
        ),
        Section("Explaining time as a multiple of ours", table=ratios(records)),
    ]


def _accuracy(records: Sequence[Record]) -> str:
    if records[0]["model_accuracy"] is None:
        return "The model is the formula that generated the data."
    parts = [
        f"{TITLES[name]} {_mean(some, 'model_accuracy'):.3f} (Bayes {_mean(some, 'bayes_accuracy'):.3f})"
        for name in SETS
        if (some := select(records, set=name, method="l2x"))
    ]
    return "Test accuracy of the network: " + ", ".join(parts) + "."


def _extrapolated(records: Sequence[Record]) -> str:
    slow = sorted({r["method"] for r in records if r["rows"] < r["test_rows"]})
    rows = min((r["rows"] for r in records), default=0)
    names = ", ".join(LABELS[method] for method in slow)
    return f"{names}: extrapolated from {rows} rows." if slow else ""


def _mean(records: Sequence[Record], key: str) -> float:
    return float(np.mean([record[key] for record in records]))
