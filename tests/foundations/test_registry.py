"""Classes by their names: each family apart, abstract ones not, those of other packages too."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest

import l2x
import l2x.features
from l2x._base.registry import Registered
from l2x.errors import ArtifactError


class Shape(Registered, ABC):
    @abstractmethod
    def area(self) -> float: ...


class Polygon(Shape):
    """Still abstract."""


class Square(Polygon):
    def area(self) -> float:
        return 1.0


class Colour(Registered):
    """Another family."""


class Red(Colour): ...


def test_a_concrete_class_is_found_by_its_name() -> None:
    assert Shape.by_name("Square") is Square
    assert Colour.by_name("Red") is Red


@pytest.mark.parametrize("name", ["Polygon", "Red", "Circle"])
def test_abstract_classes_other_families_and_unknown_names_are_not(name: str) -> None:
    with pytest.raises(
        ArtifactError, match=rf"a shape '{name}', which is not known here: .* Known: Square\."
    ):
        Shape.by_name(name)


def test_a_class_of_ours_is_not_replaced() -> None:
    with pytest.raises(l2x.InputError, match=r"l2x\.features\._columns has a class Columns already"):
        type("Columns", (l2x.Columns,), {"__module__": "somebody"})
    assert l2x.features.View.by_name("Columns") is l2x.Columns
