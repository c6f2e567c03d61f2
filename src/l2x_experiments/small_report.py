"""The report of results/small.json; draws only what the records say."""

from __future__ import annotations

from l2x_experiments.contenders import LABELS
from l2x_experiments.records import Records
from l2x_experiments.report import Report, measured_on
from l2x_experiments.small import METHODS, PROBLEMS, SHAP
from l2x_experiments.tables import Cell, Table, mean_sd, name_of


def report(records: Records) -> Report:
    page = Report(
        "small",
        title="Small tables",
        subtitle="Breast cancer, 300 rows, 30 correlated columns: is the default as good as simpler ways?",
    )
    first = records[0]
    page.add(
        "",
        [
            f"{len(records.distinct('seed'))} splits of each problem; {first['k']} of 30 columns; "
            f"{first['rows']} test rows, on which nothing was chosen. The judge of one half of them learned "
            "from the other half.",
            "One subset for all rows is the best that a search finds by the default's own q. Kernel SHAP has "
            f"{SHAP['samples']} subsets and {SHAP['background_rows']} background rows.",
            measured_on(records),
        ],
    )
    for problem in PROBLEMS:
        if group := records.select(problem=problem):
            page.add(
                problem[0].upper() + problem[1:],
                table=table(group),
                caption="Mean ± standard deviation of splits.",
            )
    page.markdown = page.tables_markdown()
    return page


def table(group: Records) -> Table:
    """One line for each method."""
    cells: dict[str, Cell] = {
        "method": name_of("method", LABELS),
        "post-hoc": mean_sd("posthoc_accuracy"),
        "judge": mean_sd("judge_accuracy"),
        "complement": mean_sd("complement_accuracy"),
        "different subsets": mean_sd("subsets", digits=0),
        "learning, s": mean_sd("fit_seconds", digits=1),
    }
    return Table.of(group.groups(method=METHODS), cells)
