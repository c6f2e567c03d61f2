"""A real server of KServe's protocol: MLServer with scikit-learn, in an environment of its own.

`make .venv/.mlserver` installs it into .venv/mlserver; L2X_MLSERVER names another environment.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.model._endpoint import Endpoint

ROOT = Path(__file__).parents[2]
PLACES = [os.environ.get("L2X_MLSERVER", ""), str(ROOT / ".venv" / "mlserver"), f"{sys.prefix}/mlserver"]
FOUND = next((Path(place) for place in PLACES if place and (Path(place) / "bin" / "mlserver").exists()), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOUND is None, reason="MLServer is not installed; try `make .venv/.mlserver`"),
]

# Runs in MLServer's environment, whose scikit-learn must be able to read the models.
MODELS = """
import json, sys
from pathlib import Path
import joblib, numpy as np, pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

root, rows = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
X, frame, texts = np.array(rows["X"]), pd.DataFrame(rows["frame"]), rows["texts"]
columns = make_column_transformer(
    (SimpleImputer(), ["age", "income"]), (OneHotEncoder(handle_unknown="ignore"), ["town", "owner"])
)
models = {
    "array": LogisticRegression().fit(X, (X[:, 0] + X[:, 1] > 0).astype(int)),
    "line": LinearRegression().fit(X, 2 * X[:, 0]),
    "labels": LinearSVC().fit(X, (X[:, 0] > 0).astype(int)),
    "frame": make_pipeline(columns, LogisticRegression()).fit(frame, frame["income"] > 0),
    "text": make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, ["good" in t for t in texts]),
}
predictions = {
    "array": models["array"].predict_proba(X).tolist(),
    "line": models["line"].predict(X)[:, None].tolist(),
    "frame": models["frame"].predict_proba(frame).tolist(),
    "text": models["text"].predict_proba(texts).tolist(),
}
for name, model in models.items():
    folder = root / name
    folder.mkdir()
    joblib.dump(model, folder / "model.joblib")
    settings = {"name": name, "implementation": "mlserver_sklearn.SKLearnModel"}
    settings["parameters"] = {"uri": "./model.joblib"}
    (folder / "model-settings.json").write_text(json.dumps(settings))
print(json.dumps(predictions))
"""
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
TEXTS = ["a good film", "a bad film", "good plot", "bad plot"] * 5
FRAME = pd.DataFrame(
    {
        "age": X[:, 0],
        "income": X[:, 1],
        "town": RNG.choice(["Oslo", "Bergen"], 60),
        "owner": RNG.random(60) < 0.5,
    }
)
FRAME.loc[::7, "age"] = np.nan


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the address of the models, and their own predictions."""
    assert FOUND is not None
    folder = tmp_path_factory.mktemp("mlserver")
    frame = FRAME.astype(object).where(FRAME.notna(), None).to_dict("list")
    rows = {"X": X.tolist(), "frame": frame, "texts": TEXTS}
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "models").mkdir()
    names = ("http_port", "grpc_port", "metrics_port")
    ports = dict(zip(names, free_ports(3), strict=True))
    settings = {"host": "127.0.0.1", "parallel_workers": 0, **ports}
    (folder / "models" / "settings.json").write_text(json.dumps(settings))
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    arguments = [folder / "models", folder / "rows.json"]
    made = subprocess.run(
        [FOUND / "bin" / "python", "-c", MODELS, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=alone,
    )
    with (folder / "log").open("w") as log:
        start = [FOUND / "bin" / "mlserver", "start", folder / "models"]
        process = subprocess.Popen(start, stdout=log, stderr=log, env=alone)
    try:
        address = f"http://127.0.0.1:{ports['http_port']}/v2"
        wait_until_ready(address, process)
        yield f"{address}/models", json.loads(made.stdout)
    finally:
        process.terminate()
        process.wait(60)


def wait_until_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("MLServer did not get ready")


Server = tuple[str, dict[str, Any]]


def test_arrays_get_probabilities(server: Server) -> None:
    url, expected = server
    black_box = l2x.as_black_box(f"{url}/array")
    np.testing.assert_allclose(black_box(X), expected["array"])
    assert black_box.task == "classification"


def test_tables_are_sent_by_column(server: Server) -> None:
    url, expected = server
    np.testing.assert_allclose(l2x.as_black_box(f"{url}/frame")(FRAME), expected["frame"])


def test_tables_of_a_model_of_arrays_can_be_sent_as_one_tensor(server: Server) -> None:
    url, expected = server
    frame = pd.DataFrame(X, columns=list("abcd"))
    for endpoint in (Endpoint(f"{url}/array"), Endpoint(f"{url}/array", one_tensor=True)):
        np.testing.assert_allclose(endpoint(frame), expected["array"])
    with pytest.raises(l2x.errors.InputError, match="'town'"):
        Endpoint(f"{url}/array", one_tensor=True)(FRAME)


def test_texts(server: Server) -> None:
    url, expected = server
    np.testing.assert_allclose(l2x.as_black_box(f"{url}/text")(TEXTS), expected["text"])


def test_a_regression_has_no_probabilities(server: Server) -> None:
    url, expected = server
    black_box = l2x.as_black_box(f"{url}/line")
    for _ in range(2):  # the second time without a request that fails
        np.testing.assert_allclose(black_box(X), expected["line"], atol=1e-9)
    assert black_box.task == "regression"


def test_class_labels_are_refused_unless_they_are_wanted(server: Server) -> None:
    url, _ = server
    with pytest.raises(l2x.errors.BlackBoxError, match=r"'predict'.*output="):
        Endpoint(f"{url}/labels")(X)
    assert set(np.unique(Endpoint(f"{url}/array", output="predict")(X))) == {0.0, 1.0}
    with pytest.raises(l2x.errors.BlackBoxError, match="400"):
        Endpoint(f"{url}/line", output="predict_proba")(X)


def test_the_command_line_labels_a_table(server: Server, tmp_path: Path) -> None:
    url, expected = server
    FRAME.to_parquet(tmp_path / "a.parquet")
    command = [
        sys.executable,
        "-m",
        "l2x.apps.cli",
        "label",
        f"{url}/frame",
        "a.parquet",
        "-o",
        "p.parquet",
        "--quiet",
    ]
    command += ["--model-output", "predict_proba"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    from l2x.files import read_predictions

    np.testing.assert_allclose(read_predictions(tmp_path / "p.parquet").values, expected["frame"])
