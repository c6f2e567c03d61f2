"""Explain the rows of a CSV with an exported explainer: onnxruntime and numpy, neither l2x nor torch.

    l2x export churn.l2x -o churn.onnx
    python examples/onnx_only.py churn.onnx rows.csv [k]

A server in C#, Java or Rust does the same: numbers as doubles (NaN where missing), categories as texts (empty
where missing), and k. The file's metadata says which columns those are, and what the features are called.
"""

import csv
import json
import sys

import numpy as np
import onnxruntime


def main(model: str, rows: str, k: str | None = None) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    told = session.get_modelmeta().custom_metadata_map
    features, inputs = json.loads(told["l2x.features"]), json.loads(told["l2x._base.arrays"])
    with open(rows, newline="") as file:
        table = list(csv.DictReader(file))
    feed = {"k": np.array([int(k or told["l2x.k"])])}
    if inputs["numbers"]:
        feed["numbers"] = np.array([[float(row[c] or "nan") for c in inputs["numbers"]] for row in table])
    if inputs["categories"]:
        feed["categories"] = np.array([[row[c] for c in inputs["categories"]] for row in table], dtype=object)
    indices, mask = session.run(["indices", "mask"], feed)
    for i, (chosen, selected) in enumerate(zip(indices, mask, strict=True)):
        print(f"{i}  " + "; ".join(features[j] for j in chosen if selected[j]))


if __name__ == "__main__":
    main(*sys.argv[1:])
