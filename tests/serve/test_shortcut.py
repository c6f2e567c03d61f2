"""The way past FastAPI: for one route alone, and with what FastAPI would have said of it."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.testclient import TestClient

from l2x.apps.serve._shortcut import Service, Shortcut


def made() -> tuple[Service, list[str]]:
    """A service whose shortcut writes down what it was asked."""
    router, asked = APIRouter(), []

    @router.post("/things/{name}/do")
    async def do(name: str, request: Request) -> Response:
        return Response(f"{name} {request.scope['route'].path} {request.path_params}")

    app = Service()
    app.include_router(router)
    shortcut = Shortcut(router.routes[0])

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await shortcut(scope, receive, send)

    app.cut(shortcut, gate)
    return app, asked


@pytest.mark.parametrize("root_path", ["", "/l2x"])
def test_the_route_is_asked_past_fastapi(root_path: str) -> None:
    app, asked = made()
    answer = TestClient(app, root_path=root_path).post(f"{root_path}/things/a%20b/do")
    assert answer.text == "a b /things/{name}/do {'name': 'a b'}"
    assert asked == [f"{root_path}/things/a b/do"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/things/a/do", 405), ("POST", "/things/a/b/do", 404), ("POST", "/things/a/do/it", 404)],
)
def test_all_else_is_left_to_fastapi(method: str, path: str, status: int) -> None:
    app, asked = made()
    assert TestClient(app).request(method, path).status_code == status
    assert not asked
