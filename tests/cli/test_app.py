"""The commands as a whole: what there is, how fast help comes, what wrong usage is."""

from __future__ import annotations

import subprocess
import sys

import pytest
from command_line import Folder

import l2x


def test_the_version_and_help_say_what_there_is(folder: Folder) -> None:
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
