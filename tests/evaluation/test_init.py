"""The package exports exactly what it says."""

from __future__ import annotations

from types import ModuleType

import l2x.evaluation


def test_all_is_what_the_package_holds() -> None:
    held = {
        name
        for name, value in vars(l2x.evaluation).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert held == set(l2x.evaluation.__all__)
    assert sorted(l2x.evaluation.__all__) == l2x.evaluation.__all__


def test_what_users_meet_is_there() -> None:
    """What public functions return, and what `exact=` and `judge=` take."""
    assert {"ConditionalModel", "FittedQ", "ReportCard", "SizeChoice"} <= set(l2x.evaluation.__all__)
