"""The command line, end to end: real models, real files, real exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import l2x
from l2x.cli import app
from l2x.files.tables import Table

# The label of `linear` hangs on a and b alone; `tree` is told of them by name.
MODELS = """
import numpy as np, pandas as pd
from lightgbm import LGBMClassifier
from sklearn.linear_model import LinearRegression

train = pd.read_parquet("train.parquet")
X, y = train[["a", "b", "c", "d", "e"]], train["label"]
tree = LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(X, y)
line = LinearRegression().fit(X.to_numpy(), 3 * X["a"] + X["b"])

def failing(frame):
    raise RuntimeError("the model [bold]broke[/bold] half-way")

def by_place(frame):
    p = np.where(frame["city"].isna(), 0.1, 0.5) + 0.4 * (frame["zip"] == "01234")
    return np.stack([1 - p, p], axis=1)

def three_classes(frame):
    return np.full((len(frame), 3), 1 / 3)
"""


@dataclass(frozen=True)
class Folder:
    """A user's folder, with data and models, that is the current one."""

    path: Path

    def run(self, *arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        assert "Traceback" not in result.output
        return result

    def fails(self, *arguments: object) -> str:
        """The one sentence of an error."""
        error = self.run(*arguments, code=1).stderr
        lines = [
            line for line in error.splitlines() if not line.startswith(("note:", "asking", "explaining"))
        ]
        assert len(lines) == 1, error
        assert lines[0].startswith("error: "), error
        return lines[0]

    def files(self) -> set[str]:
        return {path.name for path in self.path.iterdir() if path.name != "__pycache__"}


def make_frame(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    frame.insert(0, "id", [f"{i:04}" for i in range(n)])
    frame["label"] = (frame["a"] + frame["b"] > 0).astype(int)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """train.parquet, test.csv, test.parquet, cli_models.py, and tree.l2x, which `l2x fit` made."""
    path = tmp_path_factory.mktemp("cli")
    make_frame(300, seed=0).to_parquet(path / "train.parquet")
    make_frame(200, seed=1).to_csv(path / "test.csv", index=False)
    make_frame(200, seed=1).to_parquet(path / "test.parquet")
    (path / "cli_models.py").write_text(MODELS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setattr(sys, "path", list(sys.path))
        here = Folder(path)
        here.run("fit", "cli_models:tree", "train.parquet", "--k", 2, "-o", "tree.l2x", "--quick", "-q")
        yield here
    sys.modules.pop("cli_models", None)


@pytest.fixture(autouse=True)
def back_in_the_folder(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.path)


def values_of(card: dict[str, Any], part: str) -> dict[str, float]:
    """The numbers of a part of a report card in JSON, without their intervals."""
    return {key: estimate["value"] for key, estimate in card["parts"][part].items()}


def expected(frame: pd.DataFrame, k: int | None = None) -> pd.DataFrame:
    result: pd.DataFrame = l2x.load("tree.l2x").explain(frame[list("abcde")], k=k).to_frame()
    return result


def test_the_version_and_help_say_what_there_is(folder: Folder) -> None:
    assert folder.run("--version").stdout == f"l2x {l2x.__version__}\n"
    overview = folder.run("--help").stdout
    for command in ("fit", "explain", "evaluate"):
        assert command in overview
        assert "Example" in folder.run(command, "--help").stdout


def test_help_does_not_wait_for_heavy_imports() -> None:
    code = (
        "import sys; from l2x.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'sklearn', 'pandas', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_fit_says_where_how_good_and_how_long(folder: Folder) -> None:
    result = folder.run(
        "fit", "cli_models:tree", "train.parquet", "--k", 2, "-o", "said.l2x", "--quick", "--rows", 100
    )
    for part in ("said.l2x: k = 2 of 5 columns", "held out", "100 rows of LGBMClassifier", "time"):
        assert part in result.stdout
    assert "note: columns that the model does not know are ignored: id, label" in result.stderr
    Path("said.l2x").unlink()


def test_fit_without_a_model_that_knows_its_columns_needs_drop(folder: Folder) -> None:
    sentence = folder.fails("fit", "cli_models:line", "train.parquet", "--k", 1, "-o", "line.l2x", "--quick")
    assert "Column 'id'" in sentence
    folder.run(
        "fit", "cli_models:line", "train.parquet", "--drop", "id", "--drop", "label", "--k", 1,
        "-o", "line.l2x", "--quick", "-q", "--validation", 0.2, "--seed", 5,
    )  # fmt: skip
    explainer = l2x.load("line.l2x")
    assert explainer.classes_ is None
    assert explainer.features_.names_ == list("abcde")
    assert explainer.seed == 5
    command = ("evaluate", "line.l2x", "cli_models:line", "test.csv", "--brief", "--quick", "-q")
    card = json.loads(folder.run(*command, "--json").stdout)
    assert card["task"] == "regression"
    fidelity, judge = values_of(card, "fidelity"), values_of(card, "judge")
    assert fidelity["mean"] > 0.8 > fidelity["random"]  # a alone explains 90 % of 3 a + b
    assert judge["selection"] > judge["random"]
    assert "post-hoc R²" in folder.run(*command).stdout
    Path("line.l2x").unlink()


def test_fit_as_the_paper_does(folder: Folder) -> None:
    arguments = ["cli_models:tree", "train.parquet", "--k", 2, "-o", "paper.l2x", "--paper", "--quick", "-q"]
    folder.run("fit", *arguments)
    assert l2x.load("paper.l2x").value == "joint"
    assert isinstance(l2x.load("paper.l2x").sampler, l2x.ConcreteMax)
    assert "--paper trains jointly" in folder.run("fit", *arguments, "--value", "model", code=2).stderr
    Path("paper.l2x").unlink()


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
    Path("model.onnx").unlink()
    Path("onnx.l2x").unlink()


@pytest.mark.parametrize("source", ["test.csv", "test.parquet"])
@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_explain_any_table_into_any_table(folder: Folder, source: str, target: str) -> None:
    result = folder.run("explain", "tree.l2x", source, "-o", target, "--keep", "id", "--batch-rows", 33)
    assert "note: columns that the explainer does not know are ignored: label" in result.stderr
    assert "out" in result.stdout
    assert "200 rows" in result.stdout
    out = pd.read_csv(target, dtype={"id": str}) if target == "out.csv" else pd.read_parquet(target)
    frame = make_frame(200, seed=1)
    whole = expected(frame)
    assert list(out.columns) == ["id", "feature_1", "feature_2", "score_1", "score_2"]
    assert out["id"].tolist() == frame["id"].tolist()
    for name in ("feature_1", "feature_2"):
        assert out[name].tolist() == whole[name].tolist()
    np.testing.assert_allclose(out["score_1"], whole["score_1"], rtol=1e-5)
    Path(target).unlink()


def test_explain_again_with_another_k(folder: Folder) -> None:
    folder.run("explain", "tree.l2x", "test.csv", "-o", "out.csv", "--k", 4, "-q")
    out = pd.read_csv("out.csv")
    assert out["feature_4"].tolist() == expected(make_frame(200, seed=1), k=4)["feature_4"].tolist()
    Path("out.csv").unlink()


def test_columns_are_found_by_name(folder: Folder) -> None:
    make_frame(200, seed=1)[["e", "label", "c", "a", "d", "b"]].to_csv("shuffled.csv", index=False)
    folder.run("explain", "tree.l2x", "test.csv", "-o", "straight_out.csv", "-q")
    silent = folder.run("explain", "tree.l2x", "shuffled.csv", "-o", "shuffled_out.csv", "-q")
    assert silent.output == ""
    assert Path("shuffled_out.csv").read_bytes() == Path("straight_out.csv").read_bytes()
    for name in ("shuffled.csv", "straight_out.csv", "shuffled_out.csv"):
        Path(name).unlink()


def test_without_an_output_the_first_rows_are_shown(folder: Folder) -> None:
    lines = folder.run("explain", "tree.l2x", "test.csv", "--keep", "id", "--head", 3).stdout.splitlines()
    assert len(lines) == 4
    first = expected(make_frame(200, seed=1))["feature_1"][0]
    value = make_frame(200, seed=1)[first][0]
    assert lines[1].split()[:2] == ["0", "0000"]
    assert f"{first} = {value:.4g}" in lines[1]


def test_evaluate_tells_a_good_selection_from_a_random_one(folder: Folder) -> None:
    command = ("evaluate", "tree.l2x", "cli_models:tree", "test.parquet", "--brief", "--quick", "-q")
    card = json.loads(folder.run(*command, "--json").stdout)
    origin = {"l2x": l2x.__version__, "explainer": "tree.l2x", "model": "cli_models:tree"}
    assert card.items() >= (origin | {"data": "test.parquet", "k": 2, "features": 5}).items()
    assert card["rows"] == 100  # the other half taught the judge
    fidelity, judge, bits = (values_of(card, part) for part in ("fidelity", "judge", "information"))
    assert fidelity["mean"] > 0.9 > fidelity["random"] > fidelity["mean_complement"]
    assert judge["selection"] > 0.9 > judge["random"]
    assert 0 < bits["captured"] <= bits["available"] <= 1
    assert card["finding"] == "unchecked"
    assert "can be gamed" in card["verdict"]


def test_csv_and_parquet_of_one_table_are_one_table(folder: Folder, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cells = {"zip": ["01234", "00501"], "city": ["Bonn", None], "time": ["12:30", "13:30"]}
    frame = pd.DataFrame({name: rng.choice(np.array(few, object), 200) for name, few in cells.items()})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    saved = tmp_path / "place.l2x"
    folder.run("fit", "cli_models:by_place", tmp_path / "t.parquet", "--k", 1, "-o", saved, "--quick", "-q")
    cards, results = [], []
    for kind in ("csv", "parquet"):
        data, out = tmp_path / f"t.{kind}", tmp_path / f"out.{kind}"
        said = folder.run(
            "evaluate", saved, "cli_models:by_place", data, "--json", "-q", "--brief", "--quick"
        )
        folder.run("explain", saved, data, "-o", out, "-q")
        cards.append(json.loads(said.stdout)["parts"])
        results.append(pd.read_csv(out) if kind == "csv" else pd.read_parquet(out))
    assert cards[0] == cards[1]
    assert (results[0]["feature_1"] == results[1]["feature_1"].astype(str)).all()


def test_evaluate_prints_the_report_card_and_writes_a_page(folder: Folder) -> None:
    command = ("evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--quick", "-q", "--report")
    said = folder.run(*command, "card.html").stdout
    assert "Report card" in said
    assert "encode-meter" in said
    assert "rows per second" in said
    assert said.endswith("report     card.html\n")
    assert "Independent judge" in (folder.path / "card.html").read_text()
    card = json.loads(folder.run(*command, "card.html", "--json").stdout)
    assert card["finding"] in ("none", "encodes", "uncertain")
    assert list(card["parts"]) == ["fidelity", "judge", "encoding", "information", "stability", "cost"]
    assert "nowhere" in folder.fails(*command, "nowhere/card.html")
    Path("card.html").unlink()


def test_evaluate_fits_one_judge(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    module = importlib.import_module("l2x.evaluation.report_card")
    judges: list[int] = []

    def counted(*given: object, **options: object) -> l2x.evaluation.FittedValue:
        judges.append(1)
        return fit_judge(*given, **options)

    fit_judge = module.fit_judge
    monkeypatch.setattr(module, "fit_judge", counted)
    folder.run("evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--quick", "-q", "--rows", 60)
    assert judges == [1]


def test_evaluate_in_brief(folder: Folder) -> None:
    result = folder.run(
        "evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--k", 5, "--rows", 50, "--brief", "--quick"
    )
    said = " ".join(result.stdout.split())
    assert "the rest removed (mean) 1.000" in said  # all five columns are the whole input
    for part in ("k = 5 of 5", "the selection removed", "random features", "bits", "judge", "can be gamed"):
        assert part in said
    assert "encode-meter" not in said
    assert "fitting the judge" in result.stderr
    assert "fitting the probes" not in result.stderr


ERRORS: dict[str, tuple[list[object], str]] = {
    "no such module": (["fit", "nowhere:model", "test.csv", "--k", 1, "-o", "x.l2x"], "named 'nowhere'"),
    "no such attribute": (["fit", "cli_models:no", "test.csv", "--k", 1, "-o", "x.l2x"], "no attribute 'no'"),
    "not a model": (["fit", "cli_models", "test.csv", "--k", 1, "-o", "x.l2x"], "expected module:attribute"),
    "no such onnx": (["fit", "no.onnx", "test.csv", "--k", 1, "-o", "x.l2x"], "no file 'no.onnx'"),
    "no such data": (["fit", "cli_models:tree", "no.csv", "--k", 1, "-o", "x.l2x"], "is no file 'no.csv'"),
    "k too large": (["fit", "cli_models:tree", "test.csv", "--k", 6, "-o", "x.l2x"], "k = 6 but there are 5"),
    "k of zero": (["fit", "cli_models:tree", "test.csv", "--k", 0, "-o", "x.l2x"], "k = 0 but there are 5"),
    "no such folder": (["fit", "cli_models:tree", "test.csv", "--k", 1, "-o", "no/x.l2x"], "no folder 'no'"),
    "bad validation": (
        ["fit", "cli_models:tree", "test.csv", "--k", 1, "-o", "x.l2x", "--validation", 2],
        "validation is 2"),
    "drop a stranger": (
        ["fit", "cli_models:tree", "test.csv", "--k", 1, "-o", "x.l2x", "--drop", "z"], "--drop z"),
    "model raises": (
        ["fit", "cli_models:failing", "test.csv", "--k", 1, "-o", "x.l2x", "--drop", "id"],
        "RuntimeError after 0 rows, on a batch of 200: the model [bold]broke[/bold] half-way"),
    "no such explainer": (["explain", "no.l2x", "test.csv"], "Cannot read 'no.l2x'"),
    "not an explainer": (["explain", "test.csv", "test.csv"], "not an l2x explainer"),
    "explain k": (["explain", "tree.l2x", "test.csv", "--k", 9], "k = 9 but there are 5"),
    "out is a folder": (["explain", "tree.l2x", "test.csv", "-o", "folder.csv"], "it is a folder"),
    "out in no folder": (["explain", "tree.l2x", "test.csv", "-o", "no/out.csv"], "no folder 'no'"),
    "out is data": (["explain", "tree.l2x", "test.csv", "-o", "./test.csv"], "'test.csv' is DATA"),
    "explainer is data": (
        ["fit", "cli_models:tree", "test.csv", "--k", 1, "-o", "test.csv"],
        "'test.csv' is DATA: write to another file"),
    "report is data": (
        ["evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--report", "link.csv"],
        "'link.csv' is DATA"),
    "report is explainer": (
        ["evaluate", "tree.l2x", "cli_models:tree", "test.csv", "--report", "tree.l2x"],
        "'tree.l2x' is FILE"),
    "out of what kind": (["explain", "tree.l2x", "test.csv", "-o", "out.xlsx"], "neither a .csv nor"),
    "columns missing": (["explain", "tree.l2x", "lacking.csv", "-o", "out.csv"], "fitted on: b, d; it has"),
    "no rows": (["explain", "tree.l2x", "header.csv", "-o", "out.csv"], "has no rows"),
    "no rows to show": (["explain", "tree.l2x", "header.csv"], "has no rows"),
    "no rows to fit": (["fit", "cli_models:tree", "header.csv", "--k", 1, "-o", "x.l2x"], "no rows"),
    "empty file": (["explain", "tree.l2x", "empty.csv", "-o", "out.csv"], "Empty CSV"),
    "keep a stranger": (["explain", "tree.l2x", "test.csv", "--keep", "z"], "--keep z"),
    "another model": (["evaluate", "tree.l2x", "cli_models:three_classes", "test.csv"], "gives 3 numbers"),
    "module that breaks": (["evaluate", "tree.l2x", "cli_broken:model", "test.csv"], "ZeroDivisionError"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_sentence_and_nothing_is_lost(folder: Folder, case: str) -> None:
    Path("header.csv").write_text("a,b,c,d,e\n")
    Path("empty.csv").write_text("")
    Path("lacking.csv").write_text("a,c,e,label\n1,2,3,0\n")
    Path("cli_broken.py").write_text("1 / 0\n")
    Path("folder.csv").mkdir(exist_ok=True)
    if not Path("link.csv").exists():
        Path("link.csv").symlink_to("test.csv")
    Path("x.l2x").write_text("older")
    Path("out.csv").write_text("older")
    before = folder.files()
    inputs = [Path(name).read_bytes() for name in ("test.csv", "tree.l2x")]
    arguments, sentence = ERRORS[case]
    assert sentence in folder.fails(*arguments)
    assert folder.files() == before
    assert [Path(name).read_bytes() for name in ("test.csv", "tree.l2x")] == inputs
    assert Path("x.l2x").read_text() == Path("out.csv").read_text() == "older"


@pytest.mark.parametrize(
    "arguments",
    [["fit"], ["nothing"], ["fit", "a:b", "test.csv", "--k", "many", "-o", "x"], ["explain", "tree.l2x"]],
)
def test_wrong_usage_is_exit_code_two(folder: Folder, arguments: list[str]) -> None:
    assert "Usage" in folder.run(*arguments, code=2).stderr


def interrupt() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("stop", "code"), [(interrupt, 130), (terminate, 143)])
def test_an_interrupted_run_leaves_what_was_there(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, stop: Callable[[], None], code: int
) -> None:
    calls = iter(range(20))

    def share_then_stop(self: Table, rows: int) -> float:
        if next(calls) == 3:
            stop()
        return 0.5

    Path("out.csv").write_text("older")
    before = folder.files()
    command = ("explain", "tree.l2x", "test.csv", "-o", "out.csv", "--batch-rows", 20)
    with monkeypatch.context() as patch:
        patch.setattr(Table, "share_read", share_then_stop)
        result = folder.run(*command, code=code)
    told = " ".join(result.stderr.split())
    assert code == 143 or "interrupted: 60 explained rows are kept in 'out.csv.parts'" in told
    assert Path("out.csv").read_text() == "older"
    assert folder.files() == before | {"out.csv.parts"}
    result = folder.run(*command)
    assert "note: 60 rows were explained before" in result.stderr
    assert "200 rows" in result.stdout
    assert folder.files() == before
    assert (
        pd.read_csv("out.csv")["feature_1"].tolist()
        == expected(make_frame(200, seed=1))["feature_1"].tolist()
    )
    Path("out.csv").unlink()


def test_debug_shows_the_traceback(folder: Folder) -> None:
    result = CliRunner().invoke(app, ["--debug", "explain", "no.l2x", "test.csv"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "error: Cannot read 'no.l2x'" in result.stderr
    result = CliRunner().invoke(app, ["explain", "no.l2x", "test.csv"], env={"L2X_DEBUG": "1"})
    assert "Traceback" in result.stderr


def test_as_a_process_with_ctrl_c(folder: Folder) -> None:
    """Real exit codes, the current folder on the path, and Ctrl-C while the model is thinking."""
    (folder.path / "cli_slow.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "def model(frame):\n    Path('thinking').touch()\n    time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "l2x.cli"]
    arguments = ["fit", "cli_slow:model", "test.csv", "--drop", "id", "--k", "1", "-o", "slow.l2x"]
    process = subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not Path("thinking").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "interrupted:" in error
    assert "Traceback" not in error
    assert not Path("slow.l2x").exists()
    failed = subprocess.run([*command, "explain", "no.l2x", "test.csv"], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr == "error: Cannot read 'no.l2x': No such file or directory.\n"
    assert failed.stdout == ""


def test_data_fetch_says_where_it_is_and_what_is_missing(folder: Folder, tmp_path: Path) -> None:
    told = folder.run("data", "fetch", "mnist", "--from", tmp_path, "--quiet", code=1)
    assert "does not hold the data set 'mnist': there is no train-images-idx3-ubyte." in " ".join(
        told.stderr.split()
    )
    folder.run("data", "fetch", "letters", code=2)
