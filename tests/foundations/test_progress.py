"""The progress bar stands on standard error, says how far the work is, and is silent on request."""

from __future__ import annotations

import pytest

from l2x._base.progress import progress_bar


def test_whole_numbers_are_counted_and_others_are_a_percentage(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("asking the model", 100) as advance:
        advance(40, "slowly")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all(text in printed.err for text in ("asking the model", "40/100", "slowly"))
    with progress_bar("explaining", 8.0) as advance:
        advance(2, "")
    assert "25%" in capsys.readouterr().err


def test_an_invisible_bar_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("asking the model", 100, visible=False) as advance:
        advance(40, "silently")
    assert capsys.readouterr() == ("", "")


def test_an_error_inside_passes_and_the_bar_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="of the work"), progress_bar("working", 2):
        raise ValueError("of the work")
    with progress_bar("again", 2) as advance:  # rich allows one live bar at a time
        advance(2, "")
    assert "2/2" in capsys.readouterr().err


def test_a_line_of_80_columns_holds_the_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar("training the selector", 10_000) as advance:
        advance(10_000, "loss 0.1234 (best 0.1230)")
    assert "loss 0.1234 (best 0.1230)" in capsys.readouterr().err
