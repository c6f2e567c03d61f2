"""Explain the rows of a CSV with an exported explainer: onnxruntime and numpy, without l2x and torch.

    l2x export churn.l2x -o churn.onnx
    python examples/onnx_only.py churn.onnx rows.csv [k]

A server in C#, Java or Rust does the same: it passes numbers as doubles (NaN if missing), categories as
strings (empty if missing), and k. The metadata of the file lists these columns and the names of the features.
"""

import csv
import json
import sys

import numpy as np
import onnxruntime


def main(model: str, rows: str, k: str | None = None) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    features, inputs = json.loads(metadata["l2x.features"]), json.loads(metadata["l2x.inputs"])
    with open(rows, newline="") as file:
        table = list(csv.DictReader(file))
    feed = {"k": np.array([int(k or metadata["l2x.k"])])}
    if inputs["numbers"]:
        feed["numbers"] = np.array([[float(row[c] or "nan") for c in inputs["numbers"]] for row in table])
    if inputs["categories"]:
        feed["categories"] = np.array([[row[c] for c in inputs["categories"]] for row in table], dtype=object)
    indices, mask = session.run(["indices", "mask"], feed)
    for i, (ranked, selected) in enumerate(zip(indices, mask, strict=True)):
        print(f"{i}  " + "; ".join(features[j] for j in ranked if selected[j]))


if __name__ == "__main__":
    main(*sys.argv[1:])
