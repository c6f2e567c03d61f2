"""Helpers for tests of the command line: a user's folder, and commands that run in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner, Result

import l2x
from l2x.apps.cli import app

# Lines on standard error that may precede the sentence of an error.
NOTES = ("note:", "querying", "explaining")

# The label of `tree` depends on a and b alone; the words "good" and "bad" decide the predictions of `mood`.
MODELS = """
import numpy as np, pandas as pd
from lightgbm import LGBMClassifier
from sklearn.linear_model import LinearRegression

train = pd.read_parquet("train.parquet")
X, y = train[["a", "b", "c", "d", "e"]], train["label"]
tree = LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(X, y)
line = LinearRegression().fit(X.to_numpy(), 3 * X["a"] + X["b"])

def mood(texts):
    p = np.array([0.5 + 0.45 * (("good" in text) - int("bad" in text)) for text in texts])
    return np.stack([1 - p, p], axis=1)

def by_place(frame):
    p = np.where(frame["city"].isna(), 0.1, 0.5) + 0.4 * (frame["zip"] == "01234")
    return np.stack([1 - p, p], axis=1)

def three_classes(frame):
    return np.full((len(frame), 3), 1 / 3)

def failing(frame):
    raise RuntimeError("the model [bold]broke[/bold] half-way")
"""


@dataclass(frozen=True)
class Folder:
    """A user's folder with data, models, and `tree.l2x`, an explainer of one of them."""

    path: Path

    def run(self, *arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        assert "Traceback" not in result.output
        return result

    def fails(self, *arguments: object) -> str:
        """Run a command that fails; return its one-sentence error."""
        error = self.run(*arguments, code=1).stderr
        lines = [line for line in error.splitlines() if not line.startswith(NOTES)]
        assert len(lines) == 1, error
        assert lines[0].startswith("error: "), error
        return lines[0]

    def fails_without_a_trace(self, *arguments: object) -> str:
        """Run a command that fails and changes no file; return its one-sentence error."""
        before = self.contents()
        sentence = self.fails(*arguments)
        assert self.contents() == before
        return sentence

    def files(self) -> set[str]:
        return {path.name for path in self.path.iterdir() if path.name != "__pycache__"}

    def contents(self) -> dict[str, bytes | None]:
        return {
            name: path.read_bytes() if (path := self.path / name).is_file() else None for name in self.files()
        }


def make_frame(n: int, seed: int) -> pd.DataFrame:
    """Return rows with an id, five columns of numbers, and a label."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    frame.insert(0, "id", [f"{i:04}" for i in range(n)])
    frame["label"] = (frame["a"] + frame["b"] > 0).astype(int)
    return frame


def expected(k: int | None = None) -> pd.DataFrame:
    """Return what `l2x explain` should write for test.csv."""
    frame = make_frame(200, seed=1)[list("abcde")]
    result: pd.DataFrame = l2x.load("tree.l2x").explain(frame, k=k).to_frame()
    return result
