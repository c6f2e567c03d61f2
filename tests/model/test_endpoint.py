"""A model behind an address: both protocols, retries, the token, the rate, requests side by side."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import logging
import pickle
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flawed_server import Flawed, says, serving

import l2x
from l2x.model import _endpoint as module
from l2x.model._endpoint import Endpoint
from l2x.model._querying import Part, query_parts

X = np.random.default_rng(0).normal(size=(60, 3))


def expected(cells: Any) -> np.ndarray:
    p = np.array([says(cell) for cell in cells])
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.001)
    monkeypatch.delenv("L2X_TOKEN", raising=False)


@pytest.mark.parametrize("model", ["/v1/models/m", "/v2/models/m", "/v2/models/m/infer", "/score"])
def test_both_protocols_take_arrays_frames_and_texts(model: str) -> None:
    frame = pd.DataFrame(
        {"x": [0.5, np.nan, -1], "city": ["Oslo", None, "Bergen"], "on": [True, False, True]}
    )
    with serving(Flawed(), model) as server:
        endpoint = l2x.as_black_box(server.url)
        assert np.allclose(endpoint(X), expected(X[:, 0]))
        assert np.allclose(endpoint(frame), expected([0.5, None, -1]))
        assert np.allclose(endpoint(["a", "long text"]), expected(["a", "long text"]))
        sent = [request["body"] for request in server.requests]
    if "v2" in model:
        assert sent[1]["inputs"] == [
            {"name": "x", "shape": [3], "datatype": "FP64", "data": [0.5, None, -1.0]},
            {
                "name": "city",
                "shape": [3],
                "datatype": "BYTES",
                "parameters": {"content_type": "str"},
                "data": ["Oslo", None, "Bergen"],
            },
            {"name": "on", "shape": [3], "datatype": "BOOL", "data": [True, False, True]},
        ]
        assert sent[2]["inputs"][0]["datatype"] == "BYTES"
    else:
        assert sent[1]["rows"][1] == {"x": None, "city": None, "on": False}
        assert sent[2] == {"rows": ["a", "long text"]}


def test_an_endpoint_in_trouble_predictions_every_row_once(tmp_path: Path) -> None:
    """One request in five fails: busy, in trouble, or the connection breaks."""
    kinds = itertools.cycle([429, 500, 503, "drop"])

    def faults(number: int) -> int | str | None:
        return next(kinds) if number % 5 == 1 else None

    many = np.concatenate([X] * 20)
    with serving(Flawed(faults, retry_after="0")) as server:
        black_box = l2x.as_black_box(Endpoint(server.url, in_flight=4))
        predictions = l2x.label(black_box, many, tmp_path / "a.parquet", progress=False)
        assert len(server.requests) - black_box.calls == sum(
            number % 5 == 1 for number in range(len(server.requests))
        )
    assert np.allclose(predictions.values, expected(many[:, 0]))
    assert len(predictions) == len(many)


def test_requests_are_under_way_side_by_side(tmp_path: Path) -> None:
    with serving(Flawed(seconds_per_row=0.004)) as server:
        endpoint = Endpoint(server.url, in_flight=5)
        l2x.label(endpoint, np.concatenate([X] * 10), tmp_path / "a.parquet", progress=False)
        assert server.most_at_once == 5


def test_requests_have_no_more_rows_than_the_server_takes(tmp_path: Path) -> None:
    with serving(Flawed()) as server:
        l2x.label(Endpoint(server.url, rows_per_request=10), X, tmp_path / "a.parquet", progress=False)
        assert max(len(request["body"]["rows"]) for request in server.requests) <= 10


def test_retry_after_is_obeyed() -> None:
    with serving(Flawed(lambda number: 429 if number == 0 else None, retry_after="0.4")) as server:
        l2x.as_black_box(server.url)(X[:2])
        first, second = (request["at"] for request in server.requests)
    assert second - first >= 0.4


def test_a_limit_of_requests_per_second() -> None:
    with serving(Flawed()) as server:
        endpoint = l2x.as_black_box(Endpoint(server.url, requests_per_second=20))
        for _ in range(5):
            endpoint(X[:1])
        times = [request["at"] for request in server.requests]
    assert times[-1] - times[0] >= 4 / 20 - 0.02


def test_after_an_interruption_nothing_is_tried_again() -> None:
    trouble = [503]
    with serving(Flawed(lambda number: next(iter(trouble), None), retry_after="600")) as server:
        black_box = l2x.as_black_box(Endpoint(server.url, in_flight=2))

        def interrupted() -> Iterator[Part]:
            yield Part(0, X[:8], X[:8])
            while not server.requests:
                time.sleep(0.01)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            query_parts(black_box, interrupted(), lambda part, predictions: None, most=8)
        for thread in threading.enumerate():
            if thread.name.startswith("l2x-query"):
                thread.join(60)
                assert not thread.is_alive()
        assert len(server.requests) == 1
        trouble.clear()
        assert np.allclose(black_box(X), expected(X[:, 0]))  # the next run queries as ever


def test_a_permanent_error_says_which_rows_and_keeps_the_others(tmp_path: Path) -> None:
    with (
        serving(Flawed(lambda number: 422 if number >= 2 else None)) as server,
        pytest.raises(l2x.errors.BlackBoxError, match=r"Rows \d+ to \d+: .*422.*no luck"),
    ):
        l2x.label(Endpoint(server.url, in_flight=1), X, tmp_path / "a.parquet", progress=False)
    with (
        serving(Flawed(lambda number: 503)) as server,
        pytest.raises(l2x.errors.BlackBoxError, match="3 attempts"),
    ):
        l2x.as_black_box(Endpoint(server.url, attempts=3))(X)
    with pytest.raises(l2x.errors.BlackBoxError, match="cannot be reached in 2 attempts"):
        l2x.as_black_box(Endpoint(server.url, attempts=2))(X)


def test_the_token_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L2X_TOKEN", "s3cret")
    with serving(Flawed(lambda number: 403)) as server:
        endpoint = Endpoint(server.url)
        with pytest.raises(l2x.errors.BlackBoxError, match="variable L2X_TOKEN") as caught:
            l2x.as_black_box(endpoint)(X)
        assert server.requests[0]["headers"]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(caught.value) + repr(endpoint) + str(pickle.dumps(endpoint))
    # A server may repeat it, also where an error shows only the beginning of its reply.
    monkeypatch.setattr(endpoint._connection, "post", lambda content: b"." * (module.SHOWN - 3) + b"s3cret")
    with pytest.raises(l2x.errors.BlackBoxError, match="replied without predictions") as caught:
        endpoint(X)
    assert "s3c" not in str(caught.value)
    assert Endpoint("https://ann:pass@host:8080/v1/models/m?key=1").name == "https://host:8080/v1/models/m"


def test_an_endpoint_travels_to_another_process() -> None:
    with serving(Flawed()) as server:
        endpoint = pickle.loads(pickle.dumps(Endpoint(server.url)))
        assert np.allclose(endpoint(X), expected(X[:, 0]))


@pytest.mark.parametrize("reply", [b"[]", b"no", b'{"predictions": [["a"]]}', b'{"predictions": null}'])
def test_replies_that_are_no_predictions(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint("http://127.0.0.1:9/v1/models/m")
    monkeypatch.setattr(endpoint._connection, "post", lambda content: reply)
    with pytest.raises(l2x.errors.BlackBoxError):
        l2x.as_black_box(endpoint)(X)


def test_what_cannot_be_queried() -> None:
    with pytest.raises(l2x.errors.InputError, match="expected https"):
        Endpoint("ftp://host/model")
    with pytest.raises(l2x.errors.InputError, match="requests_per_second is 0"):
        Endpoint("https://host", requests_per_second=0)
    with pytest.raises(l2x.errors.InputError, match="at least 1"):
        Endpoint("https://host", in_flight=0)
    with pytest.raises(l2x.errors.BlackBoxError, match="no infinity"):
        l2x.as_black_box("http://127.0.0.1:9/v1/models/m")(np.array([[np.inf]]))


def test_a_password_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Names, errors and the logs of any library hold no password; names and errors hold no query either."""
    faults: list[Any] = [403, None, None]
    caplog.set_level(logging.DEBUG)
    with serving(Flawed(lambda number: faults[number])) as server:
        url = server.url.replace("http://", "http://ann:s3cr%2Ft@") + "?key=t0psecret"
        endpoint = Endpoint(url, attempts=1)
        black_box = l2x.as_black_box(endpoint)
        with pytest.raises(l2x.errors.BlackBoxError, match="403") as refused:  # the server repeats the header
            black_box(X)
        assert np.allclose(black_box(X), expected(X[:, 0]))
        assert np.allclose(l2x.as_black_box(url)(X), expected(X[:, 0]))
        assert {request["path"] for request in server.requests} == {"/v1/models/m/predict?key=t0psecret"}
        header = server.requests[0]["headers"]["Authorization"]
        assert header == "Basic " + base64.b64encode(b"ann:s3cr/t").decode()
    with pytest.raises(l2x.errors.BlackBoxError, match="cannot be reached") as gone:
        black_box(X)
    shown = [repr(endpoint), str(endpoint), black_box.name]
    shown += ["".join(traceback.format_exception(error)) for error in (refused.value, gone.value)]
    for text in [*shown, caplog.text]:
        assert "127.0.0.1" in text
        assert "s3cr" not in text
        assert header.removeprefix("Basic ") not in text
    assert "t0psecret" not in "".join(shown)


def test_a_copy_of_an_endpoint_still_has_the_password() -> None:
    with serving(Flawed()) as server:
        endpoint = Endpoint(server.url.replace("http://", "http://ann:s3cret@"))
        for other in (pickle.loads(pickle.dumps(endpoint)), dataclasses.replace(endpoint, in_flight=2)):
            other(X)
        assert {request["headers"]["Authorization"][:6] for request in server.requests} == {"Basic "}


def test_a_repr_can_be_read() -> None:
    text = repr(Endpoint("https://ann:s3cret@host:8080/v1/models/m?key=1", in_flight=3))
    assert text.startswith("Endpoint('https://host:8080/v1/models/m', in_flight=3, ")


def test_the_name_of_an_address_in_brackets() -> None:
    assert Endpoint("http://[::1]:8080/v1/models/m").name == "http://[::1]:8080/v1/models/m"


@pytest.mark.parametrize(
    "url",
    [
        "ann:s3cret@host/v1/models/m",  # no scheme
        "https://ann:s3cret@",  # no host
        "ftp://ann:s3cret@host/m?key=s3cret",
        "https://ann:s3cret/@host/v1/models/m",  # not encoded: "ann" is the host, and "s3cret" the port
        "https://ann:s3cret?@host/v1/models/m",
        "https://ann:s3cret@host:99999/v1/models/m",
        "https://ann:s3cret@[host/v1/models/m",
    ],
)
def test_an_address_that_cannot_be_read_does_not_show_its_password(url: str) -> None:
    for make in (Endpoint, l2x.as_black_box):
        if make is l2x.as_black_box and "://" not in url:
            continue  # taken for the name of a file
        with pytest.raises(l2x.errors.InputError) as refused:
            make(url)
        assert "s3cr" not in "".join(traceback.format_exception(refused.value))
