"""The demo runs from end to end and leaves a report."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
@pytest.mark.usefixtures("brief_training")
def test_demo_prints_a_summary_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `python examples/demo.py --quick`, but in this process, where training can be brief."""
    pytest.importorskip("lightgbm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "argv", ["demo.py", "--quick"])
    monkeypatch.syspath_prepend(EXAMPLES)  # its parts stand beside it
    runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for text in (
        "5 of 30 columns",
        "10 words of a review",
        "4 of 16 patches",
        "µs per explanation",
        "demo-report.html",
    ):
        assert text in printed
    page = (tmp_path / "out" / "demo-report.html").read_text(encoding="utf-8")
    assert page.count("<svg ") == 5
    assert page.count("<mark") > 10
    assert "<script" not in page
