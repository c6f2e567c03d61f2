"""Take an explainer out of the process: as a file, as an ONNX graph, over a stream of rows, on Ray."""

from l2x.export import ray
from l2x.export._artifact import Artifact, load, read, save
from l2x.export._onnx import export_onnx, onnx_bytes
from l2x.export._stream import BatchExplainer, explain_batches, explain_table, match_columns

__all__ = [
    "Artifact",
    "BatchExplainer",
    "explain_batches",
    "explain_table",
    "export_onnx",
    "load",
    "match_columns",
    "onnx_bytes",
    "ray",
    "read",
    "save",
]
