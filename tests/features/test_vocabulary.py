"""Words and their ids: what a word is, which are known, and where in the text each stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import l2x
from l2x.features._texts import (
    PAD,
    SPECIAL,
    UNKNOWN,
    checked_vocabulary,
    learn_vocabulary,
    without_tags,
    word_tokenizer,
)

TEXTS = ["The cat, the dog.", "Don't! The cat's 2nd film"]


def test_frequent_words_come_first_behind_the_special_ones() -> None:
    words = learn_vocabulary(TEXTS, 100, lowercase=True)
    assert tuple(words[:2]) == SPECIAL == (words[PAD], words[UNKNOWN])
    assert words[2] == "the"
    assert set(words[3:]) == {"cat", "dog", "don't", "cat's", "2nd", "film"}
    assert learn_vocabulary(TEXTS, 3, lowercase=True) == [*SPECIAL, "the"]
    assert {"The", "the"} < set(learn_vocabulary(TEXTS, 100, lowercase=False))


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
    with pytest.raises(l2x.InputError, match=r"first two entries are '\[PAD\]' and '\[UNK\]'"):
        checked_vocabulary(given_words)


def test_a_learned_vocabulary_is_a_right_one() -> None:
    learned = learn_vocabulary(TEXTS, 100, lowercase=True)
    assert checked_vocabulary(tuple(learned)) == learned


@given(st.text(st.sampled_from("ab <>/br\n"), max_size=30))
def test_without_tags_every_other_character_keeps_its_position(text: str) -> None:
    plain = without_tags(text)
    assert len(plain) == len(text)
    assert all(after in (before, " ") for before, after in zip(text, plain, strict=True))


def test_tags_become_blanks_and_comparisons_stay() -> None:
    assert without_tags("good<br />film</i>") == "good      film    "
    assert without_tags("1 < 2 > 1 <3") == "1 < 2 > 1 <3"
