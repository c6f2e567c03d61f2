"""Feature maps of a torch module, or of one layer of the model that is explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array
from l2x.errors import InputError, some
from l2x.model import BlackBox, evaluating


class _Reached(Exception):  # noqa: N818 - not an error
    """The layer has returned its feature maps: the rest of the model need not run."""


def torch_module(model: Any) -> Any:
    """Return the torch module inside a model that `as_black_box` wrapped, else the model."""
    return getattr(model.predict, "module", model) if isinstance(model, BlackBox) else model


def feature_maps(backbone: Any, model: Any, X: Array) -> Tensor:
    """Return the feature maps (n, channels, h, w) of images.

    `backbone` is a module, or the name of a layer of `model`; either reads the images as floats.
    """
    module = backbone if isinstance(backbone, nn.Module) else model
    if not isinstance(backbone, nn.Module | str):
        raise InputError(f"backbone is {backbone!r}; expected a torch module, or the name of a layer.")
    if not isinstance(module, nn.Module):
        given = "missing" if model is None else f"a {type(model).__name__}"
        raise InputError(
            f"backbone={backbone!r} names a layer of a torch module, but the model is {given}: pass the "
            "module that returns the feature maps as backbone=, or a torch module as the model."
        )
    first = next(module.parameters(), None)
    x = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
    x = x if first is None else x.to(first.device)
    with evaluating(module), torch.no_grad():
        maps = module(x) if isinstance(backbone, nn.Module) else _layer_output(module, backbone, x)
    if not isinstance(maps, Tensor) or maps.ndim != 4:
        shape = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
        raise InputError(f"The backbone returns {shape}; expected feature maps (n, channels, h, w).")
    return maps.float().cpu()


def _layer_output(module: nn.Module, name: str, x: Tensor) -> Any:
    """Return what a layer returns for x."""
    layers = dict(module.named_modules())
    if name not in layers or not name:
        raise InputError(f"The model has no layer {name!r}; it has {some([key for key in layers if key])}.")
    found: list[Any] = []

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        found.append(output)
        raise _Reached

    hook = layers[name].register_forward_hook(keep)
    try:
        module(x)
    except _Reached:
        pass
    finally:
        hook.remove()
    if not found:
        raise InputError(f"The layer {name!r} is not used when the model predicts.")
    return found[0]
