"""One route past FastAPI, whose own part of a request's time would be as long as an explanation takes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.routing import BaseRoute


class Shortcut:
    """A route of requests to one path, as an ASGI application: its function takes the values in the path and
    the request, and nothing that FastAPI would have to look for."""

    def __init__(self, route: BaseRoute) -> None:
        assert isinstance(route, APIRoute)
        self._route, self._endpoint = route, route.endpoint
        self._pattern, self._methods = route.path_regex, route.methods or set()

    def leads(self, scope: Any) -> bool:
        """Whether a request is for this route; if so, the scope then says what FastAPI would have said."""
        if scope["type"] != "http" or scope["method"] not in self._methods:
            return False
        found = self._pattern.match(scope["path"].removeprefix(scope.get("root_path", "")))
        if found is None:
            return False
        scope["route"], scope["path_params"] = self._route, found.groupdict()
        return True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = await self._endpoint(request=Request(scope, receive, send), **scope["path_params"])
        await response(scope, receive, send)


class Service(FastAPI):
    """FastAPI with a shortcut, behind a gate of its own."""

    def cut(self, shortcut: Shortcut, gate: Any) -> None:
        """From now on requests for the shortcut go through this gate, and not through FastAPI."""
        self._shortcut, self._gate = shortcut, gate

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._shortcut.leads(scope):
            await self._gate(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
