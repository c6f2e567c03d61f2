"""`l2x label`: answers in a file, for `l2x fit --responses`."""

from __future__ import annotations

import numpy as np
import pandas as pd
from command_line import Folder
from flawed_server import Flawed, serving

import l2x
from l2x.files._predictions import read_answers


def test_label_then_fit_asks_once(folder: Folder) -> None:
    said = folder.run("label", "cli_models:tree", "train.parquet", "-o", "answers.parquet").stdout
    assert "300 answers of LGBMClassifier.predict_proba" in said
    assert "asked      300 rows" in said
    again = folder.run("label", "cli_models:tree", "train.parquet", "-o", "answers.parquet").stdout
    assert "asked      0 rows" in again
    fit = ("fit", "cli_models:tree", "train.parquet", "--k", 2, "--quick", "--value", "surrogate")
    folder.run(*fit, "-o", "b.l2x", "--responses", "answers.parquet", "-q")
    folder.run(*fit, "-o", "c.l2x", "--journal", "journal.parquet", "-q")
    frame = pd.read_parquet("test.parquet")[list("abcde")]
    scores = [l2x.load(f"{name}.l2x").explain(frame).scores for name in ("b", "c")]
    assert np.array_equal(*scores)
    assert l2x.load("b.l2x").rows_asked_ == 0
    assert len(read_answers("journal.parquet")) == 300


def test_what_cannot_be_labelled(folder: Folder) -> None:
    label = ("label", "cli_models:tree", "train.parquet", "-o")
    assert "is DATA: write to another file" in folder.fails_without_a_trace(*label, "train.parquet")
    assert "kept in a .parquet file" in folder.fails_without_a_trace(*label, "answers.csv")
    failing = ("label", "cli_models:failing", "train.parquet", "-o", "answers.parquet")
    assert "Rows 0 to 7: failing raised" in folder.fails_without_a_trace(*failing)
    assert "--in-flight is for a model behind" in folder.fails_without_a_trace(
        *label, "a.parquet", "--in-flight", 3
    )
    folder.run(*label, "answers.parquet", "-q")
    other = ("fit", "cli_models:tree", "test.parquet", "--k", 2, "-o", "b.l2x", "--quick")
    assert "answers 300 rows, but there are 200" in folder.fails(*other, "--responses", "answers.parquet")


def test_an_address(folder: Folder) -> None:
    pd.DataFrame({"a": np.arange(50.0), "city": ["Oslo", None] * 25}).to_csv("rows.csv", index=False)
    with serving(Flawed()) as server:
        said = folder.run("label", server.url, "rows.csv", "-o", "a.parquet", "--in-flight", 2).stdout
        assert f"50 answers of {server.url}" in said
        # Two requests are in flight: either may be the first.
        first = min(request["body"]["rows"][0]["a"] for request in server.requests)
        sent = next(r["body"]["rows"] for r in server.requests if r["body"]["rows"][0]["a"] == first)
        assert sent[1] == {"a": 1, "city": None}
