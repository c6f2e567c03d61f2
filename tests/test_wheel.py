"""The wheel holds both packages, and `l2x reproduce` runs from it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (
    "l2x/display/static/htmx.min.js",
    "l2x/display/static/l2x.css",
    "l2x/display/templates/base.html",
    "l2x/apps/serve/static/playground.js",
    "l2x/apps/serve/templates/playground.html",
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the wheel into a folder, as an installation would."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = (folder / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def python(unpacked: Path, *arguments: str) -> str:
    """Return what Python prints with the wheel's packages, outside the source folder."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=unpacked.parent,
        env={**os.environ, "PYTHONPATH": str(unpacked), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_all_files_of_both_packages(unpacked: Path) -> None:
    for name in ("l2x/py.typed", "l2x/__init__.pyi", "l2x/display/templates/report.html", *PAGES):
        assert (unpacked / name).exists(), name
    for package in ("l2x", "l2x_experiments"):
        sources = {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src" / package).rglob("*.py")}
        packed = {str(file.relative_to(unpacked)) for file in (unpacked / package).rglob("*.py")}
        assert packed == sources


def test_commands_run_from_the_wheel(unpacked: Path) -> None:
    assert python(unpacked, "-c", "import l2x; print(l2x.__file__)").startswith(str(unpacked))
    assert "imdb-sentences" in python(unpacked, "-m", "l2x.apps.cli", "reproduce", "--help")
    assert "--variant" in python(unpacked, "-m", "l2x.apps.cli", "reproduce", "synthetic", "--help")
