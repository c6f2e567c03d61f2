"""w_θ(x) of raw inputs, a batch of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from l2x._base.arrays import Array, batches
from l2x.features import View, unseen
from l2x.learning._plackett_luce import only_selectable
from l2x.learning.networks._columns import ColumnSelector


def input_scores(
    view: View, selector: nn.Module, X: Any, told: Tensor | None = None
) -> tuple[Array, Counter[str]]:
    """(n, d) scores of inputs that the view has checked, -inf for what may not be selected; and per column
    how many rows hold a category that the training rows did not have."""
    most = view.rows_at_once
    counts: Counter[str] = Counter()
    with torch.inference_mode():
        forward, device = _forward(selector)
        if 0 < len(X) <= most:  # a row at a time: as little around the arithmetic as can be
            return _scores(view, forward, device, X, told, counts).cpu().numpy(), counts
        scores = torch.empty(len(X), view.d)
        for rows in batches(len(X), most):
            read = None if told is None else told[rows]
            scores[rows] = _scores(view, forward, device, view.take(X, rows), read, counts, rows.start)
    return scores.numpy(), counts


def _scores(
    view: View,
    forward: Callable[..., Tensor],
    device: torch.device | None,
    X: Any,
    told: Tensor | None,
    counts: Counter[str],
    first_row: int = 0,
) -> Tensor:
    """The scores of a batch; what is new in it is added to `counts`."""
    x = view.encode(X, first_row=first_row)
    if device is not None:
        x = x.to(device)
    if new := unseen(view, x):
        counts.update(new)
    found = forward(x) if told is None else forward(x, told.to(x.device))
    return only_selectable(found, view.selectable(x), never=-torch.inf)


def _forward(selector: nn.Module) -> tuple[Callable[..., Tensor], torch.device | None]:
    """The selector's forward pass, and where its inputs must be moved; None if they stay where they are."""
    if type(selector) is ColumnSelector:
        bare = selector.bare()
        return bare, bare.elsewhere
    return selector, next(selector.parameters()).device
