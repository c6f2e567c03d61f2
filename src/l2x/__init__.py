"""l2x: real-time, model-agnostic explanations - which k features decided the model's answer?

The public names stand in `__init__.pyi`; each loads on first use: `l2x --help` does not wait for torch.
Errors, objectives and samplers are found by their short names as well: `l2x.InputError`.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

import lazy_loader as _lazy_loader

_public, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> _Any:
    """A public name, or the short name of an error or a sampler: `l2x.InputError`, `l2x.PlackettLuce`."""
    if name in __all__:
        return _public(name)
    for home in ("l2x.errors", "l2x.learning.objectives", "l2x.learning.samplers"):
        if name[0].isupper() and hasattr(module := _import_module(home), name):
            return getattr(module, name)
    raise AttributeError(f"module 'l2x' has no attribute '{name}'")
