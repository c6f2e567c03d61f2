"""`l2x evaluate`: the report, printed, as a page and as JSON, with one evaluator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import Folder, make_frame

import l2x


def values_of(report: dict[str, Any], part: str) -> dict[str, float]:
    """Return the numbers in one part of a report in JSON, without their intervals."""
    return {key: estimate["value"] for key, estimate in report["parts"][part].items()}


def test_a_regression(folder: Folder) -> None:
    folder.run(
        "fit", "cli_models:line", "train.parquet", "--drop", "id", "--drop", "label", "--k", 1,
        "-o", "line.l2x", "--quick", "-q", "--validation", 0.2, "--seed", 5,
    )  # fmt: skip
    explainer = l2x.load("line.l2x")
    assert explainer.classes_ is None
    assert explainer.features_.names_ == list("abcde")
    assert explainer.seed == 5
    command = ("evaluate", "line.l2x", "cli_models:line", "test.csv", "--brief", "--quick", "-q")
    report = json.loads(folder.run(*command, "--json").stdout)
    assert report["task"] == "regression"
    fidelity, evaluator = values_of(report, "fidelity"), values_of(report, "evaluator")
    assert fidelity["mean"] > 0.8 > fidelity["random"]  # a alone explains 90 % of 3 a + b
    assert evaluator["selection"] > evaluator["random"]
    assert "post-hoc R²" in folder.run(*command).stdout


def test_fit_an_onnx_model(folder: Folder) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.linear_model import LogisticRegression

    frame = make_frame(300, seed=0)
    model = LogisticRegression().fit(frame[list("abcde")].to_numpy(np.float32), frame["label"])
    exported = skl2onnx.to_onnx(model, initial_types=[("X", FloatTensorType([None, 5]))])
    Path("model.onnx").write_bytes(exported.SerializeToString())
    folder.run(
        "fit", "model.onnx", "train.parquet", "--drop", "id", "--drop", "label", "--k", 2, "-o", "onnx.l2x",
        "--quick", "-q",
    )  # fmt: skip
    command = ("evaluate", "onnx.l2x", "model.onnx", "test.csv", "--brief", "--quick", "--json", "-q")
    assert values_of(json.loads(folder.run(*command).stdout), "fidelity")["mean"] > 0.9


def test_selected_features_beat_random_ones(folder: Folder) -> None:
    command = ("evaluate", "tree.l2x", "cli_models:tree", "test.parquet", "--brief", "-q")
    report = json.loads(folder.run(*command, "--json").stdout)
    origin = {"l2x": l2x.__version__, "explainer": "tree.l2x", "model": "cli_models:tree"}
    assert report.items() >= (origin | {"data": "test.parquet", "k": 2, "features": 5}).items()
    assert report["rows"] == 100  # the evaluator was fitted on the other half
    fidelity, evaluator, bits = (values_of(report, part) for part in ("fidelity", "evaluator", "information"))
    assert fidelity["mean"] > 0.9 > fidelity["random"] > fidelity["mean_removal"]
    assert evaluator["selection"] > 0.9 > evaluator["random"]
    assert 0 < bits["captured"] <= bits["available"] <= 1
    assert report["finding"] == "untested"
    assert "can be gamed" in report["verdict"]


def test_csv_and_parquet_of_one_table_are_one_table(folder: Folder, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cells = {"zip": ["01234", "00501"], "city": ["Bonn", None], "time": ["12:30", "13:30"]}
    frame = pd.DataFrame({name: rng.choice(np.array(few, object), 200) for name, few in cells.items()})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    saved = tmp_path / "place.l2x"
    folder.run("fit", "cli_models:by_place", tmp_path / "t.parquet", "--k", 1, "-o", saved, "--quick", "-q")
    reports, results = [], []
    for kind in ("csv", "parquet"):
        data, out = tmp_path / f"t.{kind}", tmp_path / f"out.{kind}"
        printed = folder.run(
            "evaluate", saved, "cli_models:by_place", data, "--json", "-q", "--brief", "--quick"
        )
        folder.run("explain", saved, data, "-o", out, "-q")
        reports.append(json.loads(printed.stdout)["parts"])
        results.append(pd.read_csv(out) if kind == "csv" else pd.read_parquet(out))
    assert reports[0] == reports[1]
    assert (results[0]["feature_1"] == results[1]["feature_1"].astype(str)).all()


def test_it_prints_the_report_and_writes_a_page(folder: Folder) -> None:
    command = ("evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--quick", "-q", "--report")
    printed = folder.run(*command, "page.html").stdout
    assert "Report card" in printed
    assert "Leakage test" in printed
    assert "rows per second" in printed
    assert printed.endswith("report     page.html\n")
    assert "Independent evaluator" in (folder.path / "page.html").read_text()
    report = json.loads(folder.run(*command, "page.html", "--json").stdout)
    assert report["finding"] in ("none", "leaks", "inconclusive")
    assert list(report["parts"]) == ["fidelity", "evaluator", "leakage", "information", "stability", "cost"]
    assert "nowhere" in folder.fails(*command, "nowhere/page.html")


def test_it_fits_one_evaluator(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    module = importlib.import_module("l2x.evaluation._report")
    evaluators: list[int] = []

    def counted(*given: object, **options: object) -> l2x.evaluation.FittedSurrogate:
        evaluators.append(1)
        return fit_evaluator(*given, **options)

    fit_evaluator = module.fit_evaluator
    monkeypatch.setattr(module, "fit_evaluator", counted)
    folder.run("evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--quick", "-q", "--rows", 60)
    assert evaluators == [1]


def test_it_in_brief(folder: Folder) -> None:
    result = folder.run(
        "evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--k", 5, "--rows", 50, "--brief", "--quick"
    )
    printed = " ".join(result.stdout.split())
    assert "other features masked (mean) 1.000" in printed  # all five columns are the whole input
    for part in ("k = 5 of 5", "selected features masked", "random", "bits", "evaluator", "can be gamed"):
        assert part in printed
    assert "Leakage test" not in printed
    assert "fitting the evaluator" in result.stderr
    assert "fitting the probes" not in result.stderr


def test_with_a_variable_number_of_columns(folder: Folder) -> None:
    options = ("--k", 5, "--rows", 50, "--brief", "--quick", "--keep", 0.9)
    printed = folder.run("evaluate", "tree.l2x", "cli_models:tree", "test.csv", *options).stdout
    assert "at most k = 5 of 5 features" in printed


ERRORS: dict[str, tuple[list[object], str]] = {
    "report is data": (
        ["evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--report", "link.csv"],
        "'link.csv' is DATA"),
    "report is explainer": (
        ["evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--report", "tree.l2x"],
        "'tree.l2x' is FILE"),
    "another model": (["evaluate", "tree.l2x", "cli_models:three_classes", "test.csv"], "3 outputs"),
    "no share": (
        ["evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--keep", "2"], "keep is 2.0; expected"),
    "module that breaks": (["evaluate", "tree.l2x", "cli_broken:model", "test.csv"], "ZeroDivisionError"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_sentence_and_nothing_is_lost(folder: Folder, case: str) -> None:
    Path("cli_broken.py").write_text("1 / 0\n")
    Path("link.csv").symlink_to("test.csv")
    arguments, sentence = ERRORS[case]
    assert sentence in folder.fails_without_a_trace(*arguments)
