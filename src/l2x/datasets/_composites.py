"""Composites: a small colour picture on a texture, so that the pixels that decide the class are known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from l2x._base import progress_bar
from l2x._base.arrays import Array, is_whole
from l2x.datasets._fetching import DataFile, DataSet, LabelledData, npm_package
from l2x.errors import InputError, require

# The pictures are Noto Color Emoji (Apache 2.0). The package has several sheets called 64.png; the checksum
# identifies the one of 256 colours. Cells have margins of 1 pixel.
SHEET = DataFile("64.png", "e05d79b0ff388394596876103ded6ea5")
INDEX = DataFile("emoji.json", "7e30bda40874fcf27782e58a438784ea")
CELL, MARGIN = 64, 1
SIDE = 224

PICTURES = DataSet(
    "emoji",
    [SHEET, INDEX],
    [npm_package("emoji-datasource-google@16.0.0")],
    originals="64.png (of sheets-256) and emoji.json of the npm package emoji-datasource-google",
)
# The classes: name, and the beginnings of the names of their subcategories.
CLASSES = {
    "flag": ("country-flag",),
    "face": ("face-smiling", "face-affection", "face-concerned", "face-neutral", "face-tongue"),
    "heart": ("heart",),
    "animal": ("animal-mammal",),
    "fruit": ("food-fruit", "food-vegetable"),
    "vehicle": ("transport-ground",),
    "clothing": ("clothing",),
    "clock": ("time",),
    "building": ("place-building",),
    "hand": ("hand-",),
}
# Sides of the pasted picture, as shares of the image, and its rotation in degrees.
SHARES, DEGREES = (0.24, 0.36), 20
# A pixel belongs to the object if the picture covers at least this much of it.
OPAQUE = 0.5


@dataclass(frozen=True)
class Composites(LabelledData):
    """Images of `composites`, with the place of the object in each.

    Attributes
    ----------
    X : array of uint8, (n, side, side, 3)
        The images.
    y : array of int, (n,)
        Indices into `classes`.
    classes : tuple of str
        The names of the classes.
    objects : array of uint8, (n, side * side / 8)
        Which pixels belong to the object, as `numpy.packbits` packs them.

    Examples
    --------
    >>> one = np.zeros((32, 32), dtype=bool)
    >>> one[:16] = True
    >>> inside = np.packbits(one)[None]
    >>> made = Composites(np.zeros((1, 32, 32, 3), np.uint8), np.zeros(1, int), ("a",), inside)
    >>> made.covered(16).tolist()
    [[0.5, 0.5, 0.0, 0.0]]
    """

    objects: Array

    def covered(self, size: int) -> Array:
        """Return how much of the object lies in each square patch of `size` pixels, (n, d); rows sum to 1."""
        n, side = self.X.shape[:2]
        grid = -(-side // size)
        shares = np.empty((n, grid * grid))
        for i in range(n):
            plane = np.zeros((grid * size, grid * size), dtype=np.float32)
            plane[:side, :side] = self.pixels(i)
            shares[i] = plane.reshape(grid, size, grid, size).sum(axis=(1, 3)).ravel()
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def pixels(self, i: int) -> Array:
        """Return which pixels of image i belong to the object, (side, side) booleans."""
        side = self.X.shape[1]
        return np.unpackbits(self.objects[i], count=side * side).reshape(side, side).astype(bool)


def composites(
    n: int,
    *,
    seed: int = 0,
    side: int = SIDE,
    folder: str | Path | None = None,
    progress: bool = True,
) -> Composites:
    """Return n colour images of textures, each with one small picture; its category is the class.

    The pictures are about 600 emoji in ten categories, fetched from an npm package into the cache, with their
    md5 checked. Size, rotation and place are random. The truth is known: only the picture decides the class.

    Parameters
    ----------
    n : int
        Number of images.
    seed : int
        The same seed gives the same images.
    side : int
        Pixels along the side of an image.
    folder : path, optional
        Folder that holds the unpacked npm package.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Composites
        Images `.X`, (n, side, side, 3), labels `.y`, and `.covered(size)`, the truth.

    Raises
    ------
    InputError
        If n is no whole number, or the side has fewer than 32 pixels.

    Examples
    --------
    >>> data = composites(4)  # doctest: +SKIP
    >>> data.X.shape, data.covered(16).shape  # doctest: +SKIP
    ((4, 224, 224, 3), (4, 196))
    """
    if not is_whole(n) or not is_whole(side, least=32):
        raise InputError(
            f"n is {n!r} and side is {side!r}; expected whole numbers, and a side of at least 32."
        )
    pictures = _pictures(PICTURES.fetch(local=folder, progress=progress))
    rng = np.random.default_rng(seed)
    X, objects = np.empty((n, side, side, 3), dtype=np.uint8), []
    y = rng.integers(0, len(CLASSES), size=n)
    with progress_bar("making composites", n, visible=progress) as advance:
        for i in range(n):
            X[i], inside = _pasted(_texture(side, rng), pictures[y[i]], rng)
            objects.append(np.packbits(inside))
            if i % 100 == 99:
                advance(i + 1, f"{i + 1:,} images")
    return Composites(X, y, tuple(CLASSES), np.stack(objects))


@lru_cache(maxsize=1)
def _pictures(home: Path) -> list[list[Any]]:
    """Return the pictures of each class, as PIL images with an alpha channel."""
    image: Any = require("PIL.Image", extra="images")
    sheet = image.open(home / SHEET.name).convert("RGBA")
    index = json.loads((home / INDEX.name).read_text())
    step = CELL + 2 * MARGIN
    found: list[list[Any]] = []
    for beginnings in CLASSES.values():
        cells = [
            (MARGIN + entry["sheet_x"] * step, MARGIN + entry["sheet_y"] * step)
            for entry in index
            if entry["has_img_google"] and entry["subcategory"].startswith(beginnings)
        ]
        found.append([sheet.crop((x, y, x + CELL, y + CELL)) for x, y in cells])
    return found


def _texture(side: int, rng: np.random.Generator) -> Any:
    """Return a PIL image: waves and noise of several wavelengths in random colours."""
    image: Any = require("PIL.Image", extra="images")
    total = np.zeros((side, side, 3), dtype=np.float32)
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float32) / side
    for _ in range(2):
        angle, waves, phase = rng.uniform(0, np.pi), rng.uniform(2, 30), rng.uniform(0, 2 * np.pi)
        wave = np.sin(2 * np.pi * waves * (np.cos(angle) * rows + np.sin(angle) * columns) + phase)
        total += wave[..., None] * rng.normal(0, 18, size=3).astype(np.float32)
    for cells in (3, 8, 28, 112):
        noise = image.fromarray(rng.integers(0, 256, size=(cells, cells, 3), dtype=np.uint8))
        strength = rng.uniform(0.1, 0.5)
        total += (np.asarray(noise.resize((side, side), image.Resampling.BICUBIC)) - 127.5) * strength
    total += rng.uniform(60, 195, size=3)
    return image.fromarray(np.clip(total, 0, 255).astype(np.uint8))


def _pasted(background: Any, pictures: list[Any], rng: np.random.Generator) -> tuple[Array, Array]:
    """Return pixels of the background with one of the pictures, and which of them belong to it."""
    image: Any = require("PIL.Image", extra="images")
    side = background.width
    length = round(side * rng.uniform(*SHARES))
    picture = pictures[rng.integers(len(pictures))].resize((length, length), image.Resampling.BICUBIC)
    picture = picture.rotate(rng.uniform(-DEGREES, DEGREES), image.Resampling.BICUBIC)
    left, top = rng.integers(0, side - length + 1, size=2).tolist()
    background.paste(picture, (left, top), picture)
    inside = np.zeros((side, side), dtype=bool)
    inside[top : top + length, left : left + length] = np.asarray(picture)[..., 3] >= 255 * OPAQUE
    return np.asarray(background), inside
