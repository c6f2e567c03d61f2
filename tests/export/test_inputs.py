"""What graphs read: made-up rows are encoded by the graph's first part as the view encodes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import l2x
from l2x.export._onnx_inputs import graph_inputs

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    "name", ["columns", "frame", "groups", "regression", "patches", "words", "sentences"]
)
def test_the_first_part_of_a_graph_is_the_views_encoding(name: str) -> None:
    inputs = graph_inputs(l2x.load(GOLDEN / f"{name}-surrogate.l2x").features_)
    feed, x = inputs.sample(200, np.random.default_rng(0))
    assert list(feed) == list(inputs.names)
    assert set(inputs.names) <= set(inputs.description)
    assert torch.equal(inputs(*inputs.traced(feed)).nan_to_num(-99.0).to(x.dtype), x.nan_to_num(-99.0))


def test_an_empty_text_cannot_be_a_category() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": ["", "x"] * 20, "b": np.arange(40.0)})
    with pytest.raises(l2x.InputError, match="'a' has an empty text as a category"):
        graph_inputs(l2x.Columns().fit(frame))
