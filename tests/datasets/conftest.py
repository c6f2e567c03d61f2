"""An empty cache of data sets."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("L2X_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"
