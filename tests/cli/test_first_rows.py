"""`l2x explain` without an output shows the first rows: columns with their values, texts with marks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from command_line import Folder, expected, make_frame
from toy_models import first_column

import l2x

PLAN = l2x.TrainingPlan(l2x.Phase(3, 1e-2), l2x.Phase(3, 1e-2), evaluations=2, progress=False)


def test_selected_columns_with_their_values(folder: Folder) -> None:
    lines = folder.run("explain", "tree.l2x", "test.csv", "--copy", "id", "--head", 3).stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].split() == ["row", "id", "1.", "2."]
    first = expected()["feature_1"][0]
    value = make_frame(200, seed=1)[first][0]
    assert lines[1].split()[:2] == ["0", "0000"]
    assert f"{first} = {value:.4g}" in lines[1]


def test_a_group_has_no_value_and_a_column_beside_it_has(folder: Folder) -> None:
    frame = make_frame(100, seed=0)[list("abcde")]
    view = l2x.ColumnGroups({"[b]group[/b]": list("abcd")})
    l2x.Explainer(first_column, k=2, features=view, training=PLAN).fit(frame).save("groups.l2x")
    line = folder.run("explain", "groups.l2x", "test.csv", "--head", 1).stdout.splitlines()[1]
    assert "[b]group[/b]" in line
    assert "[b]group[/b] =" not in line
    assert f"e = {make_frame(200, seed=1)['e'][0]:.4g}" in line


def test_columns_without_names_are_read_by_position(folder: Folder) -> None:
    l2x.Explainer(first_column, k=5, training=PLAN).fit(np.random.default_rng(0).normal(size=(99, 5))).save(
        "array.l2x"
    )
    shown = ("explain", "array.l2x", "test.csv", "--drop", "id", "--drop", "label", "--head", 1)
    line = folder.run(*shown).stdout.splitlines()[1]
    assert f"x4 = {make_frame(200, seed=1)['e'][0]:.4g}" in line
    assert "has 7: id, a, b, c, d, ... (7 in all). Drop those" in folder.fails(
        "explain", "array.l2x", "test.csv"
    )


def test_texts_around_their_key_words(folder: Folder) -> None:
    def model(texts: list[str]) -> np.ndarray:
        p = np.array([0.9 if "good" in text else 0.1 for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = ["a good film", "a [bold]dull[/bold] film", "film"] * 20
    view = l2x.Words(length=5)
    l2x.Explainer(model, k=2, features=view, training=PLAN).fit(texts).save("words.l2x")
    pd.DataFrame({"id": range(60), "text": texts}).to_csv("texts.csv", index=False)
    lines = folder.run("explain", "words.l2x", "texts.csv", "--copy", "id", "--head", 3).stdout.splitlines()
    assert lines[0].split() == ["row", "id", "text"]
    names = l2x.load("words.l2x").explain(texts[:3]).names
    for line, text, selected in zip(lines[1:], texts, names, strict=False):
        assert line.replace("«", "").replace("»", "").split() == [*line.split()[:2], *text.split()]
        assert all(word in line.partition("«")[2] for word in selected)
    Path("texts.txt").write_text("film\n")
    assert "«film»" in folder.run("explain", "words.l2x", "texts.txt").stdout
