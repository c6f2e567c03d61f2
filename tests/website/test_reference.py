"""The reference is complete: every public name has a place, a docstring, its parameters and an example."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import pytest

import l2x

reference = pytest.importorskip("website.reference")

# Parts of a study, and errors of studies and downloads: the example of `new` shows them together.
SHOWN_BY = {
    f"l2x.apps.study.{name}": "new"
    for name in ("Rater", "Results", "Settings", "results", "simulate", "write_answers", "write_report")
} | {f"l2x.errors.{name}": "L2XError" for name in ("DataError", "StudyError")}
# Their examples would download data, so they are not run.
FETCHED = {f"l2x.datasets.{name}" for name in ("adult", "composites", "glove", "imdb", "mnist")}
NAMES = [(package, name) for package in reference.PACKAGES for name in reference.public_names(package)]


def public(package: str, name: str) -> Any:
    return getattr(l2x if package == "l2x" else import_module(package), name)


def test_every_public_name_has_its_place() -> None:
    for package in reference.PACKAGES:
        page = reference.page(package)
        for name in reference.public_names(package):
            home, other = reference.home(package, name), reference.described_in(package, name)
            link = f"[`{other}.{name}`]({reference.file_of(other)}#{home})"
            assert f"::: {home}" in page or link in page, f"{package}.{name}"
            assert f"::: {home}" in reference.page(other), f"{package}.{name}"


def test_every_exported_name_is_described() -> None:
    described = {name for package in reference.PACKAGES for name in reference.public_names(package)}
    for package in ("l2x", "l2x.evaluation", "l2x.baselines", "l2x.datasets", "l2x.apps.study"):
        exported = set(import_module(package).__all__) - {"__version__"}
        modules = {name for name in exported if inspect.ismodule(getattr(import_module(package), name))}
        assert modules <= {page.rpartition(".")[2] for page in reference.PACKAGES}
        assert exported - modules <= described


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_docstring_names_every_parameter(package: str, name: str) -> None:
    member = public(package, name)
    if not (inspect.isclass(member) or inspect.isfunction(member)):
        return  # a constant
    own = [inspect.getdoc(member) or ""]
    if inspect.isclass(member):  # options of a base class are described there
        own += [
            inspect.getdoc(base) or "" for base in member.__mro__[1:] if base.__module__.startswith("l2x")
        ]
        own.append(inspect.getsource(member))  # fields have comments in the source
    assert own[0], f"{package}.{name} has no docstring"
    text = "\n".join(own)
    if inspect.isfunction(member):
        for parameter in inspect.signature(member).parameters:
            assert re.search(rf"\b{parameter}\b", text), f"{package}.{name} does not describe {parameter}"


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_an_example_runs(package: str, name: str) -> None:
    """Check that there is an example and that it is not skipped; test_public_api.py runs it."""
    member, full = public(package, name), f"{package}.{name}"
    if not (inspect.isclass(member) or inspect.isfunction(member)):
        return  # a constant
    shown = inspect.getdoc(public(package, SHOWN_BY.get(full, name))) or ""
    assert ">>>" in shown, f"{full} has no example"
    if inspect.isfunction(member):
        assert f"{name}(" in shown.partition(">>>")[2]
    if full not in FETCHED:
        assert "+SKIP" not in (inspect.getdoc(member) or "")


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_function_says_what_it_returns_and_raises(package: str, name: str) -> None:
    member = public(package, name)
    if inspect.isfunction(member):
        text = inspect.getdoc(member) or ""
        assert "\nReturns\n" in text or member.__annotations__["return"] == "None"
        assert "\nRaises\n" in text or not re.search(r"^ +raise ", inspect.getsource(member), re.MULTILINE)


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_methods_have_docstrings(package: str, name: str) -> None:
    """A docstring of the base class counts."""
    member = public(package, name)
    for method, value in vars(member).items() if inspect.isclass(member) else ():
        if not method.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert inspect.getdoc(getattr(member, method)), f"{package}.{name}.{method} has no docstring"
