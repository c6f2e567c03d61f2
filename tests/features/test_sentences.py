"""The sentence view: spans are sentences of the original text, and each is one feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import l2x
from l2x.features._vocabulary import PAD, TAG, UNKNOWN

TEXTS = ["A good film. Mr. Bean is in it!<br /><br />Go.", "Bad?  \n Yes", "..."]
VIEW = l2x.Sentences(length=4, words=3).fit(TEXTS)


def sentences_of(text: str, view: l2x.Sentences = VIEW) -> list[str]:
    spans = view.check([text]).tokens.spans[0].tolist()
    return [text[start:end] for start, end in spans if end > start]


def test_spans_give_the_original_sentences() -> None:
    assert sentences_of(TEXTS[0]) == ["A good film.", "Mr. Bean is in it!", "Go."]
    assert sentences_of(TEXTS[1]) == ["Bad?", "Yes"]
    assert sentences_of(TEXTS[2]) == sentences_of("") == []
    assert len(sentences_of("One is here. Two is here. Three is here. Four is here. Five is here.")) == 4


@given(st.text(st.characters(codec="utf-8") | st.sampled_from(" .!?\n<>ab"), max_size=80))
@settings(max_examples=100, deadline=None)
def test_sentences_hold_every_word_in_its_place(text: str) -> None:
    view = l2x.Sentences(length=90, words=90, vocabulary=VIEW.vocabulary_).fit(TEXTS)
    words = l2x.Words(length=90, vocabulary=VIEW.vocabulary_).fit(TEXTS)
    tokens, single = view.check([text]).tokens, words.check([text]).tokens
    spans = [span for span in tokens.spans[0].tolist() if span[1] > span[0]]
    assert np.array_equal(tokens.ids[tokens.ids != PAD], single.ids[single.ids != PAD])
    for start, end in single.spans[0].tolist():
        assert end == 0 or sum(a <= start < b for a, b in spans) == 1
    blanked = TAG.sub(lambda tag: " " * len(tag.group()), text)
    assert all(blanked[a:b] == blanked[a:b].strip() for a, b in spans)


def test_ids() -> None:
    ids = VIEW.ids(["A good unheard film. Go."])[0]
    assert [VIEW.vocabulary_[i] for i in ids[0]] == ["a", "good", "[UNK]"]  # words beyond three are not read
    assert (ids[1] != PAD).tolist() == [True, False, False]
    assert (ids[2:] == PAD).all()
    assert (VIEW.ids(["unheard."])[0, 0, 0]) == UNKNOWN


def test_what_is_not_there_is_never_selected() -> None:
    explanation = l2x.baselines.RandomK(features=VIEW).explain([*TEXTS, ""], k=2)
    assert [len(names) for names in explanation.names] == [2, 2, 0, 0]
    assert set(explanation.names[1]) == {"Bad?", "Yes"}


def test_masking() -> None:
    mask = np.array([[False, True, True, False]])
    assert VIEW.for_model(TEXTS[:1], mask) == ["Mr. Bean is in it! Go."]
    replacing = l2x.Sentences(length=4, words=3, masking="replace").fit(TEXTS)
    assert replacing.for_model(TEXTS[:1], mask) == ["... Mr. Bean is in it! Go."]
    ids = l2x.Sentences(length=4, words=3, reads="ids").fit(TEXTS)
    selected = ids.for_model(TEXTS[:1], mask)
    assert (selected[0, 0] == PAD).all()
    assert selected[0, 1:].equal(ids.ids(TEXTS[:1])[0, 1:])


def opinion(texts: list[str]) -> np.ndarray:
    """Reads sentences about the plot alone."""
    p = np.array(
        [0.95 if "plot is good" in text else 0.05 if "plot is bad" in text else 0.5 for text in texts]
    )
    return np.stack([1 - p, p], axis=1)


def reviews(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(n):
        parts = [f"The {what} is {rng.choice(['good', 'bad'])}." for what in ("music", "plot", "light")]
        texts.append(" ".join(rng.permutation(parts)))
    return texts


def test_the_sentence_that_decides_is_found(tmp_path: Any) -> None:
    plan = l2x.TrainingPlan(
        value=l2x.Phase(60, 1e-2, batch_size=64),
        selector=l2x.Phase(80, 5e-3, batch_size=64),
        evaluations=4,
        progress=False,
    )
    view = l2x.Sentences(length=4, words=6)
    explainer = l2x.Explainer(opinion, k=1, features=view, objective="model", training=plan).fit(
        reviews(300, 0)
    )
    texts = reviews(100, 1)
    assert np.mean(["plot" in names[0] for names in explainer.explain(texts).names]) > 0.9
    loaded = l2x.load(explainer.save(tmp_path / "s.l2x"))
    assert np.array_equal(loaded.explain(texts).scores, explainer.explain(texts).scores)


def test_wrong_options() -> None:
    with pytest.raises(l2x.errors.InputError, match="words is 0"):
        l2x.Sentences(words=0).fit(TEXTS)
