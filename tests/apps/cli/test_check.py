"""`l2x check`: exit codes for schedulers, sentences and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import Folder, make_frame

import l2x

MODELS = """
import numpy as np

def swapped(frame):
    p = np.where(frame["e"] > 0, 0.9, 0.1)
    return np.stack([1 - p, p], axis=1)

def dark(images):
    p = np.where(images[:, :2].mean(axis=(1, 2)) > 0.5, 0.9, 0.1)
    return np.stack([1 - p, p], axis=1)
"""
CHECK = ("check", "tree.l2x", "--model", "cli_models:tree", "--data")


@pytest.fixture(autouse=True)
def models(folder: Folder) -> None:
    Path("check_models.py").write_text(MODELS)
    make_frame(400, seed=9).to_parquet("new.parquet")
    shifted = make_frame(400, seed=9)
    shifted["c"] += 3
    shifted.to_parquet("shifted.parquet")


def test_the_exit_code_is_the_status(folder: Folder) -> None:
    assert folder.run(*CHECK, "new.parquet", code=0).stdout.startswith("valid\n")
    drifting = folder.run(*CHECK, "shifted.parquet", code=3).stdout
    assert drifting.startswith("drifting: the inputs have changed")
    assert "c (PSI " in drifting
    stale = ("check", "tree.l2x", "--model", "check_models:swapped", "--data", "new.parquet")
    assert folder.run(*stale, code=4).stdout.startswith("stale: fit")


def test_errors_have_another_exit_code(folder: Folder) -> None:
    assert "missing.parquet" in folder.fails(*CHECK, "missing.parquet")
    assert "broke" in folder.fails(
        "check", "tree.l2x", "--model", "cli_models:failing", "--data", "new.parquet"
    )
    folder.run("check", "tree.l2x", "--data", "new.parquet", code=2)


def test_json_for_machines(folder: Folder) -> None:
    result = json.loads(folder.run(*CHECK, "shifted.parquet", "--json", "--rows", 100, code=3).stdout)
    origin = {"explainer": "tree.l2x", "model": "cli_models:tree", "data": "shifted.parquet"}
    assert result.items() >= (origin | {"status": "drifting", "rows": 100, "columns": ["c"]}).items()
    assert result["confirmed"]["low"] <= result["confirmed"]["value"] <= result["confirmed"]["high"]
    assert folder.run(*CHECK, "shifted.parquet", "-q", code=3).output == ""


def test_csv_reads_as_parquet_does(folder: Folder) -> None:
    pd.read_parquet("new.parquet").to_csv("new.csv", index=False)
    one, two = (json.loads(folder.run(*CHECK, name, "--json").stdout) for name in ("new.parquet", "new.csv"))
    assert one["confirmed"] == two["confirmed"]


def test_images_come_as_an_array(folder: Folder, tiny: l2x.TrainingPlan) -> None:
    import check_models

    rng = np.random.default_rng(0)
    images = rng.random((300, 4, 4))
    explainer = l2x.Explainer(check_models.dark, k=2, features=l2x.Patches(size=2), training=tiny)
    explainer.fit(images).save("dark.l2x")
    np.save("new.npy", rng.random((200, 4, 4)))
    np.save("bright.npy", 0.5 + 0.5 * rng.random((200, 4, 4)))
    command = ("check", "dark.l2x", "--model", "check_models:dark", "--data")
    assert "not by content" in folder.run(*command, "new.npy", code=0).stdout
    assert "brightness (PSI" in folder.run(*command, "bright.npy", code=3).stdout
    Path("text.npy").write_text("no array")
    assert "text.npy" in folder.fails(*command, "text.npy")


@pytest.mark.parametrize("kind", ["one number", "several arrays", "complex numbers"])
def test_other_npy_files_are_named(folder: Folder, kind: str) -> None:
    with Path("odd.npy").open("wb") as file:
        if kind == "several arrays":
            np.savez(file, a=np.zeros(40))
        else:
            np.save(file, np.float64(3) if kind == "one number" else np.zeros((40, 4), complex))
    assert "odd.npy' is not an array of numbers" in folder.fails(*CHECK, "odd.npy")
