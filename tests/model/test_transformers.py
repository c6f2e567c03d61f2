"""Pipelines of transformers, and pairs of a model and its tokenizer, are queried like any other model."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from small_transformers import minilm, pooled, set_head, small_bert, small_gpt2, small_pipeline, wordpieces
from transformers import PreTrainedTokenizerFast, TextClassificationPipeline

import l2x
from l2x.model import as_black_box

TEXTS = ["a good film", "it was bad", "this is very very nice !", "", "unbelievably good", "好看电影"]
LABELS = ["negative", "neutral", "positive"]


def logits_of(pipeline: Any, texts: list[str]) -> np.ndarray:
    """Return the logits of the pipeline's model, text by text."""
    pipeline.model.eval()
    with torch.no_grad():
        rows = [pipeline.model(**pipeline.tokenizer(text, return_tensors="pt")).logits[0] for text in texts]
    return torch.stack(rows).numpy()


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize("options", [{}, {"top_k": None}, {"top_k": 1}, {"top_k": 2}, {"batch_size": 2}])
def test_pipeline_of_classes(options: dict[str, Any]) -> None:
    """All labels are scored, in the model's order, whether the pipeline returns one of them or all."""
    pipeline = small_pipeline(LABELS, **options)
    black_box = as_black_box(pipeline)
    assert np.allclose(black_box(TEXTS), softmax(logits_of(pipeline, TEXTS)), atol=1e-5)
    assert black_box.classes.tolist() == LABELS
    assert (black_box.task, black_box.rows, black_box.name) == (
        "classification", len(TEXTS), "BertForSequenceClassification",
    )  # fmt: skip


def test_pair() -> None:
    model, tokenizer = small_bert(LABELS), wordpieces()
    black_box = as_black_box((model, tokenizer))
    assert np.allclose(black_box(TEXTS), as_black_box(small_pipeline(LABELS))(TEXTS), atol=1e-6)
    assert black_box.classes.tolist() == LABELS


def test_batches_do_not_change_predictions() -> None:
    black_box = as_black_box(small_pipeline(LABELS))
    many = TEXTS * 30  # several passes, sorted by length
    alone = np.concatenate([black_box([text]) for text in TEXTS])
    assert np.allclose(black_box(many), np.tile(alone, (30, 1)), atol=1e-5)


def test_one_label() -> None:
    pipeline = small_pipeline(["spam"])
    black_box = as_black_box(pipeline)
    p = sigmoid(logits_of(pipeline, TEXTS))[:, 0]
    assert np.allclose(black_box(TEXTS), np.stack([1 - p, p], axis=1), atol=1e-5)
    assert black_box.classes.tolist() == ["not spam", "spam"]


@pytest.mark.parametrize(
    "options", [{"problem": "multi_label_classification"}, {"function_to_apply": "sigmoid"}]
)
def test_several_labels_at_once(options: dict[str, Any]) -> None:
    """Their probabilities are values, which need not sum to one; one of them can be chosen."""
    pipeline = small_pipeline(["toxic", "rude", "threat"], **options)
    expected = sigmoid(logits_of(pipeline, TEXTS))
    together = as_black_box(pipeline)
    assert np.allclose(together(TEXTS), expected, atol=1e-5)
    assert together.task == "regression"
    one = as_black_box(pipeline, label="rude")
    assert np.allclose(one(TEXTS)[:, 1], expected[:, 1], atol=1e-5)
    assert one.classes.tolist() == ["not rude", "rude"]
    with pytest.raises(l2x.errors.InputError, match=r"3 labels.*toxic"):
        as_black_box(pipeline, task="classification")


def test_one_class_compared_with_the_others() -> None:
    pipeline = small_pipeline(LABELS)
    one = as_black_box(pipeline, label="neutral")
    assert np.allclose(one(TEXTS)[:, 1], softmax(logits_of(pipeline, TEXTS))[:, 1], atol=1e-5)


def test_regression() -> None:
    pipeline = small_pipeline(["stars"], problem="regression")
    black_box = as_black_box(pipeline)
    assert np.allclose(black_box(TEXTS), logits_of(pipeline, TEXTS), atol=1e-5)
    assert black_box.task == "regression"
    assert np.allclose(
        as_black_box(small_pipeline(["stars"]), task="regression")(TEXTS),
        sigmoid(logits_of(pipeline, TEXTS)),
        atol=1e-5,
    )


def test_logits() -> None:
    pipeline = small_pipeline(LABELS, function_to_apply="none")
    for options in ({}, {"logits": True}):
        black_box = as_black_box(pipeline, **options)
        assert np.allclose(black_box(TEXTS), softmax(logits_of(pipeline, TEXTS)), atol=1e-5)
    with pytest.raises(l2x.errors.InputError, match="neutral"):
        as_black_box(pipeline, label="neutral")
    with pytest.raises(l2x.errors.InputError, match="softmax"):
        as_black_box(small_pipeline(LABELS), logits=True)


def test_long_texts_are_truncated() -> None:
    """The model has 32 positions; its tokenizer states no limit."""
    long = " ".join(["good"] * 500)
    assert wordpieces().model_max_length > 1e9
    known = PreTrainedTokenizerFast(tokenizer_object=wordpieces().backend_tokenizer, model_max_length=32,
                                    pad_token="[PAD]")  # fmt: skip
    for tokenizer in (wordpieces(), known):
        assert as_black_box((small_bert(LABELS), tokenizer))([long]).shape == (1, 3)
    shorter = small_pipeline(LABELS, truncation=True, max_length=4)
    assert np.allclose(as_black_box(shorter)([long]), as_black_box(shorter)(["good good"]), atol=1e-6)


def test_tokenizer_without_padding_and_special_tokens() -> None:
    tokenizer = wordpieces()
    tokenizer.backend_tokenizer.post_processor = None
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, unk_token="[UNK]")
    assert bare.pad_token is None
    texts = ["a good film", "it was bad", "very nice"]
    assert as_black_box((small_gpt2(LABELS), bare))(texts).shape == (3, 3)


def test_dropout_is_off_and_the_mode_restored() -> None:
    model = small_bert(LABELS).train()
    black_box = as_black_box((model, wordpieces()))
    model.train()
    assert np.array_equal(black_box(TEXTS), black_box(TEXTS))
    assert model.training


def test_in_other_processes() -> None:
    black_box = as_black_box(small_pipeline(LABELS))
    copied = cloudpickle.loads(cloudpickle.dumps(black_box))
    assert np.array_equal(copied(TEXTS), black_box(TEXTS))


def test_what_is_refused() -> None:
    with pytest.raises(l2x.errors.InputError, match=r"\(model, tokenizer\)"):
        as_black_box(small_bert(LABELS))
    with pytest.raises(l2x.errors.InputError, match=r"'fine'.*negative"):
        as_black_box(small_pipeline(LABELS), label="fine")
    with pytest.raises(l2x.errors.InputError, match="'fine'"):
        as_black_box(lambda X: X, label="fine")
    with pytest.raises(l2x.errors.InputError, match="same"):
        as_black_box(small_pipeline(["same", "same"]))
    pipeline = small_pipeline(LABELS)
    with pytest.raises(l2x.errors.BlackBoxError, match="text-classification pipeline itself"):
        as_black_box(lambda texts: pipeline(texts, top_k=None))(TEXTS)


def test_explained() -> None:
    """Labels become class names of the explainer."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["good", "bad", "film", "it", "is"], 6)) for _ in range(60)]
    phase = l2x.Phase(5, 1e-2, batch_size=16)
    plan = l2x.TrainingPlan(value=phase, selector=phase, evaluations=1, validation_rows=10, progress=False)
    explainer = l2x.Explainer(
        small_pipeline(LABELS), 2, features=l2x.Words(length=8), training=plan, queries=300
    ).fit(texts)
    assert explainer.classes_ is not None
    assert explainer.classes_.tolist() == LABELS
    assert explainer.explain(texts[:2]).mask.sum() == 4


def test_minilm_with_a_head_of_our_own() -> None:
    """MiniLM with its weights: a logistic head on its frozen features becomes the pipeline's last layer."""
    good, bad = ["a moving story", "brilliant acting"], ["a tedious story", "wooden acting"]
    texts = [f"{opinion} in {place}" for opinion in good + bad for place in ("part", "full", "the end")]
    network, tokenizer = minilm(["bad", "good"])
    features = pooled(network, tokenizer, texts)
    head = LogisticRegression(C=10).fit(features, [1] * 6 + [0] * 6)
    set_head(network, head)
    pipeline = TextClassificationPipeline(model=network, tokenizer=tokenizer, device="cpu")
    black_box = as_black_box(pipeline)
    assert np.allclose(black_box(texts), head.predict_proba(features), atol=1e-5)
    p = black_box(["A brilliant and moving film.", "A tedious film with wooden actors."])
    assert black_box.classes[p.argmax(axis=1)].tolist() == ["good", "bad"]
