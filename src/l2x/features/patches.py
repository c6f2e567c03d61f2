"""Patches of an image, each one feature: grey or colour, in squares of some pixels."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from torch import Tensor, nn

from l2x.errors import InputError
from l2x.features.view import View, as_tensor
from l2x.foundations.arrays import Array
from l2x.networks.patches import PatchPredictor, PatchSelector, upsample
from l2x.training import Phase, TrainingPlan

Removal = Literal["zero", "mean", "blur"]
Padding = Literal["zero", "edge"]
# Small noise, as a share of the brightest pixel.
JITTER = 0.02


class Patches(View):
    """One feature per square patch of an image.

    Images are arrays (n, h, w) or (n, channels, h, w), bytes or floats. Networks read them divided by 255
    (bytes) or by the largest absolute training value (others): zero stays zero, so that an unselected pixel
    is a black one, as in section 4.3.

    Parameters
    ----------
    size : int
        Pixels along the side of a patch; 4 makes 7 x 7 patches of an MNIST digit.
    removal : "zero", "mean" or "blur"
        What the black box sees in place of an unselected pixel: zero, the pixel's mean over the training
        images, or the image blurred by a Gaussian as wide as a patch, which keeps the local brightness.
    padding : None, "zero" or "edge"
        Where the size does not divide the image: an error, or the networks see it continued to the right
        and below, by zeros or by its last pixels. The black box always gets images of their own shape.

    >>> view = Patches(size=4).fit(np.zeros((2, 28, 28)))
    >>> view.d, view.names_[9]
    (49, 'row 2, column 3')
    """

    # Three convolutional layers for the explainer, two for the family; their filters are not in the paper:
    # those of its black box are taken.
    paper_selector: ClassVar[dict[str, Any]] = {"filters": (8, 16), "head": "conv"}
    paper_predictor: ClassVar[dict[str, Any]] = {"filters": (8, 16)}
    # Images cost more than rows of a table, and an image says more than a row: smaller batches. Measured on
    # MNIST: experiments/mnist.py.
    plan: ClassVar[TrainingPlan] = TrainingPlan(
        value=Phase(2000, 3e-3, batch_size=128, averaging=0.99, patience=6),
        selector=Phase(2000, 3e-3, batch_size=128, averaging=0.99, choose="latest"),
        evaluations=10,
        validation_rows=2000,
    )
    # Three epochs of the experiment's 3s and 8s. Longer training does what joint training can: q and the
    # selector agree on a code of places, q's own loss falls, and the model agrees less (docs/method.md).
    paper_plan: ClassVar[TrainingPlan] = TrainingPlan(
        selector=Phase(168, 1e-3, batch_size=128, optimizer="rmsprop", schedule="constant"),
        evaluations=6,
        validation_rows=2000,
    )

    def __init__(self, size: int = 4, *, removal: Removal = "zero", padding: Padding | None = None) -> None:
        self.size = size
        self.removal = removal
        self.padding = padding

    @property
    def removals(self) -> tuple[str, ...]:
        return get_args(Removal)

    def fit(self, X: Any) -> Self:
        self._check_options()
        X = _images(X)
        _check_finite(X, first_row=0)
        self.image_shape_ = tuple(int(length) for length in X.shape[1:])
        self.grid_ = self._grid(*self.image_shape_[-2:])
        self.scale_ = 255.0 if X.dtype == np.uint8 else float(np.abs(X).max()) or 1.0
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        rows, columns = self.grid_
        self.names_ = [f"row {r + 1}, column {c + 1}" for r in range(rows) for c in range(columns)]
        return self

    @property
    def channels(self) -> int:
        """1 for images (n, h, w)."""
        return self.image_shape_[0] if len(self.image_shape_) == 3 else 1

    def check(self, X: Any) -> Any:
        X = _images(X)
        if X.shape[1:] != self.image_shape_:
            raise InputError(
                f"The images have shape {X.shape[1:]}, but the explainer was fitted on {self.image_shape_}."
            )
        return X

    def take(self, X: Any, rows: Any) -> Any:
        return X[rows]

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        _check_finite(X, first_row=first_row)
        x = as_tensor(X).reshape(len(X), self.channels, *self.image_shape_[-2:]) / self.scale_
        below, right = self._missing()
        if below or right:
            mode = "replicate" if self.padding == "edge" else "constant"
            x = nn.functional.pad(x, (0, right, 0, below), mode=mode)
        return x  # (n, channels, rows * size, columns * size)

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * upsample(mask, self.grid_, self.size)

    def remove(self, X: Any, mask: Array, *, rng: np.random.Generator | None = None) -> Any:
        removed = np.where(self.pixels(mask), X, self._fill(X))
        return removed.astype(X.dtype, copy=False)

    def jitter(self, X: Any, rng: np.random.Generator) -> Any:
        noisy = X + JITTER * self.scale_ * rng.standard_normal(X.shape, dtype=np.float32)
        if X.dtype.kind not in "iub":
            return noisy.astype(X.dtype)
        limits = np.iinfo(X.dtype) if X.dtype.kind != "b" else np.iinfo(np.uint8)
        return np.clip(np.rint(noisy), limits.min, limits.max).astype(X.dtype)

    def pixels(self, mask: Array) -> Array:
        """A mask over patches, (n, d), as a mask over pixels of the images' own shape (1 for channels)."""
        height, width = self.image_shape_[-2:]
        plane = mask.reshape(-1, *self.grid_).repeat(self.size, axis=1).repeat(self.size, axis=2)
        plane = plane[:, :height, :width]
        return plane if len(self.image_shape_) == 2 else plane[:, None]

    def spread(self, values: Array) -> Array:
        return self.pixels(values)

    def per_unit(self, parts: Tensor) -> Tensor:
        """The sum over each patch's pixels and channels: (n, h, w) or (n, c, h, w) -> (n, d)."""
        if tuple(parts.shape[1:]) != self.image_shape_:
            raise InputError(
                f"Gradients of shape {tuple(parts.shape)} do not fit images of {self.image_shape_}."
            )
        below, right = self._missing()
        plane = parts.sum(dim=1) if parts.ndim == 4 else parts
        plane = nn.functional.pad(plane, (0, right, 0, below))
        rows, columns = self.grid_
        return plane.reshape(-1, rows, self.size, columns, self.size).sum(dim=(2, 4)).flatten(1)

    def selector(self, outputs: int, **options: Any) -> nn.Module:
        return PatchSelector(self.channels, self.size, self.grid_, **options)

    def predictor(self, outputs: int, **options: Any) -> nn.Module:
        return PatchPredictor(self.channels, self.size, self.grid_, outputs, **options)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"image_shape": list(self.image_shape_), "scale": self.scale_}, {"mean": self.mean_}

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        shape = tuple(learned["image_shape"])
        self.fit(np.zeros((1, *shape), dtype=np.float32))
        self.scale_, self.mean_ = float(learned["scale"]), arrays["mean"]
        return self

    def _check_options(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise InputError(f"size is {self.size!r}; a patch needs a whole number of pixels, such as 4.")
        if self.removal not in ("zero", "mean", "blur"):
            raise InputError(f"removal is {self.removal!r}; choose 'zero', 'mean' or 'blur'.")
        if self.padding not in (None, "zero", "edge"):
            raise InputError(f"padding is {self.padding!r}; choose None, 'zero' or 'edge'.")

    def _grid(self, height: int, width: int) -> tuple[int, int]:
        """How many patches there are below and beside each other."""
        if self.padding is None and (height % self.size or width % self.size):
            fitting = [s for s in range(1, min(height, width) + 1) if height % s == 0 and width % s == 0]
            raise InputError(
                f"Patches of {self.size} pixels do not divide images of {height} x {width}; choose size "
                f"among {', '.join(map(str, fitting))}, or padding='edge' or 'zero'."
            )
        return -(-height // self.size), -(-width // self.size)

    def _missing(self) -> tuple[int, int]:
        """Pixels of padding below and at the right."""
        (height, width), (rows, columns) = self.image_shape_[-2:], self.grid_
        return rows * self.size - height, columns * self.size - width

    def _fill(self, X: Array) -> Array:
        """What stands in the place of unselected pixels."""
        if self.removal == "zero":
            return np.zeros(1, dtype=X.dtype)
        fill = self.mean_ if self.removal == "mean" else _blurred(X, self.size)
        return np.rint(fill) if X.dtype.kind in "iub" else fill


def _images(X: Any) -> Array:
    """X as an array of images of numbers."""
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    try:
        array = np.asarray(X)
        array = array if array.dtype.kind in "fiub" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected images as arrays of numbers of one shape: {error}.") from error
    if array.ndim not in (3, 4):
        hint = " For one image pass x[None]." if array.ndim == 2 else ""
        raise InputError(
            f"Expected images (n, h, w) or (n, channels, h, w), got an array of shape {array.shape}.{hint}"
        )
    if 0 in array.shape:
        raise InputError(f"There are no images: shape {array.shape}.")
    if array.ndim == 4 and array.shape[-1] <= 4 < array.shape[1]:
        raise InputError(
            f"The images have shape {array.shape[1:]}: channels come first here; "
            "pass X.transpose(0, 3, 1, 2), and a model that reads them so."
        )
    return array


def _check_finite(X: Array, *, first_row: int) -> None:
    if X.dtype.kind != "f" or np.isfinite(X).all():
        return
    row, *place = np.argwhere(~np.isfinite(X))[0].tolist()
    raise InputError(
        f"Image {first_row + row}, pixel {tuple(place)} is {X[(row, *place)]}: fill missing and infinite "
        "values first."
    )


def _blurred(X: Array, width: float) -> Array:
    """Each image smoothed by a Gaussian with a standard deviation of `width` pixels."""
    from scipy.ndimage import gaussian_filter

    sigma = (0.0,) * (X.ndim - 2) + (width, width)
    return np.asarray(gaussian_filter(X.astype(np.float32), sigma))
