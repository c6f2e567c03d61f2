"""q(y | x_S): what a predictor says of an input of which only the features S are left (section 3.1).

`Q` is asked about encoded rows, in training; `Conditional` about raw inputs, by metrics and the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from l2x.blackbox import BlackBox
from l2x.data import Rows, ask
from l2x.errors import InputError
from l2x.features.view import View
from l2x.foundations.arrays import Array, batches
from l2x.likelihood import Likelihood
from l2x.networks.recipe import ReadsSelected

# Features of all rows together that a network is asked about at a time.
CELLS_AT_ONCE = 1 << 20
# Rows of (input x background) that the conditional model is asked at a time: some 16 MiB of float64.
CONDITIONAL_BATCH = 200_000


class Q(Protocol):
    """q(y | x_S) of encoded rows."""

    @property
    def likelihood(self) -> Likelihood: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def networks(self) -> dict[str, nn.Module]:
        """Its networks by name, which an artifact keeps; none where it is a black box."""
        ...

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        """The parameters of q(. | x_S), (n, outputs), for masks (n, d)."""
        ...

    def with_networks(self, networks: dict[str, nn.Module]) -> Q:
        """The same q with other weights."""
        ...


@dataclass(frozen=True)
class NetworkQ:
    """q as one network g_α for every subset (section 3.1)."""

    predictor: nn.Module
    likelihood: Likelihood

    @property
    def device(self) -> torch.device:
        return next(self.predictor.parameters()).device

    @property
    def networks(self) -> dict[str, nn.Module]:
        return {"predictor": self.predictor}

    def with_networks(self, networks: dict[str, nn.Module]) -> NetworkQ:
        return NetworkQ(networks["predictor"], self.likelihood)

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return self._outputs(rows, rows.x, mask)
        # What networks read of a row may be many times its width: some rows at a time.
        parts = batches(len(mask), max(1, CELLS_AT_ONCE // mask.shape[1]))
        return torch.cat([self._outputs(rows, rows.x[part], mask[part]) for part in parts])

    def _outputs(self, rows: Rows, x: Tensor, mask: Tensor) -> Tensor:
        if isinstance(self.predictor, ReadsSelected):
            return self.predictor.read(x, mask)
        answer: Tensor = self.predictor(rows.view.mask(x, mask), mask)
        return answer


@dataclass(frozen=True)
class ModelQ:
    """q as the black box itself: P_m(y | x̃_S), with the rest of x removed as the view says."""

    black_box: BlackBox | None
    likelihood: Likelihood
    rng: np.random.Generator
    device = torch.device("cpu")

    @property
    def networks(self) -> dict[str, nn.Module]:
        return {}

    def with_networks(self, networks: dict[str, nn.Module]) -> ModelQ:
        return self

    def outputs(self, rows: Rows, mask: Tensor) -> Tensor:
        if self.black_box is None:
            raise InputError("The model is not available; pass it with l2x.load(path, model=...).")
        removed = rows.view.for_model(rows.raw, mask.cpu().numpy() > 0.5, rng=self.rng)
        target = self.likelihood.targets(self.black_box(removed)).to(mask.device)
        return self.likelihood.from_targets(target)


def log_value(q: Q, rows: Rows, masks: Tensor) -> Tensor:
    """log q(y | x_S) of each row under each of its masks: (m, n, d) -> (m, n)."""
    m, n, d = masks.shape
    repeated = rows.repeat(m)
    outputs = q.outputs(repeated, masks.reshape(m * n, d))
    return q.likelihood.log_likelihood(outputs, repeated.target).reshape(m, n)


class Conditional(Protocol):
    """q(y | x_S) of raw inputs: how metrics and the oracle ask any q."""

    def answers(self, X: Any) -> Array:
        """P_m(y|x), the answers that q is compared with, (n, outputs)."""
        ...

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        """E_{Y ~ P_m(.|x)} log q(Y | x_S) of each row under its mask (n, d), in nats, (n,)."""
        ...


@dataclass(frozen=True)
class FittedQ:
    """A q that was fitted - an explainer's own, or a judge's - asked about raw inputs.

    view : the fitted view that reads the inputs
    q : what is asked about encoded rows
    black_box : the model whose answers q learned, where it is available
    """

    view: View
    q: Q
    black_box: BlackBox | None = None

    @property
    def likelihood(self) -> Likelihood:
        return self.q.likelihood

    def answers(self, X: Any) -> Array:
        """The model's own answers."""
        if self.black_box is None:
            raise InputError("The model is not available; pass its answers, responses=.")
        return ask(self.black_box, self.view, self.view.check(X), progress=False)

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        outputs = torch.from_numpy(self.outputs(X, mask))
        return self.likelihood.log_likelihood(outputs, self.likelihood.targets(answers)).numpy()

    def predict(self, X: Any, mask: Array) -> Array:
        """What q says, in the units of the model's answers: probabilities or means, (n, outputs)."""
        return self.likelihood.answers(self.outputs(X, mask))

    def outputs(self, X: Any, mask: Array) -> Array:
        """The parameters of q(. | x_S), such as logits, (n, outputs), for masks (n, d)."""
        X = self.view.check(X)
        if mask.shape != (len(X), self.view.d):
            raise InputError(f"The mask has the shape {mask.shape}; expected {(len(X), self.view.d)}.")
        parts = []
        with torch.inference_mode():
            for rows in batches(len(X), self.view.recipes.rows_at_once):
                raw = self.view.take(X, rows)
                x = self.view.encode(raw, first_row=rows.start).to(self.q.device)
                masks = torch.from_numpy(mask[rows]).to(x.device, torch.float32)
                parts.append(self.q.outputs(Rows(self.view, raw, x, target=x), masks).cpu())
        return torch.cat(parts).numpy()


@dataclass(frozen=True)
class ConditionalModel:
    """P_m(y | x_S) itself, by averaging the model over `background` rows in place of what is not selected.

    Exact, as the background grows, where the features are independent, as in the synthetic sets.
    """

    model: Callable[[Array], Array]
    background: Array  # (m, d)

    def answers(self, X: Any) -> Array:
        return self.model(np.asarray(X))

    def log_q(self, X: Any, mask: Array, answers: Array) -> Array:
        X = np.asarray(X)
        m, d = self.background.shape
        parts = []
        for rows in batches(len(X), max(1, CONDITIONAL_BATCH // m)):
            filled = np.where(mask[rows, None], X[rows, None], self.background[None])  # (rows, m, d)
            p = self.model(filled.reshape(-1, d)).reshape(-1, m, answers.shape[1]).mean(axis=1)
            parts.append((answers[rows] * np.log(np.maximum(p, 1e-12))).sum(axis=1))
        return np.concatenate(parts)
