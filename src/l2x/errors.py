"""Every error that l2x raises on purpose.

L2XError
├── InputError          data, k or an option that cannot be used        (also a ValueError)
├── BlackBoxError       the model raised, or returned no P_m(y|x)       (also a RuntimeError)
├── TrainingError       training diverged: no weights are usable        (also a RuntimeError)
├── ArtifactError       a saved explainer or result that cannot be read (also an OSError)
│   └── WriteError      an explainer, a table or a figure that cannot be written
├── DataError           a data set that is not here and cannot be fetched (also an OSError)
├── StudyError          an answer that a study cannot take (closed, out of turn)
├── MissingExtraError   an optional package is not installed            (also an ImportError)
└── NotFittedError      explain before fit                              (also scikit-learn's)
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType

from sklearn.exceptions import NotFittedError as SklearnNotFittedError


class L2XError(Exception):
    """The root: `except l2x.L2XError` catches every deliberate error.

    >>> issubclass(InputError, L2XError)
    True
    """


class InputError(L2XError, ValueError):
    """The data, k, or an option cannot be used; the message says what was given and what to do.

    >>> issubclass(InputError, ValueError)
    True
    """


class BlackBoxError(L2XError, RuntimeError):
    """The model to be explained raised, or what it returned cannot be P_m(y|x).

    `l2x.label` and `fit(..., journal=)` keep the predictions made so far on disk, and resume from them.

    >>> issubclass(BlackBoxError, RuntimeError)
    True
    """


class TrainingError(L2XError, RuntimeError):
    """Training diverged, so that there are no weights to keep; the message names the loss and the rate.

    >>> issubclass(TrainingError, RuntimeError)
    True
    """


class ArtifactError(L2XError, OSError):
    """A saved explainer is truncated, edited, or of a newer format; or the results of an unfinished run are
    damaged.

    >>> issubclass(ArtifactError, OSError)
    True
    """


class WriteError(ArtifactError):
    """A file cannot be written; what was there before is unchanged.

    >>> issubclass(WriteError, ArtifactError)
    True
    """


class DataError(L2XError, OSError):
    """A data set is not in the cache and cannot be fetched, or its checksum is wrong.

    >>> issubclass(DataError, OSError)
    True
    """


class StudyError(L2XError):
    """A study cannot take this answer: it is closed, or another one stands already.

    >>> issubclass(StudyError, L2XError)
    True
    """


class MissingExtraError(L2XError, ImportError):
    """A package of an optional extra is not installed.

    >>> require("nowhere", extra="plots")
    Traceback (most recent call last):
        ...
    l2x.errors.MissingExtraError: This needs the package 'nowhere'; install it with: pip install 'l2x[plots]'
    """


class NotFittedError(L2XError, SklearnNotFittedError):  # type: ignore[misc]
    """`explain` was called before `fit`.

    >>> issubclass(NotFittedError, SklearnNotFittedError)
    True
    """


def require(module: str, *, extra: str) -> ModuleType:
    """Import `module`, or say in one sentence which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"This needs the package '{package}'; install it with: pip install 'l2x[{extra}]'"
        raise MissingExtraError(message) from error


def some(names: Sequence[object]) -> str:
    """At most five names, so that an error stays one sentence."""
    shown = ", ".join(map(str, names[:5]))
    return shown if len(names) <= 5 else f"{shown}, ... ({len(names)} in all)"
