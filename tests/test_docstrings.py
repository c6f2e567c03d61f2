"""Public docstrings follow numpydoc; `python tests/test_docstrings.py l2x.export` lists problems of a room.

Every function and class in a room's `__all__` and every public method has a docstring whose first line is
one sentence. In the interface that the reference documents, functions and constructors describe each of their
parameters with its type, and functions describe what they return. Methods may name their parameters in prose,
or refer to the method of a base class that they implement: "Return the tensor; see `View.encode`."
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

# The documented interface, and rooms whose names other rooms use.
INTERFACE = [
    "l2x",
    "l2x.apps.study",
    "l2x.baselines",
    "l2x.datasets",
    "l2x.errors",
    "l2x.evaluation",
    "l2x.learning.objectives",
    "l2x.learning.samplers",
    "l2x.testing",
]
ROOMS = [
    "l2x.apps.serve",
    "l2x.display",
    "l2x.export",
    "l2x.export.ray",
    "l2x.features",
    "l2x.files",
    "l2x.learning",
    "l2x.model",
]

# A docstring exists, its first line is one sentence, and its sections are known and in order.
SUMMARY = {"GL03", "GL06", "GL07", "GL08", "SS01", "SS02", "SS03", "SS04", "SS06"}
# The summary begins with an imperative verb; entries match the signature and have a type and a description.
ENTRIES = {"SS05", "PR02", "PR03", "PR04", "PR07", "PR10", "RT03"}
COMPLETE = {"PR01"}  # no parameter is missing
RETURNS = {"RT01", "YD01"}


def public_objects(room: str) -> Iterator[tuple[str, Any]]:
    """Yield functions and classes in a room's `__all__`, and their public methods, with their full names."""
    module = import_module(room)
    for name in getattr(module, "__all__", [name for name in vars(module) if name[0].isupper()]):
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)) or not value.__module__.startswith(
            "l2x."
        ):
            continue
        home = f"{value.__module__}.{value.__qualname__}"
        yield home, value
        for member, method in vars(value).items() if inspect.isclass(value) else ():
            plain = method.__func__ if isinstance(method, classmethod | staticmethod) else method
            if not member.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
                yield f"{home}.{member}", plain


def checks_of(value: Any, *, interface: bool) -> set[str]:
    """Return the codes of numpydoc's checks that apply to a function, method, property or class."""
    if inspect.isclass(value) or isinstance(value, property):
        return SUMMARY
    text, is_method = inspect.getdoc(value) or "", "." in value.__qualname__
    names = [name for name in inspect.signature(value).parameters if name not in ("self", "cls")]
    in_prose = is_method and ("see `" in text or all(re.search(rf"\b{name}\b", text) for name in names))
    complete = "\nParameters\n" in text or (interface and not in_prose)
    returns = interface and not is_method
    return SUMMARY | ENTRIES | (COMPLETE if complete else set()) | (RETURNS if returns else set())


def problems(room: str) -> list[str]:
    """Return one line for each problem in a room."""
    validate = pytest.importorskip("numpydoc.validate", reason="the dependency group lint is not installed")
    lines = []
    for home, value in public_objects(room):
        checks = checks_of(value, interface=room in INTERFACE)
        errors = [f"{code} {text}" for code, text in validate.validate(home)["errors"] if code in checks]
        if room in INTERFACE and inspect.isclass(value):
            errors += undescribed(value, validate)
        lines += [f"{home}: {error}" for error in dict.fromkeys(errors)]
    return lines


def undescribed(kind: type, validate: Any) -> list[str]:
    """Return the constructor's parameters that neither the class nor a base class describes."""
    if "__init__" not in vars(kind) or issubclass(kind, BaseException):
        return []
    docs = [validate.get_doc_object(each) for each in kind.__mro__ if each.__module__.startswith("l2x.")]
    entries = [entry.name for doc in docs for part in ("Parameters", "Attributes") for entry in doc[part]]
    described = {name.strip("* ") for entry in entries for name in entry.split(",")}
    missing = [name for name in inspect.signature(kind).parameters if name not in described]
    return [f"the parameters {missing} are not described"] if missing else []


@pytest.mark.parametrize("room", [*INTERFACE, *ROOMS])
def test_public_docstrings_follow_numpydoc(room: str) -> None:
    assert not problems(room)


if __name__ == "__main__":
    for each in sys.argv[1:] or [*INTERFACE, *ROOMS]:
        print(*problems(each), sep="\n")
