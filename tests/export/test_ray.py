"""The Ray engine: the same rows as the local stream, also when a worker is killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from toy_models import one_column
from typer.testing import CliRunner

import l2x
from l2x.apps.cli import app
from l2x.errors import MissingExtraError
from l2x.export import ray as engine
from l2x.export._stream import BatchExplainer, explain_table
from l2x.files._tables import Table

NAMES = ["x0", "x1", "x2", "x3", "x4"]
ROWS = 5000


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'l2x\[ray\]'"):
        engine.connect()


def test_addresses() -> None:
    filesystem, path = engine._located("data/rows.parquet")
    assert filesystem.type_name == "local"
    assert path == str(Path("data/rows.parquet").absolute())
    with pytest.raises(l2x.errors.InputError, match="Cannot read or write 'ftp://host/rows'"):
        engine._located("ftp://host/rows")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start two nodes on this machine, with two processors each."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'l2x[ray]'")
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_worker_niceness", "0")  # with Ray's default, 15, other tests would starve them
    for module in (__name__, "toy_models"):  # workers cannot import these
        ray.cloudpickle.register_pickle_by_value(sys.modules[module])
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    nodes.add_node(num_cpus=2)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="warning")
    yield ray
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def folder(fitted: l2x.Explainer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write rows in five files, an explainer, and the explanations of a local stream."""
    path = tmp_path_factory.mktemp("ray")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(ROWS, 5)), columns=NAMES)
    frame.insert(0, "id", np.arange(ROWS))
    (path / "rows").mkdir()
    for i in range(5):
        part = frame.iloc[i * ROWS // 5 : (i + 1) * ROWS // 5]
        part.to_parquet(path / "rows" / f"{i}.parquet", index=False)
    frame.to_parquet(path / "rows.parquet", index=False)
    fitted.save(path / "e.l2x")
    explain = BatchExplainer(fitted, NAMES, copy=["id"], k=2, options={"polish": False})
    explain_table(explain, Table(path / "rows.parquet"), path / "local.parquet")
    return path


def batch_explainer(folder: Path, **options: Any) -> BatchExplainer:
    explainer = l2x.load(folder / "e.l2x", device="cpu")
    return BatchExplainer(explainer, NAMES, copy=["id"], **({"k": 2} | options))


@pytest.mark.slow
def test_a_cluster_of_two_nodes_gives_the_same_explanations(cluster: Any, folder: Path) -> None:
    expected = pd.read_parquet(folder / "local.parquet")
    command = ["explain", folder / "e.l2x", folder / "rows", "--copy", "id", "--k", 2, "-q"]
    command += ["--batch-rows", 700, "--engine", "ray", "-o", folder / "one.parquet"]
    done = CliRunner().invoke(app, [str(part) for part in command])
    assert done.exit_code == 0, (done.output, done.exception)
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "one.parquet"), expected)
    rows = engine.read_parquet(folder / "rows", progress=False)
    engine.write(engine.explain(rows, batch_explainer(folder)), folder / "many")
    parts = sorted((folder / "many").glob("*.parquet"))
    assert parts  # Ray decides how many
    many = pa.concat_tables(pa.parquet.read_table(part) for part in parts).to_pandas()
    # Ray decides which file holds which rows.
    pd.testing.assert_frame_equal(many.sort_values("id", ignore_index=True), expected)
    assert len({node["NodeID"] for node in cluster.nodes()}) == 2


@pytest.mark.slow
def test_a_cluster_polishes_and_refines_with_the_model(cluster: Any, folder: Path) -> None:
    X = pd.read_parquet(folder / "rows.parquet")[NAMES]
    expected = l2x.load(folder / "e.l2x", model=one_column).explain(X, 2, refine=3)
    command = ["explain", folder / "e.l2x", folder / "rows", "--copy", "id", "--k", 2, "-q", "--refine", 3]
    command += ["--model", "toy_models:one_column", "--engine", "ray", "-o", folder / "refined.parquet"]
    done = CliRunner().invoke(app, [str(part) for part in command])
    assert done.exit_code == 0, (done.output, done.exception)
    found = pd.read_parquet(folder / "refined.parquet")
    assert found["confirmed"].tolist() == expected.confirmed.tolist()
    assert found[["feature_1", "feature_2"]].to_numpy().tolist() == expected.names


@pytest.mark.slow
def test_a_variable_number_of_features_with_effects(cluster: Any, folder: Path) -> None:
    rows = engine.read_parquet(folder / "rows", progress=False)
    explained = engine.explain(rows, batch_explainer(folder, k=3, keep=0.8, effects=True))
    engine.write(explained, folder / "shortened.parquet")
    X = pd.read_parquet(folder / "rows.parquet")
    expected = l2x.load(folder / "e.l2x").explain(X[NAMES], k=3, keep=0.8)
    assert expected.sizes is not None
    found = pd.read_parquet(folder / "shortened.parquet").sort_values("id")
    assert found.filter(like="feature_").notna().sum(axis=1).tolist() == expected.sizes.tolist()
    effects = found.filter(like="effect_")
    assert np.array_equal(effects.isna(), ~expected.selected)
    np.testing.assert_allclose(effects.fillna(0), expected.effects, atol=1e-6)


class KilledOnce:
    """Kill the own process with SIGKILL, once, in the middle of the work."""

    def __init__(self, run: BatchExplainer, flag: Path) -> None:
        self.run, self.flag, self.columns = run, flag, run.columns

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.column("id")[0].as_py() >= ROWS // 2 and not self.flag.exists():
            self.flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.run(batch)


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(cluster: Any, folder: Path) -> None:
    run = batch_explainer(folder)
    rows = engine.read_parquet(folder / "rows", progress=False)
    explained = engine._mapped(rows, KilledOnce(run, folder / "killed"), actors=2, batch_rows=700)
    engine.write(explained, folder / "killed.parquet")
    assert (folder / "killed").exists()
    pd.testing.assert_frame_equal(
        pd.read_parquet(folder / "killed.parquet"), pd.read_parquet(folder / "local.parquet")
    )


def first_two(frame: pd.DataFrame) -> np.ndarray:
    return one_column(frame[["x0", "x1"]].to_numpy())


@pytest.mark.slow
def test_predictions_equal_those_of_the_local_file(cluster: Any, folder: Path) -> None:
    l2x.label(first_two, folder / "rows.parquet", folder / "a.parquet", drop=["id"], progress=False)
    black_box = l2x.as_black_box(first_two)
    rows = engine.read_parquet(folder / "rows", progress=False)
    stored = engine.write_predictions(
        engine.label(rows, black_box, drop=["id"]), folder / "b.parquet", black_box
    )
    assert stored == ROWS
    assert (folder / "a.parquet").read_bytes() == (folder / "b.parquet").read_bytes()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start a local S3 server; moto is installed separately because it needs other package versions."""
    server = shutil.which("moto_server")
    if server is None:
        pytest.skip("moto_server is not on the PATH: pipx install 'moto[server]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([server, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    filesystem = pa.fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True, region="us-east-1",
        access_key="test", secret_key="test",
    )  # fmt: skip
    for _ in range(100):
        try:
            filesystem.create_dir("bucket")
            break
        except OSError:
            time.sleep(0.2)
    yield f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1&allow_delayed_open=true"
    process.terminate()
    process.wait()


@pytest.mark.slow
def test_object_storage(cluster: Any, folder: Path, bucket: str) -> None:
    filesystem, _ = engine._located(f"s3://test:test@bucket/rows{bucket}")
    for part in (folder / "rows").glob("*.parquet"):
        with filesystem.open_output_stream(f"bucket/rows/{part.name}") as out:
            out.write(part.read_bytes())
    rows = engine.read_parquet(f"s3://test:test@bucket/rows{bucket}", progress=False)
    explained = engine.explain(rows, batch_explainer(folder))
    engine.write(explained, f"s3://test:test@bucket/why{bucket}")
    found = pa.parquet.read_table("bucket/why", filesystem=filesystem).to_pandas().sort_values("id")
    expected = pd.read_parquet(folder / "local.parquet")
    assert found["id"].tolist() == expected["id"].tolist()
    assert found["feature_1"].tolist() == expected["feature_1"].tolist()
