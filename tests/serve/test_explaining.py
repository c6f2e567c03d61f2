"""Many clients at once: every row's answer is its own."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from service import Client, check_rows, expected, live, name_of, rows_of, service

CLIENTS = 64
REQUESTS = 12


@pytest.mark.slow
def test_rows_of_two_requests_are_never_mixed() -> None:
    """64 connections ask for random rows of tables with gaps and categories, of texts and of images, with
    other k's in every request; each answer must be what `explain` says of just these rows."""
    kinds = ("columns", "frame", "words", "patches")
    rows = {kind: rows_of(kind)[0] for kind in kinds}
    wanted = {(kind, k): expected(kind, rows_of(kind)[1], k) for kind in kinds for k in (1, 2)}
    failures: list[BaseException] = []

    def ask(seed: int, address: str) -> None:
        rng = random.Random(seed)
        try:
            with Client(address) as client:
                for _ in range(REQUESTS):
                    kind, k = rng.choice(kinds), rng.choice((1, 2))
                    chosen = [rng.randrange(len(rows[kind])) for _ in range(rng.randrange(1, 5))]
                    status, answer = client.explain(kind, [rows[kind][row] for row in chosen], k=k)
                    assert status == 200, answer
                    check_rows(answer["rows"], [wanted[kind, k][row] for row in chosen])
        except BaseException as error:
            failures.append(error)

    with live(service(*kinds, models=False)) as address:
        threads = [threading.Thread(target=ask, args=[seed, address]) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with Client(address) as client:
            text = client("GET", "/metrics")[1].decode()
    if failures:
        raise failures[0]
    batches = metric(text, "l2x_batch_rows_count", name_of("columns"))
    asked = metric(text, "l2x_rows_total", name_of("columns"))
    assert batches < asked  # they did share
    total = sum(metric(text, "l2x_rows_total", name_of(kind)) for kind in kinds)
    assert CLIENTS * REQUESTS <= total <= 4 * CLIENTS * REQUESTS


def metric(text: str, name: str, explainer: str) -> float:
    line = next(line for line in text.splitlines() if line.startswith(f'{name}{{explainer="{explainer}"'))
    return float(line.split()[-1])


def test_an_explainer_that_reads_the_answer_gets_it(tmp_path: Any, tiny: Any) -> None:
    import numpy as np
    from starlette.testclient import TestClient
    from toy_models import one_column

    import l2x
    from l2x.apps.serve._app import create_app

    X = np.random.default_rng(0).normal(size=(200, 4))
    explainer = l2x.Explainer(one_column, k=1, sees_answer=True, training=tiny).fit(X)
    path = explainer.save(tmp_path / "told.l2x")
    rows, answers = X[:5].tolist(), one_column(X[:5])
    wanted = explainer.explain(X[:5]).indices[:, 0].tolist()
    for models in ({}, {"told": one_column}):
        with TestClient(create_app([path], models)) as client:
            given = client.post(
                "/v1/explainers/told/explain", json={"rows": rows, "answers": answers.tolist()}
            )
            assert [row["features"][0]["index"] for row in given.json()["rows"]] == wanted
            asked = client.post("/v1/explainers/told/explain", json={"rows": rows})
            assert asked.status_code == (200 if models else 422)
            if models:
                assert asked.json() == given.json()
            page = client.get("/playground/told")
            assert ("start it with --model" in page.text) == (not models)
            wrongs = ([[1, 0]], [[2, 3]] * 5, "x", [[1, 0, 0]] * 5, [None] * 5, [[10**400, 0]] * 5)
            for wrong in (*wrongs, [[0.5] * 10]):
                answer = client.post("/v1/explainers/told/explain", json={"rows": rows, "answers": wrong})
                assert answer.status_code == 422
