"""An explainer leaves the process: as a file, as ONNX, as a stream, on Ray."""

from l2x.export import _artifact, _onnx, _ray
from l2x.export._artifact import Artifact, load, read, save
from l2x.export._onnx import export_onnx
from l2x.export._stream import BatchExplainer, explain_batches, explain_table, match_columns

__all__ = [
    "Artifact",
    "BatchExplainer",
    "_artifact",
    "_onnx",
    "_ray",
    "explain_batches",
    "explain_table",
    "export_onnx",
    "load",
    "match_columns",
    "read",
    "save",
]
