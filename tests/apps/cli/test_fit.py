"""`l2x label` and `l2x fit`: real models and files, what they print, and what they reject."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import Folder, make_frame
from flawed_server import Flawed, serving

import l2x
from l2x.apps.cli._arguments import load_black_box, training_plan
from l2x.errors import InputError
from l2x.features._view import View
from l2x.files._predictions import read_predictions
from l2x.learning.networks import _recipes, recipes_of
from l2x.learning.networks._recipes import Recipe


def test_fit_prints_file_loss_queries_and_time(folder: Folder) -> None:
    result = folder.run(
        "fit", "cli_models:tree", "train.parquet", "--k", 2, "-o", "printed.l2x", "--quick", "--rows", 100
    )
    for part in ("printed.l2x: k = 2 of 5 columns", "held out", "rows of LGBMClassifier", "time"):
        assert part in result.stdout
    assert re.search(r"note: .*the model.*: id, label\n", result.stderr)


def test_a_model_without_column_names_needs_drop(folder: Folder) -> None:
    fit = ("fit", "cli_models:line", "train.parquet", "--k", 1, "-o", "line.l2x", "--quick", "-q")
    assert "Column 'id'" in folder.fails(*fit)
    folder.run(*fit, "--drop", "id", "--drop", "label", "--validation", 0.2, "--seed", 5)
    explainer = l2x.load("line.l2x")
    assert explainer.classes_ is None
    assert explainer.features_.names_ == list("abcde")
    assert explainer.seed == 5


def test_fit_as_the_paper_does(folder: Folder) -> None:
    arguments = ["cli_models:tree", "train.parquet", "--k", 2, "-o", "paper.l2x", "--paper", "--quick", "-q"]
    folder.run("fit", *arguments)
    assert l2x.load("paper.l2x").objective == "joint"
    assert isinstance(l2x.load("paper.l2x").sampler, l2x.samplers.ConcreteMax)
    assert "--objective" in folder.run("fit", *arguments, "--objective", "model", code=2).stderr


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
        assert "2 columns of texts: title, review; name the column" in sentence


def test_options_that_contradict_each_other(folder: Folder) -> None:
    fit = ("fit", "cli_models:mood", "--k", 1, "-o", "x.l2x")
    Path("texts.txt").write_text("good\nbad\n")
    assert "texts.txt" in folder.run(*fit, "texts.txt", code=2).stderr
    assert "--features words" in folder.run(*fit, "test.csv", "--column", "id", code=2).stderr


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
        "test.csv",
    ),
    "model raises": (
        ["fit", "cli_models:failing", *FIT[2:], "--drop", "id"],
        "RuntimeError after 0 rows, on a batch of 8: the model [bold]broke[/bold] half-way",
    ),
    "explainer is data": ([*FIT, "-o", "test.csv"], "'test.csv' is DATA"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_sentence_and_nothing_is_lost(folder: Folder, case: str) -> None:
    Path("header.csv").write_text("a,b,c,d,e\n")
    Path("x.l2x").write_text("older")
    arguments, sentence = ERRORS[case]
    assert sentence in folder.fails_without_a_trace(*arguments)


def test_label_then_fit_queries_each_row_once(folder: Folder) -> None:
    label = ("label", "cli_models:tree", "train.parquet", "-o", "predictions.parquet")
    printed = folder.run(*label).stdout
    assert "300 predictions of LGBMClassifier.predict_proba" in printed
    assert "queried    300 rows" in printed
    assert "queried    0 rows" in folder.run(*label).stdout
    fit = ("fit", "cli_models:tree", "train.parquet", "--k", 2, "--quick", "--objective", "surrogate")
    folder.run(*fit, "-o", "b.l2x", "--predictions", "predictions.parquet", "-q")
    folder.run(*fit, "-o", "c.l2x", "--journal", "journal.parquet", "-q")
    frame = pd.read_parquet("test.parquet")[list("abcde")]
    scores = [l2x.load(f"{name}.l2x").explain(frame).scores for name in ("b", "c")]
    assert np.array_equal(*scores)
    assert l2x.load("b.l2x").rows_queried_ == 0
    assert len(read_predictions("journal.parquet")) == 300


def test_label_rejects(folder: Folder) -> None:
    label = ("label", "cli_models:tree", "train.parquet", "-o")
    assert "'train.parquet' is DATA" in folder.fails_without_a_trace(*label, "train.parquet")
    assert ".parquet" in folder.fails_without_a_trace(*label, "predictions.csv")
    failing = ("label", "cli_models:failing", "train.parquet", "-o", "predictions.parquet")
    assert "Rows 0 to 7: failing raised" in folder.fails_without_a_trace(*failing)
    assert "--in-flight" in folder.fails_without_a_trace(*label, "a.parquet", "--in-flight", 3)
    folder.run(*label, "predictions.parquet", "-q")
    other = ("fit", "cli_models:tree", "test.parquet", "--k", 2, "-o", "b.l2x", "--quick")
    assert re.search(r"300 rows.* 200", folder.fails(*other, "--predictions", "predictions.parquet"))


def test_label_with_a_model_service(folder: Folder) -> None:
    pd.DataFrame({"a": np.arange(50.0), "city": ["Oslo", None] * 25}).to_csv("rows.csv", index=False)
    with serving(Flawed()) as server:
        printed = folder.run("label", server.url, "rows.csv", "-o", "a.parquet", "--in-flight", 2).stdout
        assert f"50 predictions of {server.url}" in printed
        # Two requests are in flight: either may be the first.
        first = min(request["body"]["rows"][0]["a"] for request in server.requests)
        sent = next(r["body"]["rows"] for r in server.requests if r["body"]["rows"][0]["a"] == first)
        assert sent[1] == {"a": 1, "city": None}


def test_model_is_an_attribute_of_a_module_in_the_current_folder(folder: Folder) -> None:
    frame = make_frame(10, seed=2)[list("abcde")]
    assert load_black_box("cli_models:tree")(frame).shape == (10, 2)
    assert load_black_box("cli_models:tree.predict")(frame).shape[0] == 10


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("cli_models", "expected module:attribute"),
        ("nowhere:model", "Cannot load MODEL 'nowhere:model': No module named 'nowhere'"),
        ("cli_models:no", "no attribute 'no'"),
        ("no.onnx", "no file 'no.onnx'"),
        ("cli_broken:model", "Importing MODEL 'cli_broken:model' raised ZeroDivisionError"),
    ],
)
def test_specs_that_are_not_a_model(folder: Folder, spec: str, sentence: str) -> None:
    Path("cli_broken.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match=sentence):
        load_black_box(spec)


@pytest.mark.parametrize("view", [l2x.Columns(), l2x.Words(), l2x.Sentences()])
@pytest.mark.parametrize("paper", [False, True])
def test_a_plan_is_the_view_s_own(view: View, paper: bool) -> None:
    own = recipes_of(view).released.plan if paper else recipes_of(view).ours.plan
    plan = training_plan(view, paper=paper, quick=False, progress=False)
    assert plan == replace(own, progress=False)
    short = training_plan(view, paper=paper, quick=True, progress=False)
    if view.kind == "table" and not paper:  # the selector's phase is short enough
        assert short.value.steps <= plan.value.steps / 2
        assert short.selector == plan.selector
    else:
        assert short.selector.steps <= plan.selector.steps / 2
    assert short.evaluations == min(10, plan.evaluations)
    assert replace(short.selector, steps=plan.selector.steps) == plan.selector


def test_columns_are_the_default() -> None:
    for paper, quick in ((False, False), (False, True), (True, False), (True, True)):
        plans = [training_plan(v, paper=paper, quick=quick, progress=True) for v in (None, l2x.Columns())]
        assert plans[0] == plans[1]
        assert plans[0].progress


def test_quick_plans_in_numbers() -> None:
    """Documentation and tests rely on these numbers of steps."""
    steps = {}
    for view in (l2x.Columns(), l2x.Words(), l2x.Sentences()):
        quick = training_plan(view, paper=False, quick=True, progress=False)
        paper = training_plan(view, paper=True, quick=True, progress=False)
        steps[type(view).__name__] = (quick.value.steps, quick.selector.steps, paper.selector.steps)
    assert steps == {"Columns": (275, 300, 100), "Words": (250, 150, 100), "Sentences": (150, 100, 120)}


def test_a_change_of_the_columns_plan_reaches_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    other = recipes_of(l2x.Columns).ours.plan.with_steps(value=50, selector=40)
    monkeypatch.setitem(
        _recipes._REGISTERED, l2x.Columns, replace(recipes_of(l2x.Columns), ours=Recipe(other))
    )
    assert training_plan(None, paper=False, quick=False, progress=True) == other
    quick = training_plan(None, paper=False, quick=True, progress=True)
    assert (quick.value.steps, quick.selector.steps) == (12, 40)
