"""What the reports of mnist and imdb have in common: the table of contenders, its figure, its caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x.explanation import Explanation
from l2x.features.view import View
from l2x_experiments.contenders import labels
from l2x_experiments.plots.fidelity import plot_fidelity
from l2x_experiments.records import NOTHING, Record, Records
from l2x_experiments.tables import Table, mean_sd, name_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = ("search", "l2x", "l2x-model", "l2x-surrogate", "paper", "taylor", "deeplift", "lime", "kernel_shap",
         "saliency", "taylor-absolute", "deeplift-absolute", "lime-absolute", "kernel_shap-absolute")  # fmt: skip
NAMES = labels(*ORDER) | {
    "l2x": "L2X, ours",
    "l2x-model": "L2X, value = model",
    "l2x-surrogate": "L2X, value = surrogate",
    "paper": "L2X, as in the paper",
    "random": "random",
}
RECIPES = {"l2x-model": "value='model'", "l2x-surrogate": "value='surrogate'"}


class Methods:
    """One problem's records of each contender, in order; of our recipes the chosen one appears once, as l2x.

    `inputs` and `features` are what they are called, in the plural: "images", "patches".
    """

    def __init__(self, records: Records, *, inputs: str, features: str) -> None:
        self.records, self.inputs, self.features = records, inputs, features
        self.recipe = next(iter(records.values("recipe")), None)
        shown = [method for method in NAMES if method != self.recipe]
        self.groups = {group[0]["method"]: group for group in records.groups(method=shown)}

    def table(self, printed: Mapping[str, float]) -> Table:
        """One line for each contender; `printed` are the paper's own numbers."""

        def in_paper(group: Records) -> str:
            number = printed.get(group[0]["method"])
            return NOTHING if number is None else f"{number:.3f}"

        cells = {
            "method": name_of("method", NAMES),
            "post-hoc": mean_sd("posthoc_accuracy"),
            "printed": in_paper,
            "judge": mean_sd("judge_accuracy"),
            "places": mean_sd("mask_only_accuracy"),
            "the rest": mean_sd("complement_accuracy"),
            "fit s": mean_sd("fit_seconds", digits=0),
            "s / 1,000": lambda group: (
                f"{np.mean([1000 * r['explain_seconds'] / r['rows'] for r in group]):.3g}"
            ),
        }
        return Table.of(self.groups.values(), cells)

    def figure(self, *, title: str, chance: float) -> Figure:
        """Contenders by the share of answers that they keep."""
        keys = {
            "post-hoc": "posthoc_accuracy", "judge": "judge_accuracy", "places alone": "mask_only_accuracy"
        }  # fmt: skip
        methods = {
            NAMES[method]: {name: group.mean(key) for name, key in keys.items()}
            for method, group in self.groups.items()
        }
        return plot_fidelity(
            dict(sorted(methods.items(), key=lambda item: -item[1]["post-hoc"])),
            title=title,
            chance=chance,
            inputs=self.inputs,
            caption="Dotted: chance. Post-hoc: the model on the selection. Judge: fitted on random subsets.\n"
            f"Places alone: a logistic regression that sees which {self.features}, not what is in them.",
        )

    def caption(self) -> str:
        """What the columns are, and what is measured on fewer inputs."""
        whole = max(self.records.values("rows"))
        fewer = {NAMES[r["method"]]: r["rows"] for r in self.records if r["rows"] < whole}
        exceptions = "".join(f"; {name}: {rows:,}" for name, rows in fewer.items())
        counts = sorted({len(group) for group in self.groups.values()} - {1})
        seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "1"
        return (
            "Printed: in the paper or in comments of its source. Places: a logistic regression that sees "
            f"which {self.features} were selected. The rest: the model on all but the selection. Fit s and "
            f"s / 1,000: seconds to learn, and to explain 1,000 {self.inputs}. Measured on {whole:,} test "
            f"{self.inputs}{exceptions}. Mean ± standard deviation over {seeds} seed(s) where a method learns "
            "or draws."
        )

    def chosen(self) -> str:
        """Which of our recipes is called l2x, in a sentence; empty in an unfinished run."""
        if self.recipe is None:
            return ""
        return f"Ours is {RECIPES[self.recipe]}, the better one on validation {self.inputs}."

    def percent(self, method: str, key: str = "posthoc_accuracy") -> str:
        return f"{100 * self.groups[method].mean(key):.1f} %"


def selection(record: Record, view: View, inputs: Any) -> Explanation:
    """What a record's contender selected in its examples, which are `inputs`, best first."""
    indices = np.asarray(record["examples"])
    scores = np.full((len(indices), view.d), -np.inf)
    np.put_along_axis(scores, indices, np.tile(np.arange(record["k"], 0, -1.0), (len(indices), 1)), axis=1)
    return Explanation(scores, record["k"], view.names_, inputs=inputs, view=view)


def with_examples(records: Records, methods: Sequence[str]) -> list[Record]:
    """The first record with examples of each of these contenders, as far as there are any."""
    found = (next((r for r in group if r["examples"]), None) for group in records.groups(method=methods))
    return [record for record in found if record is not None]
