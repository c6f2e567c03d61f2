"""Filler is not a reason; a negation may be one."""

from __future__ import annotations

from l2x.features._words import FILLER


def test_negations_are_no_filler() -> None:
    assert {"the", "it", "and"} <= FILLER
    assert not {"no", "not", "bad", "great"} & FILLER
