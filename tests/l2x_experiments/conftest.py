"""Small evaluators, and a cache for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from l2x.learning import _surrogate


@pytest.fixture(autouse=True)
def small_and_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L2X_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(_surrogate, "HELD_MASKS", 200)
