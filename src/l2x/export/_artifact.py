"""Save and load a fitted explainer: a safetensors file with settings as JSON and weights as tensors."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes
from torch import nn

from l2x._base.arrays import Array
from l2x._base.atomic import write_atomically
from l2x._version import __version__
from l2x.errors import ArtifactError, InputError
from l2x.explainer import Explainer
from l2x.features import View, checked_k, saved_options
from l2x.learning import (
    FittedSurrogate,
    Likelihood,
    Objective,
    PathSizes,
    Phase,
    Reference,
    Sampler,
    SelfCheck,
    Sizes,
    TrainingPlan,
    pick_device,
)

# Increased when an older version of l2x could not read the files of this one.
FORMAT = 1
# Stands for the options of a network that is a module of the user's own.
CUSTOM = "custom"


def save(explainer: Explainer, path: str | Path) -> Path:
    """Write a fitted explainer to a file; an older file stays intact until the new one is complete."""
    return write_atomically(_as_path(path), as_bytes(explainer))


def as_bytes(explainer: Explainer) -> bytes:
    """Return the content of the file that `save` writes."""
    explainer.check_fitted()
    checked_k(explainer.features_, explainer.k)  # may have been changed after `fit`
    learned, view_arrays = explainer.features_.state()
    tensors = {f"view.{name}": np.ascontiguousarray(array) for name, array in view_arrays.items()}
    tensors |= _weights("selector", explainer.selector_)
    for name, network in explainer.surrogate_.surrogate.networks.items():
        tensors |= _weights(name, network)
    tensors |= {} if explainer.sizes_ is None else explainer.sizes_.tensors()
    settings = json.loads(json.dumps(_settings(explainer, learned), default=_plain))
    header = {"format": FORMAT, "sha256": _checksum(settings, tensors), "explainer": settings}
    return bytes(tensor_bytes(tensors, metadata={"l2x": json.dumps(header)}))


def _settings(explainer: Explainer, learned: dict[str, Any]) -> dict[str, Any]:
    """Return everything except tensors; `learned` is the JSON part of the view's state."""
    objective, sampler, classes = explainer.objective, explainer.sampler, explainer.classes_
    queries = explainer.queries
    return {
        "l2x": __version__,
        "k": explainer.k,
        "objective": objective if isinstance(objective, str) else _named(objective),
        "target": explainer.target,
        "uses_prediction": explainer.uses_prediction,
        "queries": {"seconds": queries.total_seconds()} if isinstance(queries, timedelta) else queries,
        "seed": explainer.seed,
        "view": _named(explainer.features_) | {"learned": learned},
        "likelihood": _named(explainer.surrogate_.likelihood),
        "sampler": None if sampler is None else _named(sampler),
        "training": None if explainer.training is None else asdict(explainer.training),
        "selector": CUSTOM if isinstance(explainer.selector, nn.Module) else explainer.selector,
        "predictor": CUSTOM if isinstance(explainer.predictor, nn.Module) else explainer.predictor,
        "classes": None if classes is None else list(classes),
        "history": explainer.history_,
        "rows_queried": explainer.rows_queried_,
        "queries_made": explainer.queries_,
        "sizes": None if explainer.sizes_ is None else explainer.sizes_.header(),
        "prior": explainer.prior_,
        "fit_seconds": explainer.fit_seconds_,
        "fitted_at": None if explainer.fitted_at_ is None else explainer.fitted_at_.isoformat(),
        "reference": None if explainer.reference_ is None else explainer.reference_.to_dict(),
        "check": explainer.check_.to_dict(),
    }


def load(
    path: str | Path,
    *,
    model: Any = None,
    selector: nn.Module | None = None,
    predictor: nn.Module | None = None,
    device: str = "auto",
) -> Explainer:
    """Read an explainer that `save` wrote. Nothing in the file is executed.

    Views, objectives and samplers of your own are found by their class name: import their module first.

    Parameters
    ----------
    path : str or Path
        The file.
    model : callable, estimator, torch module or path, optional
        The model that is explained. Only `score`, `fit` and prediction-aware explainers need it.
    selector, predictor : torch.nn.Module, optional
        Networks of the same architecture, if the explainer was fitted with your own modules.
    device : str
        "auto", "cpu", "cuda", ...

    Returns
    -------
    Explainer
        The fitted explainer.

    Raises
    ------
    ArtifactError
        If the file is missing, truncated, edited, has another format, or is not an explainer.

    Examples
    --------
    >>> load("missing.l2x")
    Traceback (most recent call last):
        ...
    l2x.errors.ArtifactError: Cannot read 'missing.l2x': No such file or directory.
    """
    return read(path).explainer(model=model, selector=selector, predictor=predictor, device=device)


@dataclass(frozen=True)
class Artifact:
    """The verified content of a file.

    Attributes
    ----------
    path : Path
        The file.
    version : str
        The version of l2x that wrote it.
    checksum : str
        SHA-256 of settings and tensors.
    settings : dict
        Everything except tensors, as JSON.
    tensors : dict of str to array
        Weights of the networks and arrays of the view.
    """

    path: Path
    version: str
    checksum: str
    settings: dict[str, Any]
    tensors: dict[str, Array]

    def explainer(
        self,
        *,
        model: Any = None,
        selector: nn.Module | None = None,
        predictor: nn.Module | None = None,
        device: str = "auto",
    ) -> Explainer:
        """Return the explainer that was saved; see `load` for the parameters."""
        given = {"selector": selector, "predictor": predictor}
        try:
            networks = {name: self.settings[name] if own is None else own for name, own in given.items()}
            explainer = _unfitted(self.settings, model, networks, device)
            _restore(explainer, self.settings, self.tensors)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
            if isinstance(error, InputError | ArtifactError):
                raise
            raise ArtifactError(
                f"'{self.path}' does not hold a complete explainer ({type(error).__name__}: {error})."
            ) from error
        return explainer


def read(path: str | Path) -> Artifact:
    """Read and verify a file without building its explainer; raise an ArtifactError as `load` does."""
    path = _as_path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"Cannot read '{path}': {error.strerror}.") from error
    try:
        tensors = read_tensors(content)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["l2x"])
        version, settings, checksum = int(header["format"]), header["explainer"], header["sha256"]
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise ArtifactError(f"'{path}' is not an l2x explainer, or is truncated ({error}).") from error
    if version != FORMAT:
        raise ArtifactError(
            f"'{path}' has format {version}, but this version of l2x reads format {FORMAT}. Load it with the "
            "version that wrote it, or fit the explainer again."
        )
    if checksum != _checksum(settings, tensors):
        raise ArtifactError(f"'{path}' was changed after it was saved: its checksum does not match.")
    if not isinstance(settings, dict):
        raise ArtifactError(f"'{path}' does not hold a complete explainer.")
    return Artifact(path, str(settings.get("l2x", "unknown")), checksum, settings, tensors)


def _as_path(given: Any) -> Path:
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise InputError(f"Expected the path of a file, such as 'churn.l2x', got {given!r}.")
    return Path(given)


def _unfitted(settings: dict[str, Any], model: Any, networks: dict[str, Any], device: str) -> Explainer:
    """Return the explainer with the constructor parameters of the file."""
    objective, queries = settings["objective"], settings["queries"]
    return Explainer(
        model,
        settings["k"],
        features=_built(View, settings["view"]),
        objective=objective if isinstance(objective, str) else _built(Objective, objective),
        sampler=None if settings["sampler"] is None else _built(Sampler, settings["sampler"]),
        training=_plan(settings["training"]),
        target=settings["target"],
        uses_prediction=settings["uses_prediction"],
        queries=timedelta(**queries) if isinstance(queries, dict) else queries,
        seed=settings["seed"],
        device=device,
        **networks,
    )


def _restore(explainer: Explainer, settings: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Set the fitted attributes."""
    view = _built(View, settings["view"]).restore(settings["view"]["learned"], _part("view", tensors))
    view = view.attach(explainer.model)
    likelihood = _built(Likelihood, settings["likelihood"])
    black_box = None if explainer.model is None else explainer.black_box()
    device = pick_device(explainer.device)
    for name in ("selector", "predictor"):
        if getattr(explainer, name) == CUSTOM and _part(name, tensors):
            raise InputError(
                f"This explainer was fitted with a {name} of its author: pass load(path, {name}=module)."
            )
    _check_shapes(explainer, view, likelihood, tensors)
    selector = _with_weights(explainer.build_selector(view, likelihood), "selector", tensors)
    surrogate = explainer.build_surrogate(view, likelihood, black_box, device)
    for name, network in surrogate.networks.items():
        _with_weights(network, name, tensors)
    explainer.features_, explainer.n_features_in_ = view, view.d
    explainer.selector_ = selector.to(device)
    explainer.surrogate_ = FittedSurrogate(view, surrogate, black_box)
    explainer.history_, explainer.fit_seconds_ = settings["history"], settings["fit_seconds"]
    explainer.classes_ = None if settings["classes"] is None else np.asarray(settings["classes"])
    explainer.rows_queried_, explainer.queries_ = settings["rows_queried"], settings["queries_made"]
    explainer.check_ = SelfCheck.from_dict(settings["check"])
    # Files of the first version have neither; they lack nothing that `explain` needs.
    fitted_at, reference = settings.get("fitted_at"), settings.get("reference")
    explainer.fitted_at_ = None if fitted_at is None else datetime.fromisoformat(fitted_at)
    explainer.reference_ = None if reference is None else Reference.from_dict(reference)
    explainer.prior_ = float(settings["prior"])
    explainer.sizes_ = None
    if (sizes := settings["sizes"]) is not None:
        if "steps" in sizes:
            explainer.sizes_ = PathSizes.restore(sizes, tensors, d=view.d, outputs=likelihood.outputs)
        else:
            explainer.sizes_ = Sizes.restore(sizes, tensors, d=view.d)


def _check_shapes(
    explainer: Explainer, view: View, likelihood: Likelihood, tensors: dict[str, Array]
) -> None:
    """Compare the networks that the settings declare with the tensors in the file, before they take memory.

    A forged file of a few kilobytes may declare ten million outputs. Tensors on torch's device "meta" have a
    shape but no content.
    """
    with torch.device("meta"):
        declared = {"selector": explainer.build_selector(view, likelihood)}
        declared |= explainer.build_surrogate(view, likelihood, None, torch.device("meta")).networks
    for name, network in declared.items():
        expected = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
        stored = {key: array.shape for key, array in _part(name, tensors).items()}
        for key in sorted(expected.keys() | stored.keys()):
            if expected.get(key) != stored.get(key):
                raise ArtifactError(
                    f"The file declares a {name} with shape {expected.get(key)} for '{key}', but holds shape "
                    f"{stored.get(key)}: it was not written by l2x, or it was edited."
                )


def _named(thing: Any) -> dict[str, Any]:
    """Return the class name and the options of a view, objective, sampler or likelihood."""
    own = vars(type(thing))
    if isinstance(thing, View):
        return {"name": type(thing).__name__, "settings": saved_options(thing)}
    if "__init__" in own and "__dataclass_fields__" not in own:
        raise InputError(
            f"Cannot save {type(thing).__name__}: its options are unknown; make it a @dataclass(frozen=True)."
        )
    settings = asdict(thing) if is_dataclass(thing) and not isinstance(thing, type) else {}
    return {"name": type(thing).__name__, "settings": settings}


def _built(family: Any, saved: dict[str, Any]) -> Any:
    """Return the object that `_named` describes."""
    kind = family.by_name(saved["name"])
    settings = saved["settings"]
    if family is not View:  # JSON has no tuples; frozen dataclasses have no lists
        settings = {
            name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
        }
    return kind(**settings)


def _part(name: str, tensors: dict[str, Array]) -> dict[str, Array]:
    """Return the tensors whose names start with `name` and a dot, without that prefix."""
    start = f"{name}."
    return {key.removeprefix(start): array for key, array in tensors.items() if key.startswith(start)}


def _plan(saved: dict[str, Any] | None) -> TrainingPlan | None:
    if saved is None:
        return None
    phases = {name: Phase(**saved[name]) for name in ("value", "selector")}
    return TrainingPlan(**(saved | phases))


def _weights(prefix: str, network: nn.Module) -> dict[str, Array]:
    # contiguous: safetensors writes bytes in memory order and ignores strides (channels_last).
    return {
        f"{prefix}.{name}": tensor.detach().cpu().contiguous().numpy()
        for name, tensor in network.state_dict().items()
    }


def _with_weights(network: nn.Module, prefix: str, tensors: dict[str, Array]) -> nn.Module:
    weights = {name: torch.from_numpy(array.copy()) for name, array in _part(prefix, tensors).items()}
    network.load_state_dict(weights)
    network.requires_grad_(requires_grad=False)
    return network.eval()


def _checksum(settings: dict[str, Any], tensors: dict[str, Array]) -> str:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """Return numpy scalars and arrays, pandas indices, ranges and sets as JSON types."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, range | set | frozenset):
        return list(value)
    raise InputError(f"Cannot save {type(value).__name__} {value!r} without pickle.")
