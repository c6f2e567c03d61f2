"""As many features as a row needs: the shortest head of its ranking that tells most of what all would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from l2x.conditional import FittedQ
from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.foundations.arrays import Array


def shortened(explanation: Explanation, q: FittedQ, keep: float) -> Explanation:
    """The explanation with a size for each row, at most its k.

    What a subset tells of a row is measured by q alone: KL(q(.|x) || q(.|x_S)) is what is lost without the
    rest, and it is all of KL(q(.|x) || q(.)) when nothing is selected. The first features of the ranking that
    lose no more than 1 - keep of that are kept.
    """
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
        raise InputError(f"keep is {keep!r}; expected the share of the information to keep, such as 0.95.")
    sizes = np.empty(len(explanation), dtype=np.int64)
    for where, rows in q.encoded(explanation.inputs):
        order, selected = explanation.indices[where], explanation.selected[where]
        mask = np.ones((len(order), explanation.scores.shape[1]), dtype=bool)
        whole = q.outputs_of(rows, mask)
        mask[:] = False
        lost = []
        for size in range(explanation.k + 1):
            if size:
                np.put_along_axis(mask, order[:, size - 1 : size], selected[:, size - 1 : size], axis=1)
            lost.append(q.likelihood.divergence(whole, q.outputs_of(rows, mask)).cpu().numpy())
        sizes[where] = _first_enough(np.stack(lost, axis=1), keep)
    return replace(explanation, sizes=np.minimum(sizes, explanation.selected.sum(axis=1)))


def _first_enough(lost: Array, keep: float) -> Array:
    """The smallest size, 1 .. k, at which at most 1 - keep of lost[:, 0] is lost; k where there is none."""
    enough = lost[:, 1:] <= (1 - keep) * lost[:, :1]
    return np.asarray(np.where(enough.any(axis=1), enough.argmax(axis=1), enough.shape[1] - 1) + 1)
