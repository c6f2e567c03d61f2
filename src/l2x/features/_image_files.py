"""Images that are read from files, or from PIL images, when they are needed: never all at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np

from l2x._base.arrays import Array, is_whole
from l2x.errors import InputError, require, some

Mode = Literal["L", "RGB", "RGBA"]
# The endings by which a folder's images are found; a list of files may have any that Pillow can read.
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}


class ImageFiles:
    """Images in files, as an array (n, h, w, channels) of bytes that is read part by part.

    Indexing with a slice or an index array returns another `ImageFiles`; only `numpy.asarray` and a single
    index read pixels. `Patches` accepts it wherever it accepts an array.

    Parameters
    ----------
    files : folder, or sequence of paths or PIL images
        The images of a folder are sorted by name.
    size : int, (height, width) or None
        The shape that all images are brought to: the shorter side is resized to fit, and the centre is cut
        out. None keeps the images as they are; they must then all have one shape.
    mode : "RGB", "RGBA" or "L"
        The colours that all images are converted to; "L" is grey, (n, h, w).

    Examples
    --------
    >>> import PIL.Image
    >>> X = ImageFiles([PIL.Image.new("RGB", (64, 48), "red")] * 10, size=32)
    >>> X.shape, np.asarray(X[2:4])[0, 0, 0].tolist()
    ((10, 32, 32, 3), [255, 0, 0])
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        files: str | Path | Sequence[Any],
        size: int | tuple[int, int] | None = None,
        *,
        mode: Mode = "RGB",
    ) -> None:
        self._images: Any = require("PIL.Image", extra="images")
        if isinstance(files, str | Path):
            folder = Path(files)
            if not folder.is_dir():
                raise InputError(f"'{folder}' is not a folder of images.")
            files = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)
            if not files:
                raise InputError(f"The folder '{folder}' holds no images ({some(list(ENDINGS))}).")
        if mode not in CHANNELS:
            raise InputError(f"mode is {mode!r}; choose 'RGB', 'RGBA' or 'L'.")
        self.files, self.mode, self.size = list(files), mode, _sides(size)
        self._shape = self.size

    @classmethod
    def recognises(cls, X: Any) -> bool:
        """Return whether X is a folder, or a list of paths or PIL images."""
        if isinstance(X, str | Path):
            return True
        if not isinstance(X, list | tuple) or not X:
            return False
        return all(isinstance(item, str | Path) or _is_picture(item) for item in X)

    def __len__(self) -> int:
        return len(self.files)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all images together, as that of an array."""
        if self._shape is None and self.files:
            self._shape = self._read(0).shape[:2]
        sides = self._shape or (0, 0)
        return (len(self), *sides) if self.mode == "L" else (len(self), *sides, CHANNELS[self.mode])

    @property
    def ndim(self) -> int:
        """The number of dimensions: 3 for grey images, otherwise 4."""
        return 3 if self.mode == "L" else 4

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, int | np.integer):
            return self._read(int(rows))
        _ = self.shape  # before the first image is gone
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        chosen = range(len(self))[rows] if isinstance(rows, slice) else np.arange(len(self))[rows].tolist()
        part.files = [self.files[i] for i in chosen]
        return cast("Self", part)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Read all images; a file that occurs several times is read once."""
        pixels = np.empty(self.shape, dtype=np.uint8)
        first: dict[Any, int] = {}
        for i, file in enumerate(self.files):
            key = id(file) if _is_picture(file) else str(file)
            if key in first:
                pixels[i] = pixels[first[key]]
                continue
            image = self._read(i)
            if image.shape != pixels.shape[1:]:
                raise InputError(
                    f"{self._name(i)} has {image.shape[1]} x {image.shape[0]} pixels, and the first image "
                    f"{self.shape[2]} x {self.shape[1]}; pass l2x.ImageFiles(files, size=224), which brings "
                    "all images to one size."
                )
            pixels[i] = image
            first[key] = i
        return pixels if dtype is None else pixels.astype(dtype)

    def _name(self, i: int) -> str:
        return f"Image {i}" if _is_picture(self.files[i]) else f"'{self.files[i]}'"

    def _read(self, i: int) -> Array:
        """Return the pixels of one image."""
        file = self.files[i]
        try:
            with self._images.open(file) if not _is_picture(file) else file.copy() as picture:
                if self.size and hasattr(picture, "draft"):  # JPEG files are read at a fraction of their size
                    picture.draft("RGB" if self.mode == "RGB" else None, self.size[::-1])
                picture = picture.convert(self.mode)
                return np.asarray(picture if self.size is None else self._cut(picture), dtype=np.uint8)
        except (OSError, SyntaxError, ValueError) as error:
            raise InputError(f"{self._name(i)} cannot be read as an image: {error}.") from error

    def _cut(self, picture: Any) -> Any:
        """Return a picture of the wanted size: resized to cover it, and its centre cut out."""
        assert self.size is not None
        height, width = self.size
        factor = max(width / picture.width, height / picture.height)
        if factor != 1:
            sides = (max(width, round(picture.width * factor)), max(height, round(picture.height * factor)))
            picture = picture.resize(sides, self._images.Resampling.BILINEAR)
        left, top = (picture.width - width) // 2, (picture.height - height) // 2
        return picture.crop((left, top, left + width, top + height))


def _is_picture(item: Any) -> bool:
    """Return whether this is a PIL image, without importing PIL."""
    return hasattr(item, "convert") and hasattr(item, "getbands")


def _sides(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = (size, size) if is_whole(size) else size
    if not (isinstance(sides, tuple | list) and len(sides) == 2 and all(is_whole(side) for side in sides)):
        raise InputError(f"size is {size!r}; expected pixels, such as 224 or (224, 320), or None.")
    return int(sides[0]), int(sides[1])
