"""`l2x serve`: what it refuses before anything listens; test_running.py has the rest."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Folder

from l2x.apps.cli._serve import make_app, model_of_each
from l2x.apps.serve._settings import Settings
from l2x.errors import InputError


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """The command sets up the log of its process, which here is that of all tests."""
    loggers = [logging.getLogger(name) for name in ("l2x.apps.serve", "uvicorn")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_what_cannot_be_served_is_one_sentence(folder: Folder) -> None:
    assert "Cannot read 'none.l2x'" in folder.fails("serve", "none.l2x", "--port", 0)
    assert "Cannot read 'none.l2x'" in folder.fails("serve", "none.l2x", "--port", 0, "--workers", 2)
    assert "not an l2x explainer" in folder.fails("serve", "test.csv", "--port", 0)
    assert "both be served as 'tree'" in folder.fails("serve", "tree.l2x", "./tree.l2x")
    assert "no explainer 'wood'" in folder.fails("serve", "tree.l2x", "--model", "wood=cli_models:tree")
    assert "Cannot load MODEL" in folder.fails(
        "serve", "tree.l2x", "--model", "cli_models:nothing", "--port", 0
    )
    Path("token").write_text("short")
    assert "at least 16" in folder.fails("serve", "tree.l2x", "--token-file", "token")
    assert "Cannot read the token" in folder.fails("serve", "tree.l2x", "--token-file", "none")
    assert "Example" in folder.run("serve", "--help").stdout


def test_the_app_has_the_model_of_the_command_line(folder: Folder) -> None:
    from starlette.testclient import TestClient

    app = make_app([Path("tree.l2x")], {"tree": "cli_models:tree"}, Settings())
    with TestClient(app) as client:
        row = {name: 0.5 for name in "abcde"}
        answer = client.post("/v1/explainers/tree/explain", json={"rows": [row]}).json()
        assert len(answer["rows"][0]["features"]) == 2
        assert sum(answer["rows"][0]["answer"]) == pytest.approx(1)


def test_models_go_to_their_explainers() -> None:
    assert model_of_each([], ["a"]) == {}
    assert model_of_each(["m:x"], ["a", "b"]) == {"a": "m:x", "b": "m:x"}
    assert model_of_each(["b=m:x"], ["a", "b"]) == {"b": "m:x"}
    with pytest.raises(InputError, match="there is a, b"):
        model_of_each(["c=m:x"], ["a", "b"])
