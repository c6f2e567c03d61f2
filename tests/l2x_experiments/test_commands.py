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
COMMANDS = ("synthetic", "leakage", "mnist", "imdb-words", "imdb-sentences", "adult", "ablation")


def reproduce(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["reproduce", *arguments])
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize("name", ["adult", "leakage"])
def test_the_page_is_made_from_the_records_alone(name: str, tmp_path: Path) -> None:
    """Nothing is measured, and the committed tables are those of the committed records."""
    shutil.copy(RESULTS / f"{name}.json", tmp_path)
    code, output = reproduce(name, "--report-only", "--folder", str(tmp_path))
    assert code == 0, output
    assert f"{name}.html" in output
    assert (tmp_path / f"{name}.json").read_bytes() == (RESULTS / f"{name}.json").read_bytes()
    pages = [(folder / f"{name}.html").read_text().splitlines() for folder in (tmp_path, RESULTS)]
    tables = [[line for line in page if line.startswith("<td")] for page in pages]
    assert tables[0] == tables[1]
    if name == "leakage":
        assert (tmp_path / "leakage.md").read_bytes() == (RESULTS / "leakage.md").read_bytes()


def test_records_as_json(tmp_path: Path) -> None:
    shutil.copy(RESULTS / "adult.json", tmp_path)
    done = CliRunner().invoke(
        app, ["reproduce", "adult", "--report-only", "--json", "--folder", str(tmp_path)]
    )
    assert json.loads(done.output) == json.loads((RESULTS / "adult.json").read_text())


def test_nothing_to_report(tmp_path: Path) -> None:
    code, output = reproduce("synthetic", "--report-only", "--folder", str(tmp_path))
    assert code == 1
    assert "holds no records of this experiment; run it without --report-only" in output


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "captum", None)
    code, output = reproduce("synthetic", "--quick", "--folder", str(tmp_path))
    assert code == 1
    assert "pip install 'l2x[baselines]'" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("name", COMMANDS)
def test_common_options(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, output = reproduce(name, "--help")
    assert code == 0
    wanted = ["--quick", "--seeds", "--folder", "--json", "--report-only", f"l2x reproduce {name} --quick"]
    wanted += ["--jobs"] if name != "adult" else []
    wanted += ["--only"] if name not in ("adult", "leakage", "ablation") else []
    assert [text for text in wanted if text not in output] == []
