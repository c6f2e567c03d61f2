"""`l2x serve`: errors before it listens; tests/apps/serve/test_running.py has the rest."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Folder

from l2x.apps.cli._serve import make_app, models_by_explainer
from l2x.apps.serve import Settings
from l2x.errors import InputError


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Restore the logging of the process, which the command changes."""
    loggers = [logging.getLogger(name) for name in ("l2x.apps.serve", "uvicorn")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_errors_are_one_sentence(folder: Folder) -> None:
    assert "'none.l2x'" in folder.fails("serve", "none.l2x", "--port", 0)
    assert "'none.l2x'" in folder.fails("serve", "none.l2x", "--port", 0, "--workers", 2)
    assert "not an l2x explainer" in folder.fails("serve", "test.csv", "--port", 0)
    assert "'tree'" in folder.fails("serve", "tree.l2x", "./tree.l2x")
    assert "'wood'" in folder.fails("serve", "tree.l2x", "--model", "wood=cli_models:tree")
    assert "Cannot load MODEL" in folder.fails(
        "serve", "tree.l2x", "--model", "cli_models:nothing", "--port", 0
    )
    Path("token").write_text("short")
    assert "16" in folder.fails("serve", "tree.l2x", "--token-file", "token")
    assert "'none'" in folder.fails("serve", "tree.l2x", "--token-file", "none")
    assert "Example" in folder.run("serve", "--help").stdout


def test_the_app_uses_the_model_of_the_command_line(folder: Folder) -> None:
    from starlette.testclient import TestClient

    app = make_app([Path("tree.l2x")], {"tree": "cli_models:tree"}, Settings())
    with TestClient(app) as client:
        row = {name: 0.5 for name in "abcde"}
        reply = client.post("/v1/explainers/tree/explain", json={"rows": [row]}).json()
        assert len(reply["rows"][0]["features"]) == 2
        assert sum(reply["rows"][0]["prediction"]) == pytest.approx(1)


def test_models_by_explainer() -> None:
    assert models_by_explainer([], ["a"]) == {}
    assert models_by_explainer(["m:x"], ["a", "b"]) == {"a": "m:x", "b": "m:x"}
    assert models_by_explainer(["b=m:x"], ["a", "b"]) == {"b": "m:x"}
    with pytest.raises(InputError, match="a, b"):
        models_by_explainer(["c=m:x"], ["a", "b"])
