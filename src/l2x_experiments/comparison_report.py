"""What the reports of mnist and imdb have in common: the table of contenders, its figure, its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.explanation import Explanation
from l2x.features import View
from l2x_experiments.contenders import LABELS
from l2x_experiments.plots.fidelity import plot_fidelity
from l2x_experiments.records import NOTHING, Record, Records
from l2x_experiments.report import measured_on
from l2x_experiments.tables import Cell, Table, mean_sd, name_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Methods:
    """One problem's records of each contender, in order.

    `inputs` and `features` are what they are called, in the plural: "images", "patches".
    """

    def __init__(self, records: Records, *, inputs: str, features: str) -> None:
        self.records, self.inputs, self.features = records, inputs, features
        self.groups = {group[0]["method"]: group for group in records.groups(method=list(LABELS))}

    def table(self, printed: Mapping[str, float], printed_vmi: Mapping[str, float] | None = None) -> Table:
        """One line for each contender; `printed` are the paper's own numbers."""
        cells: dict[str, Cell] = {
            "method": name_of("method", LABELS),
            "post-hoc": mean_sd("posthoc_accuracy"),
            "printed": _printed(printed),
            "judge": mean_sd("judge_accuracy"),
            "index set": mean_sd("mask_only_accuracy"),
            "the rest": mean_sd("complement_accuracy"),
            "VMI": mean_sd("vmi"),
            "VMI printed": _printed(printed_vmi or {}),
            "fit s": mean_sd("fit_seconds", digits=0),
            "s / 1,000": lambda group: (
                f"{np.mean([1e3 * r['explain_seconds'] / r['rows'] for r in group]):.3g}"
            ),
        }
        return Table.of(self.groups.values(), cells)

    def figure(self, *, title: str, chance: float) -> Figure:
        """Contenders by the share of answers that they keep."""
        keys = ("posthoc_accuracy", "judge_accuracy", "mask_only_accuracy")
        methods = {LABELS[m]: [group.mean(key) for key in keys] for m, group in self.groups.items()}
        return plot_fidelity(
            dict(sorted(methods.items(), key=lambda item: -item[1][0])),
            title=title,
            chance=chance,
            inputs=self.inputs,
            caption="Dotted: chance. Post-hoc: the model on the selection. Judge: fitted on random subsets.\n"
            f"Index set: a logistic regression that sees which {self.features}, not what is in them.",
        )

    def caption(self) -> str:
        """What the columns are, and what is measured on fewer inputs."""
        whole = max(self.records.values("rows"))
        fewer = {LABELS[r["method"]]: r["rows"] for r in self.records if r["rows"] < whole}
        exceptions = "".join(f"; {name}: {rows:,}" for name, rows in fewer.items())
        counts = sorted({len(group) for group in self.groups.values()} - {1})
        seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "1"
        return (
            "Printed: in the paper or in comments of its source. Index set: a logistic regression that sees "
            f"which {self.features} were selected. The rest: the model on all but the selection. VMI: the "
            "variational lower bound of the mutual information between selection and answer, in nats, by a q "
            "that was fitted to the method's own selections. Fit s and "
            f"s / 1,000: seconds to learn, and to explain 1,000 {self.inputs}. Measured on {whole:,} test "
            f"{self.inputs}{exceptions}. Mean ± standard deviation over {seeds} seed(s) where a method "
            "learns or draws."
        )

    def percent(self, method: str, key: str = "posthoc_accuracy") -> str:
        return f"{100 * self.groups[method].mean(key):.1f} %"


def _printed(numbers: Mapping[str, float]) -> Cell:
    return lambda group: f"{numbers[m]:.3f}" if (m := group[0]["method"]) in numbers else NOTHING


def introduction(records: Records, *, inputs: str, features: str, removed: str, of: str = "") -> list[str]:
    """What is measured, and on what; `removed` is what stands in place of features that are not selected, and
    `of` says which problem the first record is about."""
    one = inputs.removesuffix("s")
    return [
        f"Post-hoc accuracy is the share of test {inputs} for which the model, shown only the selected "
        f"{features} and {removed} elsewhere, gives the answer that it gives for the whole {one}. Selections "
        "can reach it by making the model say the right thing without being why: the search per input, which "
        "is told the answer, shows how far that goes. Therefore an independent judge stands beside it, a "
        f"network fitted on random subsets of {inputs} that no explainer saw.",
        f"Explainers learned from {records[0]['train_rows']:,} training {inputs}{of}, the judge from others, "
        f"and a third part chose our recipe; nothing was chosen on test {inputs}. {measured_on(records)}",
    ]


def selection(record: Record, view: View, inputs: Any) -> Explanation:
    """What a record's contender selected in its examples, which are `inputs`, best first."""
    return explanation_of(record["examples"], record["k"], view, inputs)


def explanation_of(selections: Sequence[Sequence[int]], k: int, view: View, inputs: Any) -> Explanation:
    """The explanation of `inputs` that selects these features, best first, at most k of each."""
    scores = np.full((len(selections), view.d), -np.inf)
    for row, selected in enumerate(selections):
        scores[row, list(selected)] = np.arange(k, k - len(selected), -1.0)
    return Explanation(scores, k, view.names_, inputs=inputs, view=view)


def with_examples(records: Records, methods: Sequence[str]) -> list[Record]:
    """The first record with examples of each of these contenders, as far as there are any."""
    found = (next((r for r in group if r["examples"]), None) for group in records.groups(method=methods))
    return [record for record in found if record is not None]
