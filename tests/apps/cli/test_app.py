"""The command line as a whole: help, its speed, wrong usage, and `l2x data`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Folder

import l2x


def test_version_and_help(folder: Folder) -> None:
    assert folder.run("--version").stdout == f"l2x {l2x.__version__}\n"
    overview = folder.run("--help").stdout
    for command in ("fit", "explain", "evaluate"):
        assert command in overview
        assert "Example" in folder.run(command, "--help").stdout


def test_help_does_not_wait_for_heavy_imports() -> None:
    code = (
        "import sys; from l2x.apps.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'sklearn', 'pandas', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [["fit"], ["nothing"], ["fit", "a:b", "test.csv", "--k", "many", "-o", "x"], ["explain", "tree.l2x"]],
)
def test_wrong_usage_is_exit_code_two(folder: Folder, arguments: list[str]) -> None:
    assert "Usage" in folder.run(*arguments, code=2).stderr


def test_data_fetch_names_the_missing_file(folder: Folder, tmp_path: Path) -> None:
    printed = folder.run("data", "fetch", "mnist", "--from", tmp_path, "--quiet", code=1).stderr
    assert re.search("'mnist'.*train-images-idx3-ubyte", " ".join(printed.split()))
    folder.run("data", "fetch", "letters", code=2)
