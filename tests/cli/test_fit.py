"""`l2x fit`: real models and files, what it says, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import Folder

import l2x
from l2x.learning.networks import _recipes, recipes_of
from l2x.learning.networks._recipes import Recipe


def test_it_says_where_how_good_and_how_long(folder: Folder) -> None:
    result = folder.run(
        "fit", "cli_models:tree", "train.parquet", "--k", 2, "-o", "said.l2x", "--quick", "--rows", 100
    )
    for part in ("said.l2x: k = 2 of 5 columns", "held out", "rows of LGBMClassifier", "time"):
        assert part in result.stdout
    assert "note: columns that the model does not know are ignored: id, label" in result.stderr


def test_a_model_that_does_not_know_its_columns_needs_drop(folder: Folder) -> None:
    fit = ("fit", "cli_models:line", "train.parquet", "--k", 1, "-o", "line.l2x", "--quick", "-q")
    assert "Column 'id'" in folder.fails(*fit)
    folder.run(*fit, "--drop", "id", "--drop", "label", "--validation", 0.2, "--seed", 5)
    explainer = l2x.load("line.l2x")
    assert explainer.classes_ is None
    assert explainer.features_.names_ == list("abcde")
    assert explainer.seed == 5


def test_as_the_paper_does(folder: Folder) -> None:
    arguments = ["cli_models:tree", "train.parquet", "--k", 2, "-o", "paper.l2x", "--paper", "--quick", "-q"]
    folder.run("fit", *arguments)
    assert l2x.load("paper.l2x").value == "joint"
    assert isinstance(l2x.load("paper.l2x").sampler, l2x.ConcreteMax)
    assert "--paper trains jointly" in folder.run("fit", *arguments, "--value", "model", code=2).stderr


@pytest.mark.parametrize(("name", "arguments"), [("texts.txt", []), ("texts.csv", ["--column", "review"])])
def test_words_of_texts(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, name: str, arguments: list[str]
) -> None:
    plan = recipes_of(l2x.Words).ours.plan.with_steps(value=10, selector=10)
    monkeypatch.setitem(_recipes._REGISTERED, l2x.Words, replace(recipes_of(l2x.Words), ours=Recipe(plan)))
    rng = np.random.default_rng(0)
    words = np.array(["good", "bad", "film", "007", "NA", "the"])
    texts = [" ".join(words[rng.integers(len(words), size=6)]) for _ in range(40)]
    if name == "texts.txt":
        Path(name).write_text("\n".join(texts) + "\n")
    else:
        pd.DataFrame({"title": "none", "review": texts, "stars": 5}).to_csv(name, index=False)
    fit = ("fit", "cli_models:mood", name, "--features", "words", "--k", 1, "-o", "mood.l2x", "--quick")
    result = folder.run(*fit, *arguments)
    assert "mood.l2x: k = 1 of 400 words" in result.stdout
    assert "note:" not in result.stderr
    assert {"007", "NA"} <= {word.upper() for word in l2x.load("mood.l2x").features_.vocabulary_}
    if arguments:
        sentence = folder.fails("fit", "cli_models:mood", *fit[2:], "-q")
        assert "2 columns of texts: title, review; name the one to read as `column`" in sentence


def test_options_that_contradict_each_other(folder: Folder) -> None:
    fit = ("fit", "cli_models:mood", "--k", 1, "-o", "x.l2x")
    Path("texts.txt").write_text("good\nbad\n")
    assert "words or sentences?" in folder.run(*fit, "texts.txt", code=2).stderr
    assert "give --features" in folder.run(*fit, "test.csv", "--column", "id", code=2).stderr


FIT = ["fit", "cli_models:tree", "test.csv", "--k", 1, "-o", "x.l2x"]
ERRORS: dict[str, tuple[list[object], str]] = {
    "no such module": (["fit", "nowhere:model", *FIT[2:]], "named 'nowhere'"),
    "no such attribute": (["fit", "cli_models:no", *FIT[2:]], "no attribute 'no'"),
    "not a model": (["fit", "cli_models", *FIT[2:]], "expected module:attribute"),
    "no such onnx": (["fit", "no.onnx", *FIT[2:]], "no file 'no.onnx'"),
    "no such data": (["fit", "cli_models:tree", "no.csv", *FIT[3:]], "is no file 'no.csv'"),
    "no rows": (["fit", "cli_models:tree", "header.csv", *FIT[3:]], "no rows"),
    "k too large": ([*FIT, "--k", 6], "k = 6 but there are 5"),
    "k of zero": ([*FIT, "--k", 0], "k = 0 but there are 5"),
    "no such folder": ([*FIT, "-o", "no/x.l2x"], "no folder 'no'"),
    "bad validation": ([*FIT, "--validation", 2], "validation is 2"),
    "drop a stranger": ([*FIT, "--drop", "z"], "Cannot drop 'z': the columns of 'test.csv' are id, a, b"),
    "drop everything": (
        [*FIT, *(part for name in ("id", *"abcde", "label") for part in ("--drop", name))],
        "No column of 'test.csv' is left",
    ),
    "model raises": (
        ["fit", "cli_models:failing", *FIT[2:], "--drop", "id"],
        "RuntimeError after 0 rows, on a batch of 8: the model [bold]broke[/bold] half-way",
    ),
    "explainer is data": ([*FIT, "-o", "test.csv"], "'test.csv' is DATA: write to another file"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_sentence_and_nothing_is_lost(folder: Folder, case: str) -> None:
    Path("header.csv").write_text("a,b,c,d,e\n")
    Path("x.l2x").write_text("older")
    arguments, sentence = ERRORS[case]
    assert sentence in folder.fails_without_a_trace(*arguments)
