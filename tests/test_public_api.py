"""The package exports exactly what it says, quickly, and its docstring examples run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import l2x

MODULES = [
    module.name
    for module in pkgutil.walk_packages(l2x.__path__, "l2x.")
    if not module.name.startswith(("l2x.cli", "l2x.web"))
]


def test_every_exported_name_exists() -> None:
    for name in l2x.__all__:
        assert getattr(l2x, name) is not None


def test_dir_is_all() -> None:
    assert dir(l2x) == sorted(l2x.__all__)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'explian'"):
        _ = l2x.explian


def test_import_is_light() -> None:
    code = "import sys, l2x; print('torch' in sys.modules or 'sklearn' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
