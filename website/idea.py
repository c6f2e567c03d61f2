"""The picture of the idea: a small network learns from a model's predictions, then selects three columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

WIDTH, HEIGHT = 720, 316
COLUMNS = ("age", "job", "hours", "degree", "gain", "town")
EFFECTS = {0: "+25", 1: "−17", 4: "+8"}  # an invented row
# Which columns the model sees: three masked rows, one after the other.
SUBSETS = ((0, 2, 3), (1, 4), (0, 3, 4, 5))
CELL, GAP, TALL = 44, 6, 30
LEFT, RIGHT = 14, 404  # where the two rows of cells begin
INPUTS, HIDDEN, OUTPUTS = 98, 140, 182  # heights of the layers of the small network
SECONDS = 9

# The picture is complete without its animation, for readers who switch animations off.
LOOK = f"""
text {{ font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; font-size: 15px;
  fill: var(--l2x-ink); text-anchor: middle; }}
.title {{ font-size: 18px; font-weight: 700; text-anchor: start; }}
.quiet {{ fill: var(--l2x-muted); }}
.cell {{ fill: var(--l2x-page); stroke: var(--l2x-soft); stroke-width: 1.5; }}
.seen {{ fill: var(--l2x-soft); }}
.model {{ fill: var(--l2x-ink); }}
.on-model {{ fill: var(--l2x-page); font-weight: 700; }}
.towards {{ fill: var(--l2x-towards); }}
.against {{ fill: var(--l2x-against); }}
.amount {{ font-weight: 700; }}
.wire {{ stroke: var(--l2x-soft); stroke-width: 1; }}
.node {{ fill: var(--l2x-accent); }}
.arrow {{ stroke: var(--l2x-muted); stroke-width: 2; fill: none; }}
.head {{ fill: var(--l2x-muted); }}
.lesson {{ stroke-dasharray: 5 4; }}
.subset + .subset {{ opacity: 0; }}
@media (prefers-reduced-motion: no-preference) {{
  .subset {{ animation: subset {SECONDS}s infinite; opacity: 0; }}
  .lesson {{ animation: flow 1s linear infinite; }}
  .chosen {{ animation: chosen {SECONDS}s infinite; }}
  @keyframes subset {{ 0%, 30% {{ opacity: 1; }} 34%, 97% {{ opacity: 0; }} 100% {{ opacity: 1; }} }}
  @keyframes flow {{ to {{ stroke-dashoffset: -9; }} }}
  @keyframes chosen {{ 0%, 70% {{ opacity: 1; }} 76%, 88% {{ opacity: 0; }} 98%, 100% {{ opacity: 1; }} }}
}}"""


def idea() -> str:
    """Return the inside of the picture: SVG with classes that LOOK styles."""
    middle = LEFT + 3 * (CELL + GAP) - GAP / 2
    parts = [
        text(LEFT, 24, "1. Fit once", "title"),
        text(RIGHT, 24, "2. Explain each row", "title"),
        # The model sees rows with some of their columns.
        *cells(LEFT, 44),
        *(
            f'<g class="subset" style="animation-delay: {SECONDS / 3 * (turn - len(SUBSETS)):g}s">'
            f"{''.join(cells(LEFT, 44, subset, 'seen'))}</g>"
            for turn, subset in enumerate(SUBSETS)
        ),
        text(middle, 97, "rows, with some columns masked", "quiet"),
        arrow(middle, 108, middle, 130),
        f'<rect class="model" x="{middle - 92}" y="134" width="184" height="62" rx="8"/>',
        text(middle, 160, "your model", "on-model"),
        text(middle, 181, "trees, network, URL", "on-model", weight=400),
        arrow(middle, 200, middle, 222),
        text(middle, 243, "predictions"),
        # The small network learns from them.
        f'<path class="arrow lesson" d="M {middle + 50} 238 H {RIGHT - 34} V {HIDDEN} H {RIGHT + 20}"/>',
        head(RIGHT + 30, HIDDEN, 90),
        text((middle + 50 + RIGHT - 34) / 2, 228, "learns", "quiet"),
        *cells(RIGHT, 44, range(len(COLUMNS)), "seen"),
        *network(),
        *cells(RIGHT, 198),
    ]
    for column, effect in EFFECTS.items():
        kind = "towards" if effect.startswith("+") else "against"
        at = centre(RIGHT, column)
        parts += [
            f'<g class="chosen">{"".join(cells(RIGHT, 198, [column], kind))}',
            f"{text(at, 252, COLUMNS[column])}{text(at, 273, effect, 'amount')}</g>",
        ]
    parts += [
        text(middle, 300, "Your model is queried while fitting.", "quiet"),
        text(centre(RIGHT, 2.5), 300, "One forward pass; effects are signed.", "quiet"),
    ]
    return "\n".join(parts)


def cells(x: float, y: float, columns: Sequence[int] = range(len(COLUMNS)), kind: str = "") -> list[str]:
    """Return the cells of these columns."""
    size = f'y="{y}" width="{CELL}" height="{TALL}" rx="4"'
    return [f'<rect class="cell {kind}" x="{x + i * (CELL + GAP)}" {size}/>' for i in columns]


def centre(x: float, column: float) -> float:
    """Return the middle of a column."""
    return x + column * (CELL + GAP) + CELL / 2


def network() -> list[str]:
    """Return the small network: one node for each column, four in between."""
    layers = [
        [(centre(RIGHT, i), INPUTS) for i in range(6)],
        [(centre(RIGHT, i), HIDDEN) for i in (1, 2, 3, 4)],
        [(centre(RIGHT, i), OUTPUTS) for i in range(6)],
    ]
    wires = [
        f'<line class="wire" x1="{a}" y1="{b}" x2="{c}" y2="{d}"/>'
        for first, second in pairwise(layers)
        for (a, b), (c, d) in product(first, second)
    ]
    nodes = [f'<circle class="node" cx="{x}" cy="{y}" r="6"/>' for layer in layers for x, y in layer]
    return wires + nodes


def text(x: float, y: float, words: str, kind: str = "", *, weight: int | None = None) -> str:
    """Return a line of text."""
    style = "" if weight is None else f' style="font-weight: {weight}"'
    return f'<text class="{kind}" x="{x:g}" y="{y}"{style}>{words}</text>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return an arrow that points down."""
    return f'<path class="arrow" d="M {x1:g} {y1} L {x2:g} {y2 - 4}"/>{head(x2, y2, 180)}'


def head(x: float, y: float, turn: int) -> str:
    """Return the head of an arrow, which points up before it is turned."""
    return f'<path class="head" d="M 0 0 l -6 10 h 12 z" transform="translate({x:g} {y}) rotate({turn})"/>'
