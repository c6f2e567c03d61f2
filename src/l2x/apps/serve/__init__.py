"""The service: explanations over HTTP, batched as they arrive, and a playground for browsers."""

from l2x.apps.serve._app import create_app
from l2x.apps.serve._catalogue import by_name
from l2x.apps.serve._monitoring import log_to_stderr
from l2x.apps.serve._running import Dedicated, run
from l2x.apps.serve._settings import Settings, allowed_hosts, read_token

__all__ = [
    "Dedicated",
    "Settings",
    "allowed_hosts",
    "by_name",
    "create_app",
    "log_to_stderr",
    "read_token",
    "run",
]
