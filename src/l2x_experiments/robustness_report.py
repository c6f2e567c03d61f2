"""The report of results/robustness.json; draws only what the records say."""

from __future__ import annotations

from collections.abc import Callable

from l2x_experiments.records import NOTHING, Record, Records
from l2x_experiments.report import Report, measured_on
from l2x_experiments.robustness import (
    METHODS,
    PROBLEMS,
    doubted,
    doubted_by_q,
    rest_keeps_more,
    rest_truly_keeps_more,
    true_finding,
)
from l2x_experiments.tables import Cell, Table, mean_sd

FINDINGS = {
    "no better": "truly no better than chance",
    "nothing to find": "answers out of order: nothing to find",
    "close": "too close to tell",
    "better": "truly better than chance",
}


def report(records: Records) -> Report:
    page = Report(
        "robustness",
        title="Does it say so when it is not good?",
        subtitle="The self-check at the end of fit, against what is true on the test rows",
    )
    first = records[0]
    splits = len({(record["problem"], record["split"]) for record in records})
    page.add(
        "",
        [
            f"{len(records)} explainers on {splits} splits of {len(PROBLEMS)} problems: the default, and "
            "three as they come out when something went wrong. One step: a selector that has hardly begun to "
            "learn, little better than one random subset for all rows. Random weights: a selector that has "
            "not learned at all, and selects other features in other rows. Answers out of order: those that "
            "were brought belong to other rows; as the model is then not asked, q decides.",
            "Each was checked by itself on the rows that fit holds out, and then measured on all test rows, "
            "10,000 at most. Truly better means that the 95 % interval of its advantage over random "
            "features, in answers of the same class, lies above zero; truly no better, that there is no "
            "advantage. Of answers out of order nothing can be learned, whatever luck does to a selection.",
            f"Training was short ({first['value_steps']} steps for q, in small batches): what is tested is "
            "the check. Its rule was chosen on other splits than these.",
            measured_on(records),
        ],
    )
    page.add(
        "How often it warns",
        table=rates(records),
        caption="Goals: at least 90 % of those truly no better, at most 10 % of the truly better ones. An "
        "explainer of random weights that is truly better is so by luck, and by little: the rows that are "
        "held out may not show it.",
    )
    page.add(
        "How often it warns that all but the selection keeps more",
        table=complements(records),
        caption="Only where the selection is found better than chance: otherwise that is what it warns of.",
    )
    page.add("By problem", table=details(records), caption="Shares of answers kept, on test rows.")
    page.markdown = page.tables_markdown()
    return page


def rates(records: Records) -> Table:
    """One line for each truth: how many explainers, and how many of them the check finds doubtful."""
    groups = {
        name: Records(record for record in records if true_finding(record) == finding)
        for finding, name in FINDINGS.items()
    }
    better = groups[FINDINGS["better"]]
    groups |= {f"of these: {method}": some for method in METHODS if (some := better.select(method=method))}
    return Table(
        ["", "explainers", "warned", "in doubt by q, where there is one"],
        [[name, str(len(group)), share(group, doubted), share(asked_q(group), doubted_by_q)]
         for name, group in groups.items()],
    )  # fmt: skip


def asked_q(group: Records) -> Records:
    """Those with a q of their own: value="model", of which two methods make use, has none."""
    return Records(record for record in group if record["check"]["by_q"])


def complements(records: Records) -> Table:
    """Of the explainers that are not in doubt: what is true of their complements, and what is warned of."""
    sure = [record for record in records if not doubted(record)]
    truths = {
        "all but the selection truly keeps more": Records(filter(rest_truly_keeps_more, sure)),
        "it does not": Records(record for record in sure if not rest_truly_keeps_more(record)),
    }
    return Table(
        ["", "explainers", "warned"],
        [[name, str(len(group)), share(group, rest_keeps_more)] for name, group in truths.items()],
    )


def share(group: Records, warned: Callable[[Record], bool]) -> str:
    """ "9 (90 %)"; a dash of none."""
    number = sum(map(warned, group))
    return f"{number} ({100 * number / len(group):.0f} %)" if group else NOTHING


def details(records: Records) -> Table:
    """One line for each problem and method, means over splits."""

    def count(finding: str) -> Cell:
        return lambda group: str(sum(true_finding(record) == finding for record in group))

    cells: dict[str, Cell] = {
        "problem": lambda group: str(group[0]["problem"]),
        "method": lambda group: str(group[0]["method"]),
        "held-out rows": lambda group: str(group[0]["check"]["rows"]),
        "selection": mean_sd("selection"),
        "random": mean_sd("random"),
        "all but these": mean_sd("complement"),
        "better": count("better"),
        "close": count("close"),
        "no better": count("no better"),
        "warned": lambda group: str(sum(map(doubted, group))),
    }
    return Table.of(records.groups(problem=PROBLEMS, method=METHODS), cells)
