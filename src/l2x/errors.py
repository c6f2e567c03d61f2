"""Every error that l2x raises on purpose.

L2XError
├── InputError          data, k or an option that cannot be used          (also a ValueError)
├── BlackBoxError       the model raised, or returned no P_m(y|x)         (also a RuntimeError)
├── TrainingError       training diverged: no weights are usable          (also a RuntimeError)
├── ArtifactError       a saved explainer or result that cannot be read   (also an OSError)
│   └── WriteError      an explainer, a table or a figure that cannot be written
├── DataError           a data set that is neither cached nor available   (also an OSError)
├── StudyError          an answer that a study cannot accept
├── MissingExtraError   an optional package is not installed              (also an ImportError)
└── NotFittedError      explain before fit                                (also scikit-learn's)
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType

from sklearn.exceptions import NotFittedError as SklearnNotFittedError

__all__ = [
    "ArtifactError",
    "BlackBoxError",
    "DataError",
    "InputError",
    "L2XError",
    "MissingExtraError",
    "NotFittedError",
    "StudyError",
    "TrainingError",
    "WriteError",
]


class L2XError(Exception):
    """The root of the errors: `except l2x.L2XError` catches every deliberate error.

    >>> issubclass(InputError, L2XError), issubclass(InputError, ValueError)
    (True, True)
    """


class InputError(L2XError, ValueError):
    """Data, k, or an option that cannot be used; the message names what was given and what to do."""


class BlackBoxError(L2XError, RuntimeError):
    """The model to be explained raised an error, or what it returned cannot be P_m(y|x).

    `l2x.label` and `fit(..., journal=)` keep the predictions made so far on disk, and resume from them.
    """


class TrainingError(L2XError, RuntimeError):
    """Training diverged, so that no weights are usable; the message names the loss and the learning rate."""


class ArtifactError(L2XError, OSError):
    """A saved explainer, or the results of an unfinished run, that is truncated, edited or too new."""


class WriteError(ArtifactError):
    """A file that cannot be written; a previous file at its place is unchanged."""


class DataError(L2XError, OSError):
    """A data set that is not in the cache and cannot be fetched, or whose checksum is wrong."""


class StudyError(L2XError):
    """An answer that a study cannot accept: the study is closed, or the question is answered already."""


class MissingExtraError(L2XError, ImportError):
    """A package of an optional extra is not installed.

    >>> require("nowhere", extra="plots")
    Traceback (most recent call last):
        ...
    l2x.errors.MissingExtraError: This needs the package 'nowhere'; install it with: pip install 'l2x[plots]'
    """


class NotFittedError(L2XError, SklearnNotFittedError):  # type: ignore[misc]
    """`explain` was called before `fit`."""


def require(module: str, *, extra: str) -> ModuleType:
    """Import `module`; raise a MissingExtraError that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"This needs the package '{package}'; install it with: pip install 'l2x[{extra}]'"
        raise MissingExtraError(message) from error


def shown(value: object, most: int = 40) -> str:
    """Return the beginning of a value's repr, for an error about a value that may have any size.

    >>> shown("x" * 1000, 8), shown(3)
    ("'xxxxxxx...", '3')
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write integers with thousands of digits
        text = f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= most else f"{text[:most]}..."


def some(names: Sequence[object]) -> str:
    """Return at most five names as a text, so that an error stays one sentence."""
    shown = ", ".join(map(str, names[:5]))
    return shown if len(names) <= 5 else f"{shown}, ... ({len(names)} in all)"
