"""Patches of an image, each one feature: squares of a few pixels, grey or colour."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
from torch import Tensor, nn

from l2x._base.arrays import Array, is_whole, tensor_to_array
from l2x.errors import ArtifactError, InputError
from l2x.features._view import Measurement, View, as_tensor

Masking = Literal["zero", "mean", "blur"]
Padding = Literal["zero", "edge"]

# Noise of `jitter` and of `sample`, as a share of the brightest pixel.
JITTER, SPREAD = 0.02, 0.2


@dataclass(eq=False, repr=False)
class Patches(View):
    """One feature per square patch of an image.

    Images are arrays (n, h, w) or (n, channels, h, w), bytes or floats. Networks read them divided by 255
    (bytes) or by the largest absolute training value (others). Zero stays zero, so that unselected pixels are
    black, as in section 4.3.

    Parameters
    ----------
    size : int
        Pixels along the side of a patch; size 4 divides an MNIST digit into 7 x 7 patches.
    masking : "zero", "mean" or "blur"
        What the black box gets instead of an unselected pixel: zero, the pixel's mean over the training
        images, or the image blurred by a Gaussian as wide as a patch, which keeps the local brightness.
    padding : None, "zero" or "edge"
        If the size does not divide the image: an error, or the networks read it continued to the right and
        below, with zeros or with its last pixels. The black box always gets images of the original shape.

    >>> view = Patches(size=4).fit(np.zeros((2, 28, 28)))
    >>> view.d, view.names_[9]
    (49, 'row 2, column 3')
    """

    kind: ClassVar[Literal["table", "text", "image"]] = "image"
    unit: ClassVar[str] = "patch"

    size: int = 4
    _: KW_ONLY
    masking: Masking = "zero"
    padding: Padding | None = None

    def fit(self, X: Any) -> Self:
        """Learn the shape, the range and the mean of the training images X; return self."""
        self._check_options()
        X = _images(X)
        if not len(X):
            raise InputError(f"There are no images: shape {X.shape}.")
        _check_finite(X, first_row=0)
        self._set_shape(tuple(int(length) for length in X.shape[1:]))
        self.scale_ = 255.0 if X.dtype == np.uint8 else float(np.abs(X).max()) or 1.0
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        return self

    @property
    def channels(self) -> int:
        """Return the number of channels: 1 for images (n, h, w)."""
        return self.image_shape_[0] if len(self.image_shape_) == 3 else 1

    def check(self, X: Any) -> Any:
        """Return the images as an array of the fitted shape; see `View.check`."""
        X = _images(X)
        if X.shape[1:] != self.image_shape_:
            raise InputError(
                f"The images have shape {X.shape[1:]}, but the explainer was fitted on {self.image_shape_}."
            )
        return X

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Return (n, channels, h, w), scaled and padded; see `View.encode`."""
        _check_finite(X, first_row=first_row)
        return self.encode_pixels(as_tensor(X))

    def encode_pixels(self, pixels: Tensor) -> Tensor:
        """Return what `encode` makes of images whose pixels are a tensor of floats."""
        x = pixels.reshape(-1, self.channels, *self.image_shape_[-2:]) / self.scale_
        return self._padded(x, "replicate" if self.padding == "edge" else "constant")

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the images with unselected patches black; see `View.mask`."""
        return x * upsample(mask, self.grid_, self.size)

    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        """Return the images, with unselected patches masked; see `View.for_model`."""
        if mask is None:
            return X
        return np.where(self.pixels(mask), X, self._fill(X)).astype(X.dtype, copy=False)

    def pixels(self, mask: Array) -> Array:
        """Return a mask over patches, (n, d), as a mask over pixels, (n, h, w) or (n, 1, h, w)."""
        height, width = self.image_shape_[-2:]
        plane = mask.reshape(-1, *self.grid_).repeat(self.size, axis=1).repeat(self.size, axis=2)
        plane = plane[:, :height, :width]
        return plane if len(self.image_shape_) == 2 else plane[:, None]

    def units(self, parts: Tensor) -> Tensor:
        """Return sums over the pixels and channels of each patch, (n, d); see `View.units`."""
        plane = parts.sum(dim=1) if parts.ndim == 4 else parts  # (n, height, width)
        rows, columns = self.grid_
        if tuple(plane.shape[1:]) not in (self.image_shape_[-2:], (rows * self.size, columns * self.size)):
            raise InputError(
                f"Attributions of shape {tuple(parts.shape)} do not fit images of {self.image_shape_}."
            )
        plane = self._padded(plane, "constant")
        return plane.reshape(-1, rows, self.size, columns, self.size).sum(dim=(2, 4)).flatten(1)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return n images, (n, *image_shape_) floats: the mean image with noise; see `View.sample`."""
        noise = rng.normal(size=(n, *self.image_shape_))
        return np.asarray(self.mean_ + SPREAD * self.scale_ * noise, dtype=np.float32)

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        """Return images of the same type with noise on every pixel; see `View.jitter`."""
        noisy = X + JITTER * self.scale_ * rng.standard_normal(X.shape, dtype=np.float32)
        if X.dtype.kind not in "iub":
            return noisy.astype(X.dtype)
        limits = np.iinfo(X.dtype) if X.dtype.kind != "b" else np.iinfo(np.uint8)
        return np.clip(np.rint(noisy), limits.min, limits.max).astype(X.dtype)

    def measurements(self, X: Any) -> list[Measurement]:
        """Return brightness, contrast and sharpness of each image; see `View.measurements`.

        They are the mean, the standard deviation and the mean differences between neighbours in rows and
        columns, in units of the largest training value.
        """
        pixels = np.asarray(X, dtype=np.float64) / self.scale_
        inside = tuple(range(1, pixels.ndim))
        sides = [axis for axis in (-1, -2) if pixels.shape[axis] > 1]
        steps = [np.abs(np.diff(pixels, axis=axis)).mean(axis=inside) for axis in sides]
        return [
            Measurement("brightness", pixels.mean(axis=inside)),
            Measurement("contrast", pixels.std(axis=inside)),
            Measurement("sharpness", sum(steps, np.zeros(len(pixels)))),
        ]

    def table_layout(self) -> NoReturn:
        """Raise an InputError: images are not in tables."""
        raise InputError("Patches cannot read a table on disk; pass the images as an array.")

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what `fit` learned; see `View.state`."""
        return {"image_shape": list(self.image_shape_), "scale": self.scale_}, {"mean": self.mean_}

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Set what `state` returned; see `View.restore`."""
        self._check_options()
        shape = tuple(learned["image_shape"])
        if arrays["mean"].shape != shape:  # before anything of that size is built
            raise ArtifactError(f"The mean image has the shape {arrays['mean'].shape}; expected {shape}.")
        self._set_shape(shape)
        self.scale_, self.mean_ = float(learned["scale"]), arrays["mean"]
        return self

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        """Set the images' shape, and the patches that follow from it."""
        height, width = shape[-2:]
        if self.padding is None and (height % self.size or width % self.size):
            fitting = [s for s in range(1, min(height, width) + 1) if height % s == 0 and width % s == 0]
            raise InputError(
                f"Patches of {self.size} pixels do not divide images of {height} x {width}; choose size "
                f"among {', '.join(map(str, fitting))}, or padding='edge' or 'zero'."
            )
        rows, columns = -(-height // self.size), -(-width // self.size)  # rounded up
        self.image_shape_, self.grid_ = shape, (rows, columns)
        self.names_ = [f"row {r + 1}, column {c + 1}" for r in range(rows) for c in range(columns)]

    def _check_options(self) -> None:
        if not is_whole(self.size):
            raise InputError(f"size is {self.size!r}; a patch needs a whole number of pixels, such as 4.")
        if self.masking not in ("zero", "mean", "blur"):
            raise InputError(f"masking is {self.masking!r}; choose 'zero', 'mean' or 'blur'.")
        if self.padding not in (None, "zero", "edge"):
            raise InputError(f"padding is {self.padding!r}; choose None, 'zero' or 'edge'.")

    def _padded(self, x: Tensor, mode: str) -> Tensor:
        """Return images (..., h, w) padded to the right and below to (..., rows * size, columns * size)."""
        height, width = (side * self.size for side in self.grid_)
        return nn.functional.pad(x, (0, width - x.shape[-1], 0, height - x.shape[-2]), mode=mode)

    def _fill(self, X: Array) -> Array:
        """Return the values that replace unselected pixels."""
        if self.masking == "zero":
            return np.zeros(1, dtype=X.dtype)
        fill: Array = self.mean_
        if self.masking == "blur":
            from scipy.ndimage import gaussian_filter

            fill = gaussian_filter(X.astype(np.float32), (0.0,) * (X.ndim - 2) + (self.size, self.size))
        return np.rint(fill) if X.dtype.kind in "iub" else fill


def _images(X: Any) -> Array:
    """Return X as an array of images."""
    try:
        array = np.asarray(tensor_to_array(X))
        array = array if array.dtype.kind in "fiub" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected images as arrays of numbers of one shape: {error}.") from error
    if array.ndim not in (3, 4):
        hint = " For one image pass x[None]." if array.ndim == 2 else ""
        raise InputError(
            f"Expected images (n, h, w) or (n, channels, h, w), got an array of shape {array.shape}.{hint}"
        )
    if 0 in array.shape[1:]:
        raise InputError(f"The images have no pixels: shape {array.shape}.")
    if array.ndim == 4 and array.shape[-1] <= 4 < array.shape[1]:
        raise InputError(
            f"The images have shape {array.shape[1:]}, but channels must come first: pass "
            "X.transpose(0, 3, 1, 2), and a model that reads such images."
        )
    return array


def _check_finite(X: Array, *, first_row: int) -> None:
    if X.dtype.kind != "f" or np.isfinite(X).all():
        return
    row, *pixel = np.argwhere(~np.isfinite(X))[0].tolist()
    raise InputError(
        f"Image {first_row + row}, pixel {tuple(pixel)} is {X[(row, *pixel)]}: fill missing and infinite "
        "values first."
    )


def upsample(mask: Tensor, grid: tuple[int, int], size: int) -> Tensor:
    """Return a mask over patches, (n, patches), repeated over their pixels, (n, 1, h, w); section 4.3."""
    plane = mask.reshape(-1, 1, grid[0], grid[1])
    return plane.repeat_interleave(size, dim=2).repeat_interleave(size, dim=3)
