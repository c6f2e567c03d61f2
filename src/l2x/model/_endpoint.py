"""A model behind an address: two small JSON protocols, retries, and several requests at a time.

    POST https://host/v1/models/churn/predict       what `l2x serve --model` speaks, and any other address
        {"rows": [{"age": 41, "city": "Oslo"}, ...]}    objects by column, lists, or texts as strings
        {"answers": [[0.2, 0.8], ...]}                  class probabilities, or one number per row

    POST https://host/v2/models/churn/infer         KServe's Open Inference Protocol, version 2
        {"inputs": [{"name": "age", "shape": [2], "datatype": "FP64", "data": [41, 27]}, ...]}
        {"outputs": [{"name": "...", "shape": [2, 2], "datatype": "FP64", "data": [0.2, 0.8, ...]}]}

Missing cells are null. A table has one input per column in version 2; arrays and texts have a single one.
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

# Statuses that a later attempt may not have: too slow, too many, and a server or gateway in trouble.
TRANSIENT = (408, 429, 500, 502, 503, 504)
# Seconds between attempts grow from about the first to the second; at random, so that clients do not return
# all at once.
FIRST_WAIT, LONGEST_WAIT = 0.25, 60.0
# Characters of a refusal that an error repeats.
SHOWN = 200


@dataclass(eq=False, repr=False)
class Endpoint:
    """A model that answers over HTTP, for `Explainer(Endpoint(...))`, `l2x.label` and `as_black_box`.

    Parameters
    ----------
    url : the model's address: https://host/v1/models/NAME, https://host/v2/models/NAME, or any other address
        that takes `{"rows": ...}`. A user and a password, https://user:password@host, are sent as basic
        authentication. Neither the password nor a query is shown in `name`, in the repr or in errors, but
        the HTTP client logs the query: keep keys in the variable `token_variable`
    in_flight : requests at a time
    rows_per_request : at most; servers refuse requests that are too long
    requests_per_second : at most; None for no limit
    timeout : seconds for one attempt
    attempts : for one request, if the server is busy, in trouble, or the connection breaks; Retry-After is
        obeyed
    token_variable : the environment variable whose value is sent as a bearer token, if it is set and the url
        has no password. It is read with every request, and never kept or shown

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
                "in_flight, rows_per_request and attempts are at least 1, and timeout is above 0."
            )
        if self.requests_per_second is not None and self.requests_per_second <= 0:
            raise InputError(f"requests_per_second is {self.requests_per_second}; give a number above 0.")
        self._connection = _Connection(self)

    @property
    def name(self) -> str:
        """The address, without a password or a query that may hold one."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, _host(parts), parts.path, "", ""))

    def __repr__(self) -> str:
        options = [
            f"{option.name}={getattr(self, option.name)!r}" for option in fields(self)[1:] if option.repr
        ]
        return f"{type(self).__name__}({', '.join([repr(self.name), *options])})"

    @property
    def version_2(self) -> bool:
        """Whether it speaks KServe's protocol."""
        return "/v2/models/" in urlsplit(self.url).path

    def __call__(self, X: Any) -> Array:
        """The answers about all rows of X, in one request."""
        body = _version_2(X) if self.version_2 else {"rows": _rows(X)}
        content = json.dumps(body, allow_nan=False).encode()
        reply = self._connection.post(content)
        try:
            said = json.loads(reply)
            answers = _outputs(said) if self.version_2 else said["answers"]
            return np.asarray(answers, dtype=np.float64)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            wanted = "outputs" if self.version_2 else "answers"
            shown = self._connection.shown(reply.decode(errors="replace"))
            raise BlackBoxError(f"{self.name} replied without {wanted} of numbers: {shown}") from error

    def interrupt(self) -> None:
        """Threads that wait for their turn, or to try again, give up; later requests are not concerned."""
        before, self._connection = self._connection, _Connection(self)
        before.interrupted.set()

    def __getstate__(self) -> dict[str, Any]:
        """Connections do not travel to other processes."""
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
        # Apart from each other: the client logs the address, with a password if it has one.
        self.target, self.auth = _target(endpoint.url), _auth(endpoint.url)
        self.lock, self.next_at = threading.Lock(), 0.0
        self.interrupted = threading.Event()

    def post(self, content: bytes) -> bytes:
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
            raise BlackBoxError(f"{self.endpoint.name} was not asked: interrupted.")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token := os.environ.get(self.endpoint.token_variable):
            headers["Authorization"] = f"Bearer {token}"
        reply = self.client.post(self.target, content=content, headers=headers, auth=self.auth)
        if reply.status_code == 200:
            return bytes(reply.content)
        said = self.shown(reply.text)
        message = f"{self.endpoint.name} answered {reply.status_code} {reply.reason_phrase}: {said}"
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
    """A refusal that may pass; after these `seconds`, if the server says so."""

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True)
class _Wait:
    """As long as the server asks for, and otherwise longer each time."""

    growing: Any

    def __call__(self, state: Any) -> float:
        error = state.outcome.exception()
        asked = error.seconds if isinstance(error, _TransientError) else None
        return float(self.growing(state)) + (asked or 0.0)


def _seconds(after: str | None) -> float | None:
    """Of a Retry-After: seconds, or a date."""
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
    except ValueError:  # which may repeat a password: the port of "https://ann:secret/@host" is "secret"
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
    """Return the address that takes requests: a model's, with its protocol's verb, without a password."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for version, verb in (("/v1/models/", "predict"), ("/v2/models/", "infer")):
        if version in path and not path.endswith(f"/{verb}"):
            path = f"{path}/{verb}"
    return urlunsplit(parts._replace(netloc=_host(parts), path=path))


def _rows(X: Any) -> list[Any]:
    """Rows as JSON has them: objects by column name, lists of numbers, or texts."""
    columns = _columns(X)
    if columns is not None:
        names = list(columns)
        return [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return _plain(X)


def _version_2(X: Any) -> dict[str, Any]:
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
    """One column: its type is that of its cells that are there."""
    kinds = {type(cell) for cell in cells if cell is not None}
    datatype = "FP64"
    if kinds == {bool}:
        datatype = "BOOL"
    elif str in kinds:
        datatype = "BYTES"
        cells = [cell if cell is None else str(cell) for cell in cells]
    return {"name": name, "shape": [len(cells)], "datatype": datatype, "data": cells}


def _columns(X: Any) -> dict[str, list[Any]] | None:
    """The columns of a frame, by name, as plain Python with None where a cell is missing; None for others."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    return {str(column.name): [_cell(cell) for cell in column.to_list()] for column in frame.iter_columns()}


def _plain(X: Any) -> list[Any]:
    """Arrays and lists as nested lists; texts as they are."""
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


def _outputs(said: dict[str, Any]) -> Array:
    """The answers of a version 2 reply: the output called probabilities, or the last one, in its shape."""
    named = {output["name"]: output for output in said["outputs"]}
    chosen = named.get("probabilities", said["outputs"][-1])
    return np.asarray(chosen["data"], dtype=np.float64).reshape(chosen["shape"])
