"""The paper's human evaluation (section 4.2) as a tool: do the selected features mean anything to people?

`new` makes a study, `Study` opens one, and `l2x study serve` shows it to raters. `results` and `write_report`
report the outcome, `simulate` adds simulated raters, and `power_table` helps to choose the size of a study.
"""

from l2x.apps.study._new import new
from l2x.apps.study._planning import power_table, simulate
from l2x.apps.study._report import write_answers, write_report
from l2x.apps.study._results import Results, results
from l2x.apps.study._study import Rater, Settings, Study

__all__ = [
    "Rater",
    "Results",
    "Settings",
    "Study",
    "new",
    "power_table",
    "results",
    "simulate",
    "write_answers",
    "write_report",
]
