"""The table generated from the code is the paper's Table 1, and importing it is light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import l2x
from l2x import baselines
from l2x.baselines import METHODS, method_table

# Method: training, additive, model-agnostic, as printed.
PAPER = {
    "LIME": (False, True, True),
    "Kernel SHAP": (False, True, True),
    "DeepLIFT": (False, True, False),
    "Saliency": (False, True, False),
    "Parzen": (True, True, True),
    "LRP": (False, True, False),
    "L2X": (True, False, True),
}


def test_the_table_is_the_papers() -> None:
    found = {
        row["method"]: (row["training"], row["additive"], row["model_agnostic"]) for row in method_table({})
    }
    assert found == PAPER
    assert list(found) == list(PAPER)


def test_milliseconds_stand_where_the_paper_says_low_or_high() -> None:
    table = {
        row["method"]: row["milliseconds"]
        for row in method_table({"LIME": 40.0, "L2X": 0.001, "Taylor": 0.01})
    }
    assert table["LIME"] == 40.0
    assert table["L2X"] == 0.001
    assert table["Parzen"] is None
    assert list(table)[-1] == "Taylor"
    with pytest.raises(l2x.InputError, match="no method 'Lime'"):
        method_table({"Lime": 1.0})


def test_every_method_has_the_same_verb() -> None:
    assert all(hasattr(method, "explain") and method.name == name for name, method in METHODS.items())
    assert all(hasattr(baselines, name) for name in baselines.__all__)


def test_importing_the_baselines_imports_none_of_their_packages() -> None:
    code = "import sys, l2x.baselines; print([m for m in ('captum', 'shap', 'lime') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
