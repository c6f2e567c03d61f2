"""Tests of the contracts that extensions of the library rely on: `check_view` for a new kind of input."""

from __future__ import annotations

import json
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from l2x._base.arrays import Array
from l2x.errors import InputError
from l2x.explainer import Explainer
from l2x.export import load
from l2x.features import View, as_tensor, is_missing
from l2x.learning import Phase, TrainingPlan, networks_of

__all__ = ["check_view"]

# Inputs that are used, at least and at most: enough to train networks for a few steps.
FEWEST, MOST = 10, 60
# Classes of the networks that are tried.
OUTPUTS = 3


def check_view(view: View, X: Any, model: Any = None) -> None:
    """Check that a view keeps the promises of `l2x.features.View`, as `check_estimator` does in scikit-learn.

    The checks cover options and `fit`, `check`, `take`, `encode`, `mask` and the registered networks,
    `for_model` with every masking, `selectable`, `units`, `names_in`, `jitter`, `sample` if it is defined,
    `state` and `restore`, errors for wrong inputs, and an explainer that is fitted, saved and loaded.

    Parameters
    ----------
    view : View
        The view with its options; it need not be fitted and stays as it is.
    X : inputs that the view reads
        At least ten; the first 60 are used.
    model : callable or any model that `l2x.as_black_box` accepts, optional
        The black box that reads what `view.for_model` returns. By default, a function that gives each input
        one of two classes.

    Raises
    ------
    AssertionError
        If a promise is broken; the message names the method and what it should have returned.

    >>> import l2x
    >>> check_view(l2x.Columns(), np.random.default_rng(0).normal(size=(20, 3)))
    """
    _check_options(view, X)
    fitted: View = clone(view).fit(X)
    _require(len(X) >= FEWEST, view, "X", f"has {len(X)} inputs; pass at least {FEWEST}")
    raw = fitted.take(fitted.check(X), slice(0, min(len(X), MOST)))
    case = _Case(fitted, raw, fitted.encode(raw), model or _any_model)
    for check in _CHECKS:
        check(case)


@dataclass(frozen=True)
class _Case:
    """A fitted view, checked inputs, the same encoded, and a model that reads them."""

    view: View
    X: Any
    x: Tensor
    model: Any

    @property
    def n(self) -> int:
        return len(self.x)

    def mask(self, share: float) -> Array:
        """Return a random mask (n, d): with share 0 nothing is selected, with share 1 everything."""
        return np.random.default_rng(1).random((self.n, self.view.d)) < share

    def require(self, holds: bool, method: str, promise: str) -> None:
        _require(holds, self.view, method, promise)


def _require(holds: bool, view: View, method: str, promise: str) -> None:
    if not holds:
        raise AssertionError(f"{type(view).__name__}.{method} {promise}.")


def _check_options(view: View, X: Any) -> None:
    """Options are stored as they are given, and `fit` learns into other attributes."""
    before = view.get_params(deep=False)
    copied = clone(view)
    _require(copied.fit(X) is copied, view, "fit", "must return self")
    after = copied.get_params(deep=False)
    changed = [name for name in before if not _same(before[name], after[name])]
    _require(not changed, view, "fit", f"changed the options {changed}; store what it learns as `name_`")
    _require(isinstance(getattr(copied, "names_", None), list), view, "fit", "must set `names_`, a list")
    names = copied.names_
    texts = all(isinstance(name, str | int) for name in names)
    unique = len(set(names)) == len(names) > 0
    _require(texts and unique, view, "names_", f"must hold one different name per feature, not {names[:5]}")
    _require(view.kind in ("table", "text", "image"), view, "kind", "must be 'table', 'text' or 'image'")
    _require(isinstance(view.unit, str) and view.unit != "", view, "unit", "must be a word for one feature")


def _check_inputs(case: _Case) -> None:
    """Checked inputs can be checked again, and rows can be taken before or after encoding."""
    view, X = case.view, case.X
    case.require(
        isinstance(case.x, Tensor) and len(case.x) == len(X), "encode", "must return a tensor (n, ...)"
    )
    case.require(_same(view.encode(view.check(X)), case.x), "check", "must accept what it returned")
    case.require(_same(view.encode(X), case.x), "encode", "must give the same tensor for the same inputs")
    for rows in (slice(2, 6), np.array([5, 1, 1])):
        taken = view.encode(view.take(X, rows))
        case.require(_same(taken, case.x[rows]), "take", f"must return rows {rows} as `encode` knows them")


def _check_selectable(case: _Case) -> None:
    allowed = case.view.selectable(case.x)
    if allowed is not None:
        fits = allowed.dtype == torch.bool and allowed.shape == (case.n, case.view.d)
        case.require(fits, "selectable", f"must return None or booleans of shape {(case.n, case.view.d)}")


def _check_maskings(case: _Case) -> None:
    """Every masking keeps selected features as they are."""
    whole = case.view.for_model(case.X)
    for way, view in case.view.maskings().items():
        label = "for_model" if way is None else f"for_model with masking={way!r}"
        rng = np.random.default_rng
        everything = view.for_model(case.X, case.mask(1.0), rng=rng(0))
        unchanged = _same(everything, whole)
        if not unchanged and view.kind == "text":  # words are the same, spaces and punctuation need not be
            unchanged = _same(view.encode(view.check(everything)), case.x)
        case.require(unchanged, label, "must return whole inputs if everything is selected")
        one, two = (view.for_model(case.X, case.mask(0.5), rng=rng(0)) for _ in range(2))
        case.require(len(one) == case.n, label, f"must return {case.n} inputs for {case.n} inputs")
        case.require(_same(one, two), label, "must return the same for the same mask and generator")
        nothing = view.for_model(case.X, case.mask(0.0), rng=rng(0))
        case.require(len(nothing) == case.n, label, "must return an input also where nothing is selected")
        case.require(view.names_ == case.view.names_, label, "must not change the features")


def _check_networks(case: _Case) -> None:
    """The registered networks read the encoding, and nothing of unselected features."""
    view, x, networks = case.view, case.x, networks_of(case.view, OUTPUTS)
    scores = networks.selector()(x)
    shape = (case.n, view.d)
    case.require(scores.shape == shape, "encode", f"and the selector give {tuple(scores.shape)}, not {shape}")
    nothing, everything, half = (torch.from_numpy(case.mask(share)).float() for share in (0.0, 1.0, 0.5))
    for sees_mask in (True, False):
        predictor = networks.predictor(sees_mask=sees_mask).eval()
        predicted = predictor(view.mask(x, everything), everything)
        shape = (case.n, OUTPUTS)
        case.require(
            predicted.shape == shape, "mask", f"and the predictor give {predicted.shape}, not {shape}"
        )
        blank = predictor(view.mask(x, nothing), nothing)
        case.require(
            _close(blank, blank[:1].expand_as(blank)), "mask", "must hide all inputs if nothing is selected"
        )
    masked = view.for_model(case.X, case.mask(0.5))
    if isinstance(masked, np.ndarray) and view.fixed_features:  # of a kind that can be encoded again
        again = view.encode(view.check(masked))
        one, other = predictor(view.mask(x, half), half), predictor(view.mask(again, half), half)
        case.require(_close(one, other, atol=1e-4), "mask", "must hide the features outside the mask")


def _check_units(case: _Case) -> None:
    """Scores of numbers that the model reads add up to scores of features."""
    given = case.view.for_model(case.X)
    if not case.view.has_distances or not isinstance(given, np.ndarray | Tensor):
        return
    parts = torch.rand_like(as_tensor(np.asarray(given)))
    sums = case.view.units(parts)
    case.require(sums.shape == (case.n, case.view.d), "units", f"must return {(case.n, case.view.d)}")
    case.require(_close(sums.sum(), parts.sum(), atol=1e-2), "units", "must sum all parts of each feature")


def _check_names(case: _Case) -> None:
    names = case.view.names_in(case.X, np.zeros((case.n, 1), dtype=int))
    fits = names is None or names.shape == (case.n, 1)
    case.require(fits, "names_in", f"must return None or names of the shape of the indices, {(case.n, 1)}")


def _check_state(case: _Case) -> None:
    """What is saved as JSON and arrays gives the same view again."""
    learned, arrays = case.view.state()
    try:
        learned = json.loads(json.dumps(learned))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{type(case.view).__name__}.state must return JSON first: {error}.") from error
    plain = all(isinstance(array, np.ndarray) for array in arrays.values())
    case.require(plain, "state", "must return numpy arrays second")
    restored = clone(case.view).restore(learned, arrays)
    case.require(restored.names_ == case.view.names_, "restore", "must set the same `names_`")
    X = restored.check(case.X)
    case.require(_same(restored.encode(X), case.x), "restore", "must encode as before")
    one, two = (view.for_model(case.X, case.mask(0.5)) for view in (case.view, restored))
    case.require(_same(one, two), "restore", "must mask as before")


def _check_made_up_inputs(case: _Case) -> None:
    """Noise and samples are inputs of the same kind."""
    view = case.view
    noisy = view.jitter(case.X, np.random.default_rng(0))
    if noisy is not None:
        shape = view.encode(view.check(noisy)).shape
        case.require(shape == case.x.shape, "jitter", "must return inputs of the same shape")
    if type(view).sample is View.sample:
        return
    one, two = (view.sample(7, np.random.default_rng(0)) for _ in range(2))
    encoded = view.encode(view.check(one))
    case.require(len(encoded) == 7, "sample", "must return n inputs")
    case.require(encoded.shape[1:] == case.x.shape[1:], "sample", "must return inputs like those of training")
    again = view.encode(view.check(two))
    case.require(_same(encoded, again), "sample", "must draw from `rng` alone")


def _check_errors(case: _Case) -> None:
    """Wrong inputs are an InputError, which callers show to their users."""
    view = case.view
    _refused(clone(view), "fit", view.take(case.X, slice(0, 0)), "no inputs")
    for wrong in (None, 5, object()):
        _refused(clone(view), "fit", wrong, repr(wrong))
        _refused(view, "check", wrong, repr(wrong))
    layout = view.table_layout() if view.kind == "table" else None
    case.require(layout is None or layout.form in ("frame", "text", "matrix"), "table_layout", "has no form")


def _refused(view: View, method: str, X: Any, what: str) -> None:
    try:
        getattr(view, method)(X)
    except InputError:
        return
    except Exception as error:
        problem = f"raised {type(error).__name__} for {what}; raise l2x.errors.InputError"
        raise AssertionError(f"{type(view).__name__}.{method} {problem}.") from error
    raise AssertionError(f"{type(view).__name__}.{method} accepts {what}; raise l2x.errors.InputError.")


def _check_explainer(case: _Case) -> None:
    """An explainer with the view can be fitted, drawn, saved and loaded, and depends on its seed alone."""
    phase = Phase(4, 5e-3, batch_size=10)
    plan = TrainingPlan(value=phase, selector=phase, evaluations=2, progress=False)
    one, two = (
        Explainer(case.model, 1, features=clone(case.view), training=plan).fit(case.X) for _ in range(2)
    )
    explanation = one.explain(case.X)
    shape = (case.n, case.view.d)
    case.require(explanation.scores.shape == shape, "encode", f"must lead to scores of shape {shape}")
    repeated = two.explain(case.X).scores
    case.require(_same(explanation.scores, repeated), "fit", "must be deterministic: two explainers differ")
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(one.save(Path(folder) / "view.l2x"))
    scores = loaded.explain(case.X).scores
    case.require(_same(explanation.scores, scores), "restore", "must explain as before saving")
    case.require(len(explanation.to_frame()) == case.n, "names_in", "must name the features of each input")
    case.require(explanation[:2].to_html() != "", "kind", "must lead to a drawing")


_CHECKS = (
    _check_inputs,
    _check_selectable,
    _check_maskings,
    _check_networks,
    _check_units,
    _check_names,
    _check_state,
    _check_made_up_inputs,
    _check_errors,
    _check_explainer,
)


def _same(one: Any, other: Any) -> bool:
    """Return whether two arrays, tensors, frames or lists hold equal values; missing ones are equal."""
    if isinstance(one, list) and one and isinstance(one[0], list):  # of different lengths, for numpy no array
        return bool(one == other)
    one, other = (nw.from_native(value, eager_only=True, pass_through=True) for value in (one, other))
    if isinstance(one, nw.DataFrame):
        one, other = (np.array(frame.rows(), dtype=object) for frame in (one, other))
    a, b = (np.asarray(value) for value in (one, other))
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "fiub" and b.dtype.kind in "fiub":
        return bool(np.array_equal(a, b, equal_nan=True))
    pairs = zip(a.ravel(), b.ravel(), strict=True)
    return all(x == y or (is_missing(x) and is_missing(y)) for x, y in pairs)


def _close(one: Tensor, other: Tensor, *, atol: float = 1e-6) -> bool:
    return torch.allclose(one, other, atol=atol)


def _any_model(X: Any) -> Array:
    """Give inputs of any kind one of two classes, with a probability that depends on all that is in them."""
    try:
        cells = np.nan_to_num(np.asarray(X, dtype=np.float64)).reshape(len(X), -1)
        z = cells.sum(axis=1)
    except (TypeError, ValueError):  # texts, or frames with categories
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        rows = frame.rows() if isinstance(frame, nw.DataFrame) else X
        z = np.array([zlib.crc32(repr(row).encode()) % 97 for row in rows], dtype=np.float64)
    p = 0.5 + 0.4 * np.sin(z)
    return np.stack([1 - p, p], axis=1)
