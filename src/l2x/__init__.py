"""l2x: real-time explanations for any model - the few features each prediction rests on.

The public names are listed in `__init__.pyi`. Each loads on first use, so that `l2x --help` does not wait for
torch.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
