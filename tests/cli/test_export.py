"""`l2x export`: an ONNX file, or one sentence."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pandas as pd
from command_line import Folder, expected


def test_an_explainer_as_an_onnx_file(folder: Folder) -> None:
    said = folder.run("export", "tree.l2x", "-o", "tree.onnx").stdout
    assert "the same selection as torch in 1,000 rows" in said
    session = onnxruntime.InferenceSession("tree.onnx", providers=["CPUExecutionProvider"])
    numbers = pd.read_csv("test.csv")[list("abcde")].to_numpy()
    indices = session.run(["indices"], {"numbers": numbers, "k": np.array([2])})[0]
    assert [list("abcde")[i] for i in indices[:, 0]] == expected()["feature_1"].tolist()


def test_what_cannot_be_exported(folder: Folder) -> None:
    assert "is not an .onnx file" in folder.fails_without_a_trace("export", "tree.l2x", "-o", "tree.pt")
    assert "Cannot read 'none.l2x'" in folder.fails_without_a_trace("export", "none.l2x", "-o", "a.onnx")
