"""Text classifiers of Hugging Face: a pipeline, or a model and its tokenizer, as a function of texts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from l2x._base.arrays import Array
from l2x.errors import InputError, some
from l2x.model._evaluating import evaluating

if TYPE_CHECKING:
    from l2x.model._black_box import Task

Function = Literal["softmax", "sigmoid", "none"]

# Texts per forward pass; the texts of a query are sorted by length, so that a pass has little padding.
TEXTS_PER_PASS = 64
# Tokenizers without a limit of their own have a `model_max_length` of 1e30.
NO_LIMIT = 1_000_000


def is_transformer(model: Any) -> bool:
    """Return whether a model is a text-classification pipeline, or a pair (model, tokenizer)."""
    library = sys.modules.get("transformers")  # whoever has such an object has imported it
    if library is None:
        return False
    if isinstance(model, tuple) and len(model) == 2:
        network, tokenizer = model
        return isinstance(network, library.PreTrainedModel) and callable(tokenizer)
    return isinstance(model, library.TextClassificationPipeline)


def check_has_tokenizer(model: Any) -> None:
    """Raise an InputError for a text classifier without its tokenizer."""
    library = sys.modules.get("transformers")
    name = type(model).__name__
    if (
        library is not None
        and isinstance(model, library.PreTrainedModel)
        and name.endswith("ForSequenceClassification")
    ):
        raise InputError(f"{name} reads the ids of its tokenizer: pass the pair (model, tokenizer).")


def transformer_options(model: Any, *, task: Task | None, logits: bool, label: str | None) -> dict[str, Any]:
    """Return the fields of the BlackBox of a pipeline, or of a pair (model, tokenizer)."""
    pipeline = _pipeline_of(*model) if isinstance(model, tuple) else model
    config, name = pipeline.model.config, type(pipeline.model).__name__
    labels, function = _labels_of(config), _function_of(pipeline)
    _check_function(name, function, logits=logits, label=label)
    column = None if label is None else _column_of(label, labels)
    predict = Scores(pipeline, labels, column)
    if task == "regression" or config.problem_type == "regression":
        return {"predict": predict, "task": "regression", "name": name}
    if function == "sigmoid" and len(labels) > 1 and column is None:
        _check_not_classes(name, labels, task)
        return {"predict": predict, "task": "regression", "name": name}
    classes = _classes(labels if column is None else [labels[column]])
    fields = {"predict": predict, "classes": classes, "name": name}
    return fields | ({"logits": True} if function == "none" else {"task": "classification"})


def _check_function(name: str, function: Function, *, logits: bool, label: str | None) -> None:
    if logits and function != "none":
        raise InputError(f"{name} returns probabilities, by the function {function!r}: remove logits=True.")
    if label is not None and function == "none":
        raise InputError(
            f"label is {label!r}, but {name} returns logits or values; create the pipeline without "
            "function_to_apply='none'."
        )


def _check_not_classes(name: str, labels: Sequence[str], task: Task | None) -> None:
    if task == "classification":
        raise InputError(
            f"{name} returns a probability for each of {len(labels)} labels ({some(labels)}), which need "
            "not sum to one: choose a label with label=, or remove task='classification' to explain all of "
            "them as values."
        )


@dataclass(frozen=True)
class Scores:
    """The scores of texts by a text-classification pipeline.

    Attributes
    ----------
    pipeline : transformers.TextClassificationPipeline
    labels : sequence of str
        The labels of the model, in the order of its outputs.
    column : int or None
        The position of the only label whose scores are returned; None for all labels.
    """

    pipeline: Any
    labels: Sequence[str]
    column: int | None = None

    def __call__(self, texts: Any) -> Array:
        """Return (n, labels) scores, or (n,) scores of one label."""
        # A tokenizer without special tokens has nothing to feed its model for an empty text.
        texts = [text or " " for text in texts]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        with evaluating(self.pipeline.model):
            results = self.pipeline([texts[i] for i in order], top_k=None, **self._options())
        scores = np.empty((len(texts), len(self.labels)))
        position = {label: i for i, label in enumerate(self.labels)}
        for row, result in zip(order, results, strict=True):
            for entry in result:
                scores[row, position[entry["label"]]] = entry["score"]
        return scores if self.column is None else scores[:, self.column]

    def _options(self) -> dict[str, Any]:
        """Return options of a call: in batches, and truncated where the model cannot read on."""
        tokenizer, given = self.pipeline.tokenizer, self.pipeline._preprocess_params
        batch = 1 if tokenizer.pad_token is None else self.pipeline._batch_size or TEXTS_PER_PASS
        longest = _longest(tokenizer, self.pipeline.model.config)
        if longest is None or "truncation" in given:
            return {"batch_size": batch}
        return {"batch_size": batch, "truncation": True, "max_length": given.get("max_length", longest)}


def _longest(tokenizer: Any, config: Any) -> int | None:
    """Return the most tokens that a model reads; None if there is no limit."""
    if tokenizer.model_max_length <= NO_LIMIT:
        return int(tokenizer.model_max_length)
    positions = getattr(config, "max_position_embeddings", None)
    return None if positions is None else int(positions) - 2  # RoBERTa and its kin count from 2


def _pipeline_of(network: Any, tokenizer: Any) -> Any:
    library = sys.modules["transformers"]
    return library.TextClassificationPipeline(model=network, tokenizer=tokenizer, device=network.device)


def _labels_of(config: Any) -> list[str]:
    labels = [str(config.id2label[i]) for i in range(config.num_labels)]
    if len(set(labels)) < len(labels):
        raise InputError(f"The labels of the model must differ; config.id2label has {some(labels)}.")
    return labels


def _function_of(pipeline: Any) -> Function:
    """Return the function that the pipeline applies to logits, by the rule of transformers."""
    given = pipeline._postprocess_params.get("function_to_apply")
    if given is not None:
        function: Function = given.value
        return function
    config = pipeline.model.config
    if config.problem_type == "regression":
        return "none"
    several = config.num_labels > 1 and config.problem_type != "multi_label_classification"
    return "softmax" if several else "sigmoid"


def _column_of(label: str, labels: Sequence[str]) -> int:
    if label not in labels:
        raise InputError(f"label is {label!r}; the model has {some(labels)}.")
    return labels.index(label)


def _classes(labels: Sequence[str]) -> list[str]:
    """Return the names of the classes; a single label has a probability, and so has its absence."""
    return list(labels) if len(labels) > 1 else [f"not {labels[0]}", *labels]
