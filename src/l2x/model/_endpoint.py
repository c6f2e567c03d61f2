"""A model behind an address: two small JSON protocols, retries, and several requests at a time.

    POST https://host/v1/models/churn/predict       the protocol of `l2x serve --model`, and the default
        {"rows": [{"age": 41, "city": "Oslo"}, ...]}    objects by column, lists, or texts as strings
        {"predictions": [[0.2, 0.8], ...]}              class probabilities, or one number per row

    POST https://host/v2/models/churn/infer         KServe's Open Inference Protocol, version 2
        {"inputs": [{"name": "age", "shape": [2], "datatype": "FP64", "data": [41, 27]}, ...]}
        {"outputs": [{"name": "...", "shape": [2, 2], "datatype": "FP64", "data": [0.2, 0.8, ...]}]}

Missing cells are null. In version 2, a table has one input per column; arrays and texts have one input. The
content types of MLServer ("pd" for a table, "str" for texts) are parameters, which other servers ignore.
"""

from __future__ import annotations

import base64
import json
import math
import os
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import narwhals as nw
import numpy as np
import pandas as pd

from l2x._base.arrays import Array, only_numbers, tensor_to_array
from l2x.errors import BlackBoxError, InputError, require
from l2x.model._deadlines import Deadlines

# Statuses after which another attempt may succeed: timeouts, too many requests, and server errors.
TRANSIENT = (408, 429, 500, 502, 503, 504)
# The waiting time between attempts, in seconds, grows from the first to the second number. It is random, so
# that clients do not return all at once.
FIRST_WAIT, LONGEST_WAIT = 0.25, 60.0
# Seconds that Retry-After may ask for, and those above which the wait is announced.
LONGEST_RETRY_AFTER, SHORT_RETRY_AFTER = 600.0, 10.0
# Usual names of outputs with probabilities in version 2; MLServer returns the first only on request.
PROBABILITIES = ("predict_proba", "probabilities", "probability", "predictions")
# Characters of a server's reply that an error repeats.
SHOWN = 200
# Bytes of a reply with an error that are read.
ERROR_BYTES = 1 << 14


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
        Seconds for one attempt, from the connection to the last byte of the reply.
    attempts : int
        The number of attempts for one request, if the server is busy or fails, or the connection breaks. The
        header Retry-After is obeyed up to ten minutes; a longer time is an error.
    max_reply : int
        The most bytes of a reply.
    output : str, optional
        Version 2: the name of the output that holds the predictions. By default the server is asked for
        probabilities: for the output that its metadata list under a usual name (`predict_proba`,
        `probabilities`, `predictions`), or the last; if they list none, as those of MLServer do, for
        `predict_proba`, and for its default output if there is no such output.
    one_tensor : bool
        Version 2: whether a table of numbers is sent as one tensor (rows, columns), for models that were
        trained on arrays, instead of one tensor for each column.
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
    max_reply: int = 1 << 26
    output: str | None = None
    one_tensor: bool = False
    token_variable: str = "L2X_TOKEN"
    _connection: _Connection = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_url(self.url)
        if min(self.in_flight, self.rows_per_request, self.attempts, self.max_reply) < 1 or self.timeout <= 0:
            raise InputError(
                "in_flight, rows_per_request, attempts and max_reply must be at least 1, and timeout above 0."
            )
        if (self.output is not None or self.one_tensor) and not self.version_2:
            raise InputError(
                f"output and one_tensor are for addresses with /v2/models/ (KServe), not for {self.name}."
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
        if self.version_2:
            return self._infer(_version_2(X, one_tensor=self.one_tensor))
        reply = self._connection.post(_encoded({"rows": _rows(X)}))
        with self._reading(reply, "predictions"):
            return _as_numbers(json.loads(reply)["predictions"])

    def _infer(self, body: dict[str, Any]) -> Array:
        """Return the predictions for tensors, by KServe's protocol."""
        with self._connection.lock_of_output:
            if not self._connection.output_known:
                return self._first_infer(body)
        output = self._connection.output
        return self._inferred(body, output)

    def _first_infer(self, body: dict[str, Any]) -> Array:
        """Do the same, and find out which output holds the predictions."""
        connection = self._connection
        wanted: str | None = self.output or connection.listed_output() or PROBABILITIES[0]
        try:
            predictions = self._inferred(body, wanted)
        except RefusedError:
            if self.output is not None:
                raise
            wanted, predictions = None, self._inferred(body, None)
        connection.output, connection.output_known = wanted, True
        return predictions

    def _inferred(self, body: dict[str, Any], output: str | None) -> Array:
        wanted = {} if output is None else {"outputs": [{"name": output}]}
        reply = self._connection.post(_encoded(body | wanted))
        with self._reading(reply, "outputs"):
            chosen = _chosen_output(json.loads(reply)["outputs"], self.output)
            predictions = _as_numbers(chosen["data"]).reshape(chosen["shape"])
        if self.output is None and str(chosen["datatype"]).startswith(("INT", "UINT")):
            raise BlackBoxError(
                f"{self.name} returned whole numbers as '{chosen['name']}', which seem to be classes; "
                "l2x needs probabilities or predicted values. Name the output that holds them: output=..."
            )
        return predictions

    @contextmanager
    def _reading(self, reply: bytes, wanted: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
            shown = self._connection.shown(reply.decode(errors="replace"))
            raise BlackBoxError(f"{self.name} replied without {wanted} of numbers: {shown}") from error

    def interrupt(self) -> None:
        """Make threads give up that wait, for a reply or to try again; later requests are not affected."""
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
        self.interrupted = threading.Event()
        self.deadlines = Deadlines(self.interrupted)
        self.deadlines.install(self.client)
        weakref.finalize(self, self.client.close)
        # The client logs the address: keep the password apart from it.
        self.target, self.auth = _target(endpoint.url), _auth(endpoint.url)
        self.lock, self.next_at = threading.Lock(), 0.0
        # The output to ask for in version 2, None for the server's default; found with the first request.
        self.lock_of_output, self.output_known = threading.Lock(), False
        self.output: str | None = None

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
        reply, body = self._exchange("POST", self.target, content)
        if reply.status_code == 200:
            return body
        status = f"{reply.status_code} {reply.reason_phrase}"
        message = f"{self.endpoint.name} returned {status}: {self.shown(body.decode(errors='replace'))}"
        if reply.status_code in TRANSIENT:
            raise _TransientError(message, self._allowed(_seconds(reply.headers.get("Retry-After")), message))
        if reply.status_code in (401, 403):
            message += f" (The token is read from the variable {self.endpoint.token_variable}.)"
        raise RefusedError(message)

    def _exchange(self, method: str, target: str, content: bytes | None = None) -> tuple[Any, bytes]:
        """Return the reply to one request and its body, of which an error may be cut off."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token := os.environ.get(self.endpoint.token_variable):
            headers["Authorization"] = f"Bearer {token}"
        pieces: list[bytes] = []
        size = 0
        options: dict[str, Any] = {"content": content, "headers": headers, "auth": self.auth}
        with (
            self._decoding(),
            self.deadlines.attempt(self.endpoint.timeout),
            self.client.stream(method, target, **options) as reply,
        ):
            for piece in reply.iter_bytes():
                pieces.append(piece)
                size += len(piece)
                if reply.status_code != 200 and size > ERROR_BYTES:
                    break
                if size > self.endpoint.max_reply:
                    raise BlackBoxError(
                        f"{self.endpoint.name} replied with more than {self.endpoint.max_reply:,} bytes; if "
                        "that is right, send fewer rows per request or raise max_reply."
                    )
        return reply, b"".join(pieces)

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except self.httpx.DecodingError as error:  # of Content-Encoding
            raise BlackBoxError(
                f"{self.endpoint.name} replied with compressed data that cannot be read: "
                f"{self.shown(str(error))}"
            ) from error

    def _allowed(self, seconds: float | None, message: str) -> float | None:
        """Return the seconds that the server asks to wait; raise an error if they are too many."""
        if seconds is None or seconds <= SHORT_RETRY_AFTER:
            return seconds
        if seconds > LONGEST_RETRY_AFTER:
            raise BlackBoxError(
                f"{message} (Retry-After asks to wait {seconds:,.0f} s, but l2x waits at most "
                f"{LONGEST_RETRY_AFTER:.0f} s; try again later.)"
            )
        warnings.warn(f"{self.endpoint.name} asks to wait {seconds:.0f} s.", stacklevel=2)
        return seconds

    def listed_output(self) -> str | None:
        """Return the output with predictions in a model's metadata in version 2; None if they list none."""
        parts = urlsplit(self.target)
        target = urlunsplit(parts._replace(path=parts.path.removesuffix("/infer")))
        try:
            reply, body = self._exchange("GET", target)
            names = [str(output["name"]) for output in json.loads(body)["outputs"]]
        except (self.httpx.TransportError, ValueError, TypeError, KeyError):
            return None  # metadata are not essential
        if reply.status_code != 200 or not names:
            return None
        return next((name for name in PROBABILITIES if name in names), names[-1])

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


class RefusedError(BlackBoxError):
    """A request that the server refuses, now and later."""


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
    """Return the seconds of a Retry-After header, which has seconds or a date; None if it has neither.

    >>> _seconds("12"), _seconds("1e999"), _seconds("nan"), _seconds("soon")
    (12.0, inf, None, None)
    """
    if after is None:
        return None
    try:
        seconds = float(after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return None if math.isnan(seconds) else max(0.0, seconds)


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


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, allow_nan=False).encode()


def _as_numbers(given: Any) -> Array:
    """Return lists of numbers as an array; raise a ValueError for booleans, texts and other types."""
    if not only_numbers(given):
        raise ValueError("not lists of numbers")
    return np.asarray(given, dtype=np.float64)


def _version_2(X: Any, *, one_tensor: bool = False) -> dict[str, Any]:
    """Return the body of a request in KServe's protocol."""
    columns = _columns(X)
    if columns is not None and one_tensor:
        X = _matrix(columns)
    elif columns is not None:
        inputs = [_tensor(name, cells) for name, cells in columns.items()]
        return {"parameters": {"content_type": "pd"}, "inputs": inputs}
    if isinstance(X, list) and X and isinstance(X[0], str):
        return {"inputs": [_tensor("text", X)]}
    array = np.asarray(X)
    flat = _plain(array.ravel())
    tensor = {"name": "input", "shape": list(array.shape), "datatype": "FP64", "data": flat}
    return {"inputs": [tensor]}


def _matrix(columns: dict[str, list[Any]]) -> Array:
    """Return columns of numbers as an array (rows, columns), with NaN for missing cells."""
    for name, cells in columns.items():
        if wrong := next((cell for cell in cells if isinstance(cell, str)), None):
            raise InputError(f"one_tensor needs numbers, but column '{name}' has the text {wrong[:20]!r}.")
    return np.array(list(columns.values()), dtype=np.float64).T


def _tensor(name: str, cells: list[Any]) -> dict[str, Any]:
    """Return a column as a tensor of KServe's protocol; the cells that are not missing decide its type."""
    kinds = {type(cell) for cell in cells if cell is not None}
    tensor: dict[str, Any] = {"name": name, "shape": [len(cells)], "datatype": "FP64"}
    if kinds == {bool}:
        tensor["datatype"] = "BOOL"
    elif str in kinds:
        tensor |= {"datatype": "BYTES", "parameters": {"content_type": "str"}}
        cells = [cell if cell is None else str(cell) for cell in cells]
    return tensor | {"data": cells}


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


def _chosen_output(outputs: list[dict[str, Any]], wanted: str | None) -> dict[str, Any]:
    """Return the output in a reply with this name, or with a usual name of probabilities, or the last one."""
    named = {output["name"]: output for output in outputs}
    if wanted is not None:
        return named[wanted]
    return next((named[name] for name in PROBABILITIES if name in named), outputs[-1])
