"""Explanations that cannot leak, through a running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service import Client, live

import l2x
from l2x.apps.serve import create_app
from l2x.learning._training import Phase

Row = dict[str, Any]
SHORT = l2x.TrainingPlan(Phase(30, 1e-2), Phase(10, 1e-2), evaluations=2, progress=False)
K = 3
# What JSON can send: any of these values, and missing ones.
NUMBERS = st.none() | st.floats(-1e6, 1e6, allow_subnormal=False) | st.integers(-3, 3)
TEXTS = st.none() | st.sampled_from(["a", "b", "c", "not in the training data"])
NUMERIC, CATEGORICAL = ("age", "income", "hours", "visits"), ("job", "town")
ROWS = st.fixed_dictionaries(dict.fromkeys(NUMERIC, NUMBERS) | dict.fromkeys(CATEGORICAL, TEXTS))


def model(X: pd.DataFrame) -> np.ndarray:
    p = 1 / (1 + np.exp(-X["age"].fillna(0) * np.where(X["job"] == "a", 1, -1)))
    return np.stack([1 - p, p], axis=1)


@contextmanager
def served(selector: Literal["sequential"] | None, folder: Path) -> Iterator[Client]:
    """Serve an explainer whose selections differ between rows; yield a connection."""
    rng = np.random.default_rng(0)
    numbers = {name: rng.normal(size=400) for name in NUMERIC}
    texts = {name: rng.choice(["a", "b", "c"], 400) for name in CATEGORICAL}
    X = pd.DataFrame(numbers | texts)
    X = X.mask(rng.random(X.shape) < 0.1)  # so that the service accepts null in every column
    explainer = l2x.Explainer(model, K, selector=selector, training=SHORT, queries=0).fit(X)
    generator = torch.Generator().manual_seed(0)
    network = explainer.selector_.policy if selector else explainer.selector_
    with torch.no_grad():  # the property holds for any weights
        for weights in network.parameters():
            weights += 0.5 * torch.randn(weights.shape, generator=generator)
    assert len(np.unique(explainer.explain(X).indices, axis=0)) > 2
    file = explainer.save(folder / "paths.l2x")
    with live(create_app([file], {})) as address, Client(address) as connection:
        yield connection


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served("sequential", tmp_path_factory.mktemp("served")) as connection:
        yield connection


def selected(client: Client, rows: list[Row]) -> list[list[str]]:
    """Return the names of the features that the service selects for each row, best first."""
    status, reply = client("POST", "/v1/explainers/paths/explain", {"rows": rows})
    assert status == 200, reply
    return [[feature["name"] for feature in row["features"]] for row in reply["rows"]]


def agreeing(rows: list[Row], others: list[Row], names: list[list[str]]) -> list[Row]:
    """Return rows that agree with `rows` on the named features, and with `others` elsewhere."""
    return [
        other | {name: row[name] for name in kept}
        for row, other, kept in zip(rows, others, names, strict=True)
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=20), alone=st.integers(0, 19))
def test_rows_that_agree_on_the_selected_features_have_the_same_selection(
    client: Client, pairs: list[tuple[Row, Row]], alone: int
) -> None:
    rows, others = [row for row, _ in pairs], [other for _, other in pairs]
    expected = selected(client, rows)
    assert {len(names) for names in expected} == {K}
    changed = agreeing(rows, others, expected)
    assert selected(client, changed) == expected
    # The other rows of a request do not matter either.
    alone %= len(rows)
    assert selected(client, [changed[alone]]) == [expected[alone]]


def test_the_property_fails_for_the_default_selector(tmp_path: Path) -> None:
    """The test above can fail: a selector that reads the whole input does not have the property."""
    rng = np.random.default_rng(1)
    rows, others = (
        [dict(zip(NUMERIC, row, strict=True)) | {"job": "a", "town": "b"} for row in part.tolist()]
        for part in rng.normal(size=(2, 50, 4))
    )
    with served(None, tmp_path) as client:
        expected = selected(client, rows)
        assert selected(client, agreeing(rows, others, expected)) != expected
