"""The part of an ONNX graph that torch traces: raw inputs, and the selector without shortcuts for padding.

Networks for texts skip windows and sentences without words, so the shapes of tensors depend on the text.
A graph is traced once and must hold for all texts: the networks here compute padding as well.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array
from l2x.errors import InputError, require
from l2x.explainer import Explainer
from l2x.features import LIMIT, PAD, SPECIAL, TAG, UNSEEN, Columns, Patches, TextView, View, word_tokenizer
from l2x.learning import (
    Gaussian,
    Likelihood,
    SentenceEncoder,
    WindowConvolution,
    Windows,
    WordEmbedding,
    only_selectable,
    shapley_weights,
    subsets_of,
    weighted_mean,
)

# What onnxruntime is fed: an array per input of the graph.
Feed = dict[str, Array]


class Scoring(nn.Module):
    """Raw inputs, and predictions if the explainer is prediction-aware, -> scores (n, d)."""

    def __init__(self, explainer: Explainer, inputs: GraphInputs) -> None:
        super().__init__()
        self.inputs, self.selector, self.view = inputs, densely(explainer.selector_), explainer.features_
        self.likelihood: Likelihood | None = (
            explainer.surrogate_.likelihood if explainer.uses_prediction else None
        )
        if isinstance(self.likelihood, Gaussian):  # not in `forward`: torch warns about constants there
            self.mean = torch.tensor(self.likelihood.mean, dtype=torch.float64)
            self.scale = torch.tensor(self.likelihood.scale, dtype=torch.float64)

    def forward(self, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return the scores; features that cannot be selected have the score -inf."""
        return self.scored(*raw)[1:]

    def scored(self, *raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return x, the encoded inputs, and the scores."""
        prediction_input: list[Tensor] = []
        if self.likelihood is not None:
            *rest, predictions = raw
            if isinstance(self.likelihood, Gaussian):
                predictions = (predictions - self.mean) / self.scale
            raw, prediction_input = tuple(rest), [self.likelihood.prediction_input(predictions.float())]
        x = self.inputs(*raw)
        scores = self.selector(x, *prediction_input)
        return x, only_selectable(scores, self.view.selectable(x), never=-torch.inf)


class Explaining(Scoring):
    """The scores, and the effects of the k best features, with everything that effects add up to.

    The surrogate is evaluated for all 2^k subsets at once; see `l2x.learning.effects_of`.
    """

    def __init__(self, explainer: Explainer, inputs: GraphInputs) -> None:
        super().__init__(explainer, inputs)
        self.k = explainer.k
        self.predictor = densely(explainer.surrogate_.surrogate.networks["predictor"])
        self.subsets = nn.Buffer(torch.from_numpy(subsets_of(self.k)).float())
        self.weights = nn.Buffer(torch.from_numpy(shapley_weights(self.k)))
        units = explainer.surrogate_.likelihood
        self.regression = isinstance(units, Gaussian)
        if isinstance(units, Gaussian):
            self.centre = nn.Buffer(torch.tensor(units.mean, dtype=torch.float64))
            self.spread = nn.Buffer(torch.tensor(units.scale, dtype=torch.float64))

    def forward(self, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return scores (n, d), effects (n, k, outputs), base, prediction, alone and without (n, outputs)."""
        x, scores = self.scored(*raw)
        best, indices = scores.topk(self.k, dim=1)
        selected, selectable = best > -torch.inf, (scores > -torch.inf).float()
        m = 1 << self.k
        present = self.subsets[:, None] * selected  # (m, n, k)
        masks = torch.zeros_like(scores).expand(m, -1, -1).scatter(2, indices.expand(m, -1, -1), present)
        others, everything = selectable * (1 - masks[-1:]), selectable[None]
        values = self._predictions(x, torch.cat([masks, others, everything]))  # (m + 2, n, outputs)
        n, outputs = scores.shape[0], values.shape[2]
        effects = (self.weights @ values[:m].flatten(1)).reshape(self.k, n, outputs).transpose(0, 1)
        return scores, effects * selected[..., None], values[0], values[-1], values[m - 1], values[m]

    def _predictions(self, x: Tensor, masks: Tensor) -> Tensor:
        """Return the surrogate's predictions for masks (m, n, d) of x, (m, n, outputs)."""
        m, d = masks.shape[0], masks.shape[2]
        flat, inputs = masks.reshape(-1, d), x.repeat(m, *[1] * (x.ndim - 1))
        found: Tensor = self.predictor(self.view.mask(inputs, flat), flat)
        if self.regression:
            found = found.double() * self.spread + self.centre
        else:
            found = torch.softmax(found, dim=-1).double()
        return found.reshape(m, -1, found.shape[1])


class GraphInputs(nn.Module):
    """The first part of a graph: raw inputs, tensors in the order of `names`, -> x, the selector's input.

    Any view can be exported in this way: the only input is `encoded`, the tensor that `View.encode` returns.

    Attributes
    ----------
    names : sequence of str
        Names of the graph's inputs.
    codes : sequence of mappings
        For each column of the input "categories", the code of each category.
    """

    names: Sequence[str] = ("encoded",)
    codes: Sequence[Mapping[str, float]] = ()

    def __init__(self, view: Any) -> None:
        super().__init__()
        self.view = view

    def forward(self, *raw: Tensor) -> Tensor:
        """Return x as `View.encode` would."""
        return raw[0]

    def read(self, X: Any) -> tuple[Feed, Tensor]:
        """Return checked inputs as onnxruntime is fed with them, and as `View.encode` encodes them."""
        x = self.view.encode(X)
        return {"encoded": x.numpy()}, x

    @property
    def description(self) -> dict[str, Any]:
        """Return what each input holds, as JSON, for the metadata of the graph."""
        _, x = self.sample(1, np.random.default_rng(0))
        return {"encoded": list(x.shape[1:])}

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Feed, Tensor]:
        """Return n rows of `View.sample`, as `read` does."""
        return self.read(self.view.check(self.view.sample(n, rng)))

    def traced(self, feed: Feed) -> tuple[Tensor, ...]:
        """Return the tensors that `forward` is traced with: codes instead of strings."""
        return tuple(torch.from_numpy(feed[name]) for name in self.names)


@singledispatch
def graph_inputs(view: View) -> GraphInputs:
    """Return the graph's inputs for a fitted view; `graph_inputs.register` adds other kinds of views."""
    return GraphInputs(view)


@graph_inputs.register(Columns)
class ColumnInputs(GraphInputs):
    """`numbers` (n, numeric columns), doubles, and `categories` (n, other columns), strings.

    Missing cells are NaN and the empty string.
    """

    def __init__(self, view: Columns) -> None:
        super().__init__(view)
        levels = view.levels_
        self.numeric = [c for c in range(len(view.column_names_)) if c not in levels]
        self.categorical = list(levels)
        columns = {"numbers": self.numeric, "categories": self.categorical}
        self.names = [name for name, present in columns.items() if present]
        self.texts = [levels[c].texts for c in self.categorical]
        self.codes = [self._code_of(c, texts) for c, texts in zip(self.categorical, self.texts, strict=True)]
        order = np.argsort([*self.numeric, *self.categorical])
        self.order = nn.Buffer(torch.from_numpy(order)) if self.categorical else None
        self.centre = nn.Buffer(torch.from_numpy(view.scaling_.centre[self.numeric]))
        self.scale = nn.Buffer(torch.from_numpy(view.scaling_.scale[self.numeric]))
        self.gaps = any(c in view.cells_.gaps for c in self.numeric)

    def _code_of(self, c: int, texts: Sequence[str]) -> dict[str, float]:
        """Return the code of each category of column c, and of the empty string, a missing cell."""
        if "" in texts:
            name = self.view.column_names_[c]
            raise InputError(
                f"Column '{name}' has the empty text as a category, which means a missing cell in ONNX."
            )
        frequent = self.view.levels_[c].frequent
        codes = {text: float(min(code, frequent)) for code, text in enumerate(texts)}
        return codes | {"": float("nan") if c in self.view.cells_.gaps else UNSEEN}

    def forward(self, *raw: Tensor) -> Tensor:
        """Return standardised numbers and category codes in the order of the columns."""
        parts = list(raw)
        if self.numeric:
            parts[0] = self._standardised(raw[0]).float()
        return parts[0] if self.order is None else torch.cat(parts, dim=1)[:, self.order]

    def _standardised(self, numbers: Tensor) -> Tensor:
        if not self.view.standardize:
            return numbers
        standard = ((numbers - self.centre) / self.scale).clamp(-LIMIT, LIMIT)
        # ONNX does not define what clipping NaN gives.
        return torch.where(numbers.isnan(), numbers, standard) if self.gaps else standard

    def read(self, X: Any) -> tuple[Feed, Tensor]:
        """Return numbers and strings, and the encoded rows; see `GraphInputs.read`."""
        cells, feed = self.view.numbers(X), {}
        if self.numeric:
            feed["numbers"] = np.ascontiguousarray(cells[:, self.numeric], dtype=np.float64)
        if self.categorical:
            columns = zip(self.categorical, self.texts, strict=True)
            feed["categories"] = np.stack(
                [_category_texts(cells[:, c], texts) for c, texts in columns], axis=1
            )
        return feed, self.view.encode_numbers(cells)

    def traced(self, feed: Feed) -> tuple[Tensor, ...]:
        """Return the tensors that `forward` is traced with; see `GraphInputs.traced`."""
        if not self.categorical:
            return super().traced(feed)
        columns = zip(feed["categories"].T, self.codes, strict=True)
        codes = np.array([[code.get(text, UNSEEN) for text in texts] for texts, code in columns])
        numbers = [torch.from_numpy(feed["numbers"])] if self.numeric else []
        return (*numbers, torch.from_numpy(codes.T.astype(np.float32)))

    @property
    def description(self) -> dict[str, Any]:
        """Return the columns of each input, and the columns that may have missing cells."""
        names = [str(name) for name in self.view.column_names_]
        return {
            "numbers": [names[c] for c in self.numeric],
            "categories": [names[c] for c in self.categorical],
            "may_miss": [names[c] for c in self.view.cells_.gaps],
        }


def _category_texts(codes: Array, texts: Sequence[str]) -> Array:
    """Return category codes as strings: "" for missing cells, an unused string for unseen categories."""
    strings = np.array([*texts, "", "\N{WHITE SQUARE} unseen"], dtype=object)
    unseen = np.where(codes == UNSEEN, len(texts) + 1, codes)
    return np.asarray(strings[np.where(np.isnan(codes), len(texts), unseen).astype(int)])


@graph_inputs.register(Patches)
class PixelInputs(GraphInputs):
    """`pixels`: images of the shape and scale that the view was fitted on, as floats."""

    names = ("pixels",)

    def __init__(self, view: Any) -> None:
        if view.backbone is not None:
            raise InputError(
                "An explainer with a backbone cannot be exported: it runs the model's own layers."
            )
        super().__init__(view)

    def forward(self, *raw: Tensor) -> Tensor:
        """Return the patches of the images."""
        return self.view.encode_pixels(raw[0])  # type: ignore[no-any-return]

    def read(self, X: Any) -> tuple[Feed, Tensor]:
        """Return images as floats, and their patches; see `GraphInputs.read`."""
        return {"pixels": np.ascontiguousarray(X, dtype=np.float32)}, self.view.encode(X)

    @property
    def description(self) -> dict[str, Any]:
        """Return the shape of images, the size of patches and their grid."""
        return {
            "pixels": list(self.view.image_shape_),
            "patch": self.view.size,
            "grid": list(self.view.grid_),
        }


@graph_inputs.register(TextView)
class IdInputs(GraphInputs):
    """`ids` (n, words) or (n, sentences, words) in the vocabulary; 0 is padding."""

    names = ("ids",)

    def read(self, X: Any) -> tuple[Feed, Tensor]:
        """Return the ids as the graph and as torch read them; see `GraphInputs.read`."""
        x = self.view.encode(X)
        return {"ids": x.numpy().astype(np.int64)}, x

    @property
    def description(self) -> dict[str, Any]:
        """Return the shape of one text, the unit of selection and the size of the vocabulary."""
        shape = [self.view.length, *([self.view.words] if hasattr(self.view, "words") else [])]
        return {"ids": shape, "unit": self.view.unit, "vocabulary": len(self.view.vocabulary_)}


def tokenizer_json(view: TextView) -> str:
    """Return the view's tokenizer as the JSON that Hugging Face's tokenizers read in any language.

    It replaces HTML tags by blanks. For `Words`, it cuts and pads texts to the view's length: its ids are the
    graph's input. For `Sentences`, split the text first; each sentence is cut and padded to `words`.
    """
    if view.tokenizer is not None:
        raise InputError(
            "A view with tokenizer= cannot be exported: joining pieces to words has no form in a tokenizer's "
            "JSON. Serve the explainer, or fit it without tokenizer=."
        )
    tokenizers = require("tokenizers", extra="text")
    tokenizer = word_tokenizer(view.vocabulary_, lowercase=view.lowercase)
    normalizers = tokenizers.normalizers
    steps = [normalizers.Replace(tokenizers.Regex(TAG.pattern), " ")]
    if view.lowercase:
        steps.append(normalizers.Lowercase())
    tokenizer.normalizer = normalizers.Sequence(steps)
    length = getattr(view, "words", view.length)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=PAD, pad_token=SPECIAL[PAD])
    return str(tokenizer.to_str(pretty=False))


def densely(network: nn.Module) -> nn.Module:
    """Return a copy on the CPU that computes the same numbers without skipping padding."""
    network = copy.deepcopy(network).cpu().eval().requires_grad_(requires_grad=False)
    dense = {
        WindowConvolution: DenseConvolution,
        SentenceEncoder: DenseEncoder,
        WordEmbedding: DenseEmbedding,
    }
    for parent in list(network.modules()):
        for name, part in list(parent.named_children()):
            for kind, replacement in dense.items():
                if isinstance(part, kind):
                    setattr(parent, name, replacement(part))
    return network


class DenseWindows(Windows):
    """All windows of a text, including those without words."""

    def maximum(self) -> Tensor:
        """Return the maximum over positions, (n, filters)."""
        values = self.values.reshape(-1, self.live.shape[1], self.values.shape[1])
        return torch.maximum(values.amax(dim=1), self.empty)


class DenseConvolution(nn.Module):
    """A `WindowConvolution` over all windows; windows without words are zeros and give the bias."""

    def __init__(self, convolution: WindowConvolution) -> None:
        super().__init__()
        self.linear = convolution.linear

    def forward(self, x: Tensor, present: Tensor) -> DenseWindows:
        """Return the convolved windows; see `WindowConvolution.forward`."""
        beyond = torch.zeros_like(x[:, :1])
        before, after = torch.cat([beyond, x[:, :-1]], dim=1), torch.cat([x[:, 1:], beyond], dim=1)
        # ONNX cannot infer a width, for which `flatten` leaves a gap, if there are no texts.
        windows = torch.stack([before, x, after], dim=-1).reshape(-1, self.linear.in_features)
        values = self.linear(windows)  # (n * length, filters)
        return DenseWindows(values, torch.ones_like(present), empty=self.linear.bias)

    def largest(self, embedding: nn.Module, ids: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the maximum over all positions; see `WindowConvolution.largest`."""
        weights = (ids != PAD).float() if weights is None else weights
        windows: DenseWindows = self(embedding(ids) * weights[:, :, None], weights > 0)
        return windows.maximum()


class DenseEmbedding(nn.Module):
    """A `WordEmbedding` that also looks up words with weight zero."""

    def __init__(self, embedding: WordEmbedding) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of words."""
        vectors: Tensor = self.embedding(ids)
        return vectors

    def mapped(self, layer: nn.Module, ids: Tensor) -> Tensor:
        """Return layer(self(ids))."""
        mapped: Tensor = layer(self(ids))
        return mapped

    def average(self, ids: Tensor, weights: Tensor, divisor: float | None = None) -> Tensor:
        """Return the weighted mean of the vectors; see `WordEmbedding.average`."""
        return weighted_mean(self(ids) * weights[:, :, None], weights, divisor)


class DenseEncoder(nn.Module):
    """A `SentenceEncoder` that reads every sentence; padding is encoded as zeros."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.embedding, self.convolution = encoder.embedding, DenseConvolution(encoder.convolution)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of sentences; see `SentenceEncoder.forward`."""
        words = ids.flatten(0, 1)  # (n * sentences, words)
        encoded = torch.relu(self.convolution.largest(self.embedding, words))
        present = (ids != PAD).any(dim=2, keepdim=True)
        return encoded.reshape(-1, ids.shape[1], encoded.shape[1]) * present
