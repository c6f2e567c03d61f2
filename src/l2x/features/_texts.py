"""Views of texts: features are words or sentences, reported as substrings of the original text.

`Passages`, whose inputs are lists of texts, is in _passages.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import narwhals as nw
import numpy as np
import pandas as pd
import torch
from narwhals.exceptions import DuplicateError
from torch import Tensor

from l2x._base.arrays import Array, batches, is_whole
from l2x.errors import InputError, require
from l2x.features._segments import PIECE, Segmenter, VocabularyReader, learn_words
from l2x.features._tables import duplicate_names
from l2x.features._view import Measurement, TableLayout, View
from l2x.features._vocabulary import (
    FILLER,
    PAD,
    SPECIAL,
    UNKNOWN,
    Vectors,
    WordReader,
    checked_vocabulary,
    learn_vocabulary,
    vectors_of,
    without_tags,
)

Reads = Literal["text", "ids"]
Masking = Literal["drop", "replace"]

# The most words or sentences of one text; more are a mistake, or a forged file that would fill the memory.
LONGEST = 1_000_000


@dataclass(frozen=True)
class Tokens:
    """Texts as the networks read them, and the position of each feature in its text."""

    ids: Array  # (n, words), or (n, sentences, words), int32
    spans: Array  # (n, d, 2) where each feature begins and ends, in characters; (0, 0) for padding

    def take(self, rows: Any) -> Tokens:
        """Return the tokens of these rows."""
        return Tokens(self.ids[rows], self.spans[rows])


class Texts:
    """A list of texts that are tokenised when tokens are needed, and then remember them.

    Rows taken from tokenised texts share their tokens. Otherwise a part is tokenised alone, so that a long
    list need not be tokenised at once.
    """

    def __init__(
        self, texts: list[str], view: TextView, tokens: Tokens | None = None, labels: Any = None
    ) -> None:
        self.texts = texts
        self.view = view
        self.labels = labels  # the index of a pandas series, for the frame of results
        if tokens is not None:
            self.tokens = tokens

    @cached_property
    def tokens(self) -> Tokens:
        """Return the ids and spans of all texts."""
        return self.view._tokens(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: Any) -> Any:
        """Return one text by its index, or a part by a slice, a mask or indices."""
        if isinstance(rows, int | np.integer):
            return self.texts[rows]
        if isinstance(rows, slice):
            part = self.texts[rows]
        else:
            part = [self.texts[i] for i in np.arange(len(self.texts))[rows]]
        tokens: Tokens | None = self.__dict__.get("tokens")
        labels = None if self.labels is None else self.labels[rows]
        return Texts(part, self.view, None if tokens is None else tokens.take(rows), labels)

    def __repr__(self) -> str:
        return f"Texts({len(self):,} texts)"


@dataclass(eq=False, repr=False)
class TextView(View):
    """The base of `Words`, which documents the options, `Sentences` and `Passages`."""

    kind: ClassVar[Literal["table", "text", "image"]] = "text"
    rows_at_once = 512
    _in_weights: ClassVar[tuple[str, ...]] = ("vectors",)  # networks start from them and learn further

    length: int
    _: KW_ONLY
    vocabulary: int | Sequence[str] = 20_000
    lowercase: bool = True
    reads: Reads = "text"
    masking: Masking = "drop"
    replacement: str = "[MASK]"
    vectors: Vectors | None = None
    tokenizer: Any = None

    def fit(self, X: Any) -> Self:
        """Learn the vocabulary from training texts; return self."""
        self._check_options()
        texts = self._listed(X)
        if not texts:
            raise InputError("There are no texts.")
        self._segmenter = None if self.tokenizer is None else Segmenter(self.tokenizer)
        if isinstance(self.vocabulary, int):
            vocabulary = self._learned(map(without_tags, texts), self.vocabulary)
            if len(vocabulary) == len(SPECIAL):
                raise InputError(f"There is no word in the {len(texts):,} texts, such as {texts[0]!r}.")
        else:
            vocabulary = checked_vocabulary(self.vocabulary)
        vectors = None if self.vectors is None else vectors_of(vocabulary, self.vectors)
        return self._set_vocabulary(vocabulary, vectors)

    def _learned(self, texts: Iterable[str], size: int) -> list[str]:
        """Return the most frequent words of texts."""
        if self._segmenter is None:
            return learn_vocabulary(texts, size, lowercase=self.lowercase)
        return learn_words(texts, self._segmenter, size, lowercase=self.lowercase)

    def _set_vocabulary(
        self, vocabulary: list[str], vectors: Array | None = None, width: int | None = None
    ) -> Self:
        self.vocabulary_ = vocabulary
        self.width_ = width if vectors is None else vectors.shape[1]
        self._vectors = vectors
        self._tokenizer: Any = (
            WordReader(vocabulary, lowercase=self.lowercase)
            if self._segmenter is None
            else VocabularyReader(self._segmenter, vocabulary, lowercase=self.lowercase)
        )
        self.names_ = [f"{self.unit} {i + 1}" for i in range(self.length)]
        return self

    def embedding_options(self) -> dict[str, Any]:
        """Return the width and, before training, the pretrained vectors of the networks' embeddings."""
        options: dict[str, Any] = {} if self.width_ is None else {"width": self.width_}
        return options if self._vectors is None else options | {"vectors": torch.from_numpy(self._vectors)}

    @abstractmethod
    def _tokens(self, texts: list[str]) -> Tokens:
        """Return the ids of texts, and the spans of their features."""

    def check(self, X: Any) -> Texts:
        """Return the texts as `Texts`; see `View.check`."""
        # Texts of another view have other tokens, unless it has the same vocabulary and settings.
        mine = isinstance(X, Texts) and self._same_tokens(X.view)
        return X if mine else Texts(self._listed(X), self, labels=X.index if hasattr(X, "iloc") else None)

    def _listed(self, X: Any) -> list[str]:
        """Return inputs of any kind as a list of texts."""
        return as_list(X)

    def _same_tokens(self, other: TextView) -> bool:
        alike = type(other) is type(self) and other.vocabulary_ == self.vocabulary_
        alike = alike and _json_of(other._segmenter) == _json_of(self._segmenter)
        settings = ("length", "lowercase", "words", "language")
        return alike and all(getattr(other, name, None) == getattr(self, name, None) for name in settings)

    def take(self, X: Any, rows: Any) -> Texts:
        """Return a part of the texts; see `View.take`."""
        part: Texts = self.check(X)[rows]
        return part

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        """Return the ids of the texts, padded with 0; see `View.encode`."""
        return torch.from_numpy(self.check(X).tokens.ids)

    def ids(self, X: Any) -> Tensor:
        """Return the ids of the texts, padded with 0, as int64: the inputs of a model with reads="ids"."""
        return self.encode(X).long()

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return x: ids cannot be scaled. The predictor multiplies embeddings by the mask (section 4.2)."""
        return x

    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        """Return texts or ids, whole or with unselected features masked; see `View.for_model`."""
        X = self.check(X)
        if mask is None:
            return self.ids(X) if self.reads == "ids" else list(map(self._whole, X.texts))
        if self.reads == "ids":
            ids = X.tokens.ids
            left = np.where(mask.reshape(*mask.shape, *[1] * (ids.ndim - 2)), ids, PAD)
            return torch.from_numpy(left).long()
        rows = zip(X.texts, X.tokens.spans, mask, strict=True)
        return [self._masked(text, spans, selected) for text, spans, selected in rows]

    def _whole(self, text: str) -> Any:
        """Return a text as the model reads it."""
        return text

    def _masked(self, text: str, spans: Array, selected: Array) -> Any:
        """Return the selected features in their order; the others are dropped or replaced."""
        shown = spans[:, 1] > spans[:, 0]
        if self.masking == "drop":
            shown = shown & selected
        parts: list[str] = []
        ended = -1
        for (start, end), keep in zip(spans[shown].tolist(), selected[shown].tolist(), strict=True):
            # In scripts without blanks, words that adjoin in the text still do.
            parts.append("" if start == ended or not parts else " ")
            parts.append(text[start:end] if keep else self.replacement)
            ended = end
        return "".join(parts)

    def names_in(self, X: Any, indices: Array) -> Array:
        """Return the words or sentences at the given positions of each text; see `View.names_in`."""
        X = self.check(X)
        names = np.empty(indices.shape, dtype=object)
        for rows in batches(len(X), self.rows_at_once):
            part = X[rows]
            spans = np.take_along_axis(part.tokens.spans, indices[rows][..., None], axis=1).tolist()
            for row, text, positions in zip(range(rows.start, rows.stop), part.texts, spans, strict=True):
                names[row] = [text[start:end] for start, end in positions]
        return names

    @property
    def has_distances(self) -> bool:
        """Return False: ids of words are not numbers."""
        return False

    def sample(self, n: int, rng: np.random.Generator) -> list[Any]:
        """Return n texts of random words of the vocabulary, a few of them unknown; see `View.sample`."""
        return [self._made_up(rng) for _ in range(n)]

    def _made_up(self, rng: np.random.Generator) -> Any:
        """Return a text with at most `length` features."""
        return self._random_words(self.length, rng)

    def _random_words(self, most: int, rng: np.random.Generator) -> str:
        words = [SPECIAL[UNKNOWN], *self.known_words]
        ids = rng.integers(len(words), size=rng.integers(1, most + 1))
        return " ".join(words[i] for i in ids)

    @property
    def known_words(self) -> list[str]:
        """Return the words of the vocabulary, frequent words first, without padding and pieces of words."""
        return [word for word in self.vocabulary_[len(SPECIAL) :] if not word.startswith(PIECE)]

    def measurements(self, X: Any) -> list[Measurement]:
        """Return the number of words, and the share of words outside the vocabulary, of each text.

        Both count words after the cut at `length`; see `View.measurements`.
        """
        ids = self.check(X).tokens.ids.reshape(len(X), -1)
        words = (ids != PAD).sum(axis=1).astype(np.float64)
        unknown = (ids == UNKNOWN).sum(axis=1) / np.maximum(words, 1)
        return [Measurement("number of words", words), Measurement("share of unknown words", unknown)]

    def table_layout(self) -> TableLayout:
        """Return the layout of one column of texts."""
        return TableLayout("text")

    def maskings(self) -> dict[str | None, Self]:
        """Return the view with each masking; a black box that reads ids always sees padding."""
        return {self.masking: self} if self.reads == "ids" else super().maskings()

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the vocabulary; see `View.state`."""
        return {"vocabulary": self.vocabulary_, "width": self.width_}, {}

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Set what `state` returned; see `View.restore`."""
        self._check_options()
        self._segmenter = None if self.tokenizer is None else Segmenter(self.tokenizer)
        return self._set_vocabulary(list(learned["vocabulary"]), width=learned["width"])

    def _portable(self) -> dict[str, Any]:
        """Return the tokenizer as JSON; see `View._portable`."""
        return {} if self._segmenter is None else {"tokenizer": self._segmenter.json}

    def __sklearn_clone__(self) -> Self:
        # Like scikit-learn, but without copying pretrained vectors, often 100 MB and more.
        return type(self)(**self.get_params(deep=False))

    def _check_options(self) -> None:
        if not is_whole(self.length):
            raise InputError(f"length is {self.length!r}; give a whole number of {self.unit}s.")
        if self.length > LONGEST:
            raise InputError(
                f"length is {self.length:,} {self.unit}s, each one a feature; the maximum is {LONGEST:,}."
            )
        words = self.vocabulary
        listed = isinstance(words, Iterable) and not isinstance(words, str)
        if not listed and not (isinstance(words, int) and words >= 3):
            raise InputError(f"vocabulary is {self.vocabulary!r}; give a number of words, or a list of them.")
        if self.reads not in ("text", "ids"):
            raise InputError(f"reads is {self.reads!r}; choose 'text' or 'ids'.")
        if self.masking not in ("drop", "replace"):
            raise InputError(f"masking is {self.masking!r}; choose 'drop' or 'replace'.")
        if not isinstance(self.replacement, str):
            raise InputError(f"replacement is {self.replacement!r}; give a text, such as '[MASK]'.")
        if self.tokenizer is not None and self.reads == "ids":
            raise InputError(
                "tokenizer= is for models that read texts, but reads is 'ids'; pass a model that reads ids "
                "of this tokenizer as the pair (model, tokenizer), with reads='text'."
            )


@dataclass(eq=False, repr=False)
class Words(TextView):
    """One feature per word of a text.

    Words are runs of letters, digits and inner apostrophes; tags such as <br /> are skipped. Networks read
    the first `length` words by their ids in a vocabulary of frequent words, which is learned from the
    training texts. Padding and words outside the vocabulary are never selected.

    Parameters
    ----------
    length : int
        The number of words that are read; later words are never selected.
    vocabulary : int or list of str
        How many words to learn, or the vocabulary: entries 0 and 1 are "[PAD]" and "[UNK]", as in the
        `vocabulary_` of a fitted view. A network that reads ids needs the vocabulary of its training.
    lowercase : bool
        Whether "Good" and "good" are the same word.
    reads : "text" or "ids"
        What the black box reads: texts (any function of a list of strings: a scikit-learn or transformers
        pipeline, a remote model), or a tensor (n, length) of ids, padded with 0 (a torch network).
    masking : "drop" or "replace"
        What a black box that reads texts gets instead of an unselected word: nothing, or `replacement`. One
        that reads ids gets padding.
    replacement : str
        The text that replaces an unselected word.
    vectors : (words, array) or mapping of words to vectors, optional
        Pretrained vectors with which the embeddings of all networks start, such as `l2x.datasets.glove()`;
        other words start at random. An artifact stores the trained embeddings, not these vectors.
    tokenizer : tokenizer, JSON or path, optional
        A fast tokenizer of `transformers`, a `tokenizers.Tokenizer`, or the path of a tokenizer.json, for any
        language and script. Features are whole words: pieces are joined, and scripts without blanks, such as
        Chinese or Thai, are split where the tokenizer does. Emoji are words, punctuation is not. Words that
        occur once in training are read by their longest piece, so that new words can be selected, too. An
        artifact stores the tokenizer as JSON.
    stop_words : "english" or list of str, optional
        Words that are never selected, although the networks read them: function words are no reasons.
        "english" is scikit-learn's list without "no" and "not".

    >>> view = Words(length=4, vocabulary=10).fit(["A good film!", "Not a good film"])
    >>> view.for_model(["Good film, my friend"], np.array([[True, False, True, False]]))
    ['Good my']
    """

    unit: ClassVar[str] = "word"

    length: int = 400
    _: KW_ONLY
    stop_words: Literal["english"] | Sequence[str] | None = None

    def selectable(self, x: Tensor) -> Tensor:
        """Exclude padding, unknown words and stop words; see `View.selectable`."""
        allowed: Tensor = self._allowed.to(x.device)[x.long()]
        return allowed

    def _set_vocabulary(
        self, vocabulary: list[str], vectors: Array | None = None, width: int | None = None
    ) -> Self:
        stop_words = FILLER if self.stop_words == "english" else self.stop_words or ()
        never = {word.lower() for word in stop_words}
        self._allowed = torch.tensor([word.lower() not in never for word in vocabulary])  # by id
        self._allowed[[PAD, UNKNOWN]] = False
        return super()._set_vocabulary(vocabulary, vectors, width)

    def _check_options(self) -> None:
        super()._check_options()
        words = self.stop_words
        if isinstance(words, np.ndarray | pd.Series):
            raise InputError("stop_words is an array; give a list of words: stop_words=list(...).")
        listed = isinstance(words, Sequence) and all(isinstance(word, str) for word in words)
        if words not in (None, "english") and (isinstance(words, str) or not listed):
            raise InputError(f"stop_words is {words!r}; choose 'english', or give a list of words.")

    def _tokens(self, texts: list[str]) -> Tokens:
        ids = np.full((len(texts), self.length), PAD, dtype=np.int32)
        spans = np.zeros((len(texts), self.length, 2), dtype=np.int32)
        tokenised = self._tokenizer.encode_batch([without_tags(text) for text in texts])
        for row, words in enumerate(tokenised):
            n = min(len(words), self.length)
            if n:
                ids[row, :n], spans[row, :n] = words.ids[:n], words.offsets[:n]
        return Tokens(ids, spans)


@dataclass(eq=False, repr=False)
class Sentences(TextView):
    """One feature per sentence of a text.

    Texts are split by `sentencex`, after tags such as <br /> are blanked. Networks read the first `length`
    sentences, and the first `words` words of each, by their ids in a vocabulary of the training texts.

    Parameters
    ----------
    length : int
        The number of sentences that are read; later sentences are never selected.
    words : int
        The number of words of a sentence that networks read.
    vocabulary, lowercase, vectors, tokenizer
        See `Words`. The tokenizer sets the words that networks read.
    reads : "text" or "ids"
        What the black box reads: texts, or a tensor (n, length, words) of ids, padded with 0.
    masking : "drop" or "replace"
        What a black box that reads texts gets instead of an unselected sentence: nothing, or `replacement`.
        One that reads ids gets padding.
    replacement : str
        The text that replaces an unselected sentence.
    language : str
        The language of the texts, for the splitter, as an ISO 639-1 code.

    >>> view = Sentences(length=3).fit(["A good film. Mr. Bean is in it!"])
    >>> view.names_in(["A good film. Mr. Bean is in it!"], np.array([[1, 0]])).tolist()
    [['Mr. Bean is in it!', 'A good film.']]
    """

    unit: ClassVar[str] = "sentence"

    length: int = 15
    _: KW_ONLY
    words: int = 50
    replacement: str = "..."
    language: str = "en"

    def selectable(self, x: Tensor) -> Tensor:
        """Exclude padding; see `View.selectable`."""
        return (x != PAD).any(dim=2)

    def _made_up(self, rng: np.random.Generator) -> str:
        number = int(rng.integers(1, self.length + 1))
        return " ".join(f"{self._random_words(self.words, rng).capitalize()}." for _ in range(number))

    def _tokens(self, texts: list[str]) -> Tokens:
        segment = require("sentencex", extra="text").segment
        ids = np.full((len(texts), self.length, self.words), PAD, dtype=np.int32)
        spans = np.zeros((len(texts), self.length, 2), dtype=np.int32)
        plain = [without_tags(text) for text in texts]
        tokenised = self._tokenizer.encode_batch(plain)
        for row, (text, words) in enumerate(zip(plain, tokenised, strict=True)):
            if not len(words):
                continue
            letters = np.asarray(words.offsets)[:, 0]
            ends = np.cumsum([len(sentence) for sentence in segment(self.language, text)])
            # Segments without a word are not sentences: number the others, and the words in each.
            parts, sentence = np.unique(np.searchsorted(ends, letters, side="right"), return_inverse=True)
            position = np.arange(len(letters)) - np.searchsorted(sentence, sentence)
            read = (sentence < self.length) & (position < self.words)
            ids[row, sentence[read], position[read]] = np.asarray(words.ids)[read]
            starts = np.concatenate([[0], ends])
            for i, part in enumerate(parts[: self.length].tolist()):
                spans[row, i] = stripped(text, int(starts[part]), int(starts[part + 1]))
        return Tokens(ids, spans)

    def _check_options(self) -> None:
        super()._check_options()
        if not is_whole(self.words):
            raise InputError(
                f"words is {self.words!r}; give a whole number of words per sentence, such as 50."
            )


def _json_of(segmenter: Segmenter | None) -> str | None:
    return None if segmenter is None else segmenter.json


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space around it."""
    sentence = text[start:end]
    return start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip())


def as_list(X: Any) -> list[str]:
    """Return texts of any kind - a list, an array, a column of a frame - as a list of strings."""
    if isinstance(X, Texts):
        return X.texts
    texts = items_of(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"Text {row} is {text!r} ({type(text).__name__}), not a string.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"Text {row} contains a lone surrogate at position {error.start}; decode it again, with "
                "errors='replace'."
            ) from error
    return texts


def items_of(X: Any) -> list[Any]:
    """Return the items of a list, an array, or the only column of a frame."""
    if isinstance(X, str):
        raise InputError("Expected a list of texts, got one text; pass [text].")
    try:
        given = nw.from_native(X, allow_series=True, pass_through=True)
        columns = given.columns if isinstance(given, nw.DataFrame) else []
    except DuplicateError as error:
        raise duplicate_names(X) from error
    if isinstance(given, nw.LazyFrame):
        raise InputError("Expected a list of texts, or a column of them, got a LazyFrame; pass X.collect().")
    if isinstance(given, nw.DataFrame):
        if len(columns) != 1:
            raise InputError(
                f"Expected one column of texts, got a table of {len(columns)}; pass the column, X['text']."
            )
        given = given[columns[0]]
    return given.to_list() if isinstance(given, nw.Series) else _listed(given)


def _listed(given: Any) -> list[Any]:
    try:
        if isinstance(given, Mapping):
            raise TypeError("its keys are not texts")
        # A pyarrow array iterates over its own scalars.
        return given.to_pylist() if hasattr(given, "to_pylist") else list(given)
    except TypeError as error:
        kind = type(given).__name__
        raise InputError(f"Expected a list of texts, or a column of them, got a {kind}.") from error
