"""Data to compare explainers on."""

from l2x.datasets._adult import adult
from l2x.datasets._composites import Composites, composites
from l2x.datasets._fetching import LabelledData, data_folder
from l2x.datasets._mnist import mnist, small_digits
from l2x.datasets._synthetic import (
    INVASE_SETS,
    RELEVANT,
    SETS,
    SetName,
    SyntheticData,
    SyntheticModel,
    Variant,
    synthetic,
)
from l2x.datasets._texts import glove, imdb

__all__ = [
    "INVASE_SETS",
    "RELEVANT",
    "SETS",
    "Composites",
    "LabelledData",
    "SetName",
    "SyntheticData",
    "SyntheticModel",
    "Variant",
    "adult",
    "composites",
    "data_folder",
    "glove",
    "imdb",
    "mnist",
    "small_digits",
    "synthetic",
]
