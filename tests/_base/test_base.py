"""The registry finds classes by name; the progress bar prints to standard error, or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest

import l2x
import l2x.features
from l2x._base import Registered, progress_bar
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
    with pytest.raises(ArtifactError, match=rf"'{name}'.* Square\."):
        Shape.by_name(name)


def test_a_class_of_ours_is_not_replaced() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"l2x\.features\._columns .*Columns"):
        type("Columns", (l2x.Columns,), {"__module__": "another_package"})
    assert l2x.features.View.by_name("Columns") is l2x.Columns


def test_whole_numbers_are_counted_and_others_are_a_percentage(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("querying the model", 100) as advance:
        advance(40, "slowly")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all(text in printed.err for text in ("querying the model", "40/100", "slowly"))
    with progress_bar("explaining", 8.0) as advance:
        advance(2, "")
    assert "25%" in capsys.readouterr().err


def test_an_invisible_bar_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("querying the model", 100, visible=False) as advance:
        advance(40, "silently")
    assert capsys.readouterr() == ("", "")


def test_an_error_inside_passes_and_the_bar_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="of the work"), progress_bar("working", 2):
        raise ValueError("of the work")
    with progress_bar("again", 2) as advance:  # rich allows one live bar at a time
        advance(2, "")
    assert "2/2" in capsys.readouterr().err


def test_a_line_of_80_columns_holds_the_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar("training the selector", 10_000) as advance:
        advance(10_000, "loss 0.1234 (best 0.1230)")
    assert "loss 0.1234 (best 0.1230)" in capsys.readouterr().err
