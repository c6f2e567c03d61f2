"""Small evaluators, and a cache for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from l2x.learning import objectives


@pytest.fixture(autouse=True)
def small_and_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L2X_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(objectives, "HELD_MASKS", 200)
