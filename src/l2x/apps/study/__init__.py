"""Do the selected features mean anything to people? The paper's human evaluation (section 4.2), as a tool.

`new` makes a study, `Study` opens it, `l2x study serve` shows it to raters, `results` and `write_report` say
what came out, `simulate` lets stand-ins answer, and `power_table` says how large a study has to be.
"""

from l2x.apps.study._making import new
from l2x.apps.study._report import write_answers, write_report
from l2x.apps.study._results import Results, results
from l2x.apps.study._simulation import simulate
from l2x.apps.study._statistics import power_table
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
