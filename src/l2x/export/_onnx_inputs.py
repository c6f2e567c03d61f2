"""The tokenizer of an explainer of texts, as the JSON that Hugging Face's tokenizers read in any language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array
from l2x.errors import InputError, require
from l2x.features import LIMIT, PAD, SPECIAL, TAG, UNSEEN, Columns, Patches, TextView, View, word_tokenizer


def tokenizer_json(view: TextView) -> str:
    """Tags are blanked, and of `Words` texts are cut and padded to the view's length: ids as the graph reads
    them. `Sentences` have to be split first; each is then cut and padded to its words."""
    tokenizers = require("tokenizers", extra="text")
    found = word_tokenizer(view.vocabulary_, lowercase=view.lowercase)
    normalizers = tokenizers.normalizers
    steps = [normalizers.Replace(tokenizers.Regex(TAG.pattern), " ")]
    if view.lowercase:
        steps.append(normalizers.Lowercase())
    found.normalizer = normalizers.Sequence(steps)
    length = getattr(view, "words", view.length)
    found.enable_truncation(length)
    found.enable_padding(length=length, pad_id=PAD, pad_token=SPECIAL[PAD])
    return str(found.to_str(pretty=False))


Feed = dict[str, Array]

# How often a made-up row misses a cell that may miss, and has a category that nobody has seen.
GAPS, NEW = 0.05, 0.02


class GraphInputs(nn.Module, ABC):
    """The first part of a graph: raw inputs, tensors in the order of `names`, -> x.

    Texts of categories become codes before: `codes` has for each of their columns the code of every text.
    """

    names: Sequence[str]
    codes: Sequence[Mapping[str, float]] = ()

    @abstractmethod
    def forward(self, *raw: Tensor) -> Tensor:
        """What the selector reads."""

    @abstractmethod
    def read(self, X: Any) -> tuple[Feed, Tensor]:
        """Inputs that the view has checked: what onnxruntime is fed, and the same as torch encodes it."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> tuple[Feed, Tensor]:
        """Made-up inputs of the same kind, to try a graph with."""

    @property
    @abstractmethod
    def description(self) -> dict[str, Any]:
        """For who feeds the graph: what each input holds."""

    def traced(self, feed: Feed) -> tuple[Tensor, ...]:
        """A feed as the tensors that this part is traced with: codes in place of the texts of categories."""
        return tuple(torch.from_numpy(feed[name]) for name in self.names)


@singledispatch
def graph_inputs(view: View) -> GraphInputs:
    """The inputs of a graph for a fitted view. A view of one's own: `graph_inputs.register`."""
    raise InputError(f"{type(view).__name__} cannot be exported: there is no graph_inputs for it.")


class ColumnInputs(GraphInputs):
    """`numbers` (n, numeric columns) doubles, NaN where missing; `categories` (n, others) texts, with an
    empty one where missing."""

    def __init__(self, view: Columns) -> None:
        super().__init__()
        self.view = view
        levels = view.levels_
        self.numeric = [c for c in range(len(view.column_names_)) if c not in levels]
        self.categorical = list(levels)
        self.names = [
            name for name, has in (("numbers", self.numeric), ("categories", self.categorical)) if has
        ]
        self.texts = [levels[c].texts for c in self.categorical]
        self.codes = [self._code_of(c, texts) for c, texts in zip(self.categorical, self.texts, strict=True)]
        order = np.argsort([*self.numeric, *self.categorical])
        self.order = nn.Buffer(torch.from_numpy(order)) if self.categorical else None
        self.centre = nn.Buffer(torch.from_numpy(view.scaling_.centre[self.numeric]))
        self.scale = nn.Buffer(torch.from_numpy(view.scaling_.scale[self.numeric]))
        self.gaps = [c in view.cells_.gaps for c in self.numeric]

    def _code_of(self, c: int, texts: Sequence[str]) -> dict[str, float]:
        if "" in texts:
            name = self.view.column_names_[c]
            raise InputError(
                f"Column '{name}' has an empty text as a category, which stands for a gap in ONNX."
            )
        kept = self.view.levels_[c].kept
        codes = {text: float(min(code, kept)) for code, text in enumerate(texts)}
        return codes | {"": float("nan") if c in self.view.cells_.gaps else UNSEEN}

    def forward(self, *raw: Tensor) -> Tensor:
        parts = list(raw)
        if self.numeric:
            parts[0] = self._standard(raw[0]).float()
        if self.order is None:
            return parts[0]
        return torch.cat(parts, dim=1)[:, self.order]

    def _standard(self, numbers: Tensor) -> Tensor:
        if not self.view.standardize:
            return numbers
        standard = ((numbers - self.centre) / self.scale).clamp(-LIMIT, LIMIT)
        # ONNX does not say what becomes of NaN when it is clipped.
        return torch.where(numbers.isnan(), numbers, standard) if any(self.gaps) else standard

    def read(self, X: Any) -> tuple[Feed, Tensor]:
        return self._read(self.view.numbers(X))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Feed, Tensor]:
        known = self.view.background_
        rows = rng.integers(len(known), size=(n, known.shape[1]))
        cells = np.take_along_axis(known, rows, axis=0).astype(np.float64)
        draws = rng.random(cells.shape)
        gaps = np.isin(np.arange(known.shape[1]), self.view.cells_.gaps)
        cells[(draws < GAPS) & gaps] = np.nan
        new = np.isin(np.arange(known.shape[1]), self.categorical)
        cells[(draws > 1 - NEW) & new] = UNSEEN
        return self._read(cells)

    def _read(self, cells: Array) -> tuple[Feed, Tensor]:
        feed: Feed = {}
        if self.numeric:
            feed["numbers"] = np.ascontiguousarray(cells[:, self.numeric])
        if self.categorical:
            columns = [
                _texts(cells[:, c], texts) for c, texts in zip(self.categorical, self.texts, strict=True)
            ]
            feed["categories"] = np.stack(columns, axis=1)
        return feed, self.view.encode_numbers(cells)

    def traced(self, feed: Feed) -> tuple[Tensor, ...]:
        if not self.categorical:
            return super().traced(feed)
        columns = zip(feed["categories"].T, self.codes, strict=True)
        codes = np.array([[code.get(text, UNSEEN) for text in texts] for texts, code in columns])
        numbers = [torch.from_numpy(feed["numbers"])] if self.numeric else []
        return (*numbers, torch.from_numpy(codes.T.astype(np.float32)))

    @property
    def description(self) -> dict[str, Any]:
        names = [str(name) for name in self.view.column_names_]
        return {
            "numbers": [names[c] for c in self.numeric],
            "categories": [names[c] for c in self.categorical],
            "may_miss": [names[c] for c in self.view.cells_.gaps],
        }


def _texts(codes: Array, texts: Sequence[str]) -> Array:
    """Codes of categories as their texts; one that no category has where it is unseen."""
    known = np.array([*texts, "", "\N{WHITE SQUARE} unseen"], dtype=object)
    return np.asarray(
        known[
            np.where(np.isnan(codes), len(texts), np.where(codes == UNSEEN, len(texts) + 1, codes)).astype(
                int
            )
        ]
    )


class PixelInputs(GraphInputs):
    """`pixels`, floats of the images' own shape, with values as they were in fitting: bytes from 0 to 255."""

    names = ("pixels",)

    def __init__(self, view: Patches) -> None:
        super().__init__()
        self.view = view

    def forward(self, *raw: Tensor) -> Tensor:
        return self.view.encode_pixels(raw[0])

    def read(self, X: Any) -> tuple[Feed, Tensor]:
        return {"pixels": np.ascontiguousarray(X, dtype=np.float32)}, self.view.encode(X)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Feed, Tensor]:
        shape = (n, *self.view.image_shape_)
        pixels = self.view.mean_ + self.view.scale_ * 0.2 * rng.normal(size=shape)
        return self.read(pixels.astype(np.float32))

    @property
    def description(self) -> dict[str, Any]:
        return {
            "pixels": list(self.view.image_shape_),
            "patch": self.view.size,
            "grid": list(self.view.grid_),
        }


class IdInputs(GraphInputs):
    """`ids` (n, words) or (n, sentences, words) of the vocabulary, 0 where there is no word."""

    names = ("ids",)

    def __init__(self, view: TextView) -> None:
        super().__init__()
        self.view = view
        self.shape = (view.length, *([view.words] if hasattr(view, "words") else []))

    def forward(self, *raw: Tensor) -> Tensor:
        return raw[0]

    def read(self, X: Any) -> tuple[Feed, Tensor]:
        x = self.view.encode(X)
        return {"ids": x.numpy().astype(np.int64)}, x

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Feed, Tensor]:
        ids = rng.integers(1, len(self.view.vocabulary_), size=(n, *self.shape))
        ends = rng.integers(1, np.array(self.shape) + 1, size=(n, len(self.shape)))
        for axis, length in enumerate(self.shape):
            there = np.arange(length) < ends[:, axis, None]  # (n, length)
            ids = np.where(
                there.reshape(n, *[1] * axis, length, *[1] * (len(self.shape) - axis - 1)), ids, PAD
            )
        return {"ids": ids}, torch.from_numpy(ids.astype(np.int32))

    @property
    def description(self) -> dict[str, Any]:
        return {"ids": list(self.shape), "unit": self.view.unit, "vocabulary": len(self.view.vocabulary_)}


graph_inputs.register(Columns, ColumnInputs)
graph_inputs.register(Patches, PixelInputs)
graph_inputs.register(TextView, IdInputs)
