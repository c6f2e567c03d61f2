"""`Passages`: inputs are lists of texts of any number; read, masked, saved, streamed, served and drawn."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import l2x
from l2x.apps.serve import Settings, create_app
from l2x.export import BatchExplainer, explain_table, match_columns
from l2x.features import Texts
from l2x.files import Table, label, read_training_rows

OTHERS = ["The parcel arrived on Monday.", "Thank you for the quick reply!", "What is the price?"]
PLANTED = "I want a refund."
THREADS = [
    ["Where is my parcel?", "It left on  Monday. ", "..."],
    ["I want a refund.", ""],
    [],
    ["One", "Two", "Three", "Four", "Five two words"],
]
VIEW = l2x.Passages(length=4, words=3).fit(THREADS)


def threads(n: int, seed: int = 0) -> list[list[str]]:
    """Return threads of up to six messages; in every second one, a message asks for a refund."""
    rng = np.random.default_rng(seed)
    found = []
    for row in range(n):
        thread = [str(text) for text in rng.choice(OTHERS, rng.integers(1, 6))]
        if row % 2:
            thread.insert(rng.integers(len(thread) + 1), PLANTED)
        found.append(thread)
    return found


def wants_refund(inputs: list[list[str]]) -> np.ndarray:
    """A model of threads, which reads nothing but lists of texts."""
    assert all(type(thread) is list and all(type(text) is str for text in thread) for thread in inputs)
    p = np.array([0.05 + 0.9 * any("refund" in text for text in thread) for thread in inputs])
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def explainer() -> l2x.Explainer:
    phase = l2x.Phase(60, 1e-2, batch_size=32)
    plan = l2x.TrainingPlan(phase, phase, evaluations=2, validation_rows=20, progress=False)
    view = l2x.Passages(length=6, words=6)
    return l2x.Explainer(wants_refund, 1, features=view, training=plan).fit(threads(200))


def test_passages_keep_their_positions() -> None:
    checked = VIEW.check(THREADS)
    x = VIEW.encode(checked)
    assert x.shape == (4, 4, 3)
    assert VIEW.selectable(x).tolist() == [
        [True, True, False, False], [True, False, False, False], [False] * 4, [True] * 4,
    ]  # fmt: skip
    names = VIEW.names_in(checked, np.array([[1, 0], [0, 1], [0, 1], [3, 2]]))
    assert names.tolist() == [
        ["It left on  Monday.", "Where is my parcel?"], ["I want a refund.", ""], ["", ""], ["Four", "Three"],
    ]  # fmt: skip


def test_masking() -> None:
    mask = np.array([[True, False, True, False], [False, True, False, False], [True] * 4, [False] * 4])
    kept = [["Where is my parcel?", "..."], [""], [], []]
    assert VIEW.for_model(THREADS) == THREADS
    assert VIEW.for_model(THREADS, mask) == kept
    blank = l2x.Passages(length=4, words=3, masking="replace").fit(THREADS)
    kept = [["Where is my parcel?", "", "..."], ["", ""], [], [""] * 5]
    assert blank.for_model(THREADS, mask) == kept
    ids = l2x.Passages(length=4, words=3, reads="ids").fit(THREADS)
    masked = ids.for_model(THREADS, mask)
    assert masked.shape == (4, 4, 3)
    assert masked[0, 0].all()
    assert not masked[0, 1:].any()


@pytest.mark.parametrize("options", [{}, {"masking": "replace"}, {"reads": "ids"}])
def test_the_contract_of_views(options: dict[str, Any]) -> None:
    l2x.testing.check_view(l2x.Passages(length=5, words=6, vocabulary=20, **options), threads(60))


@pytest.mark.parametrize(
    "inputs",
    [
        tuple(map(tuple, THREADS)),
        [np.array(thread, dtype=object) for thread in THREADS],
        pd.Series(THREADS),
        pd.DataFrame({"thread": THREADS}),
        pl.Series(THREADS),
        pl.DataFrame({"thread": THREADS}),
        pa.array(THREADS),
        pa.table({"thread": THREADS}),
        [json.dumps(thread) for thread in THREADS],
    ],
    ids=["tuples", "arrays", "series", "frame", "polars", "polars frame", "arrow", "arrow table", "JSON"],
)
def test_inputs_of_any_kind(inputs: Any) -> None:
    assert VIEW.for_model(inputs) == THREADS
    assert VIEW.encode(VIEW.check(inputs)).equal(VIEW.encode(THREADS))


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (["a text"], r"Input 0 is 'a text' \(str\)"),
        ([["a"], None], r"Input 1 is None"),
        ([["a"], ["b", 3]], "Input 1.*Text 1 is 3"),
        ([["a"], ["b", None]], "Input 1.*Text 1 is None"),
        (["[broken"], r"Input 0 is '\[broken'"),
        ([{"a": 1}], "Input 0"),
        ("one", "one text"),
    ],
)
def test_what_is_refused(wrong: Any, shown: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=shown):
        VIEW.check(wrong)


def test_options() -> None:
    with pytest.raises(l2x.errors.InputError, match="words is 0"):
        l2x.Passages(words=0).fit(THREADS)
    with pytest.raises(l2x.errors.InputError, match="length is 0"):
        l2x.Passages(length=0).fit(THREADS)


def test_copies_are_passages_again() -> None:
    checked = VIEW.check(THREADS)
    assert isinstance(checked, Texts)
    assert VIEW.for_model(pickle.loads(pickle.dumps(checked))) == THREADS
    assert VIEW.measurements(THREADS)[0].name == "number of passages"
    assert VIEW.measurements(THREADS)[0].values.tolist() == [3, 2, 0, 5]


def test_explained_saved_and_with_effects(explainer: l2x.Explainer, tmp_path: Path) -> None:
    new = threads(40, seed=1)
    explanation = explainer.explain(new)
    assert all(names == [PLANTED] for names in explanation.names[1::2])
    loaded = l2x.load(explainer.save(tmp_path / "threads.l2x"), model=wants_refund)
    assert np.array_equal(loaded.explain(new).scores, explanation.scores)
    rows = explanation[1:2].for_class(1).to_dict(effects=True)
    (feature,) = rows[0]["features"]
    assert feature["index"] == new[1].index(PLANTED)
    assert feature["effect"] > 0.3
    assert rows[0]["prediction"] == pytest.approx(0.95)


def test_drawn(explainer: l2x.Explainer, tmp_path: Path) -> None:
    """Every passage has its line and number, in HTML, on a terminal and in the figure."""
    thread = ["Where <is> it?", PLANTED, "word " * 200]
    explanation = explainer.explain([thread, []])
    page = explanation.to_html()
    assert "1. Where &lt;is&gt; it?<br>2. <mark" in page
    assert "…" in page.partition("3. ")[2]
    assert page.count("word") < 100
    explanation[0].plot(tmp_path / "thread.svg")
    drawn = (tmp_path / "thread.svg").read_text(encoding="utf-8")
    assert all(word in drawn for word in ("refund.", "Where"))
    explanation[1].plot(tmp_path / "empty.svg")
    explainer.explain(threads(30)).plot(tmp_path / "positions.svg")
    assert "passage 1" in (tmp_path / "positions.svg").read_text(encoding="utf-8")


def test_adjacent_passages_are_not_joined() -> None:
    explanation = l2x.baselines.RandomK(features=VIEW).explain([["One two", "Three"]], k=2)
    parts = [piece.text for piece in l2x.display.pieces(explanation, 0)]
    assert parts == ["1. ", "One two", "\n", "2. ", "Three"]
    content = l2x.display.selected_content(explanation, 0)
    assert content["phrases"] == ["One two", "Three"]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_streamed(explainer: l2x.Explainer, suffix: str, tmp_path: Path) -> None:
    """A column of lists in Parquet; lists as JSON in a CSV."""
    new, path = threads(20, seed=2), tmp_path / f"in.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table({"subject": ["Re:"] * 20, "thread": new}), path)
    else:
        pd.DataFrame({"id": range(20), "thread": list(map(json.dumps, new))}).to_csv(path, index=False)
    table = Table(path)
    columns, _ = match_columns(explainer, table)
    assert columns == ["thread"]
    explain_table(BatchExplainer(explainer, columns), table, tmp_path / "out.parquet", batch_rows=7)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found["feature_1"].tolist() == explainer.explain(new).to_frame()["feature_1"].tolist()


def test_predictions_stored_in_a_file(tmp_path: Path) -> None:
    """The column of lists is labelled, and `fit` checks that predictions belong to its inputs."""
    path, new = tmp_path / "threads.parquet", threads(30)
    pq.write_table(pa.table({"thread": new}), path)
    predictions = label(wants_refund, path, tmp_path / "p.parquet", column="thread", progress=False)
    assert np.allclose(predictions.values, wants_refund(new))
    again = label(wants_refund, new, tmp_path / "again.parquet", progress=False)
    assert again.checksums.tolist() == predictions.checksums.tolist()
    phase = l2x.Phase(3, 1e-2, batch_size=16)
    plan = l2x.TrainingPlan(phase, phase, evaluations=1, progress=False)
    view = l2x.Passages(length=6, words=6)
    rows = read_training_rows(Table(path), view, rows=30, seed=0)
    explainer = l2x.Explainer(wants_refund, 1, features=view, training=plan)
    for given in (new, rows):
        explainer.fit(given, predictions=predictions)
    with pytest.raises(l2x.errors.InputError, match="row 0"):
        explainer.fit(new[::-1], predictions=predictions)


def test_served(explainer: l2x.Explainer, tmp_path: Path) -> None:
    path, new = explainer.save(tmp_path / "threads.l2x"), threads(4, seed=3)
    address = "/v1/explainers/threads"
    with TestClient(create_app([path], {}, Settings())) as client:
        response = client.post(f"{address}/explain", json={"rows": new})
        assert response.status_code == 200, response.text
        for row, thread in zip(response.json()["rows"], new, strict=True):
            assert [thread[feature["index"]] for feature in row["features"]] == [
                feature["name"] for feature in row["features"]
            ]
        about = client.get(address).json()
        assert (about["unit"], about["takes"]["kind"]) == ("passage", "passages")
        wrong = client.post(f"{address}/explain", json={"rows": [new[0], "text", ["a", 3]]})
        assert wrong.status_code == 422
        assert [detail["row"] for detail in wrong.json()["error"]["details"]] == [1, 2]
        page = client.get("/playground/threads")
        assert "A blank line separates passages" in page.text
        form = {"k": "1", "text": "Where is it?\n\nI want a refund.\n \nThanks"}
        result = client.post("/playground/threads/result", data=form)
        assert "3. Thanks" in result.text, result.text


def test_exported(explainer: l2x.Explainer, tmp_path: Path) -> None:
    """The graph reads ids, (n, passages, words); onnxruntime selects what torch does."""
    pytest.importorskip("onnxruntime")
    assert explainer.export_onnx(tmp_path / "threads.onnx", threads(30)).exists()
    assert (tmp_path / "threads.tokenizer.json").exists()


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from l2x.apps.cli import app

    (tmp_path / "refunds.py").write_text(
        "import numpy as np\n"
        "def model(threads):\n"
        "    p = np.array([0.05 + 0.9 * any('refund' in text for text in thread) for thread in threads])\n"
        "    return np.stack([1 - p, p], axis=1)\n"
    )
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"thread": threads(80)}), "threads.parquet")
    fit = ["fit", "refunds:model", "threads.parquet", "--features", "passages", "--k", "1", "--quick"]
    done = CliRunner().invoke(app, [*fit, "-o", "threads.l2x"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["explain", "threads.l2x", "threads.parquet", "--head", "2"])
    assert done.exit_code == 0, done.output
    assert "1. " in done.output
