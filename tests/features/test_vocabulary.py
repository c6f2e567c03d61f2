"""Vocabularies, stop words, and pretrained vectors of every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from sklearn.base import clone

import l2x
from l2x.features import FILLER, TextView
from l2x.features._vocabulary import (
    PAD,
    SPECIAL,
    UNKNOWN,
    WordReader,
    checked_vocabulary,
    learn_vocabulary,
    vectors_of,
    without_tags,
    word_tokenizer,
)
from l2x.learning._training import Phase
from l2x.learning.networks import networks_of
from l2x.learning.networks._words import WordEmbedding

CATS = ["The cat, the dog.", "Don't! The cat's 2nd film"]


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from("aZ_9 '’\"-.\n\t\x00\x1fé人"), max_size=20), lowercase=st.booleans())
def test_texts_are_read_as_by_the_tokenizer(text: str, lowercase: bool) -> None:
    """The two ways agree on what a word is, on its id and on its position."""
    words = [*SPECIAL, "a", "Z", "az", "a'a", "z_9", "aé", "9"]
    expected = word_tokenizer(words, lowercase=lowercase).encode_batch([text, "Z a", text])
    found = WordReader(words, lowercase=lowercase).encode_batch([text, "Z a", text])
    assert [read.ids.tolist() for read in found] == [list(read.ids) for read in expected]
    offsets = [[list(pair) for pair in read.offsets] for read in expected]
    assert [read.offsets.tolist() for read in found] == offsets


def test_frequent_words_come_first_behind_the_special_ones() -> None:
    words = learn_vocabulary(CATS, 100, lowercase=True)
    assert tuple(words[:2]) == SPECIAL == (words[PAD], words[UNKNOWN])
    assert words[2] == "the"
    assert set(words[3:]) == {"cat", "dog", "don't", "cat's", "2nd", "film"}
    assert learn_vocabulary(CATS, 3, lowercase=True) == [*SPECIAL, "the"]
    assert {"The", "the"} < set(learn_vocabulary(CATS, 100, lowercase=False))


def test_a_word_keeps_its_characters_and_unknown_ones_their_own_id() -> None:
    tokenizer = word_tokenizer([*SPECIAL, "the", "cat"], lowercase=True)
    text = "The “cat”, the dög!"
    found = tokenizer.encode(text)
    assert [text[start:end] for start, end in found.offsets] == ["The", "cat", "the", "dög"]
    assert found.ids == [2, 3, 2, UNKNOWN]


@pytest.mark.parametrize(
    "given_words",
    [["a", "b", "c"], [*SPECIAL], [*SPECIAL, "a", "a"], [*SPECIAL, 3], ["[UNK]", "[PAD]", "a"]],
    ids=["none special", "no word", "twice", "not a word", "wrong order"],
)
def test_a_vocabulary_of_the_users_is_checked(given_words: list[str]) -> None:
    with pytest.raises(l2x.errors.InputError, match=r"first two entries are '\[PAD\]' and '\[UNK\]'"):
        checked_vocabulary(given_words)


def test_a_learned_vocabulary_is_a_right_one() -> None:
    learned = learn_vocabulary(CATS, 100, lowercase=True)
    assert checked_vocabulary(tuple(learned)) == learned


@given(st.text(st.sampled_from("ab <>/br\n"), max_size=30))
def test_without_tags_every_other_character_keeps_its_position(text: str) -> None:
    plain = without_tags(text)
    assert len(plain) == len(text)
    assert all(after in (before, " ") for before, after in zip(text, plain, strict=True))


def test_tags_become_blanks_and_comparisons_stay() -> None:
    assert without_tags("good<br />film</i>") == "good      film    "
    assert without_tags("1 < 2 > 1 <3") == "1 < 2 > 1 <3"


def test_negations_are_no_filler() -> None:
    assert {"the", "it", "and"} <= FILLER
    assert not {"no", "not", "bad", "great"} & FILLER


WORDS = ["good", "film", "zebra"]
ARRAY = np.arange(9, dtype=float).reshape(3, 3)
TEXTS = ["A good film. It is Good!", "not a film. bad", "bad bad", "good."] * 10
VIEWS = pytest.mark.parametrize(
    "view", [l2x.Words(length=6), l2x.Sentences(length=2, words=5)], ids=["w", "s"]
)


@pytest.mark.parametrize(
    "given", [(WORDS, ARRAY), (tuple(WORDS), ARRAY.tolist()), dict(zip(WORDS, ARRAY, strict=True))]
)
def test_words_take_their_vectors_and_others_have_none(given: Any) -> None:
    found = vectors_of(["[PAD]", "[UNK]", "film", "Good", "plot"], given)
    assert found.dtype == np.float32
    assert found[2:4].tolist() == [[3, 4, 5], [0, 1, 2]]  # "Good" as "good"
    assert np.isnan(found[[0, 1, 4]]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (ARRAY, "one row per word|mapping of words"),
        ((WORDS, ARRAY[:2]), r"3 words and an array of shape \(2, 3\)"),
        ((WORDS, ARRAY[0]), "one row per word"),
        ({"good": [1, 2], "film": [1]}, "vectors of one length"),
        (([], np.zeros((0, 3))), "one row per word"),
        ("glove", "mapping of words"),
        ((["zebra"], ARRAY[:1]), "of the 2 words"),
        ((WORDS, ARRAY * np.nan), "not finite"),
    ],
)
def test_what_is_no_table_of_vectors_is_refused(given: Any, message: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=message):
        vectors_of(["good", "film"], given)


@VIEWS
def test_the_embeddings_of_both_networks_begin_with_them(view: TextView) -> None:
    fitted = clone(view).set_params(vectors=(WORDS, ARRAY)).fit(TEXTS)
    good, bad = (fitted.vocabulary_.index(word) for word in ("good", "bad"))
    networks = networks_of(fitted, 2)
    for network in (networks.predictor(), networks.selector(), networks.selector(paper=True)):
        embeddings = [m for m in network.modules() if isinstance(m, WordEmbedding)]
        assert embeddings
        for embedding in embeddings:
            weight = embedding.vectors.weight
            expected = torch.tensor([0.0, 1.0, 2.0])
            assert torch.allclose(weight[good] * embedding.gain, expected, atol=1e-6)
            assert 0 < weight[bad].abs().max() * embedding.gain <= 0.05
            assert not weight[0].any()
    with pytest.raises(l2x.errors.InputError, match="3 dimensions"):
        networks.predictor(width=7)


def test_copies_share_them() -> None:
    view = l2x.Words(length=6, vectors=(WORDS, ARRAY))
    assert clone(view).vectors is view.vectors
    assert clone(view).get_params() == view.get_params()


@VIEWS
def test_a_file_holds_what_the_networks_made_of_them_and_nothing_else(view: TextView, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(5000)] + WORDS  # many that no text has
    features = clone(view).set_params(vectors=(words, rng.normal(size=(len(words), 3))))
    phase = Phase(2, 1e-3, batch_size=8)
    plan = l2x.TrainingPlan(value=phase, selector=phase, evaluations=1, progress=False)
    explainer = l2x.Explainer(says_good, 1, features=features, training=plan).fit(TEXTS)
    path = explainer.save(tmp_path / "e.l2x")
    held = {name: array.shape for name, array in load_file(path).items() if "vectors" in name}
    assert {name.partition(".")[0] for name in held} == {"selector", "predictor"}
    assert set(held.values()) == {(len(explainer.features_.vocabulary_), 3)}
    assert b"w4999" not in path.read_bytes()
    loaded = l2x.load(path)
    assert np.array_equal(loaded.explain(TEXTS).scores, explainer.explain(TEXTS).scores)
    assert loaded.save(tmp_path / "again.l2x").read_bytes() == path.read_bytes()


def says_good(texts: list[str]) -> np.ndarray:
    p = np.array([0.9 if "good" in text.lower() else 0.2 for text in texts])
    return np.stack([1 - p, p], axis=1)
