"""The reference is complete: every public name has its place, a docstring, its parameters and an example."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import pytest

import l2x

reference = pytest.importorskip("website.reference")

# Shown in the example of another name.
SHOWN_BY = {
    "l2x.datasets.AdultData": "adult", "l2x.datasets.TextData": "imdb",
    "l2x.evaluation.Comparison": "compare", "l2x.learning.objectives.Value": "Surrogate",
    "l2x.evaluation.ReportCard": "report_card", "l2x.evaluation.Encoding": "encode_meter",
    "l2x.evaluation.FittedQ": "fit_judge", "l2x.apps.study.Rater": "new", "l2x.apps.study.Settings": "new",
    "l2x.apps.study.Results": "new", "l2x.apps.study.results": "new", "l2x.apps.study.simulate": "new",
    "l2x.apps.study.write_answers": "new", "l2x.apps.study.write_report": "new",
}  # fmt: skip
# Their examples would fetch: they are shown, and do not run.
FETCHED = {"l2x.datasets.adult", "l2x.datasets.glove", "l2x.datasets.imdb", "l2x.datasets.mnist"}
NAMES = [(package, name) for package in reference.PACKAGES for name in reference.public_names(package)]


def public(package: str, name: str) -> Any:
    return getattr(l2x if package == "l2x" else import_module(package), name)


def test_every_public_name_has_its_place() -> None:
    for package in reference.PACKAGES:
        page = reference.page(package)
        for name in reference.public_names(package):
            home = reference.home(package, name)
            assert f"::: {home}" in page or f"[`l2x.{name}`](l2x.md#{home})" in page, f"{package}.{name}"


def test_what_all_exports_is_what_the_pages_have() -> None:
    described = {name for package in reference.PACKAGES for name in reference.public_names(package)}
    for package in ("l2x", "l2x.evaluation", "l2x.baselines", "l2x.datasets", "l2x.apps.study"):
        exported = set(import_module(package).__all__) - {"__version__"}
        modules = {name for name in exported if inspect.ismodule(getattr(import_module(package), name))}
        assert modules <= {page.rpartition(".")[2] for page in reference.PACKAGES}
        assert exported - modules <= described


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_docstring_names_every_parameter(package: str, name: str) -> None:
    found = public(package, name)
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        return  # a constant
    own = [inspect.getdoc(found) or ""]
    if inspect.isclass(found):  # options of a base class are described there
        own += [inspect.getdoc(base) or "" for base in found.__mro__[1:] if base.__module__.startswith("l2x")]
        own.append(inspect.getsource(found))  # fields with a comment beside them
    assert own[0], f"{package}.{name} has no docstring"
    text = "\n".join(own)
    if inspect.isfunction(found):
        for parameter in inspect.signature(found).parameters:
            assert re.search(rf"\b{parameter}\b", text), f"{package}.{name} does not say what {parameter} is"


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_an_example_runs(package: str, name: str) -> None:
    """That it runs is checked by test_public_api.py; here, that there is one, and that it is not skipped."""
    found, full = public(package, name), f"{package}.{name}"
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        return  # a constant
    shown = inspect.getdoc(public(package, SHOWN_BY.get(full, name))) or ""
    assert ">>>" in shown, f"{full} has no example"
    if inspect.isfunction(found):
        assert f"{name}(" in shown.partition(">>>")[2]
    if full not in FETCHED:
        assert "+SKIP" not in (inspect.getdoc(found) or "")


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_function_says_what_it_returns_and_raises(package: str, name: str) -> None:
    found = public(package, name)
    if inspect.isfunction(found):
        text = inspect.getdoc(found) or ""
        assert "\nReturns\n" in text or found.__annotations__["return"] == "None"
        assert "\nRaises\n" in text or not re.search(r"^ +raise ", inspect.getsource(found), re.MULTILINE)


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_methods_have_docstrings(package: str, name: str) -> None:
    """Of their own, or of the class that they implement."""
    found = public(package, name)
    for method, value in vars(found).items() if inspect.isclass(found) else ():
        if not method.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert inspect.getdoc(getattr(found, method)), f"{package}.{name}.{method} has no docstring"
