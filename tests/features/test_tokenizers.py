"""`Words(tokenizer=...)`: whole words of any script, with their positions, saved with the explainer."""

from __future__ import annotations

import json
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import chromium, page_of
from hypothesis import given, settings
from hypothesis import strategies as st
from small_transformers import minilm_tokenizer
from starlette.testclient import TestClient
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import l2x
from l2x.apps.serve import Settings, create_app
from l2x.export import read
from l2x.export._stream import BatchExplainer, explain_table, match_columns
from l2x.features._segments import Segmenter
from l2x.files._tables import Table

ENGLISH = "This film is unbelievably good, don't miss it!"
CHINESE = "这部电影很好看。我很喜欢。"
THAI = "ฉันชอบหนังเรื่องนี้มาก"
ARABIC = "هذا الفيلم رائع جدا"
HEBREW = "הסרט הזה מצוין"
HINDI = "यह फिल्म बहुत अच्छी है"
EMOJI = "I 👍🏽 this 👩‍👩‍👧 film 🇩🇪!"
DECOMPOSED = unicodedata.normalize("NFD", "Un café très déjà-vu")
TEXTS = [ENGLISH, CHINESE, THAI, ARABIC, HEBREW, HINDI, EMOJI, DECOMPOSED, "iPhone手机 很好"]


@cache
def byte_level() -> Tokenizer:
    """As GPT-2 and RoBERTa have it: pieces are bytes, so a letter may be several tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


@cache
def unigram() -> Tokenizer:
    """As XLM-RoBERTa and T5 have it: blanks become ▁, and Chinese has no borders but those of the pieces."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=220, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


@cache
def wordpieces() -> Any:
    """The tokenizer of MiniLM, which lowers letters, strips accents, truncates and pads."""
    return minilm_tokenizer()


@cache
def by_blanks() -> Tokenizer:
    """A tokenizer of one's own: everything between two blanks is one token."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


ALL = {"byte level": byte_level, "unigram": unigram, "wordpieces": wordpieces, "by blanks": by_blanks}


def words_in(tokenizer: Any, text: str) -> list[str]:
    """The words of a text by their positions in it."""
    (found,) = Segmenter(tokenizer).segment([text])
    assert [text[start:end] for start, end in found.offsets] == found.words
    return found.words


@pytest.mark.parametrize("name", ["byte level", "unigram", "wordpieces"])
@pytest.mark.parametrize("text", [ENGLISH, ARABIC, HEBREW, HINDI, DECOMPOSED])
def test_whole_words_where_words_are_between_blanks(name: str, text: str) -> None:
    expected = [word.strip(",!") for word in text.replace("-", " ").split()]
    assert words_in(ALL[name](), text) == expected


@pytest.mark.parametrize("name", ["byte level", "unigram", "wordpieces"])
def test_emoji_are_words_as_a_reader_sees_them(name: str) -> None:
    assert words_in(ALL[name](), EMOJI) == ["I", "👍🏽", "this", "👩‍👩‍👧", "film", "🇩🇪"]


def test_chinese_is_split_by_the_tokenizer() -> None:
    assert words_in(wordpieces(), CHINESE) == [sign for sign in CHINESE if sign not in "。"]
    words = words_in(unigram(), CHINESE)
    assert "".join(words) == CHINESE.replace("。", "")
    assert 1 < len(words) < 11  # neither one word nor one per sign
    assert words_in(wordpieces(), "iPhone手机") == ["iPhone", "手", "机"]


@pytest.mark.parametrize("name", ["byte level", "unigram"])
def test_thai_is_split_by_the_tokenizer_and_never_inside_a_letter(name: str) -> None:
    words = words_in(ALL[name](), THAI)
    assert "".join(words) == THAI
    assert len(words) > 1
    assert not any(unicodedata.category(word[0]) == "Mn" for word in words)


def test_words_of_a_tokenizer_of_ones_own() -> None:
    assert words_in(by_blanks(), "a state-of-the-art C++ film !") == ["a", "state-of-the-art", "C++", "film"]


def test_long_texts_are_not_truncated_as_by_minilm() -> None:
    assert len(words_in(wordpieces(), "good film " * 300)) == 600


@cache
def segmenter(name: str) -> Segmenter:
    return Segmenter(ALL[name]())


ALPHABET = st.characters(codec="utf-8") | st.sampled_from(" 'aé<>’😀-_\u0301\u200dก็นำ好看🏽")


@given(st.text(ALPHABET, max_size=40), st.sampled_from(sorted(ALL)))
@settings(max_examples=200, deadline=None)
def test_words_are_in_order_and_without_overlap(text: str, name: str) -> None:
    (found,) = segmenter(name).segment([text])
    positions = np.array(found.offsets).reshape(-1, 2)
    assert (np.diff(positions.ravel()) >= 0).all()
    assert [text[start:end] for start, end in found.offsets] == found.words
    assert all(word and word == word.strip() for word in found.words)


def test_rare_words_are_read_by_their_longest_piece() -> None:
    texts = ["good film", "good film", "unbelievable film", "a good day"]
    view = l2x.Words(length=4, tokenizer=wordpieces()).fit(texts)
    assert "good" in view.vocabulary_
    assert "unbelievable" not in view.vocabulary_
    assert view.known_words == ["film", "good"]
    seen, new, unknown = (int(view.ids([text])[0, 0]) for text in ("unbelievable", "Unbelievable", "zygote"))
    assert view.vocabulary_[seen].startswith("piece ")
    assert seen == new
    assert view.selectable(view.encode(["unbelievable zygote"])).tolist() == [[True, False, False, False]]
    assert unknown == 1


def test_accents_of_both_kinds_are_one_word() -> None:
    view = l2x.Words(length=4, tokenizer=unigram()).fit(
        [DECOMPOSED, unicodedata.normalize("NFC", DECOMPOSED)]
    )
    ids = view.ids([DECOMPOSED, unicodedata.normalize("NFC", DECOMPOSED)])
    assert ids[0].equal(ids[1])


def test_masked_texts() -> None:
    """Words that adjoin in the text still do; others get a blank."""
    view = l2x.Words(length=8, tokenizer=wordpieces()).fit([CHINESE, ENGLISH])
    mask = np.array([[False, True, True, False, True, False, False, False]])
    assert view.for_model(["好看电影 film"], mask) == ["看电 film"]
    assert view.for_model(["not a good film"], mask) == ["a good"]
    replacing = l2x.Words(length=8, tokenizer=wordpieces(), masking="replace", replacement="_").fit([CHINESE])
    assert replacing.for_model(["好看电影 film"], mask) == ["_看电_ film"]


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_contract_of_views(name: str) -> None:
    view = l2x.Words(length=10, vocabulary=60, tokenizer=ALL[name]())
    l2x.testing.check_view(view, TEXTS * 3)


def test_sentences_read_words_of_the_tokenizer() -> None:
    view = l2x.Sentences(length=3, words=6, tokenizer=wordpieces(), language="zh").fit([CHINESE * 3])
    first, second = CHINESE.split("。")[:2]
    assert view.names_in([CHINESE], np.array([[0, 1]])).tolist() == [[first + "。", second + "。"]]
    assert (view.encode([CHINESE])[0, 0] > 1).all()
    l2x.testing.check_view(view, [CHINESE * 3, "我很喜欢。很好看。"] * 8)


@pytest.fixture(scope="module")
def explainer() -> l2x.Explainer:
    rng = np.random.default_rng(0)
    signs = list("电影故事演员我你他看了")
    texts = ["".join(rng.choice([*signs, "好", "坏"], 8)) + "。" for _ in range(80)]
    phase = l2x.Phase(40, 2e-2, batch_size=32)
    plan = l2x.TrainingPlan(phase, phase, evaluations=2, validation_rows=20, progress=False)
    words = l2x.Words(length=10, tokenizer=wordpieces())
    return l2x.Explainer(opinion, 2, features=words, training=plan).fit(texts)


def opinion(texts: list[str]) -> np.ndarray:
    """A model of Chinese texts that counts 好 (good) and 坏 (bad)."""
    p = 1 / (1 + np.exp(-2.0 * np.array([text.count("好") - text.count("坏") for text in texts])))
    return np.stack([1 - p, p], axis=1)


def test_a_chinese_model_is_explained(explainer: l2x.Explainer) -> None:
    explanation = explainer.explain(["我看了电影很好。", "坏故事。坏演员。"])
    assert explanation.names[0][0] == "好"
    assert explanation.names[1] == ["坏", "坏"]


def test_saved_as_json_and_never_executed(explainer: l2x.Explainer, tmp_path: Path) -> None:
    path = explainer.save(tmp_path / "chinese.l2x")
    stored = read(path).settings["view"]["settings"]["tokenizer"]
    assert json.loads(stored)["model"]["type"] == "WordPiece"
    loaded = l2x.load(path, model=opinion)
    texts = ["我看了电影很好。", "坏故事。坏演员。"]
    assert np.array_equal(loaded.explain(texts).scores, explainer.explain(texts).scores)
    assert loaded.explain(texts).names == explainer.explain(texts).names
    again = loaded.save(tmp_path / "again.l2x")
    assert again.read_bytes() == path.read_bytes()
    assert loaded.features.tokenizer == stored  # `fit` of the loaded explainer uses it, too


def test_same_tokens(explainer: l2x.Explainer, tmp_path: Path) -> None:
    loaded = l2x.load(explainer.save(tmp_path / "chinese.l2x"))
    texts = explainer.features_.check(["我看了电影很好。"])
    assert loaded.features_.check(texts) is texts
    plain = l2x.Words(length=10, vocabulary=explainer.features_.vocabulary_).fit(["好"])
    assert plain.check(texts) is not texts


def test_given_as_a_path_as_json_or_as_a_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    wordpieces().save_pretrained(tmp_path)
    given = [wordpieces(), wordpieces().backend_tokenizer, str(path), path, path.read_text("utf-8")]
    ids = [l2x.Words(length=4, tokenizer=one).fit(TEXTS).ids(TEXTS) for one in given]
    assert all(one.equal(ids[0]) for one in ids)


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [(5, "a int"), ("nowhere.json", "'nowhere.json'"), ("{}", "'{}'"), (object(), "object")],
)
def test_what_is_no_tokenizer(wrong: Any, shown: str) -> None:
    with pytest.raises(l2x.errors.InputError, match=f"tokenizer is .*{shown}"):
        l2x.Words(tokenizer=wrong).fit(TEXTS)


def test_what_a_tokenizer_excludes(explainer: l2x.Explainer, tmp_path: Path) -> None:
    with pytest.raises(l2x.errors.InputError, match=r"\(model, tokenizer\)"):
        l2x.Words(tokenizer=wordpieces(), reads="ids").fit(TEXTS)
    with pytest.raises(l2x.errors.InputError, match="tokenizer="):
        explainer.export_onnx(tmp_path / "chinese.onnx")
    assert not list(tmp_path.iterdir())


def test_streamed(explainer: l2x.Explainer, tmp_path: Path) -> None:
    texts = ["我看了电影很好。", "坏故事。", "", "👍 好"]
    pd.DataFrame({"text": texts}).to_csv(tmp_path / "in.csv", index=False)
    table = Table(tmp_path / "in.csv")
    columns, _ = match_columns(explainer, table)
    explain_table(BatchExplainer(explainer, columns), table, tmp_path / "out.parquet", batch_rows=2)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found["feature_1"].tolist() == explainer.explain(texts).to_frame()["feature_1"].tolist()


def test_served(explainer: l2x.Explainer, tmp_path: Path) -> None:
    path = explainer.save(tmp_path / "chinese.l2x")
    with TestClient(create_app([path], {}, Settings())) as client:
        text = "👩‍👩‍👧 我看了电影很好。"
        response = client.post("/v1/explainers/chinese/explain", json={"rows": [text]})
    assert response.status_code == 200, response.text
    features = response.json()["rows"][0]["features"]
    assert [feature["name"] for feature in features] == explainer.explain([text]).names[0]
    assert all(text[slice(*feature["span"])] == feature["name"] for feature in features)


@pytest.mark.slow
def test_right_to_left(tmp_path: Path) -> None:
    """Words of an Arabic text are marked from right to left, and a word is drawn as one run."""
    texts = [ARABIC, HEBREW] * 5
    view = l2x.Words(length=8, tokenizer=unigram()).fit(texts)
    explanation = l2x.baselines.RandomK(features=view).explain([ARABIC], k=2)
    page = tmp_path / "page.html"
    page.write_text(f"<meta charset='utf-8'>{explanation.to_html()}", encoding="utf-8")
    with chromium() as browser, page_of(browser, page.as_uri()) as opened:
        opened.goto(page.as_uri())
        marks = opened.locator("mark")
        lefts = [marks.nth(i).bounding_box()["x"] for i in range(marks.count())]
        assert opened.locator("td[dir=auto]").inner_text().strip() == ARABIC
        direction = "element => getComputedStyle(element).direction"
        assert opened.locator("td[dir=auto]").evaluate(direction) == "rtl"
    assert lefts == sorted(lefts, reverse=True)
    svg = tmp_path / "words.svg"
    explanation[0].plot(svg)
    assert all(word in svg.read_text(encoding="utf-8") for word in ARABIC.split())
