"""A user's folder, created once; every test of the command line runs in a copy."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import MODELS, Folder, make_frame


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create train.parquet, test.csv, test.parquet and cli_models.py, and fit tree.l2x."""
    path = tmp_path_factory.mktemp("original")
    make_frame(300, seed=0).to_parquet(path / "train.parquet")
    make_frame(200, seed=1).to_csv(path / "test.csv", index=False)
    make_frame(200, seed=1).to_parquet(path / "test.parquet")
    (path / "cli_models.py").write_text(MODELS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setattr(sys, "path", list(sys.path))
        arguments = ("fit", "cli_models:tree", "train.parquet", "--k", 2, "-o", "tree.l2x", "--quick", "-q")
        Folder(path).run(*arguments)
    sys.modules.pop("cli_models", None)
    return path


@pytest.fixture
def folder(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """Change to a copy of the user's folder; modules that commands import from it are unloaded afterwards."""
    path = shutil.copytree(original, tmp_path / "folder", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield Folder(path)
    for name in [name for name in sys.modules if name.startswith("cli_")]:
        del sys.modules[name]
