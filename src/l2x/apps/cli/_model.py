"""From MODEL on the command line to the black box."""

from __future__ import annotations

import importlib
import sys
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from l2x.model import BlackBox


def load_black_box(spec: str, **options: Any) -> BlackBox:
    """`module:attribute`, imported from the current folder or the environment, an `.onnx` file, or an
    address, whose `options` are those of `Endpoint`; None leaves one as it is there."""
    from l2x.model import as_black_box

    return as_black_box(load_model(spec, **options))


def load_model(spec: str, **options: Any) -> Any:
    """The same as it is, for methods that look inside a model; of an `.onnx` file its path."""
    from l2x.errors import InputError
    from l2x.model import Endpoint

    options = {name: value for name, value in options.items() if value is not None}
    if spec.startswith(("http://", "https://")):
        return Endpoint(spec, **options)
    if options:
        name = next(iter(options)).replace("_", "-")
        raise InputError(f"--{name} is for a model behind an address, https://..., not for '{spec}'.")
    if spec.endswith(".onnx"):
        return Path(spec)
    module, _, attribute = spec.partition(":")
    if not attribute:
        raise InputError(
            f"MODEL is '{spec}'; expected module:attribute, such as churn:model, a file.onnx, or https://..."
        )
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        model = attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise InputError(f"Cannot load MODEL '{spec}': {error}.") from error
    except Exception as error:  # the user's own module: anything can happen while it is imported
        raise InputError(f"Importing MODEL '{spec}' raised {type(error).__name__}: {error}") from error
    return model
