"""Log an explainer to MLflow as a pyfunc model whose predictions carry their explanations.

    info = l2x.export.mlflow.log_model(explainer, X, name="churn-explainer")
    mlflow.pyfunc.load_model(info.model_uri).predict(X)

A prediction is a row of `Explanation.to_frame(effects=True)`: the prediction, the selected features with
scores and effects, and what they add up to. The logged model is the file that `Explainer.save` writes, with
its checksum, and nothing in it is pickled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2x._version import __version__
from l2x.errors import ArtifactError, InputError, require
from l2x.explainer import Explainer
from l2x.export._artifact import read, save

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ExplainerModel", "load_model", "log_model", "save_model"]

# The module that MLflow imports to load a model, and the file within its folder.
LOADER, FILE = "l2x.export.mlflow", "explainer.l2x"
# Packages whose versions are stored with the model; `mlflow models build-docker` installs these versions.
PACKAGES = ("torch", "numpy", "pandas", "scikit-learn")


class ExplainerModel:
    """The model that MLflow calls: it maps inputs in the form of the signature to explained predictions.

    Attributes
    ----------
    explainer : Explainer
        The explainer, with its model if the logged model names one.
    """

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return one row per input, as `Explanation.to_frame` does, with effects if they can be computed.

        Parameters
        ----------
        model_input : DataFrame, array or list
            Rows. Columns of a frame are matched by name; further columns are ignored.
        params : mapping, optional
            `k` and `keep` of `Explainer.explain`; None or 0 stands for the explainer's own.
        """
        given = {name: value for name, value in (params or {}).items() if value}
        if unknown := set(given) - {"k", "keep"}:
            raise InputError(f"Unknown parameter '{min(unknown)}'; expected k and keep.")
        explanation = self.explainer.explain(self._inputs(model_input), **given)
        source = explanation.source
        frame: pd.DataFrame = explanation.to_frame(effects=source is not None and source.available)
        return frame.reset_index(drop=True)

    def get_raw_model(self) -> Explainer:
        """Return the explainer; `load_model(...).get_raw_model()` of MLflow calls this."""
        return self.explainer

    def _inputs(self, given: Any) -> Any:
        """Return rows as the view reads them."""
        if not hasattr(given, "columns"):
            return given
        layout = self.explainer.features_.table_layout()
        columns = layout.match([str(name) for name in given.columns], source="the input")
        rows = given.set_axis([str(name) for name in given.columns], axis=1)[columns]
        return rows.iloc[:, 0].tolist() if layout.form == "text" else layout.inputs(rows)


def log_model(
    explainer: Explainer,
    X: Any,
    *,
    name: str,
    model_uri: str | None = None,
    registered_model_name: str | None = None,
    **options: Any,
) -> Any:
    """Log a fitted explainer to the active run, or to a run of its own.

    Parameters
    ----------
    explainer : Explainer
        A fitted explainer.
    X : DataFrame, array or list of str
        A few rows in the form in which they will come. The signature has their types.
    name : str
        The name of the logged model.
    model_uri : str, optional
        The explained model, logged in MLflow as well, such as "models:/churn/3"; it must return class
        probabilities, or predicted values. Predictions are then the model's; otherwise they are the
        surrogate's, and the column `predicted_by` shows it.
    registered_model_name : str, optional
        Register the model under this name.
    **options
        Further arguments of `mlflow.pyfunc.log_model`.

    Returns
    -------
    mlflow.models.model.ModelInfo
        With `model_uri`, `signature` and `metadata`, which has the checksum.

    Raises
    ------
    MissingExtraError
        If MLflow is not installed.
    """
    return _written(
        "log_model", explainer, X, model_uri,
        name=name, registered_model_name=registered_model_name, **options,
    )  # fmt: skip


def save_model(
    explainer: Explainer, X: Any, path: str | Path, *, model_uri: str | None = None, **options: Any
) -> None:
    """Write a fitted explainer into a folder in MLflow's format; see `log_model` for the parameters."""
    _written("save_model", explainer, X, model_uri, path=str(path), **options)


def load_model(uri: str) -> Explainer:
    """Return the explainer of a logged model, with its model if the logged model names one.

    Raises
    ------
    ArtifactError
        If the file of the explainer is damaged, or not the one that was logged.
    """
    mlflow: Any = require("mlflow.pyfunc", extra="mlflow")
    explainer: Explainer = mlflow.load_model(uri).get_raw_model()
    return explainer


def _written(function: str, explainer: Explainer, X: Any, model_uri: str | None, **options: Any) -> Any:
    """Call a function of mlflow.pyfunc with the explainer as a file."""
    pyfunc: Any = require("mlflow.pyfunc", extra="mlflow")
    rows = _as_sent(X)
    with tempfile.TemporaryDirectory() as folder:
        file = save(explainer, Path(folder) / FILE)
        checksum = read(file).checksum
        config = {"l2x_sha256": checksum, "model_uri": model_uri}
        outputs = _load_pyfunc(str(file), config).predict(rows)  # as they will be after loading
        metadata = {"l2x_version": __version__, "l2x_sha256": checksum} | options.pop("metadata", {})
        return getattr(pyfunc, function)(
            loader_module=LOADER,
            data_path=str(file),
            model_config=config,
            signature=_signature(rows, outputs),
            pip_requirements=options.pop("pip_requirements", _requirements()),
            metadata=metadata,
            **options,
        )


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> ExplainerModel:
    """Return the model in a file; MLflow calls this with the path and what `_written` configured."""
    config = model_config or {}
    artifact = read(path)
    if artifact.checksum != config.get("l2x_sha256", artifact.checksum):
        raise ArtifactError(
            f"'{path}' has the checksum {artifact.checksum[:16]}..., but the explainer that was logged has "
            f"{config['l2x_sha256'][:16]}...: the file was replaced."
        )
    uri = config.get("model_uri")
    return ExplainerModel(artifact.explainer(model=_queried(uri) if uri else None, device="cpu"))


def _queried(uri: str) -> Any:
    """Return a logged model as a function from inputs to predictions."""
    model = require("mlflow.pyfunc", extra="mlflow").load_model(uri)

    def predict(X: Any) -> Any:
        return np.asarray(model.predict(X))

    return predict


def _as_sent(X: Any) -> Any:
    """Return rows as MLflow describes them: texts in a column, frames of other libraries as pandas."""
    import pandas as pd

    if isinstance(X, Sequence) and not isinstance(X, str) and X and isinstance(X[0], str):
        return pd.DataFrame({"text": list(X)})
    return X.to_pandas() if hasattr(X, "to_pandas") else X


def _signature(inputs: Any, outputs: pd.DataFrame) -> Any:
    """Return the types of inputs, outputs and parameters."""
    models: Any = require("mlflow.models", extra="mlflow")
    return models.infer_signature(inputs, outputs, params={"k": 0, "keep": 0.0})


def _requirements() -> list[str]:
    from importlib.metadata import version

    # Builds such as 2.13.0+cpu are not on every index.
    pinned = [f"{package}=={version(package).partition('+')[0]}" for package in PACKAGES]
    return [f"l2x[mlflow]=={__version__}", *pinned]
