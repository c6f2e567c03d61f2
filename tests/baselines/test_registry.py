"""The registry: every method has the same verb, and importing it is light."""

from __future__ import annotations

import subprocess
import sys

from l2x import baselines
from l2x.baselines import METHODS


def test_every_method_has_the_same_verb() -> None:
    assert all(hasattr(method, "explain") for method in METHODS.values())
    assert len({method.name for method in METHODS.values()}) == len(METHODS)
    assert all(hasattr(baselines, name) for name in baselines.__all__)


def test_importing_the_baselines_imports_none_of_their_packages() -> None:
    code = "import sys, l2x.baselines; print([m for m in ('captum', 'shap', 'lime') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
