"""The README's generated parts: its tables, the output of its code, and its pictures."""

from __future__ import annotations

from l2x_experiments.records import NOTHING, Records
from l2x_experiments.refine import MASKINGS
from website import DOCS, ROOT, pictures
from website.pages import blocks, run_block, working_folder
from website.results import markdown_table
from website.tables import between, records

README = ROOT / "README.md"
PICTURES = DOCS / "pictures"
# Methods of results/refine.json, and how the README calls them.
METHODS = {
    "polished": "l2x",
    "refined, 30": "l2x, `refine=30`",
    "TreeSHAP": "TreeSHAP",
    "Kernel SHAP, 1,000": "Kernel SHAP",
    "LIME, 5,000": "LIME",
    "random": "random columns",
}
OURS = ("polished", "refined, 30")
# Cases of results/fit.json and kinds of input of results/serve.json.
COSTS = {
    "adult": ("a table", "tables"),
    "ten words": ("a text", "texts"),
    "3 versus 8": ("an image", "images"),
}
SPEEDS = {"one row, p50 in ms": "one row over HTTP, ms", "rows/s, Arrow": "rows per second, in bulk"}


def refresh_tables() -> None:
    """Write the README's tables; takes a second."""
    text = README.read_text()
    for name, table in TABLES.items():
        text = between(text, f"{name}: make table", name, table())
    README.write_text(text)


def refresh() -> None:
    """Write the tables, run the README's code for its outputs, and draw the pictures."""
    refresh_tables()
    text, names = README.read_text(), {}
    figures = []
    with working_folder():
        for name, code in zip(OUTPUTS, blocks(text), strict=True):
            printed, figure = run_block(code, names, "README.md")
            text = between(text, name, name, f"```\n{printed.rstrip()}\n```")
            figures.append(figure)
    README.write_text(text)
    pictures.draw(PICTURES, figures[0])


def comparison_table() -> str:
    """Return a line for each method: how it explains the same rows of the census, and what that costs."""
    census = records("refine").select(part="tables", problem="Adult", seed=0)
    if not census:
        return "`l2x reproduce refine` measures these methods; there are no records yet."
    ours = census.select(method="polished")
    rows = []
    for method, name in METHODS.items():
        if found := census.select(method=method):
            shares = [_share(found, "posthoc_accuracy", MASKINGS.index(m)) for m in ("median", "resample")]
            shares.append(_share(found, "judge_accuracy"))
            costs = [f"{found.mean('queries'):,.0f}", _milliseconds(found), _setup(found)]
            rows.append([name, *shares, *costs, _break_even(ours, found)])
    columns = [
        "", "post-hoc, median", "post-hoc, resampled", "evaluator", "queries per row", "ms per row",
        "fit", "l2x is faster after",
    ]  # fmt: skip
    rows_tested, k = census[0]["rows"], census[0]["k"]
    error = 0.5 / rows_tested**0.5
    return (
        f"{markdown_table(columns, rows)}\n\nAdult with LightGBM, k = {k}, the same {rows_tested} rows for "
        f"every method, one seed; standard errors are at most {error:.2f}. {_machines(census)}."
    )


def _share(found: Records, *path: str | int) -> str:
    values = found.values(*path)
    return f"{values[0]:.3f}" if values else NOTHING


def _milliseconds(found: Records) -> str:
    """Return the time of one row in a batch."""
    return _two_digits(1000 * found[0]["explain_seconds"] / found[0]["rows"])


def _setup(found: Records) -> str:
    return f"{found[0]['fit_seconds']:.0f} s" if found[0]["fit_seconds"] else NOTHING


def _break_even(ours: Records, other: Records) -> str:
    """Return the number of rows after which fitting and explaining takes less time than the other method."""
    if other[0]["method"] in OURS or not ours or other[0]["method"] == "random":
        return NOTHING
    seconds = [found[0]["explain_seconds"] / found[0]["rows"] for found in (other, ours)]
    saved = seconds[0] - seconds[1]
    return f"{_two_digits(ours[0]['fit_seconds'] / saved)} rows" if saved > 0 else "never"


def cost_table() -> str:
    """Return a line for each kind of input: rows and time to fit, and the speed of the service."""
    fits = records("fit").select(timed="default", tested=None)
    served = records("serve").select(part="figures")
    rows, shown = [], Records(served)
    for case, (name, kind) in COSTS.items():
        fitted = fits.select(case=case)
        shown = Records((*shown, *fitted))
        time = [f"{fitted[0]['rows']:,}", f"{fitted.mean('wall_seconds'):.0f} s"] if fitted else [NOTHING] * 2
        speeds = [served.select(measure=f"{kind}: {what}") for what in SPEEDS]
        rows.append([name, *time, *(_two_digits(s.mean("value")) if s else NOTHING for s in speeds)])
    columns = ["", "training rows", "fit, one core", *SPEEDS.values()]
    return f"{markdown_table(columns, rows)}\n\n{_machines(shown)}."


def _two_digits(value: float) -> str:
    """Return a number rounded to two significant digits."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _machines(found: Records) -> str:
    """Return the machines of some records."""
    return f"Machine: {'; '.join(found.distinct('machine'))}"


# The outputs of the blocks of Python, in their order.
OUTPUTS = ("output", "verdict")
TABLES = {"comparison": comparison_table, "costs": cost_table}
