"""Data with which explainers are compared."""

from l2x.datasets.synthetic import SETS, SyntheticData, SyntheticModel, synthetic

__all__ = ["SETS", "SyntheticData", "SyntheticModel", "synthetic"]
