"""Patches of an image, each one feature: squares of a few pixels, grey or colour."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NoReturn, Self, get_args

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array, batches, is_whole, tensor_to_array
from l2x.errors import ArtifactError, InputError
from l2x.features._backbone import feature_maps, torch_module
from l2x.features._image_files import ImageFiles, Mode
from l2x.features._view import Measurement, View, as_tensor

Masking = Literal["zero", "grey", "mean", "colour", "blur"]
Padding = Literal["zero", "edge"]

# Networks read images of up to this many pixels as they are, and larger ones as one small vector per patch:
# the patch, reduced to at most FINEST x FINEST pixels, with at most NUMBERS numbers per image.
MOST_PIXELS, FINEST, NUMBERS = 1024, 8, 40_000
# Pixels (of all channels) that are read, masked or encoded at a time.
PIXELS_AT_ONCE = 1 << 23
# Large images are blurred at a resolution at which a patch has about this many pixels along its side.
BLURRED = 4

# Noise of `jitter` and of `sample`, as a share of the brightest pixel.
JITTER, SPREAD = 0.02, 0.2


@dataclass(eq=False, repr=False)
class Patches(View):
    """One feature per square patch of an image.

    Images are arrays (n, h, w), (n, channels, h, w) or (n, h, w, channels) of bytes or floats, a folder, or a
    list of paths or PIL images; see `ImageFiles`. The model reads them as they are. Our networks read images
    of up to 1,024 pixels divided by 255 (bytes) or by the largest absolute training value (others); zero
    stays zero, so that unselected pixels are black, as in section 4.3. For larger images they read one small
    vector per patch, so that the cost depends on the number of patches, not of pixels.

    Parameters
    ----------
    size : int
        Pixels along the side of a patch; size 4 divides an MNIST digit into 7 x 7 patches.
    masking : "zero", "grey", "mean", "colour" or "blur"
        What the black box gets instead of an unselected pixel: zero; half of the brightest value, or zero if
        values may be negative; the pixel's mean over the training images; the mean colour of the image; or
        the image blurred by a Gaussian as wide as a patch, which keeps the local brightness.
    padding : None, "zero" or "edge"
        If the size does not divide the image: an error, or the networks read it continued to the right and
        below, with zeros or with its last pixels. The black box always gets images of the original shape.
    backbone : torch module or str, optional
        What the selector reads in addition to the pixels of large images: feature maps (n, channels, h, w) of
        this module, or of the layer with this name if the model is a torch module. With many classes and few
        images, the selector learns far more from them than from pixels. `explain` then runs the module once.

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
    backbone: Any = None

    def attach(self, model: Any) -> Self:
        """Note the model whose layer is the backbone; see `View.attach`."""
        if isinstance(self.backbone, str):
            self._model = torch_module(model)
        return self

    def fit(self, X: Any) -> Self:
        """Learn the shape, the range and the mean of the training images X; return self."""
        self._check_options()
        X = _images(X)
        if not len(X):
            raise InputError(f"There are no images: shape {X.shape}.")
        self._set_shape(tuple(int(length) for length in X.shape[1:]))
        total, squares, largest, self.lowest_ = np.zeros(self.image_shape_), 0.0, 0.0, 0.0
        for rows in batches(len(X), self.rows_at_once):
            part = np.asarray(X[rows])
            _check_finite(part, first_row=rows.start)
            total += part.sum(axis=0, dtype=np.float64)
            squares += float(np.square(part, dtype=np.float32).sum(dtype=np.float64))
            largest = max(largest, float(np.abs(part).max()))
            self.lowest_ = min(self.lowest_, float(part.min()))
        self.scale_ = 255.0 if X.dtype == np.uint8 else largest or 1.0
        self.mean_ = total / len(X)
        centre = float(self.mean_.mean())
        self.spread_ = max(0.0, squares / (len(X) * self.mean_.size) - centre**2) ** 0.5 / self.scale_ or 1.0
        self.backbone_size_ = 0
        if self.backbone is not None:
            if not self.resolution:
                raise InputError(f"backbone= is for images of more than {MOST_PIXELS:,} pixels.")
            self.backbone_size_ = self._maps(np.asarray(X[:1])).shape[2]
        return self

    @property
    def channels(self) -> int:
        """Return the number of channels: 1 for images (n, h, w)."""
        return 1 if len(self.image_shape_) == 2 else self.image_shape_[-1 if self._channels_last else 0]

    @property
    def sides(self) -> tuple[int, int]:
        """Return the height and width of an image in pixels."""
        start = 0 if self._channels_last else len(self.image_shape_) - 2
        return self.image_shape_[start], self.image_shape_[start + 1]

    @property
    def resolution(self) -> int:
        """Return the pixels along the side of a patch that networks read; 0 if they read whole images."""
        if self.sides[0] * self.sides[1] <= MOST_PIXELS:
            return 0
        affordable = int((NUMBERS / (self.d * self.channels)) ** 0.5)
        return max(1, min(self.size, FINEST, affordable))

    @property
    def encoded_size(self) -> int:
        """Return the numbers per patch that networks read of large images."""
        return self.channels * self.resolution**2

    @property
    def _channels_last(self) -> bool:
        return len(self.image_shape_) == 3 and self.image_shape_[-1] <= 4 < self.image_shape_[0]

    def planes(self, X: Any) -> Any:
        """Return images X, an array or a tensor, as (n, channels, h, w)."""
        if self._channels_last:
            X = X.reshape(-1, *self.image_shape_)
            return X.transpose(0, 3, 1, 2) if isinstance(X, np.ndarray) else X.permute(0, 3, 1, 2)
        return X.reshape(-1, self.channels, *self.sides)

    def check(self, X: Any) -> Any:
        """Return the images as an array, or `ImageFiles`, of the fitted shape; see `View.check`."""
        modes: dict[int, Mode] = {1: "L", 4: "RGBA"}
        X = _images(X, self.sides, modes.get(self.channels, "RGB"))
        if X.shape[1:] != self.image_shape_:
            raise InputError(
                f"The images have shape {X.shape[1:]}, but the explainer was fitted on {self.image_shape_}."
            )
        return X

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Return what networks read, part by part; see `View.encode` and `encode_pixels`."""
        if len(X) <= self.rows_at_once:
            return self._encode(X, first_row)
        first = self._encode(X[:1], first_row)
        x = first.new_empty(len(X), *first.shape[1:])
        for rows in batches(len(X), self.rows_at_once):
            x[rows] = self._encode(X[rows], first_row + rows.start)
        return x

    def check_finite(self, X: Any, first_row: int = 0) -> None:
        """Raise an InputError for a missing or infinite pixel of X; images count from first_row."""
        _check_finite(np.asarray(X), first_row=first_row)

    def _encode(self, X: Any, first_row: int) -> Tensor:
        X = np.asarray(X)
        _check_finite(X, first_row=first_row)
        x = self.encode_pixels(as_tensor(X))
        if self.backbone is not None:
            x = torch.cat([x, self._maps(X).half()], dim=2)
        return x

    def _maps(self, X: Array) -> Tensor:
        """Return the backbone's feature maps in each patch, (n, d, channels)."""
        maps = feature_maps(self.backbone, getattr(self, "_model", None), X)
        if max(maps.shape[2:]) > max(self.grid_):
            maps = nn.functional.adaptive_avg_pool2d(maps, self.grid_)
        else:
            maps = nn.functional.interpolate(maps, self.grid_, mode="bilinear")
        return maps.flatten(2).transpose(1, 2)

    def encode_pixels(self, pixels: Tensor) -> Tensor:
        """Return what `encode` makes of images whose pixels are a tensor of floats.

        Small images are scaled and padded, (n, channels, h, w); larger ones become patches of `resolution` x
        `resolution` means of pixels, (n, patches, numbers).
        """
        x = self._padded(
            self.planes(pixels) / self.scale_, "replicate" if self.padding == "edge" else "constant"
        )
        side = self.resolution
        if not side:
            return x
        rows, columns = self.grid_
        if self.size % side == 0:
            x = nn.functional.avg_pool2d(x, self.size // side)
        elif torch.onnx.is_in_onnx_export():  # adaptive pooling cannot be exported
            means = (_means(each * self.size, each * side) for each in (rows, columns))
            x = next(means) @ x @ next(means).T
        else:
            x = nn.functional.adaptive_avg_pool2d(x, (rows * side, columns * side))
        x = x.reshape(-1, self.channels, rows, side, columns, side)
        return x.permute(0, 2, 4, 1, 3, 5).reshape(x.shape[0], self.d, -1).half()  # half the memory

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the images with unselected patches black; see `View.mask`."""
        return super().mask(x, mask) if self.resolution else x * upsample(mask, self.grid_, self.size)

    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        """Return the images as an array, with unselected patches masked; see `View.for_model`."""
        X = np.asarray(X)
        if mask is None:
            return X
        return self._with_patches(X, mask) if self.resolution else self.filled(X, self.plane(mask))

    def filled(self, X: Array, plane: Array) -> Array:
        """Return images X with masking outside the pixels `plane`, (n, h, w)."""
        return np.where(self._aligned(plane), X, self._fill(X))

    def _with_patches(self, X: Array, mask: Array) -> Array:
        """Return `filled` for a mask over patches; only selected patches are copied.

        Measured at 224 x 224 with 12 of 196 patches: 0.05 instead of 0.4 ms per image.
        """
        out, fill = np.empty_like(X), self._fill(X)
        if self._channels_last and fill.ndim == X.ndim and fill.shape[1] == 1:
            fill = np.broadcast_to(fill, (len(X), 1, *X.shape[2:])).copy()  # a row at a time is copied faster
        out[...] = fill
        size, columns = self.size, self.grid_[1]
        before: tuple[slice, ...] = () if self._channels_last else (slice(None),) * (X.ndim - 3)
        for image, patch in np.argwhere(mask.reshape(len(X), -1)).tolist():
            row, column = patch // columns * size, patch % columns * size
            at: tuple[int | slice, ...] = (
                image,
                *before,
                slice(row, row + size),
                slice(column, column + size),
            )
            out[at] = X[at]
        return out

    def pixels(self, mask: Array) -> Array:
        """Return a mask over patches, (n, d), as one over pixels, which fits images of the fitted shape."""
        return self._aligned(self.plane(mask))

    def _aligned(self, plane: Array) -> Array:
        """Return a mask over pixels, (n, h, w), with an axis for the channels if images have one."""
        if len(self.image_shape_) == 2:
            return plane
        return plane[..., None] if self._channels_last else plane[:, None]

    def plane(self, mask: Array, X: Any = None) -> Array:
        """Return a mask over patches, (n, d), as a mask over pixels, (n, h, w), the same for all images X."""
        height, width = self.sides
        plane = mask.reshape(-1, *self.grid_).repeat(self.size, axis=1).repeat(self.size, axis=2)
        return plane[:, :height, :width]

    def units(self, parts: Tensor) -> Tensor:
        """Return sums over the pixels and channels of each patch, (n, d); see `View.units`."""
        if self.resolution and parts.ndim == 3 and parts.shape[1] == self.d:
            return parts.sum(dim=2)  # of encoded patches
        # (n, height, width)
        plane = parts.sum(dim=-1 if self._channels_last else 1) if parts.ndim == 4 else parts
        rows, columns = self.grid_
        if tuple(plane.shape[1:]) not in (self.sides, (rows * self.size, columns * self.size)):
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
        parts = [self._measured(X[rows]) for rows in batches(len(X), self.rows_at_once)]
        measured = np.concatenate([np.zeros((3, 0)), *parts], axis=1)
        return [
            Measurement(name, values)
            for name, values in zip(("brightness", "contrast", "sharpness"), measured, strict=True)
        ]

    def _measured(self, X: Any) -> Array:
        pixels = self.planes(np.asarray(X, dtype=np.float64)) / self.scale_
        inside = (1, 2, 3)
        sides = [axis for axis in (-1, -2) if pixels.shape[axis] > 1]
        steps = [np.abs(np.diff(pixels, axis=axis)).mean(axis=inside) for axis in sides]
        sharpness = sum(steps, np.zeros(len(pixels)))
        return np.stack([pixels.mean(axis=inside), pixels.std(axis=inside), sharpness])

    def table_layout(self) -> NoReturn:
        """Raise an InputError: images are not in tables."""
        raise InputError("Patches cannot read a table on disk; pass the images as an array.")

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what `fit` learned; see `View.state`."""
        learned = {
            "image_shape": list(self.image_shape_), "scale": self.scale_, "lowest": self.lowest_,
            "spread": self.spread_, "backbone_size": self.backbone_size_,
        }  # fmt: skip
        return learned, {"mean": self.mean_}

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Set what `state` returned; see `View.restore`."""
        self._check_options()
        shape = tuple(learned["image_shape"])
        if arrays["mean"].shape != shape:  # before anything of that size is built
            raise ArtifactError(f"The mean image has the shape {arrays['mean'].shape}; expected {shape}.")
        self._set_shape(shape)
        self.scale_, self.mean_ = float(learned["scale"]), arrays["mean"]
        # Older files have none of these.
        self.lowest_, self.spread_ = float(learned.get("lowest", 0.0)), float(learned.get("spread", 1.0))
        self.backbone_size_ = int(learned.get("backbone_size", 0))
        return self

    def _portable(self) -> dict[str, Any]:
        """Return the backbone's name; see `View._portable`."""
        if self.backbone is None or isinstance(self.backbone, str):
            return {}
        raise InputError(
            "An explainer whose backbone is a module cannot be saved: pass the name of a layer of the model "
            "as backbone=, and load it with l2x.load(path, model=...)."
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the model, which explainers store themselves."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_model"}

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        """Set the images' shape, and the patches that follow from it."""
        self.image_shape_ = shape
        height, width = self.sides
        if self.padding is None and (height % self.size or width % self.size):
            fitting = [s for s in range(1, min(height, width) + 1) if height % s == 0 and width % s == 0]
            raise InputError(
                f"Patches of {self.size} pixels do not divide images of {height} x {width}; choose size "
                f"among {', '.join(map(str, fitting))}, or padding='edge' or 'zero'."
            )
        rows, columns = -(-height // self.size), -(-width // self.size)  # rounded up
        self.grid_ = (rows, columns)
        self.names_ = [f"row {r + 1}, column {c + 1}" for r in range(rows) for c in range(columns)]
        if self.resolution:
            self.rows_at_once = max(1, PIXELS_AT_ONCE // int(np.prod(shape)))

    def _check_options(self) -> None:
        if not is_whole(self.size):
            raise InputError(f"size is {self.size!r}; a patch needs a whole number of pixels, such as 4.")
        if self.masking not in get_args(Masking):
            names = ", ".join(map(repr, get_args(Masking)))
            raise InputError(f"masking is {self.masking!r}; choose one of {names}.")
        if self.padding not in (None, "zero", "edge"):
            raise InputError(f"padding is {self.padding!r}; choose None, 'zero' or 'edge'.")

    def _padded(self, x: Tensor, mode: str) -> Tensor:
        """Return images (..., h, w) padded to the right and below to (..., rows * size, columns * size)."""
        height, width = (side * self.size for side in self.grid_)
        return nn.functional.pad(x, (0, width - x.shape[-1], 0, height - x.shape[-2]), mode=mode)

    def _fill(self, X: Array) -> Array:
        """Return the values that replace unselected pixels, in the type of the images."""
        if self.masking == "zero":
            return np.zeros(1, dtype=X.dtype)
        fill: Array = self.mean_
        if self.masking == "grey":
            fill = np.full(1, self.scale_ / 2 if self.lowest_ >= 0 else 0.0)
        elif self.masking == "colour":
            sides = tuple(axis for axis in range(1, X.ndim) if X.ndim == 3 or axis != self._channel_axis)
            if (
                X.dtype == np.uint8
            ):  # whole numbers are added 15 times as fast as they are converted to floats
                total = X.sum(axis=sides[0], dtype=np.uint32, keepdims=True)
                fill = total.sum(axis=sides[1], dtype=np.float64, keepdims=True) / np.prod(self.sides)
            else:
                fill = X.mean(axis=sides, dtype=np.float64, keepdims=True)
        elif self.masking == "blur":
            fill = self._blurred(X)
        return (np.rint(fill) if X.dtype.kind in "iub" else fill).astype(X.dtype, copy=False)

    @property
    def _channel_axis(self) -> int:
        """Return the axis of the channels of images (n, channels, h, w) or (n, h, w, channels)."""
        return 3 if self._channels_last else 1

    def _blurred(self, X: Array) -> Array:
        from scipy.ndimage import gaussian_filter

        planes = self.planes(X.astype(np.float32))
        coarser = max(1, self.size // BLURRED) if self.resolution else 1
        if coarser == 1:
            blurred = gaussian_filter(planes, (0.0, 0.0, self.size, self.size))
        else:  # a wide Gaussian takes long, and hardly changes if it is computed at a lower resolution
            small = nn.functional.avg_pool2d(as_tensor(planes), coarser, ceil_mode=True).numpy()
            small = gaussian_filter(small, (0.0, 0.0, self.size / coarser, self.size / coarser))
            large = nn.functional.interpolate(torch.from_numpy(small), scale_factor=coarser, mode="bilinear")
            blurred = large[..., : self.sides[0], : self.sides[1]].numpy()
        blurred = blurred.transpose(0, 2, 3, 1) if self._channels_last else blurred
        return np.asarray(blurred).reshape(X.shape)


def _images(X: Any, sides: tuple[int, int] | None = None, mode: Mode = "RGB") -> Any:
    """Return X as an array of images, or as `ImageFiles`, which brings files to a size and mode."""
    if isinstance(X, ImageFiles):
        return X
    if ImageFiles.recognises(X):
        return ImageFiles(X, sides, mode=mode)
    try:
        array = np.asarray(tensor_to_array(X))
        array = array if array.dtype.kind in "fiub" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected images as arrays of numbers of one shape: {error}.") from error
    if array.ndim not in (3, 4):
        hint = " For one image pass x[None]." if array.ndim == 2 else ""
        raise InputError(
            "Expected images (n, h, w), (n, channels, h, w) or (n, h, w, channels), got an array of shape "
            f"{array.shape}.{hint}"
        )
    if 0 in array.shape[1:]:
        raise InputError(f"The images have no pixels: shape {array.shape}.")
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


def _means(before: int, after: int) -> Tensor:
    """Return the matrix (after, before) whose rows are the means of torch's adaptive pooling."""
    means = torch.zeros(after, before)
    for i in range(after):
        window = slice(i * before // after, -(-(i + 1) * before // after))
        means[i, window] = 1 / len(range(*window.indices(before)))
    return means
