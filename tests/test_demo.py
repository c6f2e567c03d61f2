"""The demo runs from end to end and leaves a report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


@pytest.mark.slow
def test_demo_prints_a_summary_and_writes_a_report(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    done = subprocess.run(
        [sys.executable, str(DEMO), "--quick"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for text in (
        "5 of 30 columns",
        "10 words of a review",
        "4 of 16 patches",
        "; effects in percentage points",
        "µs per explanation",
        "demo-report.html",
    ):
        assert text in done.stdout
    page = (tmp_path / "out" / "demo-report.html").read_text(encoding="utf-8")
    assert page.count("<svg ") == 7 + ("Where the patches are not enough" in page)
    assert page.count("<mark") > 10
    assert "<script" not in page
