"""Digits: what the files must be, and the error when they are not available."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import l2x
from l2x.datasets import data_folder, mnist, small_digits
from l2x.datasets._mnist import read_idx, select_digits

module = sys.modules["l2x.datasets._mnist"]  # the package's name `mnist` is the function


def test_idx(tmp_path: Path) -> None:
    X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    header = bytes([0, 0, 8, 3]) + np.array(X.shape, dtype=">i4").tobytes()
    (tmp_path / "x").write_bytes(header + X.tobytes())
    assert np.array_equal(read_idx(tmp_path / "x"), X)


def test_some_digits() -> None:
    labels = np.array([3, 1, 8, 8, 0])
    data = select_digits(np.zeros((5, 2, 2)), labels, (8, 3))
    assert data.y.tolist() == [1, 0, 0]
    assert data.classes == (8, 3)
    for wrong in [(3,), (3, 3), (3, 12)]:
        with pytest.raises(l2x.errors.InputError, match="at least two different"):
            select_digits(np.zeros((5, 2, 2)), labels, wrong)


def test_small_digits() -> None:
    data = small_digits()
    assert data.X.shape == (1797, 8, 8)
    assert data.X.dtype == np.uint8
    assert data.X.max() == 255
    assert sorted(set(data.y.tolist())) == list(range(10))


def test_mnist_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetched for real, into the user's cache; skipped only where no source can be reached."""
    try:
        train, test = mnist(progress=False), mnist(split="test", progress=False)
    except l2x.errors.DataError as error:
        pytest.skip(f"MNIST is neither cached nor to be had here: {error}")
    assert (len(train), len(test)) == (11_982, 1_984)
    assert train.X.shape[1:] == (28, 28)
    assert train.X.dtype == np.uint8
    home = data_folder() / "mnist"
    monkeypatch.setenv("L2X_DATA", str(tmp_path))
    monkeypatch.setattr(module, "MNIST", replace(module.MNIST, sources=[]))
    with pytest.raises(l2x.errors.DataError, match="is not in"):
        mnist(progress=False)
    assert len(mnist(None, split="test", folder=home, progress=False)) == 10_000
    with pytest.raises(l2x.errors.InputError, match="split is 'dev'"):
        mnist(split="dev")
