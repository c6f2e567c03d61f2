"""Explainers in MLflow: logged to a real local store, loaded, and served by `mlflow models serve`."""

from __future__ import annotations

import json
import os
import signal
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
import yaml

import l2x
from l2x.errors import ArtifactError

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
pytest.importorskip("mlflow")
import mlflow

from l2x.export import mlflow as flavor

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)


def model(frame: pd.DataFrame) -> np.ndarray:
    p = 1 / (1 + np.exp(-np.where(frame["town"] == "Oslo", 3.0, -3.0) * np.sign(frame["income"])))
    return np.stack([1 - p, p], axis=1)


class Probabilities(mlflow.pyfunc.PythonModel):
    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> np.ndarray:
        return model(model_input)


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": rng.normal(size=n),
            "town": rng.choice(["Oslo", "Bergen"], n),
            "owner": rng.random(n) < 0.5,
        }
    )


@pytest.fixture(scope="module")
def explainer() -> l2x.Explainer:
    plan = l2x.TrainingPlan.quick().with_steps(value=60, selector=60)
    return l2x.Explainer(model, 2, training=plan).fit(people(400, 0))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Use a local store: SQLite and a folder."""
    folder = tmp_path_factory.mktemp("store")
    uri, before = f"sqlite:///{folder}/mlflow.db", mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    experiment = mlflow.create_experiment("tests", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment(experiment_id=experiment)
    yield uri
    mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def logged(explainer: l2x.Explainer, store: str) -> Any:
    with mlflow.start_run():
        return flavor.log_model(explainer, people(5, 1), name="explainer")


def test_predictions_carry_their_explanations(explainer: l2x.Explainer, logged: Any, tmp_path: Path) -> None:
    X = people(30, 2)
    found = mlflow.pyfunc.load_model(logged.model_uri).predict(X)
    alone = l2x.load(explainer.save(tmp_path / "e.l2x")).explain(X)
    pd.testing.assert_frame_equal(found, alone.to_frame(effects=True), check_dtype=False, atol=1e-6)
    total = found[["effect_1", "effect_2", "base", "rest"]].sum(axis=1)
    np.testing.assert_allclose(total, found["prediction"], atol=1e-6)
    assert set(found["predicted_by"]) == {"surrogate"}
    assert mlflow.pyfunc.load_model(logged.model_uri).predict(X, params={"k": 3}).shape[1] > found.shape[1]


def test_the_signature_has_inputs_outputs_and_parameters(logged: Any) -> None:
    inputs = {column.name: column.type.name for column in logged.signature.inputs}
    assert inputs == {"age": "long", "income": "double", "town": "string", "owner": "boolean"}
    outputs = {column.name: column.type.name for column in logged.signature.outputs}
    assert outputs.items() >= {"feature_1": "string", "effect_1": "double", "prediction": "double"}.items()
    assert {param.name for param in logged.signature.params} == {"k", "keep"}
    loaded = mlflow.pyfunc.load_model(logged.model_uri)
    with pytest.raises(mlflow.exceptions.MlflowException, match="town"):
        loaded.predict(people(3, 0).drop(columns="town"))


def test_nothing_is_pickled_and_the_file_is_the_explainers_own(
    explainer: l2x.Explainer, logged: Any, tmp_path: Path
) -> None:
    folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri, dst_path=str(tmp_path)))
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib", ".dill"))]
    assert (folder / "data" / "explainer.l2x").exists() or "explainer.l2x" in files
    described = yaml.safe_load((folder / "MLmodel").read_text())
    checksum = l2x.export.read(next(folder.rglob("explainer.l2x"))).checksum
    assert described["metadata"]["l2x_sha256"] == logged.metadata["l2x_sha256"] == checksum
    assert described["flavors"]["python_function"]["loader_module"] == "l2x.export.mlflow"
    requirements = (folder / "requirements.txt").read_text()
    assert f"l2x[mlflow]=={l2x.__version__}" in requirements
    assert "+cpu" not in requirements


@pytest.mark.parametrize("damage", ["replaced", "truncated"])
def test_a_file_that_is_not_the_logged_one_is_refused(
    explainer: l2x.Explainer, logged: Any, tmp_path: Path, damage: str
) -> None:
    folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri, dst_path=str(tmp_path)))
    file = next(folder.rglob("explainer.l2x"))
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        other = l2x.load(file)
        other.k = 1
        other.save(file)
    with pytest.raises(ArtifactError, match=r"explainer\.l2x"):
        mlflow.pyfunc.load_model(str(folder))


def test_load_model_returns_the_explainer(explainer: l2x.Explainer, logged: Any) -> None:
    X = people(20, 3)
    loaded = flavor.load_model(logged.model_uri)
    np.testing.assert_array_equal(loaded.explain(X).indices, explainer.explain(X).indices)


def test_with_the_model_in_mlflow_predictions_are_its_own(explainer: l2x.Explainer, store: str) -> None:
    with mlflow.start_run():
        explained = mlflow.pyfunc.log_model(
            name="model", python_model=Probabilities(), pip_requirements=["numpy"]
        )
        info = flavor.log_model(explainer, people(5, 1), name="both", model_uri=explained.model_uri)
    X = people(25, 4)
    found = mlflow.pyfunc.load_model(info.model_uri).predict(X)
    assert set(found["predicted_by"]) == {"model"}
    np.testing.assert_allclose(found["prediction"], model(X).max(axis=1), atol=1e-6)
    loaded = flavor.load_model(info.model_uri)
    assert loaded.score(X) == pytest.approx(explainer.score(X))


@pytest.mark.parametrize("kind", ["words", "sentences", "patches", "columns", "regression"])
def test_every_kind_of_input(kind: str, store: str) -> None:
    from service import file_of, rows_of

    explainer, X = l2x.load(file_of(kind)), rows_of(kind, 6)[1]
    with mlflow.start_run():
        info = flavor.log_model(explainer, X, name=kind)
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    given = pd.DataFrame({"text": list(X)}) if kind in ("words", "sentences") else X
    found = loaded.predict(given)
    assert found["feature_1"].tolist() == [names[0] for names in explainer.explain(X).names]


@pytest.mark.slow
def test_mlflow_models_serve(explainer: l2x.Explainer, logged: Any, store: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", logged.model_uri]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"MLFLOW_TRACKING_URI": store, "MLFLOW_REGISTRY_URI": store}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    X = people(8, 5)
    sent = {"dataframe_split": json.loads(X.to_json(orient="split", index=False)), "params": {"k": 1}}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/ping", process, tmp_path / "log")
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations",
            json.dumps(sent).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            rows = json.loads(response.read())["predictions"]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
    assert [row["feature_1"] for row in rows] == [
        names[0] for names in explainer.explain(X, k=1, polish=False).names
    ]
    assert all(
        row["base"] + row["effect_1"] + row["rest"] == pytest.approx(row["prediction"]) for row in rows
    )


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])
