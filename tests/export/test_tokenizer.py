"""The exported tokenizer gives the ids that the networks read."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers

import l2x
from l2x.export._onnx_inputs import tokenizer_json

TEXTS = ["A <b>GOOD</b> film, don't you think?", "bad", "", "x " * 50]


@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_of_words(lowercase: bool) -> None:
    view = l2x.Words(length=6, lowercase=lowercase).fit(TEXTS)
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json(view))
    found = tokenizer.encode_batch(TEXTS)
    assert np.array_equal([each.ids for each in found], view.ids(TEXTS).numpy())
    start, end = found[0].offsets[1]
    assert TEXTS[0][start:end] == "GOOD"


def test_ids_of_a_sentence() -> None:
    view = l2x.Sentences(length=2, words=4).fit(TEXTS)
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json(view))
    assert np.array_equal(tokenizer.encode("bad").ids, view.ids(["bad"]).numpy()[0, 0])
