"""Failures and notes: tracebacks only on request, real exit codes, Ctrl-C, closed pipes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import typer
from command_line import Folder
from typer.testing import CliRunner

from l2x.apps.cli import app
from l2x.apps.cli._terminal import Commands, note_ignored

COMMAND = [sys.executable, "-m", "l2x.apps.cli"]


def test_debug_shows_the_traceback(folder: Folder) -> None:
    result = CliRunner().invoke(app, ["--debug", "explain", "no.l2x", "test.csv"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "error: Cannot read 'no.l2x'" in result.stderr
    result = CliRunner().invoke(app, ["explain", "no.l2x", "test.csv"], env={"L2X_DEBUG": "1"})
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        (ZeroDivisionError("oh [bold]no[/bold]"), "error: ZeroDivisionError: oh [bold]no[/bold] (unexp", 1),
        (PermissionError(13, "Permission denied", "a.csv"), "error: Permission denied: 'a.csv'", 1),
        (KeyboardInterrupt(), "interrupted: nothing was written.", 130),
        (typer.Exit(3), "", 3),
    ],
)
def test_any_failure_is_one_sentence(error: BaseException, sentence: str, code: int) -> None:
    other = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @other.callback()
    def main() -> None:
        """Make a group, like the app."""

    @other.command()
    def fail() -> None:
        warnings.warn("take care", stacklevel=2)
        raise error

    result = CliRunner().invoke(other, ["fail"])
    assert result.exit_code == code
    assert result.stderr.startswith(f"warning: take care\n{sentence}")
    assert "Traceback" not in result.output


def test_as_a_process(folder: Folder) -> None:
    """Real exit codes, the current folder on the path, and Ctrl-C while the model predicts."""
    Path("cli_slow.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "def model(frame):\n    Path('predicting').touch()\n    time.sleep(60)\n"
    )
    arguments = ["fit", "cli_slow:model", "test.csv", "--drop", "id", "--k", "1", "-o", "slow.l2x"]
    slow = subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True,
        # A process that a shell starts in the background ignores Ctrl-C, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    failed = subprocess.run([*COMMAND, "explain", "no.l2x", "test.csv"], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr == "error: Cannot read 'no.l2x': No such file or directory.\n"
    assert failed.stdout == ""
    deadline = time.monotonic() + 60
    while not Path("predicting").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    slow.send_signal(signal.SIGINT)
    _, error = slow.communicate(timeout=60)
    assert slow.returncode == 130, error
    assert "interrupted:" in error
    assert "Traceback" not in error
    assert not Path("slow.l2x").exists()


def test_a_closed_pipe_is_not_reported(folder: Folder) -> None:
    """Close the pipe at once, as in `l2x explain ... | head -0`."""
    arguments = ["explain", "tree.l2x", "test.csv", "--head", "200"]
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert error.startswith("note:")
    assert len(error.splitlines()) == 1


def test_columns_that_are_ignored_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    note_ignored([], "the model")
    assert capsys.readouterr().err == ""
    note_ignored([f"c{i}" for i in range(7)], "the model")
    assert re.fullmatch(
        r"note: .*the model.*: c0, c1, c2, c3, c4, \.\.\. \(7 in all\)\n", capsys.readouterr().err
    )
