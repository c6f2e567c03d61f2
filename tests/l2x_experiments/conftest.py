"""Small judges, and caches that a test does not share."""

from __future__ import annotations

from pathlib import Path

import pytest

import l2x.learning._phases


@pytest.fixture(autouse=True)
def small_and_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L2X_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(l2x.learning._phases, "HELD_MASKS", 200)
