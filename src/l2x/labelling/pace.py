"""How many rows to ask about at once: few at first, then about a second's worth."""

from __future__ import annotations

from dataclasses import dataclass, field

# Enough to see how fast a model is, few enough to lose if it is slow.
FIRST_ROWS = 8
# Of one batch: progress is seen, and an interruption costs no more.
SECONDS = 1.0
# A batch may be this many times the one before: the first answer may have come from a cache.
GROWTH = 8


@dataclass
class Pace:
    """Rows of the next batch, at most `most`.

    Sizes are powers of two, so that the same model is mostly asked in the same batches: some models answer
    differently in the last digits if they are asked about more rows at once.

    >>> pace = Pace(most=8192)
    >>> pace.rows
    8
    >>> pace.took(8, seconds=0.1)
    >>> pace.rows
    64
    >>> pace.took(64, seconds=4.0)
    >>> pace.rows
    16
    """

    most: int
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows = min(FIRST_ROWS, self.most)

    def took(self, rows: int, seconds: float) -> None:
        """A batch of `rows` took that long."""
        in_time = rows * SECONDS / max(seconds, 1e-9)
        wanted = min(int(in_time), GROWTH * max(rows, self.rows))
        power = 1 << max(0, wanted.bit_length() - 1)
        self.rows = min(power, self.most)
