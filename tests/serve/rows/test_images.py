"""Images as lists and as PNG files."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import l2x
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve.rows._reader import reader_of
from l2x.display._images import png

GREY = np.random.default_rng(0).integers(0, 256, (3, 8, 12)).astype(np.uint8)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_png_file_is_the_image_of_its_bytes() -> None:
    reader = reader_of(l2x.Patches(4).fit(GREY))
    picture = encoded(png(np.repeat(GREY[0][..., None], 3, axis=2) / 255))
    for row in (picture, f"data:image/png;base64,{picture}", GREY[0].tolist()):
        (image,) = reader.parse([row]).cells
        np.testing.assert_array_equal(image, GREY[0])
        assert image.dtype == np.float32


def test_white_is_the_brightest_pixel_of_training() -> None:
    reader = reader_of(l2x.Patches(4).fit(GREY / 255 * 16))
    (image,) = reader.parse([encoded(png(np.ones((8, 12, 3))))]).cells
    np.testing.assert_allclose(image, (GREY / 255 * 16).max())


def test_colours() -> None:
    colours = np.random.default_rng(1).integers(0, 256, (2, 3, 8, 8)).astype(np.uint8)
    reader = reader_of(l2x.Patches(4).fit(colours))
    (image,) = reader.parse([encoded(png(np.moveaxis(colours[0], 0, -1) / 255))]).cells
    np.testing.assert_allclose(image, colours[0], atol=1e-3)


def bomb() -> str:
    """A small file that says it has 60,000 x 60,000 pixels."""
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
def test_what_is_no_image(row: Any) -> None:
    reader = reader_of(l2x.Patches(4).fit(GREY))
    with pytest.raises(ServiceError) as error:
        reader.parse([GREY[0].tolist(), row])
    assert error.value.status == 422
    assert error.value.details[0]["row"] == 1


def test_formats_other_than_png_are_not_opened() -> None:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(GREY[0]).save(buffer, "BMP")
    with pytest.raises(ServiceError):
        reader_of(l2x.Patches(4).fit(GREY)).parse([encoded(buffer.getvalue())])
