"""Initial weights other than torch's own."""

from __future__ import annotations

from typing import Literal

from torch import nn

InitialWeights = Literal["torch", "glorot"]


def initialise(network: nn.Module, weights: InitialWeights) -> None:
    """Give the dense and convolutional layers of a network these initial weights.

    "torch" leaves them as they are. "glorot" is Keras' default: uniform, with the variance 2 / (fan in + fan
    out) of Glorot and Bengio (2010), and zero biases; torch's own have the variance 1 / (3 fan in).
    """
    if weights == "torch":
        return
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
