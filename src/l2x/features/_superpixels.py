"""Superpixels: each feature is a segment of similar neighbouring pixels, different in every image."""

from __future__ import annotations

import hashlib
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array, batches, is_whole
from l2x.errors import InputError, require
from l2x.features._patches import Masking, Patches
from l2x.features._view import Measurement, View

# SLIC runs on images with sides of at most this many pixels: finer borders would take long.
LONGEST = 112
# Pixels along the side of the reduced copy of each segment that networks read.
FINEST = 6
# Images whose segments are remembered; a fit masks the same images many times.
REMEMBERED = 20_000


@dataclass(eq=False, repr=False)
class Superpixels(View):
    """One feature per superpixel of an image: segments of similar neighbouring pixels, by SLIC.

    Images may have all forms that `Patches` accepts. Their number of segments differs from image to image;
    segments beyond it are never selected. SLIC (Achanta et al. 2012) is that of scikit-image, extra `images`;
    it runs on images reduced to at most 112 pixels along a side, and takes about 20 ms per image.

    Parameters
    ----------
    segments : int
        Most segments per image.
    masking : "zero", "grey", "mean", "colour" or "blur"
        What the black box gets instead of an unselected pixel; see `Patches`.
    compactness : float
        The higher, the more the segments resemble squares.

    Examples
    --------
    >>> X = np.zeros((10, 40, 40, 3), dtype=np.uint8)
    >>> X[:, :20] = 200
    >>> view = Superpixels(segments=16).fit(X)
    >>> view.d, view.labels(X[:1])[0, 0, 0], view.names_[0]
    (16, np.int16(0), 'segment 1')
    """

    kind: ClassVar[Literal["table", "text", "image"]] = "image"
    unit: ClassVar[str] = "segment"
    fixed_features: ClassVar[bool] = False

    segments: int = 50
    _: KW_ONLY
    masking: Masking = "grey"
    compactness: float = 10.0

    def fit(self, X: Any) -> Self:
        """Learn the shape, the range and the mean of the training images X; return self."""
        require("skimage.segmentation", extra="images")
        if not is_whole(self.segments, least=2):
            raise InputError(f"segments is {self.segments!r}; expected a whole number of at least 2.")
        return self._set(Patches(1, masking=self.masking).fit(X))

    def _set(self, pixels: Patches) -> Self:
        # Patches of a pixel would be blurred too little: a segment is about as wide as this.
        pixels.size = max(1, round((pixels.sides[0] * pixels.sides[1] / self.segments) ** 0.5))
        self.pixels_, self._found = pixels, dict[bytes, Array]()
        self.names_ = [f"segment {i + 1}" for i in range(self.segments)]
        self.rows_at_once = max(1, min(View.rows_at_once, (1 << 23) // int(np.prod(pixels.image_shape_))))
        return self

    @property
    def has_distances(self) -> bool:
        """Return False: the same segment of two images has another place; see `View.has_distances`."""
        return False

    @property
    def sides(self) -> tuple[int, int]:
        """Return the height and width of an image in pixels."""
        return self.pixels_.sides

    @property
    def channels(self) -> int:
        """Return the number of channels."""
        return self.pixels_.channels

    @property
    def scale_(self) -> float:
        """Return the largest absolute training value."""
        return self.pixels_.scale_

    @property
    def encoded_size(self) -> int:
        """Return the numbers per segment that networks read."""
        return 2 * self.channels + 3 + self.channels * FINEST**2

    def planes(self, X: Any) -> Any:
        """Return images X, an array or a tensor, as (n, channels, h, w)."""
        return self.pixels_.planes(X)

    def check(self, X: Any) -> Any:
        """Return the images in the form of the fitted ones; see `Patches.check`."""
        return self.pixels_.check(X)

    def labels(self, X: Any) -> Array:
        """Return the segment of each pixel of checked images X, (n, h, w)."""
        _, small = self._segmented(X)
        (height, width), (rows, columns) = self.sides, small.shape[1:]
        down, across = np.arange(height) * rows // height, np.arange(width) * columns // width
        return small[:, down][:, :, across]

    def plane(self, mask: Array, X: Any) -> Array:
        """Return a mask over segments (n, d) of images X as a mask over pixels, (n, h, w)."""
        labels = self.labels(X)
        selected = np.take_along_axis(mask, labels.reshape(len(labels), -1).astype(np.int64), axis=1)
        return np.asarray(selected.reshape(labels.shape))

    def _segmented(self, X: Any) -> tuple[Array, Array]:
        """Return reduced images (n, channels, rows, columns) in 0 .. 1, and their segments."""
        planes = torch.from_numpy(np.ascontiguousarray(self.planes(np.asarray(X)), dtype=np.float32))
        height, width = self.sides
        factor = max(1.0, max(height, width) / LONGEST)
        small = nn.functional.adaptive_avg_pool2d(planes, (round(height / factor), round(width / factor)))
        lowest = self.pixels_.lowest_
        reduced = ((small - lowest) / (self.scale_ - lowest)).numpy()
        labels = [self._slic(image) for image in reduced]
        return reduced, np.stack(labels) if labels else np.zeros((0, *reduced.shape[2:]), dtype=np.int16)

    def _slic(self, image: Array) -> Array:
        """Return the segments of a reduced image, numbered from 0, fewer than `segments`."""
        key = hashlib.blake2b(image.tobytes(), digest_size=16).digest()
        if key not in self._found:
            segmentation: Any = require("skimage.segmentation", extra="images")
            # Channels beyond three are transparency.
            colours = np.moveaxis(image[:3] if len(image) >= 3 else image[[0, 0, 0]], 0, -1).clip(0, 1)
            wanted = self.segments
            while True:
                labels = segmentation.slic(
                    colours.astype(np.float64), wanted, compactness=self.compactness, start_label=0
                )
                if labels.max() < self.segments or wanted == 1:
                    break
                wanted = max(1, int(0.9 * wanted))
            if len(self._found) >= REMEMBERED:
                self._found.clear()
            self._found[key] = np.minimum(labels, self.segments - 1).astype(np.int16)
        return self._found[key]

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Return colours, place, size and a small copy of each segment, (n, d, ...); see `View.encode`."""
        x = torch.zeros(len(X), self.d, self.encoded_size, dtype=torch.float16)
        for rows in batches(len(X), self.rows_at_once):
            self.pixels_.check_finite(X[rows], first_row + rows.start)
            for i, (image, labels) in enumerate(zip(*self._segmented(X[rows]), strict=True), rows.start):
                x[i] = torch.from_numpy(self._described(image, labels))
        return x

    def _described(self, image: Array, labels: Array) -> Array:
        """Return the numbers of the segments of one reduced image, (d, numbers); zero without a segment."""
        (rows, columns), d = labels.shape, self.segments
        flat = labels.ravel().astype(np.int64)
        count = np.bincount(flat, minlength=d).astype(np.float64)
        share = np.maximum(count, 1)
        down, across = np.divmod(np.arange(flat.size), columns)
        colours = [np.bincount(flat, channel.ravel(), d) / share for channel in image]
        squares = [np.bincount(flat, channel.ravel() ** 2, d) / share for channel in image]
        spreads = [
            np.sqrt(np.maximum(square - mean**2, 0)) for mean, square in zip(colours, squares, strict=True)
        ]
        places = [np.bincount(flat, down, d) / share / rows, np.bincount(flat, across, d) / share / columns]
        summary = np.stack([*colours, *spreads, *places, count / flat.size], axis=1)
        # The smallest rectangle around each segment, at FINEST x FINEST points; others are zero there.
        low, high = np.full((2, d), max(rows, columns)), np.zeros((2, d), dtype=np.int64)
        for axis, place in enumerate((down, across)):
            np.minimum.at(low[axis], flat, place)
            np.maximum.at(high[axis], flat, place)
        steps = (np.arange(FINEST) + 0.5) / FINEST
        points = low[:, :, None] + steps * np.maximum(high - low + 1, 1)[:, :, None]
        y = np.minimum(points[0], rows - 1).astype(np.int64)[:, :, None]
        x = np.minimum(points[1], columns - 1).astype(np.int64)[:, None, :]
        inside = labels[y, x] == np.arange(d)[:, None, None]
        copies = (image[:, y, x] * inside).transpose(1, 0, 2, 3).reshape(d, -1)
        described = np.concatenate([summary, copies], axis=1) * (count > 0)[:, None]
        return described.astype(np.float16)

    def selectable(self, x: Tensor) -> Tensor:
        """Return (n, d) booleans: which segments exist in each image; see `View.selectable`."""
        return x[..., 2 * self.channels + 2] > 0

    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        """Return the images as an array, with unselected segments masked; see `View.for_model`."""
        X = np.asarray(X)
        return X if mask is None else self.pixels_.filled(X, self.plane(mask, X))

    def units(self, parts: Tensor) -> NoReturn:
        """Raise an InputError: parts of pixels do not show which segment a pixel belongs to."""
        raise InputError("Superpixels differ from image to image; use Patches for methods with gradients.")

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n images: the mean image with noise; see `View.sample`."""
        return self.pixels_.sample(n, rng)

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        """Return images of the same type with noise on every pixel; see `View.jitter`."""
        return self.pixels_.jitter(X, rng)

    def measurements(self, X: Any) -> list[Measurement]:
        """Return brightness, contrast and sharpness of each image; see `View.measurements`."""
        return self.pixels_.measurements(X)

    def table_layout(self) -> NoReturn:
        """Raise an InputError: images are not in tables."""
        raise InputError("Superpixels cannot read a table on disk; pass the images as an array or a folder.")

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what `fit` learned; see `View.state`."""
        return self.pixels_.state()

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Set what `state` returned; see `View.restore`."""
        return self._set(Patches(1, masking=self.masking).restore(learned, arrays))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the remembered segments."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"_found": {}} if "_found" in state else state
