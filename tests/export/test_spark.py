"""Spark's mapInArrow takes the same callable; run where Java and pyspark are."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import l2x
from l2x.export._stream import BatchExplainer

NAMES = ["x0", "x1", "x2", "x3", "x4"]


@pytest.mark.slow
def test_the_lines_of_the_docs(
    fitted: l2x.Explainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 5)), columns=NAMES)
    frame.insert(0, "id", [f"{i:03}" for i in range(500)])
    frame.to_parquet("customers.parquet")
    fitted.save("churn.l2x")
    docs = (Path(__file__).parents[2] / "docs" / "how-to" / "scale.md").read_text()
    lines = next(block for block in docs.split("```python\n") if "mapInArrow" in block).partition("```")[0]
    assert len(lines.strip().splitlines()) <= 15
    scope: dict[str, object] = {}
    exec(lines.replace('["age", "city"]', repr(NAMES)), scope)
    rows: Any = scope["rows"]
    schema = f"{scope['schema']}, {re.search(r'`(effect_1 double.*?)`', docs, re.DOTALL)[1]}"
    run = BatchExplainer(l2x.load("churn.l2x"), NAMES, copy=["id"], k=2, encoded=False, effects=True)
    effects = rows.mapInArrow(lambda batches: map(run, batches), schema).toPandas()
    scope["spark"].stop()  # type: ignore[attr-defined]
    found = pd.read_parquet("why.parquet").sort_values("id")
    expected = fitted.explain(frame[NAMES], k=2, polish=False).to_frame()  # Spark has no model
    assert found["id"].tolist() == frame["id"].tolist()
    assert found["feature_1"].tolist() == expected["feature_1"].tolist()
    assert np.allclose(found["score_2"], expected["score_2"])
    total = effects[["base", "effect_1", "effect_2", "rest"]].sum(axis=1)
    assert np.allclose(total, effects["prediction"])
    assert set(effects["predicted_by"]) == {"surrogate"}


def test_names_as_texts_for_readers_without_dictionaries(fitted: l2x.Explainer) -> None:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({name: np.zeros(3) for name in NAMES})
    plain = BatchExplainer(fitted, NAMES, encoded=False)(batch)
    assert plain.schema.field("feature_1").type == pa.string()
    assert plain.to_pylist() == BatchExplainer(fitted, NAMES)(batch).to_pylist()
