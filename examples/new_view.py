"""A complete new kind of input: signals whose features are seconds. The model listens to the third second."""

from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

import l2x
from l2x.errors import InputError
from l2x.features import View, as_tensor
from l2x.learning import Networks, Recipes, register


def as_signals(X, samples=None):
    try:
        X = np.asarray(X, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected an array of signals: {error}.") from error
    if X.ndim != 2 or samples not in (None, X.shape[1]) or not (len(X) or samples):
        raise InputError(f"Expected signals (n, {samples or 'samples'}), got an array of shape {X.shape}.")
    return X


class Seconds(View):
    """One feature per second of a signal (n, samples); masked seconds are silent."""

    unit = "second"

    def __init__(self, rate: int = 10) -> None:  # samples per second
        self.rate = rate

    def fit(self, X):
        X = as_signals(X)
        self.names_ = [f"second {i + 1}" for i in range(X.shape[1] // self.rate)]
        self.loudness_ = float(X.std())
        return self

    def check(self, X):
        return as_signals(X, self.d * self.rate)

    def encode(self, X, *, first_row=0):
        return as_tensor(X).reshape(len(X), self.d, self.rate)

    def for_model(self, X, mask=None, *, rng=None):
        return X if mask is None else X * mask.repeat(self.rate, axis=1)

    def units(self, parts):
        return parts.reshape(len(parts), self.d, self.rate).sum(dim=2)

    def sample(self, n, rng):
        return self.loudness_ * rng.normal(size=(n, self.d * self.rate))

    def state(self):
        return {"names": self.names_, "loudness": self.loudness_}, {}

    def restore(self, learned, arrays):
        self.names_, self.loudness_ = learned["names"], learned["loudness"]
        return self


class Listener(nn.Sequential):
    """w_θ: (n, seconds, rate) -> (n, seconds)."""

    def __init__(self, d: int, rate: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(d * rate, 64), nn.ReLU(), nn.Linear(64, d))


class Predictor(nn.Module):
    """g_α: the signal with unselected seconds silent, and the mask -> (n, outputs)."""

    def __init__(self, d: int, rate: int, outputs: int, *, sees_mask: bool = True) -> None:
        super().__init__()
        self.sees_mask = sees_mask
        self.layers = nn.Sequential(nn.Linear(d * (rate + sees_mask), 64), nn.ReLU(), nn.Linear(64, outputs))

    def forward(self, masked: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        flat = masked.flatten(1)
        return self.layers(torch.cat([flat, mask], dim=1) if self.sees_mask else flat)


def networks(view: Seconds, outputs: int) -> Networks:
    shape = (view.d, view.rate)
    return Networks(partial(Listener, *shape), partial(Predictor, *shape, outputs))


register(Seconds, Recipes(networks))


def loud_third_second(X: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-20 * (np.abs(X[:, 20:30]).mean(axis=1) - 0.5)))
    return np.stack([1 - p, p], axis=1)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(4000, 40)) * rng.random((4000, 4)).repeat(10, axis=1)
    explainer = l2x.Explainer(loud_third_second, 1, features=Seconds(), training=l2x.TrainingPlan.quick())
    print(explainer.fit(signals).explain(signals[:3]))
    l2x.testing.check_view(Seconds(), signals)
    with TemporaryDirectory() as folder:  # everything else works without another line
        saved = explainer.save(f"{folder}/seconds.l2x")  # for `l2x.load`, `l2x explain` and `l2x serve`
        l2x.load(saved).explain(signals[:3]).plot(f"{folder}/seconds.png")
        explainer.export_onnx(f"{folder}/seconds.onnx")
