"""From an application to a server: uvicorn, one process or several, of which the dead are replaced."""

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

from l2x.apps.serve._logs import log_to_stderr
from l2x.apps.serve._metrics import FOLDER
from l2x.errors import InputError, require

# Seconds after SIGTERM in which requests in flight may finish.
GRACE = 30


@dataclass(frozen=True)
class Dedicated:
    """Make an application in a process that does nothing but serve it, for entry points such as `l2x serve`.

    A call sets what belongs to the whole process: the log goes to standard error, torch uses one thread, and
    the garbage collector leaves alone all that is loaded by then. Picklable if `make` is: each worker is sent
    this, and makes its own application.
    """

    make: Callable[[], Any]

    def __call__(self) -> Any:
        import torch

        log_to_stderr()
        torch.set_num_threads(1)  # small networks gain more from batches side by side with requests
        app = self.make()
        gc.collect()
        gc.freeze()  # looking through all that is loaded again would take longer than many requests
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
    """Serve until SIGTERM or Ctrl-C; what is in flight then is finished.

    `make` makes the application, once in each worker; with several workers it must be picklable. An entry
    point wraps it in `Dedicated`. `started` is called with the address as soon as it is bound.
    """
    uvicorn: Any = require("uvicorn", extra="serve")
    bound = bind(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
    config = uvicorn.Config(
        make,
        factory=True,
        workers=workers,
        root_path=root_path,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        # Seconds: a worker may be loading torch, or explaining a large batch.
        timeout_worker_healthcheck=30,
        backlog=2048,
    )
    # Ctrl-C is the way to stop; uvicorn raises it again when all is done.
    with bound, suppress(KeyboardInterrupt):
        if workers == 1:
            config.load()  # whatever is wrong with files or model is said now
            started(address)
            uvicorn.Server(config).run(sockets=[bound])
        else:
            _try(make)
            _supervise(config, bound, lambda: started(address))


def _try(make: Callable[[], Any]) -> None:
    """Make the application once, in a process that then ends: what is wrong is said now, and not by workers
    that are replaced again and again."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(_made, make).result()


def _made(make: Callable[[], Any]) -> None:
    make()


def _supervise(config: Any, bound: socket.socket, started: Callable[[], None]) -> None:
    supervisors: Any = require("uvicorn.supervisors", extra="serve")
    folder = tempfile.mkdtemp(prefix="l2x-metrics-")
    os.environ[FOLDER] = folder  # read by the workers
    try:
        started()
        supervisors.Multiprocess(config, sockets=[bound]).run()
    finally:
        os.environ.pop(FOLDER, None)
        shutil.rmtree(folder, ignore_errors=True)


def bind(host: str, port: int) -> socket.socket:
    """A listening address, or one sentence about why not; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Cannot listen on {host}, port {port}: {reason}.") from error
    bound.set_inheritable(True)
    return bound
