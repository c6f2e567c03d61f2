"""A fitted explainer as one file: safetensors, whose header carries the rest as JSON. No pickle, no code.

    tensors         selector.*, predictor.* (weights) and view.* (what the view learned)
    header, "l2x"   {"format": version, "sha256": checksum of settings and tensors, "explainer": settings}

Any safetensors reader opens it. Networks that are not l2x's own are saved by their weights alone; who loads
them hands the (untrained) modules over: `l2x.load(path, selector=module)`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import torch
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes
from torch import nn

from l2x import sampling
from l2x._version import __version__
from l2x.errors import ArtifactError, InputError
from l2x.explainer import Explainer
from l2x.features.columns import Columns
from l2x.features.groups import ColumnGroups
from l2x.features.patches import Patches
from l2x.features.sentences import Sentences
from l2x.features.view import View
from l2x.features.words import Words
from l2x.foundations.arrays import Array
from l2x.foundations.atomic import write_atomically
from l2x.likelihood import Categorical, Gaussian, Response
from l2x.training import Phase, TrainingPlan
from l2x.values import ModelValue, NetworkValue

if TYPE_CHECKING:
    from l2x.sampling import Sampler

FORMAT = 1

VIEWS: dict[str, type[View]] = {
    "Columns": Columns,
    "ColumnGroups": ColumnGroups,
    "Patches": Patches,
    "Words": Words,
    "Sentences": Sentences,
}
RESPONSES: dict[str, Any] = {"Categorical": Categorical, "Gaussian": Gaussian}
SAMPLERS = ("ConcreteMax", "ExactSum", "PlackettLuce", "Reinforce", "RelaxedTopK", "SoftAttention")


def save(explainer: Explainer, path: str | Path) -> Path:
    """Write the fitted explainer; an older file at `path` stays intact until the new one is complete."""
    return write_atomically(path, as_bytes(explainer))


def as_bytes(explainer: Explainer) -> bytes:
    """The content of the file."""
    explainer._check_fitted()
    learned, view_arrays = explainer.features_.state()
    tensors = {f"view.{name}": np.ascontiguousarray(array) for name, array in view_arrays.items()}
    tensors |= _weights("selector", explainer.selector_)
    if isinstance(explainer.value_, NetworkValue):
        tensors |= _weights("predictor", explainer.value_.predictor)
    classes = explainer.classes_
    settings = {
        "l2x": __version__,
        "k": explainer.k,
        "value": explainer.value,
        "seed": explainer.seed,
        "view": _named(explainer.features_, explainer.features_.get_params(deep=False))
        | {"learned": learned},
        "response": _dataclass(explainer.response_),
        "sampler": _dataclass(explainer.sampler),
        "training": None if explainer.training is None else asdict(explainer.training),
        "selector": _options(explainer.selector),
        "predictor": _options(explainer.predictor),
        "classes": None if classes is None else [_plain(label) for label in classes],
        "history": explainer.history_,
        "rows_asked": explainer.rows_asked_,
        "fit_seconds": explainer.fit_seconds_,
    }
    settings = json.loads(json.dumps(settings, default=_plain))
    header = {"format": FORMAT, "sha256": _checksum(settings, tensors), "explainer": settings}
    return bytes(tensor_bytes(tensors, metadata={"l2x": json.dumps(header)}))


def load(
    path: str | Path,
    *,
    model: Any = None,
    selector: nn.Module | None = None,
    predictor: nn.Module | None = None,
    device: str = "auto",
) -> Explainer:
    """Read an explainer that `save` wrote. Nothing in the file is executed.

    `model` is only needed to score or to fit again; `selector` and `predictor` if they were your own.
    """
    settings, tensors = _read(Path(path))
    try:
        return _rebuild(settings, tensors, model, selector, predictor, device)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise ArtifactError(
            f"'{path}' does not hold a complete explainer ({type(error).__name__}: {error})."
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Settings and tensors of a file that has proved whole."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"Cannot read '{path}': {error.strerror}.") from error
    try:
        tensors = read_tensors(content)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["l2x"])
        version, settings, checksum = int(header["format"]), header["explainer"], header["sha256"]
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ArtifactError(f"'{path}' is not an l2x explainer, or is truncated ({error}).") from error
    if version > FORMAT:
        raise ArtifactError(
            f"'{path}' has format {version}; this l2x reads up to {FORMAT}. Upgrade l2x to load it."
        )
    if checksum != _checksum(settings, tensors):
        raise ArtifactError(f"'{path}' was changed after it was saved: its checksum does not match.")
    return settings, tensors


def _rebuild(
    settings: dict[str, Any],
    tensors: dict[str, Array],
    model: Any,
    selector: nn.Module | None,
    predictor: nn.Module | None,
    device: str,
) -> Explainer:
    from l2x.explainer import pick_device

    view_settings = settings["view"]
    features = _view(view_settings)
    explainer = Explainer(
        model,
        settings["k"],
        features=features,
        value=settings["value"],
        sampler=_sampler(settings["sampler"]),
        selector=selector if selector is not None else settings["selector"],
        predictor=predictor if predictor is not None else settings["predictor"],
        training=_plan(settings["training"]),
        seed=settings["seed"],
        device=device,
    )
    view_arrays = {
        name.removeprefix("view."): array for name, array in tensors.items() if name.startswith("view.")
    }
    view = _view(view_settings).restore(view_settings["learned"], view_arrays)
    response = _response(settings["response"])
    place = pick_device(device)
    _check_module("selector", settings["selector"], selector)
    explainer.selector_ = _with_weights(explainer.build_selector(view, response), "selector", tensors).to(
        place
    )
    if settings["value"] == "model":
        explainer.value_ = ModelValue(
            None if model is None else explainer._black_box(), response, seed=explainer.seed
        )
    else:
        _check_module("predictor", settings["predictor"], predictor)
        network = _with_weights(explainer.build_predictor(view, response), "predictor", tensors)
        explainer.value_ = NetworkValue(network.to(place), response)
    explainer.features_, explainer.response_ = view, response
    explainer.history_, explainer.n_features_in_ = settings["history"], view.d
    explainer.classes_ = None if settings["classes"] is None else np.asarray(settings["classes"])
    explainer.rows_asked_, explainer.fit_seconds_ = settings["rows_asked"], settings["fit_seconds"]
    return explainer


def _view(saved: dict[str, Any]) -> View:
    """A view that is not fitted yet; one view may hold another."""
    settings = saved["settings"]
    inside = {name: _view(settings[name]) for name in ("columns",) if settings.get(name)}
    return VIEWS[saved["name"]](**(settings | inside))


def _named(thing: Any, settings: dict[str, Any]) -> dict[str, Any]:
    return {"name": type(thing).__name__, "settings": settings}


def _dataclass(thing: Any) -> dict[str, Any] | None:
    return None if thing is None else _named(thing, asdict(thing))


def _response(saved: dict[str, Any]) -> Response:
    response: Response = RESPONSES[saved["name"]](**_tuples(saved["settings"]))
    return response


def _tuples(settings: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples; our frozen settings have no lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def _sampler(saved: dict[str, Any] | None) -> Sampler | None:
    if saved is None or saved["name"] not in SAMPLERS:
        return None
    sampler: Sampler = getattr(sampling, saved["name"])(**_tuples(saved["settings"]))
    return sampler


def _plan(saved: dict[str, Any] | None) -> TrainingPlan | None:
    if saved is None:
        return None
    phases = {name: Phase(**saved[name]) for name in ("value", "selector")}
    return TrainingPlan(**(saved | phases))


def _options(given: nn.Module | Any) -> Any:
    """Options of a default network, or the mark of a module that the loader must bring."""
    return "custom" if isinstance(given, nn.Module) else given


def _check_module(which: str, saved: Any, given: nn.Module | None) -> None:
    if saved == "custom" and given is None:
        raise InputError(
            f"The {which} of this explainer is a module of its author's: pass load(path, {which}=module)."
        )


def _weights(prefix: str, network: nn.Module) -> dict[str, Array]:
    # contiguous: safetensors writes bytes as they lie in memory, whatever the strides (channels_last).
    return {
        f"{prefix}.{name}": tensor.detach().cpu().contiguous().numpy()
        for name, tensor in network.state_dict().items()
    }


def _with_weights(network: nn.Module, prefix: str, tensors: dict[str, Array]) -> nn.Module:
    mine = {name: array for name, array in tensors.items() if name.startswith(f"{prefix}.")}
    network.load_state_dict(
        {name.removeprefix(f"{prefix}."): torch.from_numpy(a.copy()) for name, a in mine.items()}
    )
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
    """numpy scalars, and a view inside a view, as JSON knows them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, View):
        return _named(value, value.get_params(deep=False))
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    raise InputError(f"Cannot save {type(value).__name__} {value!r} without pickle.")
