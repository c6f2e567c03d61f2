"""Explain texts with an exported explainer: its tokenizer, onnxruntime and numpy, without l2x and torch.

l2x export reviews.l2x -o reviews.onnx        # also writes reviews.tokenizer.json
python examples/onnx_texts.py reviews.onnx "A good film, but far too long."
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers


def main(model: str, *texts: str) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    tokenizer = tokenizers.Tokenizer.from_file(str(Path(model).with_suffix(".tokenizer.json")))
    k = np.array([int(session.get_modelmeta().custom_metadata_map["l2x.k"])])
    encoded = tokenizer.encode_batch(list(texts))
    indices, mask = session.run(
        ["indices", "mask"], {"ids": np.array([words.ids for words in encoded]), "k": k}
    )
    for text, words, ranked, selected in zip(texts, encoded, indices, mask, strict=True):
        print("; ".join(text[slice(*words.offsets[i])] for i in ranked if selected[i]))


if __name__ == "__main__":
    main(*sys.argv[1:])
