"""From MODEL on the command line to the black box."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from l2x.blackbox import BlackBox


def load_black_box(spec: str) -> BlackBox:
    """Whatever the user's own module raises while it is imported ends in one sentence, too."""
    from l2x.blackbox import load_model
    from l2x.errors import InputError, L2XError

    try:
        return load_model(spec)
    except L2XError:
        raise
    except Exception as error:
        raise InputError(f"Importing MODEL '{spec}' raised {type(error).__name__}: {error}") from error
