"""Serve an application with uvicorn, in one process or in several that are restarted."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from l2x.apps.serve._monitoring import FOLDER, log_to_stderr
from l2x.errors import InputError, require

# Seconds after SIGTERM within which requests in progress may finish.
GRACE = 30
# Seconds: a worker may be loading torch, or explaining a large batch.
HEALTH_TIMEOUT = 30


@dataclass(frozen=True)
class Dedicated:
    """Make an application in a process that does nothing but serve it, for entry points such as `l2x serve`.

    A call changes the whole process: the log goes to standard error, torch uses one thread, and the garbage
    collector ignores everything that is loaded by then. A `Dedicated` can be pickled if `make` can: each
    worker receives it and makes its own application.
    """

    make: Callable[[], Any]

    def __call__(self) -> Any:
        import torch

        log_to_stderr()
        torch.set_num_threads(1)  # the networks are small; the other cores are for further workers
        app = self.make()
        gc.collect()
        gc.freeze()  # examining all loaded objects again would take longer than many requests
        return app


def run(
    make: Callable[[], Any],
    *,
    host: str,
    port: int,
    workers: int = 1,
    root_path: str = "",
    started: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; requests in progress are finished.

    Parameters
    ----------
    make : callable
        Makes the application, once in each worker; with several workers it must be picklable. An entry
        point passes a `Dedicated`.
    host : str
        The address to listen on.
    port : int
        The port to listen on; 0 takes a free one.
    workers : int
        The number of processes.
    root_path : str
        The path under which a proxy exposes the service, and which it removes from requests.
    started : callable
        Called with the address as soon as clients can connect.
    """
    uvicorn: Any = require("uvicorn", extra="serve")
    bound = bind(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
    config = uvicorn.Config(
        make, factory=True, workers=workers, root_path=root_path, backlog=2048, server_header=False,
        log_config=None, access_log=False, timeout_graceful_shutdown=GRACE,
        timeout_worker_healthcheck=HEALTH_TIMEOUT, ws="none",
        http="l2x.apps.serve._connections:Guarded",
    )  # fmt: skip
    with bound, suppress(KeyboardInterrupt):  # uvicorn raises Ctrl-C again when it has finished
        if workers == 1:
            config.load()  # errors in files or model are reported before anything is served
            bound.listen()
            started(address)
            uvicorn.Server(config).run(sockets=[bound])
        else:
            _try(make)
            _supervise(config, bound, lambda: started(address))


def _try(make: Callable[[], Any]) -> None:
    """Make the application once, in a process that then ends.

    Errors are reported now, and not by workers that are replaced again and again.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(_made, make).result()


def _made(make: Callable[[], Any]) -> None:
    make()


def _supervise(config: Any, bound: socket.socket, started: Callable[[], None]) -> None:
    from l2x.apps.serve._connections import Supervisor

    folder = tempfile.mkdtemp(prefix="l2x-metrics-")
    os.environ[FOLDER] = folder  # read by the workers
    try:
        started()
        Supervisor(config, sockets=[bound]).run()
    finally:
        os.environ.pop(FOLDER, None)
        shutil.rmtree(folder, ignore_errors=True)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; raise an InputError if it cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Cannot listen on {host}:{port}: {reason}. Try another --port, or 0.") from error
    bound.set_inheritable(True)
    return bound
