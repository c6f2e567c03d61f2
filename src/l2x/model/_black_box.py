"""The model to be explained: anything that predicts, as one function from inputs to P_m(y|x)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import expit, softmax

from l2x._base.arrays import Array, tensor_to_array
from l2x.errors import BlackBoxError, InputError, require
from l2x.model._endpoint import Endpoint
from l2x.model._evaluating import evaluating
from l2x.model._transformers import check_has_tokenizer, is_transformer, transformer_options

Task = Literal["classification", "regression"]

# Probabilities may not sum to one because of rounding: a float32 softmax of 1,000 classes is off by 1e-5.
SUM_TOLERANCE = 1e-3


@dataclass(eq=False, repr=False)
class BlackBox:
    """A model that counts its queries and checks its predictions.

    Parameters
    ----------
    predict : callable, inputs -> array
        For classification, it returns `(n, c)` probabilities, or `(n,)` probabilities of the second of two
        classes; for regression, `(n,)` or `(n, m)` predicted values.
    task : "classification", "regression" or None
        None decides on the first prediction: several columns are class probabilities, one is a value.
        Logits are always a classification.
    logits : bool
        Whether the predictions are logits, to which a softmax (a sigmoid for one column) is applied.
    classes : sequence, optional
        The names of the classes.
    columns : sequence of str, optional
        The names of the columns that the model was fitted on.
    name : str
        The model's name in messages.
    in_flight : int
        How many batches may be queried at a time, by as many threads.
    most_rows : int, optional
        The most rows of one batch; None for no limit.

    Attributes
    ----------
    calls, rows : int
        How many batches and rows the model was queried for.
    """

    predict: Callable[[Any], Any]
    _: KW_ONLY
    task: Task | None = None
    logits: bool = False
    classes: Any = None
    columns: Any = None
    name: str = "the model"
    in_flight: int = 1
    most_rows: int | None = None
    calls: int = field(default=0, init=False)
    rows: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.task not in (None, *get_args(Task)):
            raise InputError(f"task is {self.task!r}; choose 'classification', 'regression' or None.")
        if self.logits and self.task == "regression":
            raise InputError(
                "task='regression' and logits=True exclude each other: logits belong to classes."
            )
        self.task = "classification" if self.logits else self.task
        self.classes = None if self.classes is None else np.asarray(self.classes)
        self.columns = None if self.columns is None else [str(column) for column in self.columns]

    def __call__(self, X: Any) -> Array:
        """Return P_m(y|x) for each row: (n, c) class probabilities, or (n, m) predicted values."""
        return self.accept(self.request(X), len(X))

    def request(self, X: Any) -> Array:
        """Return the model's output for X, unchecked and uncounted; any thread or process may call this."""
        try:
            return numbers_of(self.predict(X))
        except BlackBoxError:
            raise
        except Exception as error:
            message = (
                f"{self.name} raised {type(error).__name__} after {self.rows} rows, "
                f"on a batch of {len(X)}: {error}"
            )
            raise BlackBoxError(message) from error

    def interrupt(self) -> None:
        """Make requests give up that wait to be tried again, after an interruption."""
        if isinstance(self.predict, Endpoint):
            self.predict.interrupt()

    def accept(self, output: Array, n: int) -> Array:
        """Return the output of `request` for n rows, checked and counted."""
        predictions = self._checked(output, n)
        self.calls += 1
        self.rows += n
        return predictions

    def _checked(self, output: Array, n: int) -> Array:
        if output.ndim not in (1, 2) or len(output) != n:
            raise BlackBoxError(
                f"{self.name} was queried for {n} rows and returned an array of shape {output.shape}; "
                f"expected ({n}, classes) probabilities or ({n},) values."
            )
        if not np.isfinite(output).all():
            row = int(np.flatnonzero(~np.isfinite(output.reshape(n, -1)).all(axis=1))[0])
            raise BlackBoxError(
                f"{self.name} returned NaN or infinity (first in row {row} of a batch of {n})."
            )
        if self.task is None:
            self.task = "classification" if output.ndim == 2 and output.shape[1] > 1 else "regression"
        if self.task == "regression":
            return output if output.ndim == 2 else output[:, None]
        if self.logits:
            output = output.reshape(n, -1)
            output = softmax(output, axis=1) if output.shape[1] > 1 else expit(output)
        if output.ndim == 1 or output.shape[1] == 1:
            one = output.reshape(n)
            # The probability of the second of two classes, or of the only class that the model knows.
            only = self.classes is not None and len(self.classes) == 1
            output = np.stack([one, 1 - one] if only else [1 - one, one], axis=1)
        self._check_probabilities(output)
        return output

    def _check_probabilities(self, p: Array) -> None:
        sums = p.sum(axis=1)
        bad = (p < -SUM_TOLERANCE).any(axis=1) | (np.abs(sums - 1) > SUM_TOLERANCE)
        if not bad.any():
            return
        row = int(np.flatnonzero(bad)[0])
        shown = np.array2string(p[row, :5], precision=4, separator=", ")
        if (np.abs(sums - 1) <= SUM_TOLERANCE).all():
            hint = (
                "they sum to one, but some are negative: clip and normalise them, or pass "
                "l2x.as_black_box(model, task='regression') if they are values"
            )
        elif (p < 0).any() or (p > 1).any():
            hint = "these look like logits: pass l2x.as_black_box(model, logits=True)"
        else:
            hint = "normalise them, or pass l2x.as_black_box(model, task='regression') if they are values"
        raise BlackBoxError(
            f"{self.name} returned {shown} (sum {sums[row]:.4g}) for row {row}, "
            f"which is not a probability distribution; {hint}."
        )


def as_black_box(
    model: Any, *, task: Task | None = None, logits: bool = False, label: str | None = None
) -> BlackBox:
    """Wrap anything that predicts as one function from inputs to P_m(y|x).

    Parameters
    ----------
    model : object
        A callable, a scikit-learn style estimator, a torch module, a LightGBM or XGBoost booster, the path of
        an `.onnx` file, the address of a model (`https://...`, see `Endpoint`), or, of `transformers`, a
        text-classification pipeline or a pair (model, tokenizer).
    task : "classification", "regression" or None
        None takes what the model declares, or decides on its first prediction: several columns are class
        probabilities, one column is a value.
    logits : bool
        Whether the outputs are logits, as those of many torch modules.
    label : str, optional
        For models of `transformers`: the label whose probability is explained, compared with its absence.

    Returns
    -------
    BlackBox
        A function from inputs to probabilities (n, classes) or predicted values (n, outputs), which counts
        its queries in `rows`.

    Raises
    ------
    InputError
        If the object does not predict, or cannot have this `task`, `logits` or `label`.

    Notes
    -----
    A pipeline of `transformers` is queried for the scores of all labels, in batches, whatever its `top_k`.
    Texts that are too long for the model are truncated. What is explained depends on the model:

    - single label (softmax): the distribution over the labels, which become the names of the classes;
    - one label (sigmoid): the probability of the label, with the classes "not LABEL" and "LABEL";
    - multi-label (sigmoid): the probabilities of all labels together, as values (task "regression"), or, with
      `label="toxic"`, the probability of this label;
    - regression: the predicted values.

    >>> black_box = as_black_box(lambda X: np.full((len(X), 2), 0.5))
    >>> black_box(np.zeros((3, 4))).shape, black_box.rows
    ((3, 2), 3)
    """
    if is_transformer(model):
        return BlackBox(**transformer_options(model, task=task, logits=logits, label=label))
    if label is not None:
        raise InputError(f"label is {label!r}, but only models of transformers have labels; remove it.")
    if isinstance(model, BlackBox):
        return _unchanged(model, task, logits)
    check_has_tokenizer(model)
    if isinstance(model, str | Path | Endpoint):
        return _by_address(model, task, logits)
    return _by_object(model, task, logits)


def _by_address(model: str | Path | Endpoint, task: Task | None, logits: bool) -> BlackBox:
    """Wrap an endpoint, its address, or the path of an .onnx file."""
    if isinstance(model, str) and "://" in model:
        model = Endpoint(model)
    if isinstance(model, Endpoint):
        limits = {"in_flight": model.in_flight, "most_rows": model.rows_per_request}
        return BlackBox(model, task=task, logits=logits, name=model.name, **limits)
    return BlackBox(_onnx_predictor(Path(model)), task=task, logits=logits, name=str(model))


def _by_object(model: Any, task: Task | None, logits: bool) -> BlackBox:
    """Wrap an object that predicts."""
    if isinstance(model, type):
        raise InputError(
            f"{model.__name__} is a class, not a fitted model: pass an instance, such as "
            f"{model.__name__}(...).fit(X, y)."
        )
    kind, name = type(model).__module__.partition(".")[0], type(model).__name__
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return BlackBox(_torch_predictor(model), task=task, logits=logits, name=name)
    if name == "Booster" and kind in ("lightgbm", "xgboost"):
        return _booster(model, kind, task, logits)
    if hasattr(model, "predict_proba") and task != "regression":
        return _with_probabilities(model, logits)
    if hasattr(model, "predict"):
        return _with_predictions(model, task, logits)
    if callable(model):
        owner = getattr(model, "__self__", None)
        predict = _as_fitted(owner, model) if hasattr(owner, "n_features_in_") else model
        name, classes = getattr(model, "__qualname__", name), None
        if getattr(model, "__name__", "") == "predict_proba":
            _check_no_logits(name, logits)
            classes = getattr(owner, "classes_", None)
        columns = _column_names(owner)
        return BlackBox(predict, task=task, logits=logits, classes=classes, columns=columns, name=name)
    raise InputError(
        f"Cannot query a {name} for predictions: pass a callable, an estimator with predict_proba or "
        "predict, a torch module, a LightGBM or XGBoost booster, the path of an .onnx file, or https://..."
    )


def _unchanged(black_box: BlackBox, task: Task | None, logits: bool) -> BlackBox:
    """Return a black box as it is, if it already has the given options."""
    if task not in (None, black_box.task) or (logits and not black_box.logits):
        given = f"task={task!r}" if task is not None else "logits=True"
        raise InputError(
            f"{black_box.name} is already a black box, with task={black_box.task!r} and "
            f"logits={black_box.logits}: pass {given} when you create it."
        )
    return black_box


def _with_probabilities(model: Any, logits: bool) -> BlackBox:
    """Wrap an estimator with `predict_proba`."""
    name = f"{type(model).__name__}.predict_proba"
    _check_no_logits(name, logits)
    predict, columns = _as_fitted(model, model.predict_proba), _column_names(model)
    classes = getattr(model, "classes_", None)
    return BlackBox(predict, task="classification", classes=classes, columns=columns, name=name)


def _check_no_logits(name: str, logits: bool) -> None:
    if logits:
        raise InputError(
            f"{name} returns probabilities: leave logits=True out. If they are logits, pass a function that "
            "returns them."
        )


def _with_predictions(model: Any, task: Task | None, logits: bool) -> BlackBox:
    """Wrap an object with `predict`: a regressor, or anything whose predictions `task` and `logits` describe.

    A classifier's `predict` returns labels, whatever the options.
    """
    name, kind = type(model).__name__, _estimator_type(model)
    if kind == "classifier" and task == "regression":
        raise InputError(
            f"{name} is a classifier and cannot have task='regression': leave it out, or pass a function "
            "that returns the numbers to explain."
        )
    if kind == "classifier" or (_may_classify(model) and task is None and not logits):
        raise InputError(
            f"{name} has no predict_proba: l2x explains P(y|x). Calibrate it, for example with "
            "sklearn.calibration.CalibratedClassifierCV, or pass a callable that returns probabilities."
        )
    if task is None and not logits and kind == "regressor":
        task = "regression"
    classes = getattr(model, "classes_", None) if logits or task == "classification" else None
    predict, columns = _as_fitted(model, model.predict), _column_names(model)
    return BlackBox(
        predict, task=task, logits=logits, classes=classes, columns=columns, name=f"{name}.predict"
    )


def _estimator_type(model: Any) -> str | None:
    """Return what an estimator declares to be, such as "classifier"; None if it declares nothing."""
    declared: str | None = getattr(model, "_estimator_type", None)  # CatBoost, scikit-learn before 1.6
    if declared is None and hasattr(model, "__sklearn_tags__"):
        try:
            declared = model.__sklearn_tags__().estimator_type
        except AttributeError:  # a mixin of scikit-learn's without its BaseEstimator
            return None
    return declared


def _may_classify(model: Any) -> bool:
    """Return whether a model names classes; CatBoost's regressors do, too, and are declared as such."""
    classes = getattr(model, "classes_", None)
    return getattr(model, "_estimator_type", None) != "regressor" and classes is not None and len(classes) > 0


def numbers_of(output: Any, name: str = "The model") -> Array:
    """Return a model's output, or predictions with this name, as an array of numbers."""
    output = tensor_to_array(output)
    try:
        return np.asarray(output, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BlackBoxError(f"{name} returned {_shown(output)}") from error


def _shown(output: Any) -> str:
    """Return a text for an output that is not numeric, with advice."""
    try:
        first = np.asarray(output, dtype=object).ravel()[0]
    except (IndexError, TypeError, ValueError):
        first = None
    if isinstance(first, str):
        return (
            f"labels, such as {first!r}: l2x explains P(y|x). Pass the estimator itself, its predict_proba, "
            "or a function that returns the probabilities of the classes."
        )
    if isinstance(first, dict) and {"label", "score"} <= first.keys():
        return (
            f"labels and scores, such as {first}: pass the text-classification pipeline itself, or a "
            "function that returns an array of the probabilities of the classes."
        )
    return f"{type(output).__name__}, not an array of numbers."


def _as_fitted(estimator: Any, predict: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give an estimator what it was fitted on: a frame if it knows column names, an array otherwise."""
    if type(estimator).__module__.startswith("lightgbm") and hasattr(estimator, "feature_names_in_"):
        return partial(_predict_categories, predict)
    if _column_names(estimator) is not None:
        return predict
    return partial(_predict_array, predict, hasattr(estimator, "n_features_in_"))


# These are functions of the module, not closures, so that explainers of such estimators can be pickled.


def _predict_array(predict: Callable[[Any], Any], columns: bool, X: Any) -> Any:
    is_frame = columns and hasattr(X, "columns") and hasattr(X, "to_numpy")
    return predict(X.to_numpy() if is_frame else X)


def _predict_categories(predict: Callable[[Any], Any], X: Any) -> Any:
    return predict(_with_categories(X))


def _with_categories(X: Any) -> Any:
    """Return a frame with texts as categories, the only texts that LightGBM reads."""
    if not hasattr(X, "iloc"):
        return X
    text = X.select_dtypes(include=["object", "string"]).columns
    return X.astype(dict.fromkeys(text, "category")) if len(text) else X


def _column_names(model: Any) -> Any:
    """Return the column names that estimators of scikit-learn and CatBoost store; None if there are none."""
    return getattr(model, "feature_names_in_", getattr(model, "feature_names_", None))


def _numbers(X: Any) -> Array:
    return np.ascontiguousarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=np.float32)


def _torch_predictor(module: Any) -> Callable[[Any], Any]:
    import torch

    def predict(X: Any) -> Any:
        with evaluating(module), torch.no_grad():
            first = next(module.parameters(), None)
            x = X if isinstance(X, torch.Tensor) else torch.from_numpy(_numbers(X))
            return module(x if first is None else x.to(first.device))

    predict.module = module  # type: ignore[attr-defined]  # for views that read its layers
    return predict


def _booster(booster: Any, kind: str, task: Task | None, logits: bool) -> BlackBox:
    if kind == "lightgbm":
        objective = _lightgbm_objective(booster)
        predict, columns = booster.predict, booster.feature_name()
    else:
        import json

        xgboost = importlib.import_module("xgboost")
        objective = json.loads(booster.save_config())["learner"]["objective"]["name"]

        def predict(X: Any) -> Any:
            return booster.predict(xgboost.DMatrix(X, enable_categorical=True))

        columns = booster.feature_names

    name, raw = f"{kind}.Booster", objective == "binary:logitraw"
    classifies = any(word in objective for word in ("binary", "multi", "cross_entropy", "logistic"))
    if classifies and not raw:
        _check_no_logits(f"A {name} with the objective '{objective}'", logits)
    logits = logits or (raw and task != "regression")
    default: Task = "classification" if classifies or logits else "regression"
    return BlackBox(predict, task=task or default, logits=logits, columns=columns, name=name)


def _lightgbm_objective(booster: Any) -> str:
    """Return LightGBM's name for the objective of a booster; "" if it is a function.

    `booster.params` may have an alias, such as "softmax". The text of one iteration of
    the model begins with the name.
    """
    head, _, _ = booster.model_to_string(num_iteration=1).partition("\nfeature_names=")
    return str(head.partition("\nobjective=")[2].partition("\n")[0])


def _onnx_predictor(path: Path) -> Callable[[Any], Any]:
    if path.suffix != ".onnx":
        raise InputError(
            f"'{path}' is not an .onnx file; pass the model object, or the path of an .onnx file."
        )
    if not path.exists():
        raise InputError(f"There is no file '{path}'.")
    onnxruntime = require("onnxruntime", extra="onnx")
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"onnxruntime cannot read '{path}': {error}") from error
    entry = session.get_inputs()[0].name

    def predict(X: Any) -> Any:
        # Classifiers exported by skl2onnx return (labels, probabilities): the last output is P_m(y|x).
        output = session.run(None, {entry: _numbers(X)})[-1]
        if isinstance(output, list) and output and isinstance(output[0], dict):
            return np.array([[row[label] for label in sorted(row)] for row in output])
        return output

    return predict
