"""Words and their ids: what counts as a word, and which ones networks know."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import narwhals as nw
import numpy as np
import torch
from narwhals.exceptions import DuplicateError
from torch import Tensor

from l2x._base.arrays import Array, batches, is_whole
from l2x.errors import InputError, require
from l2x.features._frames import named_twice
from l2x.features._view import View

# Ids of the vocabulary's first two entries: padding, and every word that is not in it.
PAD, UNKNOWN = 0, 1
SPECIAL = ("[PAD]", "[UNK]")
# Letters and digits, with apostrophes inside: "don't" is one word.
WORD = r"\w+(?:['’]\w+)*"
TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def learn_vocabulary(texts: Iterable[str], size: int, *, lowercase: bool) -> list[str]:
    """The most frequent words, at most `size` entries with the two special ones in front."""
    tokenizers = require("tokenizers", extra="text")
    learner = word_tokenizer(list(SPECIAL), lowercase=lowercase)
    trainer = tokenizers.trainers.WordLevelTrainer(
        vocab_size=size, special_tokens=list(SPECIAL), show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    learned: dict[str, int] = learner.get_vocab()
    return sorted(learned, key=learned.__getitem__)


def checked_vocabulary(given: Sequence[str]) -> list[str]:
    """A vocabulary that the user brings: a word's position is its id."""
    words = list(given)
    strings = all(isinstance(word, str) for word in words)
    if not strings or tuple(words[:2]) != SPECIAL or len(words) < 3 or len(set(words)) < len(words):
        raise InputError(
            "vocabulary must be a list of different words whose first two entries are '[PAD]' and '[UNK]' "
            "(ids 0 and 1), such as the vocabulary_ of a fitted view."
        )
    return words


def word_tokenizer(vocabulary: list[str], *, lowercase: bool) -> Any:
    """Splits texts into words, with their ids and the characters that each came from."""
    tokenizers = require("tokenizers", extra="text")
    ids = {word: i for i, word in enumerate(vocabulary)}
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=SPECIAL[UNKNOWN]))
    if lowercase:
        found.normalizer = tokenizers.normalizers.Lowercase()
    found.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(WORD), behavior="removed", invert=True
    )
    return found


def without_tags(text: str) -> str:
    """The text with blanks in place of tags such as <br />: every other character keeps its position."""
    return TAG.sub(lambda tag: " " * len(tag.group()), text)


# Words and their vectors, (words, width), or each word's own.
Vectors = tuple[Sequence[str], Array] | Mapping[str, Any]


def vectors_of(vocabulary: Sequence[str], given: Vectors) -> Array:
    """The vector of each word of a vocabulary, (words, width) float32; NaN for those that have none.

    Where "Good" has none, it is given that of "good".
    """
    words, vectors = _as_table(given)
    row = {word: i for i, word in enumerate(words)}
    rows = np.array([row.get(word, row.get(word.lower(), -1)) for word in vocabulary])
    found = rows >= 0
    if not found.any():
        raise InputError(
            f"Not one of the {len(vocabulary):,} words of the vocabulary has a vector: the words of vectors= "
            f"are such as {list(words[:3])}."
        )
    chosen = np.full((len(vocabulary), vectors.shape[1]), np.nan, dtype=np.float32)
    chosen[found] = vectors[rows[found]]
    if not np.isfinite(chosen[found]).all():
        raise InputError("vectors= holds numbers that are not finite.")
    return chosen


def _as_table(given: Any) -> tuple[Sequence[str], Array]:
    """The words, and an array of as many rows."""
    if isinstance(given, Mapping):
        given = list(given), list(given.values())
    try:
        words, vectors = given
        vectors = np.asarray(vectors, dtype=np.float32)
        sound = vectors.ndim == 2 and len(words) == len(vectors) > 0 and vectors.shape[1] > 0
    except (TypeError, ValueError) as error:
        raise InputError(
            "vectors must be a mapping of words to vectors of one length, or a pair (words, array) such as "
            f"l2x.datasets.glove(); got a {type(given).__name__} ({error})."
        ) from error
    if not sound:
        raise InputError(
            f"vectors has {len(words):,} words and an array of shape {vectors.shape}; give one row per word."
        )
    return words, vectors


Reads = Literal["text", "ids"]
Removal = Literal["drop", "replace"]

# Words or sentences of one text; more are a mistake, or a forged file that would fill the memory.
LONGEST = 1_000_000


@dataclass(frozen=True)
class Tokens:
    """Texts as the networks read them, and where each feature stands in its text."""

    ids: Array  # (n, words), or (n, sentences, words), int32
    spans: Array  # (n, d, 2) where each feature begins and ends, in characters; (0, 0) where there is none

    def take(self, rows: Any) -> Tokens:
        return Tokens(self.ids[rows], self.spans[rows])


class Texts:
    """A list of texts that remembers its tokens once they were needed.

    Taking rows from texts whose tokens are known takes those along; taking rows from others leaves the work
    for later, so that a long list is not tokenised at once unless somebody asks for that.
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
        return self.view._tokens(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: Any) -> Any:
        """One text by its index, or some by a slice, a mask or indices."""
        if isinstance(rows, int | np.integer):
            return self.texts[rows]
        if isinstance(rows, slice):
            some = self.texts[rows]
        else:
            some = [self.texts[i] for i in np.arange(len(self.texts))[rows]]
        known: Tokens | None = self.__dict__.get("tokens")
        labels = None if self.labels is None else self.labels[rows]
        return Texts(some, self.view, None if known is None else known.take(rows), labels)

    def __repr__(self) -> str:
        return f"Texts({len(self):,} texts)"


@dataclass(eq=False, repr=False)
class TextView(View):
    """Raw strings in; ids of words for the networks; pieces of the original text out."""

    rows_at_once: ClassVar[int] = 512
    unit: ClassVar[str]
    _in_weights: ClassVar[tuple[str, ...]] = ("vectors",)  # where they have learned more

    length: int
    _: KW_ONLY
    vocabulary: int | Sequence[str] = 20_000
    lowercase: bool = True
    reads: Reads = "text"
    removal: Removal = "drop"
    replacement: str = "[MASK]"
    vectors: Vectors | None = None

    def fit(self, X: Any) -> Self:
        self._check_options()
        texts = as_list(X)
        if not texts:
            raise InputError("There are no texts.")
        if isinstance(self.vocabulary, int):
            plain = map(without_tags, texts)
            vocabulary = learn_vocabulary(plain, self.vocabulary, lowercase=self.lowercase)
            if len(vocabulary) == len(SPECIAL):
                raise InputError(f"There is not one word in the {len(texts):,} texts, such as {texts[0]!r}.")
        else:
            vocabulary = checked_vocabulary(self.vocabulary)
        vectors = None if self.vectors is None else vectors_of(vocabulary, self.vectors)
        return self._know(vocabulary, vectors)

    def _know(self, vocabulary: list[str], vectors: Array | None = None, width: int | None = None) -> Self:
        self.vocabulary_ = vocabulary
        self.width_ = width if vectors is None else vectors.shape[1]
        self._vectors = vectors
        self._tokenizer = word_tokenizer(vocabulary, lowercase=self.lowercase)
        self.names_ = [f"{self.unit} {i + 1}" for i in range(self.length)]
        return self

    def embedding_options(self) -> dict[str, Any]:
        """What networks have to know of pretrained vectors. A view that was restored has none: the networks'
        weights are restored too, and came from them."""
        options: dict[str, Any] = {} if self.width_ is None else {"width": self.width_}
        return options if self._vectors is None else options | {"vectors": torch.from_numpy(self._vectors)}

    @abstractmethod
    def _tokens(self, texts: list[str]) -> Tokens:
        """The ids of texts, and where their features stand."""

    def check(self, X: Any) -> Texts:
        # Another view's texts have other tokens, unless it knows the same words and cuts alike.
        mine = isinstance(X, Texts) and self._same_tokens(X.view)
        return X if mine else Texts(as_list(X), self, labels=X.index if hasattr(X, "iloc") else None)

    def _same_tokens(self, other: TextView) -> bool:
        alike = type(other) is type(self) and other.vocabulary_ == self.vocabulary_
        settings = ("length", "lowercase", "words", "language")
        return alike and all(getattr(other, name, None) == getattr(self, name, None) for name in settings)

    def take(self, X: Any, rows: Any) -> Texts:
        some: Texts = self.check(X)[rows]
        return some

    def encode(self, X: Any, *, first_row: int = 0) -> Tensor:
        return torch.from_numpy(self.check(X).tokens.ids)

    def ids(self, X: Any) -> Tensor:
        """The texts as ids, padded with 0: what a network that reads ids is trained on."""
        return self.encode(X).long()

    def mask(self, x: Tensor, mask: Tensor) -> Tensor:
        # Ids cannot be scaled: the predictor multiplies their embeddings with the mask (section 4.2).
        return x

    def for_model(self, X: Any, mask: Array | None = None, *, rng: np.random.Generator | None = None) -> Any:
        X = self.check(X)
        if mask is None:
            return self.ids(X) if self.reads == "ids" else X.texts
        if self.reads == "ids":
            ids = X.tokens.ids
            left = np.where(mask.reshape(*mask.shape, *[1] * (ids.ndim - 2)), ids, PAD)
            return torch.from_numpy(left).long()
        parts = zip(X.texts, X.tokens.spans, mask, strict=True)
        return [self._kept(text, spans, kept) for text, spans, kept in parts]

    def _kept(self, text: str, spans: Array, kept: Array) -> str:
        """The selected features in their order, the others dropped or replaced."""
        there = spans[:, 1] > spans[:, 0]
        if self.removal == "drop":
            there = there & kept
        features = zip(spans[there].tolist(), kept[there].tolist(), strict=True)
        return " ".join(text[start:end] if keep else self.replacement for (start, end), keep in features)

    def names_in(self, X: Any, indices: Array) -> Array:
        X = self.check(X)
        names = np.empty(indices.shape, dtype=object)
        for rows in batches(len(X), self.rows_at_once):
            some = X[rows]
            spans = np.take_along_axis(some.tokens.spans, indices[rows][..., None], axis=1).tolist()
            for row, text, positions in zip(range(rows.start, rows.stop), some.texts, spans, strict=True):
                names[row] = [text[start:end] for start, end in positions]
        return names

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"vocabulary": self.vocabulary_, "width": self.width_}, {}

    def restore(self, learned: dict[str, Any], arrays: dict[str, Array]) -> Self:
        self._check_options()
        return self._know(list(learned["vocabulary"]), width=learned.get("width"))

    def __sklearn_clone__(self) -> Self:
        # As scikit-learn's, but pretrained vectors, often 100 MB and more, are not copied.
        return type(self)(**self.get_params(deep=False))

    def _check_options(self) -> None:
        if not is_whole(self.length):
            raise InputError(f"length is {self.length!r}; give a whole number of {self.unit}s.")
        if self.length > LONGEST:
            raise InputError(
                f"length is {self.length:,} {self.unit}s, each one a feature; {LONGEST:,} are the most."
            )
        words = self.vocabulary
        listed = isinstance(words, Iterable) and not isinstance(words, str)
        if not listed and not (isinstance(words, int) and words >= 3):
            raise InputError(f"vocabulary is {self.vocabulary!r}; give a number of words, or a list of them.")
        if self.reads not in ("text", "ids"):
            raise InputError(f"reads is {self.reads!r}; choose 'text' or 'ids'.")
        if self.removal not in ("drop", "replace"):
            raise InputError(f"removal is {self.removal!r}; choose 'drop' or 'replace'.")
        if not isinstance(self.replacement, str):
            raise InputError(f"replacement is {self.replacement!r}; give a text, such as '[MASK]'.")


def as_list(X: Any) -> list[str]:
    """Texts of any kind - a list, an array, a column of a frame - as a list of strings."""
    if isinstance(X, Texts):
        return X.texts
    if isinstance(X, str):
        raise InputError("Expected a list of texts, got one text; pass [text].")
    try:
        given = nw.from_native(X, allow_series=True, pass_through=True)
        columns = given.columns if isinstance(given, nw.DataFrame) else []
    except DuplicateError as error:
        raise named_twice(X) from error
    if isinstance(given, nw.LazyFrame):
        raise InputError("Expected a list of texts, or a column of them, got a LazyFrame; pass X.collect().")
    if isinstance(given, nw.DataFrame):
        if len(columns) != 1:
            raise InputError(
                f"Expected one column of texts, got a table of {len(columns)}; pass the column, X['text']."
            )
        given = given[columns[0]]
    texts = given.to_list() if isinstance(given, nw.Series) else _listed(given)
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


def _listed(given: Any) -> list[Any]:
    try:
        if isinstance(given, Mapping):
            raise TypeError("its keys are not texts")
        # An array of pyarrow iterates over scalars of its own.
        return given.to_pylist() if hasattr(given, "to_pylist") else list(given)
    except TypeError as error:
        kind = type(given).__name__
        raise InputError(f"Expected a list of texts, or a column of them, got a {kind}.") from error
