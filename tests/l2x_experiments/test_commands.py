"""`l2x reproduce` on the command line: options, pages from committed records, errors in one sentence."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from l2x.apps.cli import app

RESULTS = Path(__file__).parents[2] / "results"
COMMANDS = ("synthetic", "honesty", "mnist", "imdb-words", "imdb-sentences", "adult", "ablation")


def reproduce(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["reproduce", *arguments])
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize("name", ["adult", "honesty"])
def test_the_page_is_drawn_from_the_records_alone(name: str, tmp_path: Path) -> None:
    """Nothing is run, and what the committed results say is what the committed tables say."""
    shutil.copy(RESULTS / f"{name}.json", tmp_path)
    code, said = reproduce(name, "--report-only", "--folder", str(tmp_path))
    assert code == 0, said
    assert f"{name}.html" in said
    assert (tmp_path / f"{name}.json").read_bytes() == (RESULTS / f"{name}.json").read_bytes()
    pages = [(folder / f"{name}.html").read_text().splitlines() for folder in (tmp_path, RESULTS)]
    tables = [[line for line in page if line.startswith("<td")] for page in pages]
    assert tables[0] == tables[1]
    if name == "honesty":
        assert (tmp_path / "honesty.md").read_bytes() == (RESULTS / "honesty.md").read_bytes()


def test_records_as_json(tmp_path: Path) -> None:
    shutil.copy(RESULTS / "adult.json", tmp_path)
    done = CliRunner().invoke(
        app, ["reproduce", "adult", "--report-only", "--json", "--folder", str(tmp_path)]
    )
    assert json.loads(done.output) == json.loads((RESULTS / "adult.json").read_text())


def test_nothing_to_report(tmp_path: Path) -> None:
    code, said = reproduce("synthetic", "--report-only", "--folder", str(tmp_path))
    assert code == 1
    assert "holds no records of this experiment; run it without --report-only" in said


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "captum", None)
    code, said = reproduce("synthetic", "--quick", "--folder", str(tmp_path))
    assert code == 1
    assert "pip install 'l2x[baselines]'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", COMMANDS)
def test_common_options(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, said = reproduce(name, "--help")
    assert code == 0
    wanted = ["--quick", "--seeds", "--folder", "--json", "--report-only", f"l2x reproduce {name} --quick"]
    wanted += ["--jobs"] if name != "adult" else []
    wanted += ["--only"] if name not in ("adult", "honesty", "ablation") else []
    assert [text for text in wanted if text not in said] == []
