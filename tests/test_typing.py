"""A user's type checker finds py.typed, public names and return types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from pathlib import Path

import numpy as np
import l2x


def model(X: np.ndarray) -> np.ndarray:
    return np.full((len(X), 2), 0.5)


explainer = l2x.Explainer(model, k=2, features=l2x.Columns(masking="zero"), training=l2x.TrainingPlan.quick())
explanation: l2x.Explanation = explainer.fit(np.zeros((9, 3))).explain(np.zeros((2, 3)), k=1)
names: list[list[str]] = explanation.names
accuracy: float = explainer.score(np.zeros((2, 3)))
saved: Path = explainer.save("a.l2x")
k: int = l2x.choose_k(l2x.load(saved), np.zeros((2, 3))).k
report: l2x.evaluation.Report = l2x.report(explainer, model, np.zeros((9, 3)), np.zeros((9, 3)))
l2x.compare(model, np.zeros((40, 3)), ["l2x", "random"], k=1).plot("methods.svg")
"""


@pytest.mark.slow
def test_a_users_script_under_mypy_strict(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "script.py").write_text(SCRIPT + "wrong: int = explanation.names\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "script.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": ""},
        capture_output=True,
        text=True,
        timeout=500,
    )
    # The only error is the deliberate one: mypy reads the package's types.
    errors = [
        line for line in done.stdout.splitlines() if ": error:" in line and line.startswith("script.py")
    ]
    assert len(errors) == 1, done.stdout
    assert 'variable has type "int"' in errors[0]
