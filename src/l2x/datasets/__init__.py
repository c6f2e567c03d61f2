"""Data to compare explainers on."""

from l2x.datasets._adult import AdultData, adult
from l2x.datasets._fetching import data_folder
from l2x.datasets._mnist import ImageData, mnist, small_digits
from l2x.datasets._synthetic import (
    INVASE_SETS,
    RELEVANT,
    SETS,
    InvaseName,
    SetName,
    SyntheticData,
    SyntheticModel,
    Variant,
    invase,
    synthetic,
)
from l2x.datasets._texts import TextData, glove, imdb

__all__ = [
    "INVASE_SETS",
    "RELEVANT",
    "SETS",
    "AdultData",
    "ImageData",
    "InvaseName",
    "SetName",
    "SyntheticData",
    "SyntheticModel",
    "TextData",
    "Variant",
    "adult",
    "data_folder",
    "glove",
    "imdb",
    "invase",
    "mnist",
    "small_digits",
    "synthetic",
]
