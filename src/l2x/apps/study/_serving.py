"""The site of a study on a port of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn

from l2x.apps.study._site import site
from l2x.apps.study._study import Study
from l2x.errors import InputError


def serve(
    study: Study,
    *,
    host: str,
    port: int,
    open_to_all: bool = False,
    announce: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until interrupted; requests that have begun are finished. `announce` gets the address as soon as
    browsers can connect; port 0 takes any that is free."""
    # No access log: addresses are secrets.
    config = uvicorn.Config(site(study, open_to_all=open_to_all), log_level="warning", access_log=False)
    six = ":" in host
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if six else socket.AF_INET)
    except OSError as error:
        raise InputError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Try another --port, or 0 for any."
        ) from error
    with listening:
        announce(f"http://{f'[{host}]' if six else host}:{listening.getsockname()[1]}")
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))
