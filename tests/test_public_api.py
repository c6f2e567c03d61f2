"""Packages export exactly their `__all__`, import quickly, and their docstring examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import l2x

MODULES = [
    module.name
    for module in pkgutil.walk_packages(l2x.__path__, "l2x.")
    if not module.name.startswith("l2x.apps.cli")
]


def names_of_the_stub() -> list[str]:
    """Return the names in lines such as `from .home import name as name`, as type checkers read them."""
    stub = ast.parse(Path(l2x.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(stub.body)
    names = [alias.asname for node in imports for alias in node.names]
    assert None not in names  # without `as`, type checkers treat the name as private
    return [str(name) for name in names]


def test_all_names_are_in_the_stub_and_exist() -> None:
    assert sorted(l2x.__all__) == sorted(names_of_the_stub())
    assert len(set(l2x.__all__)) == len(l2x.__all__)
    assert dir(l2x) == sorted(l2x.__all__)
    for name in l2x.__all__:
        assert getattr(l2x, name) is not None


@pytest.mark.parametrize("name", ["baselines", "datasets", "evaluation", "apps.study"])
def test_a_package_exports_all_its_public_names(name: str) -> None:
    package = importlib.import_module(f"l2x.{name}")
    held = {
        member
        for member, value in vars(package).items()
        if not member.startswith("_") and not isinstance(value, ModuleType)
    }
    assert held == set(package.__all__)
    assert len(set(package.__all__)) == len(package.__all__)


@pytest.mark.parametrize("name", ["errors.InputError", "samplers.PlackettLuce", "objectives.Surrogate"])
def test_errors_samplers_and_objectives_live_in_their_modules(name: str) -> None:
    module, _, member = name.partition(".")
    assert getattr(getattr(l2x, module), member).__name__ == member
    with pytest.raises(AttributeError, match=member):
        getattr(l2x, member)


def test_a_misspelt_name_is_named() -> None:
    with pytest.raises(AttributeError, match="explian"):
        _ = l2x.explian


def test_import_is_light() -> None:
    heavy = "{'torch', 'sklearn', 'pandas', 'matplotlib'}"
    code = f"import sys, l2x, l2x.apps.cli; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
