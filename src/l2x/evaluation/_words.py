"""Which words are selected most often, and how many of them a reader would call filler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from l2x.errors import InputError
from l2x.explanation import Explanation
from l2x.features import FILLER, unit_of


def selected_words(explanation: Explanation) -> Counter[str]:
    """How often each word was selected, in lower case: `selected_words(explanation).most_common(20)`.

    Returns
    -------
    Word: how often, over all rows.

    Raises
    ------
    InputError
        If the explanation is not one of words.

    >>> import numpy as np
    >>> from l2x.features._words import Words
    >>> view = Words(length=4).fit(["a good film"])
    >>> scores = np.array([[0.1, 2.0, 1.0, -np.inf]])
    >>> inputs = view.check(["a Good film"])
    >>> selected_words(Explanation(scores, 2, view.names_, inputs=inputs, view=view)).most_common()
    [('good', 1), ('film', 1)]
    """
    if explanation.view is None or explanation.inputs is None or unit_of(explanation.view) != "word":
        raise InputError("This explanation holds no words of texts: fit with features=l2x.Words().")
    return Counter(word.lower() for words in explanation.names for word in words)


def filler(words: Iterable[str]) -> list[str]:
    """Those of the words that are no reasons: English stop words, except "no" and "not".

    Returns
    -------
    The stop words among them, in their order.

    >>> filler(["great", "the", "not", "worst"])
    ['the']
    """
    return [word for word in words if word.lower() in FILLER]
