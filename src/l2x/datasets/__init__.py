"""Data with which explainers are compared."""

from l2x.datasets._adult import AdultData, adult
from l2x.datasets._glove import glove
from l2x.datasets._imdb import TextData, imdb
from l2x.datasets._invase import INVASE_SETS, invase
from l2x.datasets._mnist import ImageData, mnist, small_digits
from l2x.datasets._synthetic import SETS, SyntheticData, SyntheticModel, synthetic

__all__ = [
    "INVASE_SETS",
    "SETS",
    "AdultData",
    "ImageData",
    "SyntheticData",
    "SyntheticModel",
    "TextData",
    "adult",
    "glove",
    "imdb",
    "invase",
    "mnist",
    "small_digits",
    "synthetic",
]
