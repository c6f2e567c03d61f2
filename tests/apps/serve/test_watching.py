"""Watching: a share of the served rows is verified in the background, within a budget; nothing is kept."""

from __future__ import annotations

import gc
import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from toy_models import first_column, one_column

import l2x
from l2x.apps.serve import Settings, create_app
from l2x.apps.serve import _watching as watching
from l2x.apps.serve._monitoring import JsonLines, Metrics
from l2x.apps.serve._watching import BLOCK, WAITING, WINDOW, Budget, Watcher, Window
from l2x.errors import InputError
from l2x.learning import Expectation, Tally

NEW = np.random.default_rng(5).normal(size=(800, 5))


class Swappable:
    """A model that can be replaced while it is served, as behind an endpoint."""

    def __init__(self) -> None:
        self.current: Callable[[np.ndarray], np.ndarray] = one_column

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.current(X)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conclude after every batch."""
    monkeypatch.setattr(watching, "EVERY", 0.0)
    monkeypatch.setattr(watching, "REST", 0)


@pytest.fixture
def file(fitted: l2x.Explainer, tmp_path: Path) -> Path:
    return fitted.save(tmp_path / "it.l2x")


@pytest.fixture
def model() -> Swappable:
    return Swappable()


@pytest.fixture
def client(file: Path, model: Swappable, at_once: None) -> Iterator[TestClient]:
    settings = Settings(watch=1.0, watch_rows=1_000_000)
    with TestClient(create_app([file], {"it": model}, settings)) as made:
        yield made


def explain(client: TestClient, rows: np.ndarray) -> dict[str, Any]:
    """Explain rows; return the validity when all of them are verified or dropped."""
    done = done_of(client.get("/v1/explainers/it/validity").json())
    for part in np.array_split(rows, max(1, len(rows) // 50)):
        reply = client.post("/v1/explainers/it/explain", json={"rows": part.tolist()})
        assert reply.status_code == 200
        done += len(part)
        state = wait_for(client, done)
    return state


def wait_for(client: TestClient, done: int) -> dict[str, Any]:
    """Return the validity when so many rows are verified or dropped."""
    while True:
        state: dict[str, Any] = client.get("/v1/explainers/it/validity").json()
        if done_of(state) >= done:
            return state
        time.sleep(0.01)


def done_of(state: dict[str, Any]) -> int:
    return int(state["verified"] + state["dropped"])


def gauges(client: TestClient) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if line.startswith(("l2x_watch", "l2x_explainer"))]
    return {name: float(value) for name, value in pairs}


def test_served_rows_are_verified_and_a_swapped_model_is_stale(
    client: TestClient, model: Swappable, fitted: l2x.Explainer
) -> None:
    assert client.get("/v1/explainers/it/validity").json()["status"] == "waiting"
    state = explain(client, NEW[:200])
    assert state["status"] == "valid"
    assert state["rows"] == state["verified"] == 200
    assert state["confirmed"]["value"] == pytest.approx(fitted.score(NEW[:200]))
    found = gauges(client)
    assert found['l2x_watch_confirmed_share{explainer="it"}'] == state["confirmed"]["value"]
    assert found['l2x_watch_confirmed_share_low{explainer="it"}'] == state["confirmed"]["low"]
    assert found['l2x_watch_confirmed_share_high{explainer="it"}'] == state["confirmed"]["high"]
    assert found['l2x_watch_expected_share{explainer="it"}'] == state["expected"]["value"]
    assert found['l2x_watch_status{explainer="it",status="valid"}'] == 1
    assert found['l2x_watch_psi{column="x3",explainer="it",role="input"}'] < 0.2
    assert 0 <= found['l2x_explainer_age_seconds{explainer="it"}'] < 3600
    assert found['l2x_watch_rows_total{explainer="it",outcome="confirmed"}'] >= 190
    model.current = first_column
    assert explain(client, NEW[200:600])["status"] == "stale"
    assert gauges(client)['l2x_watch_status{explainer="it",status="stale"}'] == 1
    assert gauges(client)['l2x_watch_status{explainer="it",status="valid"}'] == 0
    page = client.get("/playground/it").text
    assert "<strong>stale</strong>" in page
    assert "<strong>stale</strong>" in client.get("/playground/it/validity").text


def test_shifted_columns_have_a_large_index(client: TestClient) -> None:
    assert explain(client, NEW[:200] + np.array([0, 0, 0, 0, 4]))["columns"] == ["x4"]
    assert gauges(client)['l2x_watch_psi{column="x4",explainer="it",role="input"}'] > 1


def test_arrow_streams_are_watched(client: TestClient) -> None:
    table = pa.table({f"x{i}": NEW[:300, i] for i in range(5)})
    body = io.BytesIO()
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    assert client.post("/v1/explainers/it/explain.arrow", content=body.getvalue()).status_code == 200
    state = wait_for(client, 300)
    assert state["verified"] == WAITING  # a stream is larger than the queue
    assert state["dropped"] == 300 - WAITING
    assert state["status"] == "valid"


def test_a_new_file_starts_again(fitted: l2x.Explainer, at_once: None) -> None:
    watcher = Watcher("it", 1.0, 1_000_000, Metrics())
    for number, examiner in enumerate((fitted.examiner(), fitted.examiner()), 1):  # two files
        watcher.offer(examiner, 40, lambda rows: lambda: NEW[: len(rows)])
        while watcher.state().verified < 40 * number:
            time.sleep(0.01)
    validity = watcher.state().validity
    assert validity is not None
    assert validity.rows == 40
    watcher.close()


def test_a_reloaded_file_is_not_called_stale(
    file: Path, model: Swappable, fitted: l2x.Explainer, at_once: None
) -> None:
    """The conclusion about the file before, and its gauges, are forgotten at once."""
    settings = Settings(watch=1.0, watch_rows=1_000_000, reload=True, reload_every=0.05)
    with TestClient(create_app([file], {"it": model}, settings)) as client:
        model.current = first_column
        assert explain(client, NEW[:300])["status"] == "stale"
        model.current = one_column
        fitted.save(file)
        deadline = time.monotonic() + 60
        while client.get("/v1/explainers/it/validity").json()["status"] == "stale":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert client.get("/v1/explainers/it/validity").json()["status"] == "waiting"
        found = {name: value for name, value in gauges(client).items() if not name.endswith("_created")}
        assert not any(value for name, value in found.items() if name.startswith("l2x_watch_status"))
        assert np.isnan(found['l2x_watch_confirmed_share{explainer="it"}'])
        assert np.isnan(found['l2x_watch_psi{column="x3",explainer="it",role="input"}'])
        assert explain(client, NEW[300:400])["status"] == "valid"
        assert gauges(client)['l2x_watch_psi{column="x3",explainer="it",role="input"}'] < 0.2


def test_rows_of_a_replaced_file_are_ignored(fitted: l2x.Explainer, at_once: None) -> None:
    watcher, before, after = Watcher("it", 1.0, 1_000_000, Metrics()), fitted.examiner(), fitted.examiner()
    watcher.start_again(after)
    for examiner, rows in ((before, 40), (after, 35)):
        watcher.offer(examiner, rows, lambda chosen: lambda: NEW[: len(chosen)])
    while watcher.state().verified < 35:
        time.sleep(0.01)
    watcher.close()
    assert watcher.state().verified == 35


def test_a_failing_model_is_counted_and_nothing_is_quoted(
    file: Path, caplog: pytest.LogCaptureFixture, at_once: None
) -> None:
    """The model fails on masked rows only: requests go through, and verification does not."""

    def fails_when_masked(X: np.ndarray) -> np.ndarray:
        if (X == 0).any() or len(np.unique(X[:, 0])) < len(X):
            raise ValueError(f"secret-{X[0, 1]}")
        return one_column(X)

    settings = Settings(watch=1.0, watch_rows=1_000_000)
    with (
        caplog.at_level(logging.INFO),
        TestClient(create_app([file], {"it": fails_when_masked}, settings)) as client,
    ):
        state = explain(client, NEW[:60])
        assert state["dropped"] == 60
        assert gauges(client)['l2x_watch_dropped_total{explainer="it",reason="failed"}'] == 60
    lines = "\n".join(JsonLines().format(record) for record in caplog.records)
    assert "watch of it" in lines
    assert "secret" not in lines
    assert str(NEW[0, 1]) not in lines


def test_the_log_has_a_line_when_the_status_changes(
    client: TestClient, model: Swappable, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="l2x.apps.serve"):
        explain(client, NEW[:100])
        model.current = first_column
        explain(client, NEW[100:400])
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    watched = [line for line in lines if line["event"] == "watch"]
    assert watched[0]["status"] == "valid"
    assert watched[-1]["status"] == "stale"
    assert len(watched) <= 4  # it may be drifting in between
    assert not any(str(number) in json.dumps(watched) for number in NEW[:400, 0])


def test_verified_rows_do_not_stay_in_memory(fitted: l2x.Explainer, at_once: None) -> None:
    class Rows(np.ndarray):
        pass

    watcher = Watcher("it", 1.0, 1_000_000, Metrics())
    examiner = fitted.examiner()
    for start in range(0, 400, 40):
        watcher.offer(
            examiner, 40, lambda rows, start=start: lambda: NEW[start : start + 40].view(Rows)[rows]
        )  # type: ignore[misc]
        while watcher.state().verified < start + 40:
            time.sleep(0.01)
    watcher.close()
    gc.collect()
    assert not [thing for thing in gc.get_objects() if isinstance(thing, Rows)]


def test_the_budget_bounds_rows_per_minute() -> None:
    now = [0.0]
    budget = Budget(60, clock=lambda: now[0])
    granted = 0
    for second in range(600):
        now[0] = float(second)
        granted += budget.take(5)
    assert 600 <= granted <= 610  # one per second, and ten seconds in advance
    assert Budget(1, clock=lambda: 0.0).take(100) == 1


def test_the_window_forgets() -> None:
    window = Window()
    for _ in range(3 * WINDOW // 10):
        window.add(10, Tally(10, 9))
    assert WINDOW <= window.rows <= WINDOW + BLOCK
    assert window.total.rows == window.rows
    assert window.total.confirmed == 0.9 * window.rows


def test_no_false_alarm_in_a_long_run(fitted: l2x.Explainer) -> None:
    """100,000 rows, two points less often confirmed than in fit, which chooses weights on its rows."""
    examiner = replace(fitted.examiner(), expectation=Expectation(0.95, 1000, None, True))
    window, statuses, rng = Window(), set(), np.random.default_rng(0)
    for _ in range(2000):
        window.add(50, Tally(50, int(rng.binomial(50, 0.93))))
        statuses.add(examiner.conclude(window.total, alarm=watching.ALARM).status)
    assert statuses == {"valid"}


def test_watching_needs_a_model_and_a_share(file: Path) -> None:
    with pytest.raises(InputError, match=r"watch is 0\.5"):
        create_app([file], {}, Settings(watch=0.5))
    with pytest.raises(InputError, match="watch is 2"):
        Settings(watch=2)
    with TestClient(create_app([file], {"it": one_column})) as client:
        assert client.get("/v1/explainers/it/validity").status_code == 404
        assert "validity" not in client.get("/playground/it").text
