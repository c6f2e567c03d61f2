"""Take an explainer out of the process: as a file, an ONNX graph, a stream of rows, on Ray, in MLflow."""

from l2x.export import mlflow, ray
from l2x.export._artifact import Artifact, load, read, save
from l2x.export._onnx import MOST_EFFECTS, export_onnx, onnx_bytes
from l2x.export._stream import BatchExplainer, explain_batches, explain_table, match_columns

__all__ = [
    "MOST_EFFECTS",
    "Artifact",
    "BatchExplainer",
    "explain_batches",
    "explain_table",
    "export_onnx",
    "load",
    "match_columns",
    "mlflow",
    "onnx_bytes",
    "ray",
    "read",
    "save",
]
