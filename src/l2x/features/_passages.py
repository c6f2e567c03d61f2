"""The view of lists of texts: one feature per passage, message or field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from l2x._base.arrays import Array, is_whole
from l2x.errors import InputError, shown
from l2x.features._texts import Texts, TextView, Tokens, as_list, items_of, stripped
from l2x.features._view import Measurement, TableLayout
from l2x.features._vocabulary import PAD, without_tags

# Between two passages of the text that is drawn.
BETWEEN = "\n\n"


class Joined(str):
    """The texts of one input as a single text, in which every passage has its position.

    >>> Joined(["Where is it?", "It is here."]).parts
    ('Where is it?', 'It is here.')
    """

    parts: tuple[str, ...]

    def __new__(cls, parts: Iterable[str]) -> Self:
        parts = tuple(parts)
        text = super().__new__(cls, BETWEEN.join(parts))
        text.parts = parts
        return text

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override]
        return (self.parts,)  # copies and pickles are made of the parts


@dataclass(eq=False, repr=False)
class Passages(TextView):
    """One feature per text of a list: retrieved passages, messages of a thread, fields of a form.

    Each input is a list of texts, and lists may have different lengths. Networks read the first `length`
    texts of a list, and the first `words` words of each, by their ids in a vocabulary of the training texts.
    Texts without a word are never selected.

    Parameters
    ----------
    length : int
        The number of passages that are read; later passages are never selected.
    words : int
        The number of words of a passage that networks read.
    vocabulary, lowercase, vectors, tokenizer
        See `Words`. The tokenizer sets the words that networks read.
    reads : "text" or "ids"
        What the black box reads: a list of lists of texts, or a tensor (n, length, words) of ids, padded
        with 0.
    masking : "drop" or "replace"
        What a black box that reads texts gets: a list without the unselected passages, or with `replacement`
        in their positions, as for the fields of a form. One that reads ids gets padding.
    replacement : str
        The text that replaces an unselected passage, by default an empty one.

    Examples
    --------
    Inputs are lists, arrays, or a column of lists; a text that holds a list as JSON is accepted, too, because
    a CSV has no lists.

    >>> threads = [["Where is my parcel?", "It left on Monday."], ["Please cancel.", "Done.", "Thank you!"]]
    >>> view = Passages(length=3, words=8).fit(threads)
    >>> view.for_model(threads, np.array([[True, False, False], [True, False, True]]))
    [['Where is my parcel?'], ['Please cancel.', 'Thank you!']]
    """

    unit: ClassVar[str] = "passage"

    length: int = 20
    _: KW_ONLY
    words: int = 100
    replacement: str = ""

    def selectable(self, x: Tensor) -> Tensor:
        """Exclude padding and passages without a word; see `View.selectable`."""
        return (x != PAD).any(dim=2)

    def measurements(self, X: Any) -> list[Measurement]:
        """Return also the number of passages of each input; see `TextView.measurements`."""
        numbers = np.array([len(_parts(text)) for text in self.check(X).texts], dtype=np.float64)
        return [Measurement("number of passages", numbers), *super().measurements(X)]

    def table_layout(self) -> TableLayout:
        """Return the layout of one column of lists."""
        return TableLayout("text", lists=True)

    def _listed(self, X: Any) -> list[str]:
        return as_passages(X)

    def _whole(self, text: str) -> list[str]:
        return list(_parts(text))

    def _masked(self, text: str, spans: Array, selected: Array) -> list[str]:
        parts = _parts(text)
        kept = [i < self.length and bool(selected[i]) for i in range(len(parts))]
        if self.masking == "drop":
            return [part for part, keep in zip(parts, kept, strict=True) if keep]
        return [part if keep else self.replacement for part, keep in zip(parts, kept, strict=True)]

    def _made_up(self, rng: np.random.Generator) -> Any:
        number = int(rng.integers(1, self.length + 1))
        return [self._random_words(self.words, rng) for _ in range(number)]

    def _tokens(self, texts: list[str]) -> Tokens:
        ids = np.full((len(texts), self.length, self.words), PAD, dtype=np.int32)
        spans = np.zeros((len(texts), self.length, 2), dtype=np.int32)
        read = [_parts(text)[: self.length] for text in texts]
        tokenised = iter(
            self._tokenizer.encode_batch([without_tags(part) for parts in read for part in parts])
        )
        for row, parts in enumerate(read):
            start = 0
            for i, part in enumerate(parts):
                found = next(tokenised).ids[: self.words]
                ids[row, i, : len(found)] = found
                spans[row, i] = stripped(part, 0, len(part))
                spans[row, i] += start
                start += len(part) + len(BETWEEN)
        return Tokens(ids, spans)

    def _check_options(self) -> None:
        super()._check_options()
        if not is_whole(self.words):
            raise InputError(
                f"words is {self.words!r}; give a whole number of words per passage, such as 100."
            )


def _parts(text: str) -> tuple[str, ...]:
    return text.parts if isinstance(text, Joined) else (text,)


def as_passages(X: Any) -> list[str]:
    """Return lists of texts of any kind - lists, arrays, a column of lists - as joined texts."""
    if isinstance(X, Texts) and all(isinstance(text, Joined) for text in X.texts):
        return X.texts
    return [_joined(row, texts) for row, texts in enumerate(items_of(X))]


def holds_passages(X: Any) -> bool:
    """Return whether X is a list of lists of texts of different lengths, unlike rows of a table."""
    if not isinstance(X, list) or not all(isinstance(row, list) for row in X):
        return False
    return len({len(row) for row in X}) > 1 and all(isinstance(text, str) for row in X for text in row)


def _joined(row: int, given: Any) -> Joined:
    if isinstance(given, Joined):
        return given
    texts = _from_json(given) if isinstance(given, str) else given
    if hasattr(texts, "as_py"):  # a scalar of pyarrow
        texts = texts.as_py()
    if not isinstance(texts, Sequence | np.ndarray) or isinstance(texts, str | bytes):
        raise InputError(
            f"Input {row} is {shown(given)} ({type(given).__name__}), not a list of texts: pass one list "
            "of texts per input; in a CSV, the list as JSON."
        )
    try:
        return Joined(as_list(list(texts)))
    except InputError as error:
        raise InputError(f"Input {row} is not a list of texts: {error}") from error


def _from_json(text: str) -> Any:
    """Return the list that a text holds as JSON, or the text."""
    if not text.lstrip().startswith("["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
