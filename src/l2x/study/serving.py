"""The site of a study on a port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import uvicorn

from l2x.errors import InputError
from l2x.study.site import site
from l2x.study.study import Study


def serve(
    study: Study,
    *,
    host: str,
    port: int,
    open_to_all: bool = False,
    announce: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until interrupted; requests that have begun are finished. `announce` gets the address once
    the site answers; port 0 takes any that is free."""
    # No access log: addresses are secrets.
    config = uvicorn.Config(
        site(study, open_to_all=open_to_all), host=host, port=port, log_level="warning", access_log=False
    )
    try:
        socket = config.bind_socket()
    except SystemExit as error:  # uvicorn's way to say that the port is taken
        raise InputError(f"Cannot listen on {host}:{port}: is the port in use? Try --port 0.") from error
    with contextlib.closing(socket):
        announce(f"http://{host}:{socket.getsockname()[1]}")
        asyncio.run(uvicorn.Server(config).serve(sockets=[socket]))
