"""One loaded explainer, with its model if there is one, and the work that requests ask of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from l2x._base.arrays import Array
from l2x._base.ranking import best_with_scores
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve._scoring import Scores, table_scores
from l2x.apps.serve.rows import _images, _tables, _texts  # noqa: F401  (each says how its rows are read)
from l2x.apps.serve.rows._reader import Parsed, Reader, reader_of
from l2x.errors import BlackBoxError, InputError
from l2x.explainer import Explainer
from l2x.explanation import Explanation
from l2x.export import Artifact, read
from l2x.features import checked_k
from l2x.learning import Gaussian, checked_answers, checked_share
from l2x.model import BlackBox


@dataclass(frozen=True)
class Question:
    """What a request asks: rows, how many features, the model's answers (n, outputs) if it brings them, and
    the share to keep if rows are to have as many features as they need.

    Either all questions of a batch bring answers, or none.
    """

    rows: Parsed
    k: int
    answers: Array | None = None
    keep: float | None = None


@dataclass(frozen=True)
class Explained:
    """The part of a batch that belongs to one question.

    rows : per row its selected features, ready for JSON
    answers : what the model said of each row, (n, outputs), if it was asked
    """

    rows: list[list[dict[str, Any]]]
    answers: Array | None


@dataclass(frozen=True, eq=False)
class Served:
    """An explainer as it was loaded: never changed, only replaced as a whole."""

    name: str
    artifact: Artifact
    explainer: Explainer
    reader: Reader
    model: BlackBox | None

    @classmethod
    def load(cls, name: str, path: Path, model: BlackBox | None) -> Served:
        """Read and try the file, so that what cannot explain a row is never put into service."""
        artifact = read(path)
        explainer = artifact.explainer(model=model, device="cpu")
        served = cls(name, artifact, explainer, reader_of(explainer.features_), model)
        outputs = explainer.q_.likelihood.outputs
        even = np.zeros((1, outputs)) if served.regression else np.full((1, outputs), 1 / outputs)
        rows = served.reader.parse([served.reader.example()])
        served.explain([Question(rows, explainer.k, even if explainer.sees_answer else None)])
        return served

    def k(self, asked: Any) -> int:
        """The k of a request, or the explainer's own; an InputError if there are no such features."""
        return self.explainer.k if asked is None else checked_k(self.explainer.features_, asked)

    def keep(self, asked: Any) -> float | None:
        """The share of a request; an InputError if it is none, or no sizes were learned."""
        if asked is None:
            return None
        self.explainer.known_sizes()
        return checked_share(asked)

    def explain(self, questions: Sequence[Question]) -> list[Explained]:
        """One forward pass for the rows of all questions, and one call of the model."""
        cells = [row for question in questions for row in question.rows.cells]
        answers = self._answers(questions, cells)
        inputs, scores = self._scored(cells, answers)
        indices, of_best = best_with_scores(scores, max(question.k for question in questions))
        found, start = [], 0
        for question in questions:
            stop = start + len(question.rows)
            own = None if answers is None else answers[start:stop]
            sizes = self._sizes(question, cells[start:stop], own)
            rows = [
                [
                    {"index": index, "score": score} | self.reader.shown(inputs, cells, row, index)
                    for index, score in zip(indices[row][: sizes[row - start]], of_best[row], strict=False)
                    if score > -np.inf
                ]
                for row in range(start, stop)
            ]
            found.append(Explained(rows, own))
            start = stop
        return found

    def _sizes(self, question: Question, cells: Sequence[Any], answers: Array | None) -> Sequence[int]:
        """How many features each row has, at most."""
        if question.keep is None:
            return [question.k] * len(cells)
        explanation = self.explain_inputs(self.reader.inputs(cells), question.k, answers, question.keep)
        assert explanation.sizes is not None
        sizes: list[int] = explanation.sizes.tolist()
        return sizes

    def _scored(self, cells: Sequence[Any], answers: Array | None) -> tuple[Any, Array]:
        """Checked rows as the view has them, as far as `shown` needs that, and their scores (n, d)."""
        if self._table_scores is not None:
            return None, self._table_scores(cells)
        explanation = self.explain_inputs(self.reader.inputs(cells), self.explainer.k, answers)
        return explanation.inputs, explanation.scores

    @cached_property
    def _table_scores(self) -> Scores | None:
        return table_scores(self.explainer, self.reader)

    def predict(self, batches: Sequence[Parsed]) -> list[Array]:
        """The model's answers to the rows of several requests."""
        answers = self.ask(self.reader.for_model([row for rows in batches for row in rows.cells]))
        ends = np.cumsum([len(rows) for rows in batches])
        return np.split(answers, ends[:-1])

    def _answers(self, questions: Sequence[Question], cells: Sequence[Any]) -> Array | None:
        given = [question.answers for question in questions if question.answers is not None]
        if given:
            return np.concatenate(given)
        return None if self.model is None else self.ask(self.reader.for_model(cells))

    def ask(self, raw: Any, mask: Array | None = None) -> Array:
        """What the model says of rows, whole or of the features that the mask (n, d) keeps."""
        assert self.model is not None
        view = self.explainer.features_
        return self.model(view.for_model(view.check(raw), mask))

    def explain_inputs(
        self, inputs: Any, k: int, answers: Array | None, keep: float | None = None
    ) -> Explanation:
        """The explanation of rows in any form that `explain` takes."""
        told = answers if self.explainer.sees_answer else None
        if self.explainer.sees_answer and told is None and self.model is None:
            raise ServiceError(
                422,
                "no_answers",
                "This explainer reads the model's answers beside the rows, and the service has no model: "
                "start it with --model, or send 'answers' with JSON rows.",
            )
        return self.explainer.explain_quietly(inputs, k, answers=told, keep=keep)

    def answers_of(self, given: Any, rows: int) -> Array | None:
        """The answers that a request brings for an explainer that reads them."""
        if given is None:
            if self.explainer.sees_answer and self.model is None:
                raise ServiceError(
                    422,
                    "no_answers",
                    "This explainer reads the model's answers beside the rows: send 'answers'.",
                )
            return None
        if not self.explainer.sees_answer:
            raise ServiceError(
                422, "invalid_body", "'answers' is for explainers that read the model's answers."
            )
        likelihood = self.explainer.q_.likelihood
        try:
            return checked_answers(np.array(given, dtype=np.float64), rows, likelihood)
        except (TypeError, ValueError, OverflowError, BlackBoxError, InputError):
            expected = f"{rows} answers of {likelihood.outputs} numbers, as the model gives them"
            raise ServiceError(422, "invalid_body", f"'answers' must be {expected}.") from None

    @property
    def regression(self) -> bool:
        return isinstance(self.explainer.q_.likelihood, Gaussian)

    @cached_property
    def classes(self) -> list[Any] | None:
        known = self.explainer.classes_
        return None if known is None else known.tolist()

    @cached_property
    def origin(self) -> dict[str, Any]:
        """Which file answers, in every answer."""
        return {"explainer": self.name, "version": self.artifact.version, "checksum": self.artifact.checksum}

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """What it takes, how it was trained, and how well it did on rows held out."""
        explainer, settings = self.explainer, self.artifact.settings
        view = explainer.features_
        held_out = dict(explainer.history_[-1]) if explainer.history_ else {}
        named = {part: settings[part] for part in ("value", "sampler")}
        return {
            **self.origin,
            "k": explainer.k,
            "d": view.d,
            "task": "regression" if self.regression else "classification",
            "classes": self.classes,
            "model": self.model is not None,
            "takes": self.reader.takes(),
            "features": [str(name) for name in view.names_],
            "trained": {
                "view": type(view).__name__,
                "sees_answer": explainer.sees_answer,
                "removal": getattr(view, "removal", None),
                **{
                    part: chosen["name"] if isinstance(chosen, dict) else chosen
                    for part, chosen in named.items()
                },
                "seed": explainer.seed,
                "rows_asked": explainer.rows_asked_,
                "seconds": explainer.fit_seconds_,
            },
            "held_out": held_out,
        }
