"""How `l2x evaluate` words its figures, and the caution that goes with them."""

from __future__ import annotations

from typing import Any

import typer

GAMING = (
    "Post-hoc accuracy alone can be gamed: a selection may encode the answer instead of explaining it. "
    "Read it beside an independent judge, a q(y | x_S) fitted on random subsets"
)
ASK_FOR_JUDGE = " (--judge, or l2x.evaluation.fit_judge in Python)"


def print_figures(figures: dict[str, Any], units: str) -> None:
    """`units`: what is selected, in the plural."""

    def line(label: str, text: str) -> None:
        typer.echo(f"{label:<22}{text}")

    name = "accuracy" if figures["task"] == "classification" else "R²"
    line("rows", f"{figures['rows']:,}")
    line("selected", f"k = {figures['k']} of {figures['features']} {units}")
    line(f"post-hoc {name}", f"{_figure(figures['selection'])}   the model sees the selected {units} alone")
    line("  everything else", f"{_figure(figures['complement'])}   all but the selected; low is good")
    chance = f"± {_figure(figures['random_sd'])}, {figures['random_draws']} draws"
    line(f"  random {units}", f"{_figure(figures['random_mean'])}   {figures['k']} at random ({chance})")
    if figures["captured_bits"] is not None:
        captured, available = figures["captured_bits"], figures["available_bits"]
        share = f" ({captured / available:.0%})" if available > 0 else ""
        line("information", f"{captured:.3f} of {available:.3f} bits{share}, under the explainer's own q")
    if judge := figures["judge"]:
        bits = f"; {judge['captured_bits']:.3f} bits" if "captured_bits" in judge else ""
        line(f"judge {name}", f"{_figure(judge['selection'])}   an independent q, the selected {units}{bits}")
        line(f"  random {units}", f"{_figure(judge['random_mean'])}")
    line("speed", f"{figures['rows_per_second']:,} rows explained per second")
    typer.echo(f"\n{caution(figures)}")


def caution(figures: dict[str, Any]) -> str:
    """What to keep in mind with the figures, in a sentence or two."""
    return f"{GAMING}{'' if figures['judge'] else ASK_FOR_JUDGE}."


def _figure(value: float | None) -> str:
    return "  -  " if value is None else f"{value:.3f}"
