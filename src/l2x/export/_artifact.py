"""What files of earlier formats said otherwise: from one to the next, up to today's."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, is_dataclass
from datetime import timedelta
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
from l2x.features import View, saved_options
from l2x.learning import FittedQ, Likelihood, Phase, Sampler, SelfCheck, TrainingPlan, Value, pick_device
from l2x.learning import _sizes as saved_sizes

FORMAT = 8


def upgraded(settings: dict[str, Any], version: int) -> dict[str, Any]:
    """The settings of a file of that format as today's have them."""
    for older, upgrade in UPGRADES.items():
        settings = upgrade(settings) if version <= older else settings
    return settings


def _from_format_1(settings: dict[str, Any]) -> dict[str, Any]:
    """Before 0.1 the likelihood was called response, and groups of columns held their columns' options."""
    settings = settings | {"likelihood": settings["response"]}
    view = settings["view"]
    if view["name"] == "ColumnGroups":
        inside = view["settings"]["columns"]
        flat = {"groups": view["settings"]["groups"]} | (inside["settings"] if inside else {})
        settings["view"] = view | {"settings": flat}
    return settings


def _from_format_2(settings: dict[str, Any]) -> dict[str, Any]:
    """Before 0.1 selectors learned the whole distribution from the input alone, and asked without limit; a
    predictor of words looked at windows of them unless told otherwise."""
    if settings["view"]["name"] == "Words" and settings["predictor"] != "custom":
        settings = settings | {"predictor": {"pooling": "window"} | (settings["predictor"] or {})}
    new = {
        "answer": "distribution",
        "sees_answer": False,
        "queries": None,
    }
    return new | settings


def _from_format_3(settings: dict[str, Any]) -> dict[str, Any]:
    """Before 0.1 a selector of sentences did not read what each says by itself."""
    selector = settings["selector"] or {}
    if settings["view"]["name"] != "Sentences" or selector == "custom" or selector.get("paper"):
        return settings
    return settings | {"selector": {"alone": False} | selector}


def _from_format_4(settings: dict[str, Any]) -> dict[str, Any]:
    """Up to 0.1.0 a selector of patches had no hidden layer that sees the whole image."""
    selector = settings["selector"] or {}
    if settings["view"]["name"] != "Patches" or selector == "custom":
        return settings
    return settings | {"selector": {"hidden": 0} | selector}


def _from_format_5(settings: dict[str, Any]) -> dict[str, Any]:
    """Up to 0.1.0 a selector of words read windows of them alone, not their average beside it; sizes were
    learned in another way."""
    settings = settings | {"sizes": None}
    selector = settings["selector"] or {}
    options = selector == "custom" or selector.get("paper") or settings["sees_answer"]
    if settings["view"]["name"] != "Words" or options:
        return settings
    return settings | {"selector": {"pooling": "window"} | selector}


def _from_format_6(settings: dict[str, Any]) -> dict[str, Any]:
    """Up to 0.1.0 sizes had a price, and no least number of features."""
    sizes = settings["sizes"]
    return settings | {"sizes": sizes and {"least": [1] * len(sizes["shares"])} | sizes}


def _from_format_7(settings: dict[str, Any]) -> dict[str, Any]:
    """Up to 0.1.0 sizes were learned from the scores alone."""
    sizes = settings["sizes"]
    return settings | {"sizes": sizes and {"asking": 0} | sizes}


UPGRADES = {
    1: _from_format_1,
    2: _from_format_2,
    3: _from_format_3,
    4: _from_format_4,
    5: _from_format_5,
    6: _from_format_6,
    7: _from_format_7,
}


def save(explainer: Explainer, path: str | Path) -> Path:
    """Write the fitted explainer; an older file at `path` stays intact until the new one is complete."""
    return write_atomically(_as_path(path), as_bytes(explainer))


def as_bytes(explainer: Explainer) -> bytes:
    """The content of the file."""
    explainer._check_fitted()
    learned, view_arrays = explainer.features_.state()
    tensors = {f"view.{name}": np.ascontiguousarray(array) for name, array in view_arrays.items()}
    tensors |= _weights("selector", explainer.selector_)
    for name, network in explainer.q_.q.networks.items():
        tensors |= _weights(name, network)
    classes, sizes = explainer.classes_, explainer.sizes_
    tensors |= saved_sizes.tensors_of(sizes)
    settings = {
        "l2x": __version__,
        "k": explainer.k,
        "value": explainer.value if isinstance(explainer.value, str) else _named(explainer.value),
        "answer": explainer.answer,
        "sees_answer": explainer.sees_answer,
        "queries": _saved_queries(explainer.queries),
        "seed": explainer.seed,
        "view": _named(explainer.features_) | {"learned": learned},
        "likelihood": _named(explainer.q_.likelihood),
        "sampler": None if explainer.sampler is None else _named(explainer.sampler),
        "training": None if explainer.training is None else asdict(explainer.training),
        "selector": _options(explainer.selector),
        "predictor": _options(explainer.predictor),
        "classes": None if classes is None else list(classes),
        "history": explainer.history_,
        "rows_asked": explainer.rows_asked_,
        "queries_made": explainer.queries_,
        "sizes": saved_sizes.header_of(sizes),
        "fit_seconds": explainer.fit_seconds_,
        "check": None if explainer.check_ is None else explainer.check_.to_dict(),
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

    `model` is only needed to score or to fit again; `selector` and `predictor` if they were your own modules.
    A view, value or sampler of your own is found by its name, once its module is imported.

    Parameters
    ----------
    path : the file
    model : the model that it explains, only needed to score or to fit again
    selector, predictor : your own torch modules, if it was fitted with such
    device : "auto", "cpu", "cuda", ...

    Returns
    -------
    The fitted `Explainer`.

    Raises
    ------
    ArtifactError
        If the file is truncated, edited, of a newer format, or no explainer at all.

    >>> load("missing.l2x")
    Traceback (most recent call last):
        ...
    l2x.errors.ArtifactError: Cannot read 'missing.l2x': No such file or directory.
    """
    return read(path).explainer(model=model, selector=selector, predictor=predictor, device=device)


@dataclass(frozen=True)
class Artifact:
    """The content of a file that has proved whole: `version` is that of the l2x that wrote it."""

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
        """The explainer that was saved: see `load`."""
        given = {"selector": selector, "predictor": predictor}
        try:
            return _rebuild(self.settings, self.tensors, model, given, device)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
            if isinstance(error, InputError | ArtifactError):
                raise
            raise ArtifactError(
                f"'{self.path}' does not hold a complete explainer ({type(error).__name__}: {error})."
            ) from error


def _as_path(given: Any) -> Path:
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise InputError(f"Expected the path of a file, such as 'churn.l2x', got {given!r}.")
    return Path(given)


def read(path: str | Path) -> Artifact:
    """What `load` starts from, for those who need to know which file an explainer came from."""
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
    if version > FORMAT:
        raise ArtifactError(
            f"'{path}' has format {version}; this l2x reads up to {FORMAT}. Upgrade l2x to load it."
        )
    if checksum != _checksum(settings, tensors):
        raise ArtifactError(f"'{path}' was changed after it was saved: its checksum does not match.")
    try:
        written_by = str(settings.get("l2x", "unknown"))
        settings = upgraded(settings, version)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"'{path}' does not hold a complete explainer ({type(error).__name__}: {error})."
        ) from error
    return Artifact(path, written_by, checksum, settings, tensors)


def _rebuild(
    settings: dict[str, Any],
    tensors: dict[str, Array],
    model: Any,
    given: dict[str, nn.Module | None],
    device: str,
) -> Explainer:
    networks: dict[str, Any] = {
        name: settings[name] if module is None else module for name, module in given.items()
    }
    explainer = Explainer(
        model,
        settings["k"],
        features=_built(View, settings["view"]),
        value=settings["value"] if isinstance(settings["value"], str) else _built(Value, settings["value"]),
        sampler=None if settings["sampler"] is None else _built(Sampler, settings["sampler"]),
        training=_plan(settings["training"]),
        answer=settings["answer"],
        sees_answer=settings["sees_answer"],
        queries=timedelta(**limit) if isinstance(limit := settings["queries"], dict) else limit,
        seed=settings["seed"],
        device=device,
        **networks,
    )
    view = _built(View, settings["view"]).restore(settings["view"]["learned"], _part("view", tensors))
    likelihood = _built(Likelihood, settings["likelihood"])
    black_box = None if model is None else explainer._black_box()
    target = pick_device(device)
    for which in ("selector", "predictor"):
        if _part(which, tensors):
            _check_module(which, networks[which])
    _check_shapes(explainer, view, likelihood, tensors)
    explainer.selector_ = _with_weights(explainer._build_selector(view, likelihood), "selector", tensors)
    explainer.selector_.to(target)
    q = explainer._build_q(view, likelihood, black_box, target)
    for name, network in q.networks.items():
        _with_weights(network, name, tensors)
    explainer.features_, explainer.q_ = view, FittedQ(view, q, black_box)
    explainer.history_, explainer.n_features_in_ = settings["history"], view.d
    explainer.classes_ = None if settings["classes"] is None else np.asarray(settings["classes"])
    explainer.rows_asked_, explainer.fit_seconds_ = settings["rows_asked"], settings["fit_seconds"]
    explainer.queries_ = settings.get("queries_made")
    explainer.check_ = SelfCheck.from_dict(settings["check"]) if settings.get("check") else None
    explainer.sizes_ = saved_sizes.restored(
        settings["sizes"], tensors, k=settings["k"], d=view.d, likelihood=likelihood
    )
    return explainer


def _check_shapes(
    explainer: Explainer, view: View, likelihood: Likelihood, tensors: dict[str, Array]
) -> None:
    """Compare the networks that the settings declare with the tensors that there are, before any of them
    takes memory: a small file may declare ten million outputs. torch's "meta" device has shapes and no
    numbers."""
    with torch.device("meta"):
        declared = {"selector": explainer._build_selector(view, likelihood)}
        declared |= explainer._build_q(view, likelihood, None, torch.device("meta")).networks
    for name, network in declared.items():
        expected = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
        found = {key: array.shape for key, array in _part(name, tensors).items()}
        for key in sorted(expected.keys() | found.keys()):
            if expected.get(key) != found.get(key):
                raise ArtifactError(
                    f"The file declares a {name} with {expected.get(key, 'nothing')} at '{key}' and holds "
                    f"{found.get(key, 'nothing')} there: it was not written by l2x, or it was changed."
                )


def _named(thing: Any) -> dict[str, Any]:
    """A view, value, sampler or likelihood by the name of its class and its settings."""
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
    """The inverse of `_named`."""
    kind = family.by_name(saved["name"])
    # JSON has no tuples; frozen dataclasses have no lists.
    return kind(**saved["settings"] if family is View else _tuples(saved["settings"]))


def _part(name: str, tensors: dict[str, Array]) -> dict[str, Array]:
    """The tensors whose names begin with this one."""
    start = f"{name}."
    return {key.removeprefix(start): array for key, array in tensors.items() if key.startswith(start)}


def _tuples(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def _plan(saved: dict[str, Any] | None) -> TrainingPlan | None:
    if saved is None:
        return None
    phases = {name: Phase(**saved[name]) for name in ("value", "selector")}
    return TrainingPlan(**(saved | phases))


def _saved_queries(queries: Any) -> Any:
    """A limit as JSON: a number of rows, or the seconds of a time limit by their name."""
    return {"seconds": queries.total_seconds()} if isinstance(queries, timedelta) else queries


def _options(given: nn.Module | Any) -> Any:
    """Options of a default network, or the mark of a module that the loader must bring."""
    return "custom" if isinstance(given, nn.Module) else given


def _check_module(which: str, network: Any) -> None:
    if network == "custom":
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
    """numpy's scalars and arrays, pandas' indices, ranges and sets as JSON knows them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, range | set | frozenset):
        return list(value)
    raise InputError(f"Cannot save {type(value).__name__} {value!r} without pickle.")
