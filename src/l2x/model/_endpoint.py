"""A model behind an address: two small JSON protocols, retries, and several requests at a time.

    POST https://host/v1/models/churn/predict       the protocol of `l2x serve --model`, and the default
        {"rows": [{"age": 41, "city": "Oslo"}, ...]}    objects by column, lists, or texts as strings
        {"predictions": [[0.2, 0.8], ...]}              class probabilities, or one number per row

    POST https://host/v2/models/churn/infer         KServe's Open Inference Protocol, version 2
        {"inputs": [{"name": "age", "shape": [2], "datatype": "FP64", "data": [41, 27]}, ...]}
        {"outputs": [{"name": "...", "shape": [2, 2], "datatype": "FP64", "data": [0.2, 0.8, ...]}]}

Missing cells are null. In version 2, a table has one input per column; arrays and texts have one input.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
import weakref
from dataclasses import KW_ONLY, dataclass, field, fields
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import narwhals as nw
import numpy as np
import pandas as pd

from l2x._base.arrays import Array, tensor_to_array
from l2x.errors import BlackBoxError, InputError, require

# Statuses after which another attempt may succeed: timeouts, too many requests, and server errors.
TRANSIENT = (408, 429, 500, 502, 503, 504)
# The waiting time between attempts, in seconds, grows from the first to the second number. It is random, so
# that clients do not return all at once.
FIRST_WAIT, LONGEST_WAIT = 0.25, 60.0
# Characters of a server's reply that an error repeats.
SHOWN = 200


@dataclass(eq=False, repr=False)
class Endpoint:
    """A model that predicts over HTTP, for `Explainer(Endpoint(...))`, `l2x.label` and `as_black_box`.

    Parameters
    ----------
    url : str
        The model's address: https://host/v1/models/NAME, https://host/v2/models/NAME, or any other address
        that accepts `{"rows": ...}`. A user and a password, https://user:password@host, are sent as basic
        authentication. Neither the password nor a query string is shown in `name`, in the repr or in errors,
        but the HTTP client logs the query string: put keys into the variable `token_variable`.
    in_flight : int
        The number of requests at a time.
    rows_per_request : int
        The most rows of one request; servers refuse requests that are too long.
    requests_per_second : float, optional
        The most requests per second; None for no limit.
    timeout : float
        Seconds for one attempt.
    attempts : int
        The number of attempts for one request, if the server is busy or fails, or the connection breaks. The
        header Retry-After is obeyed.
    token_variable : str
        The environment variable whose value is sent as a bearer token, if it is set and the url has no
        password. It is read for every request, and never stored or shown.

    >>> Endpoint("https://ann:secret@models.example/v1/models/churn", in_flight=16).name
    'https://models.example/v1/models/churn'
    """

    url: str
    _: KW_ONLY
    in_flight: int = 8
    rows_per_request: int = 512
    requests_per_second: float | None = None
    timeout: float = 60.0
    attempts: int = 8
    token_variable: str = "L2X_TOKEN"
    _connection: _Connection = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_url(self.url)
        if min(self.in_flight, self.rows_per_request, self.attempts) < 1 or self.timeout <= 0:
            raise InputError(
                "in_flight, rows_per_request and attempts must be at least 1, and timeout above 0."
            )
        if self.requests_per_second is not None and self.requests_per_second <= 0:
            raise InputError(f"requests_per_second is {self.requests_per_second}; give a number above 0.")
        self._connection = _Connection(self)

    @property
    def name(self) -> str:
        """Return the address without a password or a query string."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, _host(parts), parts.path, "", ""))

    def __repr__(self) -> str:
        options = [
            f"{option.name}={getattr(self, option.name)!r}" for option in fields(self)[1:] if option.repr
        ]
        return f"{type(self).__name__}({', '.join([repr(self.name), *options])})"

    @property
    def version_2(self) -> bool:
        """Return whether the address uses KServe's protocol."""
        return "/v2/models/" in urlsplit(self.url).path

    def __call__(self, X: Any) -> Array:
        """Return the predictions for all rows of X, in one request."""
        body = _version_2(X) if self.version_2 else {"rows": _rows(X)}
        reply = self._connection.post(json.dumps(body, allow_nan=False).encode())
        try:
            content = json.loads(reply)
            predictions = _outputs(content) if self.version_2 else content["predictions"]
            return np.asarray(predictions, dtype=np.float64)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            wanted = "outputs" if self.version_2 else "predictions"
            shown = self._connection.shown(reply.decode(errors="replace"))
            raise BlackBoxError(f"{self.name} replied without {wanted} of numbers: {shown}") from error

    def interrupt(self) -> None:
        """Make threads give up that wait for their turn or to try again; later requests are not affected."""
        before, self._connection = self._connection, _Connection(self)
        before.interrupted.set()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection, which other processes cannot use."""
        return {name: value for name, value in vars(self).items() if name != "_connection"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._connection = _Connection(self)


class _Connection:
    """A pool of connections, the clock of the rate limit, and the rules of retrying."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.httpx = require("httpx2", extra="http")
        limits = self.httpx.Limits(max_connections=endpoint.in_flight)
        self.client = self.httpx.Client(timeout=endpoint.timeout, limits=limits)
        weakref.finalize(self, self.client.close)
        # The client logs the address: keep the password apart from it.
        self.target, self.auth = _target(endpoint.url), _auth(endpoint.url)
        self.lock, self.next_at = threading.Lock(), 0.0
        self.interrupted = threading.Event()

    def post(self, content: bytes) -> bytes:
        """Return the reply to a request, after retries; raise a BlackBoxError if all attempts fail."""
        tenacity = require("tenacity", extra="http")
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((_TransientError, self.httpx.TransportError)),
            wait=_Wait(tenacity.wait_random_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT)),
            stop=tenacity.stop_after_attempt(self.endpoint.attempts),
            sleep=self.interrupted.wait,
            reraise=True,
        )
        try:
            reply: bytes = attempts(self._once, content)
        except _TransientError as error:
            raise BlackBoxError(f"{error} ({self.endpoint.attempts} attempts)") from None
        except self.httpx.TransportError as error:
            raise BlackBoxError(
                f"{self.endpoint.name} cannot be reached in {self.endpoint.attempts} attempts: "
                f"{type(error).__name__} {self.shown(str(error))}"
            ) from None
        return reply

    def _once(self, content: bytes) -> bytes:
        self._wait_for_my_turn()
        if self.interrupted.is_set():
            raise BlackBoxError(f"{self.endpoint.name} was not queried: interrupted.")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token := os.environ.get(self.endpoint.token_variable):
            headers["Authorization"] = f"Bearer {token}"
        reply = self.client.post(self.target, content=content, headers=headers, auth=self.auth)
        if reply.status_code == 200:
            return bytes(reply.content)
        status = f"{reply.status_code} {reply.reason_phrase}"
        message = f"{self.endpoint.name} returned {status}: {self.shown(reply.text)}"
        if reply.status_code in TRANSIENT:
            raise _TransientError(message, _seconds(reply.headers.get("Retry-After")))
        if reply.status_code in (401, 403):
            message += f" (The token is read from the variable {self.endpoint.token_variable}.)"
        raise BlackBoxError(message)

    def _wait_for_my_turn(self) -> None:
        if self.endpoint.requests_per_second is None:
            return
        with self.lock:
            at = max(self.next_at, time.monotonic())
            self.next_at = at + 1 / self.endpoint.requests_per_second
        self.interrupted.wait(max(0.0, at - time.monotonic()))

    def shown(self, text: str) -> str:
        """Return the beginning of a server's reply, on one line, without the secrets that it may repeat."""
        secrets = {os.environ.get(self.endpoint.token_variable), urlsplit(self.endpoint.url).query}
        if self.auth is not None:
            secrets |= {self.auth[1], base64.b64encode(":".join(self.auth).encode()).decode()}
        for secret in sorted(filter(None, secrets), key=len, reverse=True):  # one may contain another
            text = text.replace(secret, "***")
        return " ".join(text.split())[:SHOWN]


class _TransientError(BlackBoxError):
    """An error after which another attempt may succeed, in `seconds` if the server sent Retry-After."""

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True)
class _Wait:
    """A waiting time that grows with each attempt, plus the server's Retry-After."""

    growing: Any

    def __call__(self, state: Any) -> float:
        error = state.outcome.exception()
        after = error.seconds if isinstance(error, _TransientError) else None
        return float(self.growing(state)) + (after or 0.0)


def _seconds(after: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which has seconds or a date."""
    if after is None:
        return None
    try:
        return max(0.0, float(after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except ValueError:
        return None


def _check_url(url: str) -> None:
    """Raise an InputError unless this is an address with a host."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # whose message may have a password: the port of "https://ann:secret/@host"
        good = False
    if not good:
        given = "The url" if set("@?") & set(url) else f"'{url}'"
        raise InputError(
            f"{given} is not the address of a model: expected https://host/... or "
            "https://user:password@host/..., where a password with / ? # or @ is percent-encoded."
        ) from None


def _host(parts: SplitResult) -> str:
    """Return host and port, without a user and a password."""
    return parts.netloc.rpartition("@")[2]


def _auth(url: str) -> tuple[str, str] | None:
    """Return the user and the password in an address; None if it has none."""
    parts = urlsplit(url)
    if not (parts.username or parts.password):
        return None
    return unquote(parts.username or ""), unquote(parts.password or "")


def _target(url: str) -> str:
    """Return the address for requests: with the verb of its protocol, without a password."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for version, verb in (("/v1/models/", "predict"), ("/v2/models/", "infer")):
        if version in path and not path.endswith(f"/{verb}"):
            path = f"{path}/{verb}"
    return urlunsplit(parts._replace(netloc=_host(parts), path=path))


def _rows(X: Any) -> list[Any]:
    """Return rows for JSON: objects by column name, lists of numbers, or texts."""
    columns = _columns(X)
    if columns is not None:
        names = list(columns)
        return [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return _plain(X)


def _version_2(X: Any) -> dict[str, Any]:
    """Return the body of a request in KServe's protocol."""
    columns = _columns(X)
    if columns is not None:
        return {"inputs": [_tensor(name, cells) for name, cells in columns.items()]}
    if isinstance(X, list) and X and isinstance(X[0], str):
        return {"inputs": [_tensor("text", X)]}
    array = np.asarray(X)
    flat = _plain(array.ravel())
    tensor = {"name": "input", "shape": list(array.shape), "datatype": "FP64", "data": flat}
    return {"inputs": [tensor]}


def _tensor(name: str, cells: list[Any]) -> dict[str, Any]:
    """Return a column as a tensor of KServe's protocol; the cells that are not missing decide its type."""
    kinds = {type(cell) for cell in cells if cell is not None}
    datatype = "FP64"
    if kinds == {bool}:
        datatype = "BOOL"
    elif str in kinds:
        datatype = "BYTES"
        cells = [cell if cell is None else str(cell) for cell in cells]
    return {"name": name, "shape": [len(cells)], "datatype": datatype, "data": cells}


def _columns(X: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a frame, by name, as lists with None for missing cells; None for other inputs."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    return {str(column.name): [_cell(cell) for cell in column.to_list()] for column in frame.iter_columns()}


def _plain(X: Any) -> list[Any]:
    """Return arrays and lists as nested lists, and texts unchanged."""
    X = tensor_to_array(X)
    X = X.tolist() if isinstance(X, np.ndarray) else X
    return [_cell(row) if not isinstance(row, list | tuple | np.ndarray) else _plain(row) for row in X]


def _cell(cell: Any) -> Any:
    if cell is None or isinstance(cell, str | bool):
        return cell
    cell = cell.item() if hasattr(cell, "item") else cell
    if isinstance(cell, float) and np.isinf(cell):
        raise InputError("JSON has no infinity: fill infinite cells first.")
    if pd.isna(cell):
        return None
    return cell if isinstance(cell, int | float) else str(cell)


def _outputs(content: dict[str, Any]) -> Array:
    """Return the predictions in a version 2 reply: the output named "probabilities", or the last one."""
    named = {output["name"]: output for output in content["outputs"]}
    chosen = named.get("probabilities", content["outputs"][-1])
    return np.asarray(chosen["data"], dtype=np.float64).reshape(chosen["shape"])
