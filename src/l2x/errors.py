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
    """Data, k, or an option that cannot be used; the message names what was given and what to do.

    Examples
    --------
    >>> import l2x
    >>> try:
    ...     l2x.baselines.RandomK().explain([[0.0, 1.0, 2.0]], k=7)
    ... except InputError as error:
    ...     print(error)
    k = 7 but there are 3 features; choose a whole number between 1 and 3.
    """


class BlackBoxError(L2XError, RuntimeError):
    """The model to be explained raised an error, or what it returned cannot be P_m(y|x).

    `l2x.label` and `fit(..., journal=)` keep the predictions made so far on disk, and resume from them.

    Examples
    --------
    >>> import l2x
    >>> model = l2x.as_black_box(lambda X: [[3.0, 3.0]])
    >>> try:
    ...     model([[0.0, 1.0, 2.0]])
    ... except BlackBoxError as error:
    ...     print("not a probability distribution" in str(error))
    True
    """


class TrainingError(L2XError, RuntimeError):
    """Training diverged, so that no weights are usable; the message names the loss and the learning rate.

    Examples
    --------
    >>> import l2x
    >>> data = l2x.datasets.synthetic("xor", 200, seed=0)
    >>> phase = l2x.Phase(20, learning_rate=1e30)
    >>> plan = l2x.TrainingPlan(phase, phase, progress=False)
    >>> try:
    ...     l2x.Explainer(data.model, 2, training=plan).fit(data.X)
    ... except TrainingError as error:
    ...     print("choose a lower one" in str(error))
    True
    """


class ArtifactError(L2XError, OSError):
    """A saved explainer, or the results of an unfinished run, that is truncated, edited or too new.

    Examples
    --------
    >>> import tempfile
    >>> import l2x
    >>> with tempfile.NamedTemporaryFile(suffix=".l2x") as file:
    ...     try:
    ...         l2x.load(file.name)
    ...     except ArtifactError as error:
    ...         print("not an l2x explainer" in str(error))
    True
    """


class WriteError(ArtifactError):
    """A file that cannot be written; a previous file at its place is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> import l2x
    >>> explanation = l2x.baselines.RandomK().explain([[0.0, 1.0, 2.0]], k=1)
    >>> with tempfile.TemporaryDirectory(suffix=".svg") as folder:  # a folder, where a file is needed
    ...     try:
    ...         explanation.plot(folder)
    ...     except WriteError as error:
    ...         print(folder in str(error))
    True
    """


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
    """`explain` was called before `fit`.

    Examples
    --------
    >>> import l2x
    >>> try:
    ...     l2x.Explainer(lambda X: X, k=1).explain([[0.0, 1.0]])
    ... except NotFittedError as error:
    ...     print(error)
    This Explainer is not fitted yet; call fit(X) first, or l2x.load(path).
    """


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
