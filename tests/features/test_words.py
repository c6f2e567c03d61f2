"""The word view: offsets into the original text, what may be selected, masking, saving, whole pipelines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

import l2x
from l2x.display._interop import margins
from l2x.features._vocabulary import PAD, TAG, UNKNOWN, WORD
from l2x.learning._training import Phase

TEXTS = ["A good film!", "Not a <i>good</i> film,<br />don’t go", "Déjà vu in İstanbul 👨‍👩‍👧 Straße"]
VIEW = l2x.Words(length=8).fit(TEXTS)


def words_of(view: l2x.Words, text: str) -> list[str]:
    """The text's features by their spans, where there are some."""
    spans = view.check([text]).tokens.spans[0].tolist()
    return [text[start:end] for start, end in spans if end > start]


def test_spans_give_the_original_words() -> None:
    assert words_of(VIEW, TEXTS[1]) == ["Not", "a", "good", "film", "don’t", "go"]
    assert words_of(VIEW, TEXTS[2]) == ["Déjà", "vu", "in", "İstanbul", "Straße"]
    assert words_of(VIEW, "") == []


ALPHABET = st.characters(codec="utf-8") | st.sampled_from(" 'aé<>/é’😀-_")


@given(st.text(ALPHABET, max_size=60))
@settings(max_examples=150, deadline=None)
def test_pieces_by_spans_are_the_words(text: str) -> None:
    view = l2x.Words(length=80, vocabulary=VIEW.vocabulary_).fit(TEXTS)
    blanked = TAG.sub(lambda tag: " " * len(tag.group()), text)
    spans = view.check([text]).tokens.spans[0]
    assert (np.diff(spans[spans[:, 1] > 0].ravel()) >= 0).all()  # in order, without overlap
    # Python and the tokenizer disagree on a few code points (marks, letters of newer Unicode).
    if not re.search(r"[^\w\s\x00-\x7f’]|[\u0300-\u036f]", blanked) and blanked.isascii():
        assert words_of(view, text) == re.findall(WORD, blanked)


def test_ids_are_places_in_the_vocabulary() -> None:
    ids = VIEW.ids(["good unheard film"])[0].tolist()
    assert [VIEW.vocabulary_[i] for i in ids[:3]] == ["good", "[UNK]", "film"]
    assert ids[3:] == [PAD] * 5
    assert VIEW.ids(["GOOD"]).tolist() == VIEW.ids(["good"]).tolist()
    exact = l2x.Words(length=8, lowercase=False).fit(TEXTS)
    assert exact.ids(["Not"])[0, 0] not in (PAD, UNKNOWN)
    assert exact.ids(["not"])[0, 0] == UNKNOWN


def test_padding_and_unknown_words_are_never_selected() -> None:
    texts = ["good unheard film", "", "unheard", "a " * 20]
    explanation = l2x.baselines.RandomK(features=VIEW).explain(texts, k=5)
    assert [len(names) for names in explanation.names] == [2, 0, 0, 5]
    assert sorted(explanation.names[0]) == ["film", "good"]
    assert explanation.mask.sum(axis=1).tolist() == [2, 0, 0, 5]
    frame = explanation.to_frame()
    assert frame.loc[1, [f"feature_{j}" for j in range(1, 6)]].isna().all()
    assert [len(row["features"]) for row in explanation.to_dict()] == [2, 0, 0, 5]


def test_masking() -> None:
    mask = np.array([[True, False, True, False, False, False, False, False]])
    assert VIEW.for_model(["Good film, my friend"], mask) == ["Good my"]
    assert VIEW.for_model([""], mask) == [""]
    replacing = l2x.Words(length=8, masking="replace", replacement="_").fit(TEXTS)
    assert replacing.for_model(["Good film, my friend"], mask) == ["Good _ my _"]
    ids = l2x.Words(length=8, reads="ids", vocabulary=VIEW.vocabulary_).fit(TEXTS)
    selected = ids.for_model(["Good film, a film"], mask)[0].tolist()
    assert selected == [VIEW.vocabulary_.index("good"), PAD, VIEW.vocabulary_.index("a"), *[PAD] * 5]
    assert ids.for_model(["film"]).shape == (1, 8)


@pytest.mark.parametrize(
    "X",
    [
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        tuple(TEXTS),
        pd.Series(TEXTS, index=[7, 8, 9]),
        pd.DataFrame({"text": TEXTS}),
        pl.Series(TEXTS),
        pl.DataFrame({"text": TEXTS}),
        pa.table({"text": TEXTS}),
        pa.chunked_array([TEXTS]),
        pa.array(TEXTS),
    ],
    ids=lambda X: f"{type(X).__module__}.{type(X).__name__}",
)
def test_texts_of_any_kind(X: Any) -> None:
    view = l2x.Words(length=8).fit(X)
    assert view.vocabulary_ == VIEW.vocabulary_
    assert view.ids(X).equal(VIEW.ids(TEXTS))
    assert view.for_model(X) == TEXTS


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one text", r"got one text; pass \[text\]"),
        (["a", None], "Text 1 is None"),
        (pa.array(["a", None]), "Text 1 is None"),
        (None, "got a NoneType"),
        ({"text": TEXTS}, "got a dict"),
        (pl.LazyFrame({"text": TEXTS}), "got a LazyFrame"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), "one column of texts, got a table of 2"),
        (["fine", "half \ud83d"], "Text 1 contains a lone surrogate at position 5"),
    ],
)
def test_what_is_no_text(X: Any, message: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=message):
        VIEW.check(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length is 0"),
        ({"vocabulary": 2}, "vocabulary is 2"),
        ({"vocabulary": ["good", "bad", "film"]}, r"first two entries are '\[PAD\]'"),
        ({"reads": "bytes"}, "reads is 'bytes'"),
        ({"masking": "blur"}, "masking is 'blur'"),
        ({"vocabulary": 50.0}, "vocabulary is 50.0"),
        ({"vocabulary": ["[PAD]", "[UNK]", 3]}, "list of different words"),
        ({"replacement": None}, "replacement is None"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=message):
        l2x.Words(**options).fit(TEXTS)


# --- a model whose reasons are known: one of six opinions decides, among words that do not matter ---

GOOD, BAD = ["great", "lovely", "superb"], ["awful", "boring", "poor"]
FILLING = [
    "the",
    "a",
    "film",
    "plot",
    "actor",
    "scene",
    "story",
    "music",
    "ending",
    "and",
    "with",
    "some",
    "long",
]


def corpus(n: int, seed: int) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    texts = []
    for label in y:
        words = rng.choice(FILLING, size=rng.integers(4, 12)).tolist()
        words.insert(rng.integers(len(words) + 1), str(rng.choice(GOOD if label else BAD)).capitalize())
        texts.append(" ".join(words) + ".")
    return texts, y


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return make_pipeline(TfidfVectorizer(), LogisticRegression(C=30)).fit(*corpus(500, seed=0))


@pytest.fixture(scope="module")
def explainer(pipeline: Pipeline) -> l2x.Explainer:
    plan = l2x.TrainingPlan(
        value=Phase(60, 1e-2, batch_size=64),
        selector=Phase(60, 1e-2, batch_size=64),
        evaluations=4,
        progress=False,
    )
    words = l2x.Words(length=16)
    return l2x.Explainer(pipeline, k=1, features=words, objective="model", training=plan).fit(
        corpus(500, 0)[0]
    )


def test_a_pipeline_is_explained_from_raw_strings(pipeline: Pipeline, explainer: l2x.Explainer) -> None:
    texts, _ = corpus(200, seed=1)
    explanation = explainer.explain(texts)
    found = [names[0].lower() in GOOD + BAD for names in explanation.names]
    assert np.mean(found) > 0.9
    assert explainer.score(texts) > 0.9
    assert list(explainer.classes_) == [0, 1]


def test_save_and_load(explainer: l2x.Explainer, pipeline: Pipeline, tmp_path: Path) -> None:
    texts, _ = corpus(50, seed=2)
    loaded = l2x.load(explainer.save(tmp_path / "words.l2x"), model=pipeline)
    assert loaded.features_.vocabulary_ == explainer.features_.vocabulary_
    assert np.array_equal(loaded.explain(texts).scores, explainer.explain(texts).scores)
    assert loaded.explain(texts).names == explainer.explain(texts).names


def test_texts_that_were_not_foreseen(explainer: l2x.Explainer) -> None:
    explanation = explainer.explain(["", "nothing known", "a " * 100 + "great", "Great <br /> film"], k=3)
    assert [len(names) for names in explanation.names] == [0, 0, 3, 2]
    assert explainer.score(["", "nothing known"]) == 1.0


def test_what_is_not_there_has_no_score(explainer: l2x.Explainer) -> None:
    explanation = explainer.explain(["", "Great film"], k=3)
    frame = explanation.to_frame()
    assert frame.filter(like="score").notna().sum(axis=1).tolist() == [0, 2]
    assert frame.filter(like="feature").notna().sum(axis=1).tolist() == [0, 2]
    assert len(explanation[[]]) == 0
    assert explanation[[]].names == []
    # "great" stands above the lower of the two, as there is nothing that was left out.
    assert np.isfinite(margins(explanation)).all()
    assert (margins(explanation) > 0).sum(axis=1).tolist() == [0, 1]


def test_texts_and_explanations_belong_together(explainer: l2x.Explainer, pipeline: Pipeline) -> None:
    texts, _ = corpus(5, seed=3)
    with pytest.raises(l2x.errors.InputError, match="X has 3 rows, the explanation has 5"):
        l2x.evaluation.posthoc_accuracy(pipeline, texts[:3], explainer.explain(texts))


def test_stop_words_are_read_but_never_selected() -> None:
    texts = ["The film is not good", "This is a very good film"]
    view = l2x.Words(length=6, stop_words="english").fit(texts)
    assert view.selectable(view.encode(texts)).tolist()[0] == [False, True, False, True, True, False]
    assert view.for_model(texts, np.ones((2, 6), dtype=bool)) == texts
    own = l2x.Words(length=6, stop_words=["Film", "good"], lowercase=False).fit([*texts, "Film"])
    assert own.selectable(own.encode([*texts, "Film"])).tolist()[1:] == [
        [True, True, True, True, False, False],
        [False] * 6,
    ]


@pytest.mark.parametrize("words", ["german", 5, [1, 2]])
def test_stop_words_are_a_list_or_english(words: Any) -> None:
    with pytest.raises(
        l2x.errors.InputError, match=r"stop_words is .*; choose 'english', or give a list of words"
    ):
        l2x.Words(stop_words=words).fit(TEXTS)


def test_stop_words_travel_with_the_artifact(tmp_path: Path) -> None:
    phase = Phase(2, 1e-2, batch_size=16)
    plan = l2x.TrainingPlan(phase, phase, evaluations=1, progress=False)
    texts = ["The film is not good", "This is a very bad film"] * 20
    view = l2x.Words(length=6, stop_words=["film", "is"])
    fitted = l2x.Explainer(
        lambda texts: np.array([[0.1, 0.9] if "good" in text else [0.8, 0.2] for text in texts]),
        2, features=view, training=plan,
    ).fit(texts)  # fmt: skip
    loaded = l2x.load(fitted.save(tmp_path / "e.l2x"))
    chosen = loaded.explain(texts)
    assert not {"film", "is"} & {word.lower() for row in chosen.names for word in row}
    assert np.array_equal(chosen.indices, fitted.explain(texts, polish=False).indices)
