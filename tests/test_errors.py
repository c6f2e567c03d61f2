"""Errors: one root, the built-in ones that people already catch, and sentences that stay short."""

from __future__ import annotations

import inspect
import re

import pytest

from l2x import errors
from l2x.errors import L2XError, MissingExtraError, require, some

CLASSES = {
    name: thing
    for name, thing in vars(errors).items()
    if inspect.isclass(thing) and issubclass(thing, L2XError)
}


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("InputError", ValueError),
        ("BlackBoxError", RuntimeError),
        ("TrainingError", RuntimeError),
        ("ArtifactError", OSError),
        ("WriteError", OSError),
        ("DataError", OSError),
        ("MissingExtraError", ImportError),
        ("NotFittedError", ValueError),
    ],
)
def test_each_is_also_what_people_already_catch(name: str, builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match="a sentence"):
        raise CLASSES[name]("a sentence")


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"^[│├└─ ]*(\w+)", errors.__doc__.partition("\n\n")[2], flags=re.MULTILINE)
    assert sorted(drawn) == sorted(CLASSES)


def test_a_missing_extra_is_one_sentence() -> None:
    assert require("json", extra="plots").dumps([1]) == "[1]"
    message = r"needs the package 'no_such_package'; install it with: pip install 'l2x\[plots\]'"
    with pytest.raises(MissingExtraError, match=message):
        require("no_such_package.part", extra="plots")


def test_at_most_five_names() -> None:
    assert some(["a", 2]) == "a, 2"
    assert some("abcde") == "a, b, c, d, e"
    assert some("abcdefg") == "a, b, c, d, e, ... (7 in all)"
