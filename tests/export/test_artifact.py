"""Saved explainers are bit-identical, never executed and never half-written, and errors name the problem."""

from __future__ import annotations

import json
import pickle
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors
from toy_models import one_column

import l2x
from l2x.export import _artifact as artifact


@pytest.fixture
def saved(fitted: l2x.Explainer, tmp_path: Path) -> Path:
    return fitted.save(tmp_path / "model.l2x")


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit the header with the safetensors library."""
    content = path.read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    header = json.loads(metadata["l2x"])
    change(header)
    path.write_bytes(write_tensors(read_tensors(content), metadata={"l2x": json.dumps(header)}))


def test_same_bits_after_loading(fitted: l2x.Explainer, saved: Path, table: np.ndarray) -> None:
    loaded = l2x.load(saved, model=one_column)
    assert np.array_equal(loaded.explain(table).scores, fitted.explain(table).scores)
    assert loaded.history_ == fitted.history_
    assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert loaded.score(table) == fitted.score(table)
    mask = fitted.explain(table).mask
    assert np.array_equal(loaded.surrogate_.predict(table, mask), fitted.surrogate_.predict(table, mask))


def test_saving_a_loaded_explainer_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    again = l2x.load(saved).save(tmp_path / "again.l2x")
    assert again.read_bytes() == saved.read_bytes()


def test_loads_in_a_new_process_without_the_model(saved: Path) -> None:
    code = f"import l2x, numpy as np; print(l2x.load({str(saved)!r}).explain(np.ones((1, 5))).names)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[['x1']]"


def test_score_needs_a_model(saved: Path, table: np.ndarray) -> None:
    with pytest.raises(l2x.errors.InputError, match=r"l2x.load\(path, model=...\)"):
        l2x.load(saved).score(table)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "joint", "sampler": l2x.samplers.ConcreteMax(0.5)},
        {"objective": "model"},
        {"selector": {"hidden": (8,)}, "predictor": {"hidden": (8,), "activation": "relu"}},
        {"features": l2x.Columns(names=list("abcde"), standardize=False, masking="resample")},
    ],
)
def test_every_choice_survives(options: dict[str, object], table: np.ndarray, tmp_path: Path) -> None:
    plan = l2x.TrainingPlan(l2x.Phase(5, 1e-2), l2x.Phase(5, 1e-2), evaluations=2, progress=False)
    explainer = l2x.Explainer(one_column, k=2, training=plan, **options).fit(table)
    loaded = l2x.load(explainer.save(tmp_path / "a.l2x"), model=one_column)
    assert np.array_equal(loaded.explain(table).scores, explainer.explain(table).scores)
    assert loaded.explain(table).names == explainer.explain(table).names
    assert loaded.get_params()["objective"] == explainer.objective
    assert loaded.sampler == explainer.sampler
    assert loaded.training == plan


def test_frames_and_labels(tmp_path: Path, tiny: l2x.TrainingPlan) -> None:
    from sklearn.linear_model import LogisticRegression

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=["a", "b", "c"])
    model = LogisticRegression().fit(frame, np.where(frame["b"] > 0, "good", "bad"))
    explainer = l2x.Explainer(model, k=1, training=tiny).fit(frame)
    loaded = l2x.load(explainer.save(tmp_path / "a.l2x"))
    assert loaded.classes_.tolist() == ["bad", "good"]
    assert (
        loaded.explain(frame[["c", "b", "a"]][:3]).to_frame().equals(explainer.explain(frame[:3]).to_frame())
    )


def test_own_modules_are_passed_to_load(table: np.ndarray, tmp_path: Path, tiny: l2x.TrainingPlan) -> None:
    own = torch.nn.Linear(5, 5)
    explainer = l2x.Explainer(one_column, k=1, selector=own, training=tiny).fit(table)
    path = explainer.save(tmp_path / "a.l2x")
    with pytest.raises(l2x.errors.InputError, match=r"pass load\(path, selector=module\)"):
        l2x.load(path)
    loaded = l2x.load(path, selector=torch.nn.Linear(5, 5))
    assert np.array_equal(loaded.explain(table).scores, explainer.explain(table).scores)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_truncated(saved: Path, share: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(l2x.errors.ArtifactError, match="truncated"):
        l2x.load(saved)


def test_edited(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[-5] ^= 1
    saved.write_bytes(bytes(content))
    with pytest.raises(l2x.errors.ArtifactError, match="checksum does not match"):
        l2x.load(saved)


def test_edited_settings(saved: Path) -> None:
    rewrite(saved, lambda header: header["explainer"].update(k=2))
    with pytest.raises(l2x.errors.ArtifactError, match="checksum does not match"):
        l2x.load(saved)


def test_newer_format(saved: Path) -> None:
    rewrite(saved, lambda header: header.update(format=99))
    with pytest.raises(l2x.errors.ArtifactError, match="has format 99"):
        l2x.load(saved)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(l2x.errors.ArtifactError, match="Cannot read"):
        l2x.load(tmp_path / "absent.l2x")
    text = tmp_path / "text.l2x"
    text.write_text("hello, I am not an explainer")
    with pytest.raises(l2x.errors.ArtifactError, match="not an l2x explainer"):
        l2x.load(text)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('code ran')",))


def test_a_pickle_is_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "bomb.l2x"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(l2x.errors.ArtifactError):
        l2x.load(path)


def test_a_full_disk_leaves_the_older_file(saved: Path) -> None:
    """The kernel itself refuses: no file of this process may grow beyond 10 kB."""
    before = saved.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    loaded = l2x.load(saved)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    try:
        with pytest.raises(l2x.errors.ArtifactError, match="is unchanged"):
            loaded.save(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_folder_that_cannot_be_written(fitted: l2x.Explainer, tmp_path: Path) -> None:
    with pytest.raises(l2x.errors.ArtifactError, match="Cannot write"):
        fitted.save(tmp_path / "absent" / "a.l2x")
    with pytest.raises(l2x.errors.ArtifactError, match="Cannot write"):
        fitted.save("/proc/a.l2x")  # read-only even for root


def test_not_fitted(tmp_path: Path) -> None:
    with pytest.raises(l2x.errors.NotFittedError):
        l2x.Explainer(one_column, k=1).save(tmp_path / "a.l2x")


def test_module_uses_no_pickle() -> None:
    source = Path(artifact.__file__).read_text()
    assert "torch.load" not in source
    assert "import pickle" not in source


@pytest.mark.parametrize("path", [None, 5, b"a.l2x", ""])
def test_arguments_that_are_not_a_path(fitted: l2x.Explainer, path: object) -> None:
    with pytest.raises(l2x.errors.InputError, match=re.escape(repr(path))):
        l2x.load(path)
    with pytest.raises(l2x.errors.InputError, match=re.escape(repr(path))):
        fitted.save(path)


@pytest.mark.parametrize("settings", [[], 5, {"view": 5}, {"view": {"name": "ColumnGroups"}}])
def test_forged_files_raise_an_artifact_error(saved: Path, settings: object) -> None:
    """A valid checksum does not make the settings valid."""

    def forge(header: dict[str, Any]) -> None:
        forged = header["explainer"] | settings if isinstance(settings, dict) else settings
        tensors = read_tensors(saved.read_bytes())
        header |= {"explainer": forged, "sha256": artifact._checksum(forged, tensors)}

    rewrite(saved, forge)
    with pytest.raises(l2x.errors.ArtifactError, match=str(saved)):
        l2x.load(saved)


def test_forged_sizes_raise_an_artifact_error(saved: Path) -> None:
    def forge(header: dict[str, Any]) -> None:
        header["explainer"]["sizes"] |= {"minima": ["two"] * 52}
        header["sha256"] = artifact._checksum(header["explainer"], read_tensors(saved.read_bytes()))

    rewrite(saved, forge)
    with pytest.raises(l2x.errors.ArtifactError):
        l2x.load(saved)


FORGED = """
import hashlib, json, random, resource, sys, time
from pathlib import Path
import numpy as np
from safetensors.numpy import load as read_tensors, save as write_tensors
import l2x
from l2x.export._artifact import _checksum

content, path, edits = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), int(sys.argv[3])
tensors = read_tensors(content)
metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
rng = random.Random(0)
VALUES = [0, -1, 10**7, 10**9, 10**15, 1e300, "x", "", None, [], {}, [10**8], [10**5] * 3, True]

def places(node, here=()):
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*here, key)
        yield from places(value, (*here, key))

def forge(change):
    header = json.loads(metadata["l2x"])
    change(header["explainer"])
    header["sha256"] = _checksum(header["explainer"], tensors)
    path.write_bytes(write_tensors(tensors, metadata={"l2x": json.dumps(header)}))
    try:
        l2x.load(path)
    except l2x.L2XError as error:
        assert "alloc" not in str(error), error
        return str(error)

settings = json.loads(metadata["l2x"])["explainer"]
everywhere = [place for place in places(settings) if place[0] != "history"]

def set_at(place, value):
    def change(node):
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = value
    return change

forge(lambda node: None)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
refused = forge(set_at(("likelihood", "settings", "outputs"), 10**7))
assert refused and "declares" in refused, refused
for _ in range(edits):
    forge(set_at(rng.choice(everywhere), rng.choice(VALUES)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_forged_headers_are_refused_before_they_take_memory(saved: Path, tmp_path: Path) -> None:
    """Replace random settings, with a valid checksum: loading raises an L2XError or gives an explainer.

    The process grows by a few megabytes at most; it prints the kilobytes.
    """
    command = [sys.executable, "-c", FORGED, str(saved), str(tmp_path / "forged.l2x"), "150"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100_000


@pytest.mark.parametrize("k", [1, 3])
def test_k_can_be_changed_after_fit(k: int, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 4))
    plan = l2x.TrainingPlan(progress=False).with_steps(value=2, selector=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few steps explain nothing
        explainer = l2x.Explainer(one_column, 2, training=plan).fit(X)
    assert explainer.sizes_ is not None
    explainer.k = k
    loaded = l2x.load(explainer.save(tmp_path / "a.l2x"))
    assert loaded.k == k
    for known in ({"polish": False}, {"predictions": one_column(X)}):
        alike = loaded.explain(X, **known), explainer.explain(X, **known)
        np.testing.assert_array_equal(alike[0].indices, alike[1].indices)
    np.testing.assert_array_equal(loaded.explain(X, keep=0.9).sizes, explainer.explain(X, keep=0.9).sizes)
    before = (tmp_path / "a.l2x").read_bytes()
    for wrong in (0, 5, "2", 2.5, True):
        explainer.k = wrong  # type: ignore[assignment]
        with pytest.raises(l2x.errors.InputError, match="4 features"):
            explainer.save(tmp_path / "a.l2x")
    assert (tmp_path / "a.l2x").read_bytes() == before
