"""Explainers by name, and changed files."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from service import Client, file_of, live, name_of
from toy_models import one_column

import l2x
from l2x.apps.serve import Settings, create_app
from l2x.apps.serve._catalogue import Catalogue, by_name
from l2x.apps.serve._monitoring import Metrics
from l2x.errors import InputError


def replace(target: Path, source: Path) -> None:
    """Replace a file as a deployment would: write a new one, then rename it."""
    new = target.with_suffix(".new")
    shutil.copy(source, new)
    new.rename(target)


def test_explainers_are_named_after_their_files(tmp_path: Path) -> None:
    assert list(by_name([Path("a/churn.l2x"), Path("b.l2x")])) == ["churn", "b"]
    with pytest.raises(InputError, match="'churn'"):
        by_name([Path("a/churn.l2x"), Path("b/churn.l2x")])
    with pytest.raises(InputError, match=r"file\.l2x"):
        by_name([])
    with pytest.raises(InputError, match="no_such"):
        Catalogue([file_of("columns")], {"no_such": one_column}, Settings(), Metrics())


def test_a_changed_file_is_swapped_in_and_a_damaged_one_refused(
    tmp_path: Path, table: np.ndarray, fitted: l2x.Explainer, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "it.l2x"
    shutil.copy(file_of("columns"), path)
    metrics = Metrics()
    catalogue = Catalogue([path], {}, Settings(), metrics)
    slot = catalogue["it"]
    old = slot.served
    new = fitted.save(tmp_path / "other.l2x")

    def look() -> None:
        asyncio.run(slot.reload())

    with caplog.at_level(logging.INFO, logger="l2x.apps.serve"):
        look()
        assert slot.served is old
        path.write_bytes(path.read_bytes()[:-100])
        look()
        look()  # reported once
        assert slot.served is old
        replace(path, file_of("words"))  # explains another kind of input
        look()
        assert slot.served is old
        for broken in (b"", b"PK", bytes(10_000)):
            path.write_bytes(broken)
            look()
            assert slot.served is old
        path.unlink()
        look()
        assert slot.served is old
        os.mkfifo(path)
        look()
        assert slot.served is old
        path.unlink()
        replace(path, new)
        look()
    assert slot.served is not old
    assert slot.served.artifact.checksum == l2x.export.read(new).checksum
    assert [record.message for record in caplog.records] == ["reload refused"] * 5 + ["reloaded"]
    text = metrics.text().decode()
    assert 'l2x_reloads_total{explainer="it",outcome="refused"} 5.0' in text
    assert 'l2x_reloads_total{explainer="it",outcome="swapped"} 1.0' in text
    catalogue.close()


def test_a_model_that_fails_on_a_new_file_is_not_quoted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "it.l2x"
    shutil.copy(file_of("columns"), path)
    broken: list[bool] = []

    def model(X: np.ndarray) -> np.ndarray:
        if broken:
            raise ValueError(f"income={X[0, 0]} hunter2")
        return np.full((len(X), 2), 0.5)

    catalogue = Catalogue([path], {"it": model}, Settings(), Metrics())
    broken.append(True)
    replace(path, file_of("columns"))
    asyncio.run(catalogue["it"].reload())
    catalogue.close()
    (record,) = caplog.records
    assert record.message == "reload refused"
    assert "ValueError" in vars(record)["fields"]["error"]
    assert "income" not in str(vars(record)["fields"])


def test_an_unexpected_error_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue = Catalogue([file_of("columns")], {}, Settings(reload_every=0.001), Metrics())
    slot = catalogue[name_of("columns")]

    async def watched() -> None:
        again = asyncio.Event()
        looks = []

        async def look() -> None:
            looks.append(1)
            if len(looks) > 1:
                again.set()
            raise RuntimeError("hunter2")

        monkeypatch.setattr(slot, "reload", look)
        watching = asyncio.create_task(catalogue.watch())
        seen = asyncio.create_task(again.wait())
        await asyncio.wait([watching, seen], return_when=asyncio.FIRST_COMPLETED)
        assert not watching.done()
        watching.cancel()

    asyncio.run(watched())
    catalogue.close()
    fields = vars(caplog.records[0])["fields"]
    assert slot.name in fields["id"]
    assert fields["error"] == "RuntimeError"


@pytest.mark.slow
def test_responses_during_swaps_agree_with_their_checksums(tmp_path: Path) -> None:
    """Two explainers of one table take turns under load; every response belongs to its checksum."""
    path = tmp_path / "it.l2x"
    sources = [file_of("columns"), file_of("regression")]
    X = np.random.default_rng(1).normal(size=(60, 5))
    wanted = {}
    for source in sources:
        explanation = l2x.load(source).explain(X, k=1)
        wanted[l2x.export.read(source).checksum] = explanation
    shutil.copy(sources[0], path)
    stop = threading.Event()
    seen: set[str] = set()
    failures: list[str] = []

    def ask(address: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        with Client(address) as client:
            while not stop.is_set():
                rows = rng.integers(60, size=3)
                status, reply = client(
                    "POST", "/v1/explainers/it/explain", {"rows": X[rows].tolist(), "k": 1}
                )
                if status != 200:
                    failures.append(str(reply))
                    return
                explanation = wanted[reply["checksum"]]
                seen.add(reply["checksum"])
                scores = [row["features"][0]["score"] for row in reply["rows"]]
                if not np.allclose(scores, explanation.selected_scores[rows, 0], atol=1e-4):
                    failures.append(f"scores of {reply['checksum']}")

    app = create_app([path], {}, Settings(reload=True, reload_every=0.02))
    with live(app) as address:
        threads = [threading.Thread(target=ask, args=[address, seed]) for seed in range(8)]
        for thread in threads:
            thread.start()
        for turn in range(10):
            replace(path, sources[(turn + 1) % 2])
            time.sleep(0.15)
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[:3]
    assert len(seen) == 2
