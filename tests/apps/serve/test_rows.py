"""Rows of every view: texts, images, and arrays by default."""

from __future__ import annotations

import base64
import importlib.util
import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from service import KINDS, file_of
from starlette.testclient import TestClient

import l2x
from l2x.apps.serve import create_app
from l2x.apps.serve._requests import ServiceError
from l2x.apps.serve._rows import description, row_format
from l2x.display import png


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_accepts_its_own_example(kind: str) -> None:
    json_rows = row_format(l2x.load(file_of(kind)).features_)
    rows = json_rows.parse([json_rows.example()])
    assert json_rows.takes()["kind"] in ("table", "text", "image")
    assert len(json_rows.inputs(rows.cells)) == 1


def test_descriptions_of_values_are_short() -> None:
    assert description("x" * 500) == f"the text '{'x' * 24}…'"
    assert description(10**400) == "a number that is too large"
    assert description(True) == "true"
    assert description([1, 2]) == "a list of 2"


def test_spans_count_characters() -> None:
    json_rows = row_format(l2x.load(file_of("words")).features_)
    text = "🙂 שלום a GOOD film"
    inputs = json_rows.inputs([text])
    found = [json_rows.feature(inputs, [text], 0, index) for index in range(5)]
    assert [text[slice(*feature["span"])] for feature in found] == [feature["name"] for feature in found]
    assert found[2]["name"] == "GOOD"


@pytest.mark.parametrize("row", [None, 1, ["a"], {"text": "a"}])
def test_rows_that_are_not_texts(row: Any) -> None:
    with pytest.raises(ServiceError) as error:
        row_format(l2x.load(file_of("words")).features_).parse(["fine", row])
    assert error.value.details == [
        {"row": 1, "column": None, "given": error.value.details[0]["given"], "expected": "a text"}
    ]


def test_the_example_has_words_of_the_vocabulary() -> None:
    json_rows = row_format(l2x.load(file_of("words")).features_)
    assert len(json_rows.example().split()) == 8


def test_too_many_characters_are_refused() -> None:
    json_rows = row_format(l2x.load(file_of("words")).features_)
    many = ["a good film " * 10_000] * 16
    assert len(json_rows.parse(many)) == 16
    with pytest.raises(ServiceError, match="2,040,000 characters") as refused:
        json_rows.parse([*many, many[0]])
    assert refused.value.status == 413


GREY = np.random.default_rng(0).integers(0, 256, (3, 8, 12)).astype(np.uint8)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_png_file_is_the_image_of_its_bytes() -> None:
    json_rows = row_format(l2x.Patches(4).fit(GREY))
    picture = encoded(png(np.repeat(GREY[0][..., None], 3, axis=2) / 255))
    for row in (picture, f"data:image/png;base64,{picture}", GREY[0].tolist()):
        (image,) = json_rows.parse([row]).cells
        np.testing.assert_array_equal(image, GREY[0])
        assert image.dtype == np.float32


def test_white_is_the_brightest_pixel_of_training() -> None:
    json_rows = row_format(l2x.Patches(4).fit(GREY / 255 * 16))
    (image,) = json_rows.parse([encoded(png(np.ones((8, 12, 3))))]).cells
    np.testing.assert_allclose(image, (GREY / 255 * 16).max())


def test_colours() -> None:
    colours = np.random.default_rng(1).integers(0, 256, (2, 3, 8, 8)).astype(np.uint8)
    json_rows = row_format(l2x.Patches(4).fit(colours))
    (image,) = json_rows.parse([encoded(png(np.moveaxis(colours[0], 0, -1) / 255))]).cells
    np.testing.assert_allclose(image, colours[0], atol=1e-3)


def bomb() -> str:
    """Return a small file that claims to have 60,000 x 60,000 pixels."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 10_000)), (b"IEND", b""))
    return encoded(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
            for kind, content in parts
        )
    )


@pytest.mark.parametrize(
    "row",
    [
        None, 7, "", "not base64!", encoded(b"GIF89a"), encoded(png(np.zeros((5, 5, 3)))), bomb(),
        encoded(png(np.zeros((8, 12, 3)))[:45]), [[1, 2], [3]], [["a"] * 12] * 8, [[None] * 12] * 8,
        [[1e999] * 12] * 8, [[10**400] * 12] * 8, [[1.0] * 8] * 12, [[[1.0] * 12] * 8], [], {},
    ],
)  # fmt: skip
def test_rows_that_are_not_images(row: Any) -> None:
    json_rows = row_format(l2x.Patches(4).fit(GREY))
    with pytest.raises(ServiceError) as error:
        json_rows.parse([GREY[0].tolist(), row])
    assert error.value.status == 422
    assert error.value.details[0]["row"] == 1


def test_formats_other_than_png_are_not_opened() -> None:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(GREY[0]).save(buffer, "BMP")
    with pytest.raises(ServiceError):
        row_format(l2x.Patches(4).fit(GREY)).parse([encoded(buffer.getvalue())])


@pytest.fixture(scope="module")
def signals() -> Any:
    """The module examples/new_view.py, whose view declares nothing for the service."""
    path = Path(__file__).parents[3] / "examples" / "new_view.py"
    spec = importlib.util.spec_from_file_location("served_view_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_view_of_ones_own_is_served_as_lists_of_numbers(
    signals: Any, tmp_path: Path, tiny: l2x.TrainingPlan
) -> None:
    X = np.random.default_rng(0).normal(size=(200, 40))
    model = signals.loud_third_second
    explainer = l2x.Explainer(model, 1, features=signals.Seconds(), training=tiny).fit(X)
    path, wanted = explainer.save(tmp_path / "signal.l2x"), explainer.explain(X[:5])
    with TestClient(create_app([path], {"signal": model})) as client:
        route = "/v1/explainers/signal/explain"
        reply = client.post(route, json={"rows": X[:5].tolist()})
        assert reply.status_code == 200, reply.text
        assert [row["features"][0]["name"] for row in reply.json()["rows"]] == [n for (n,) in wanted.names]
        np.testing.assert_allclose([row["prediction"] for row in reply.json()["rows"]], model(X[:5]))
        about = client.get("/v1/explainers/signal").json()
        assert (about["unit"], about["takes"]) == ("second", {"kind": "array", "shape": [40]})
        for wrong in ([1.0] * 39, [["x"] * 40], ["x"] * 40, 7, [10**400] * 40):
            details = client.post(route, json={"rows": [X[0].tolist(), wrong]}).json()["error"]["details"]
            assert [detail["row"] for detail in details] == [1]
            assert "[40]" in details[0]["expected"]
        tensor = {"name": "array", "shape": [5, 40], "datatype": "FP64", "data": X[:5].ravel().tolist()}
        output = client.post("/v2/models/signal/infer", json={"inputs": [tensor]}).json()["outputs"][0]
        np.testing.assert_allclose(np.reshape(output["data"], output["shape"]), model(X[:5]))
        sink = io.BytesIO()
        table = pa.table({f"s{i}": X[:, i] for i in range(40)})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        stream = client.post(f"{route}.arrow", content=sink.getvalue())
        names = pa.ipc.open_stream(stream.content).read_all()["feature_1"].to_pylist()
        assert names == [name for (name,) in explainer.explain(X).names]
        page = client.get("/").text
        assert "4 seconds" in page
        assert 'class="bars' in page
        form = {"k": "2", "numbers": str(X[0].tolist())}
        assert "second 3" in client.post("/playground/signal", data=form).text
        assert "[40]" in client.post("/playground/signal", data=form | {"numbers": "[1, 2"}).text


def test_rows_that_the_view_does_not_accept_are_refused(signals: Any) -> None:
    class Quiet(signals.Seconds):  # type: ignore[misc,name-defined]
        def check(self, X: Any) -> Any:
            if np.abs(X).max() > 100:
                raise l2x.errors.InputError("a signal is louder than 100")
            return super().check(X)

    json_rows = row_format(Quiet().fit(np.random.default_rng(0).normal(size=(20, 40))))
    assert len(json_rows.parse([json_rows.example()])) == 1
    with pytest.raises(ServiceError, match="louder than 100"):
        json_rows.parse([[101.0] * 40])
