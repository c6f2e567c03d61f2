"""The explainers in service, by name: loaded at the start, and replaced when their files change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from l2x._base.arrays import Array, is_whole, only_numbers
from l2x.apps.serve._batching import Batcher, contained
from l2x.apps.serve._monitoring import Metrics, log_event, log_failure
from l2x.apps.serve._requests import ServiceError, as_service_error, invalid_body
from l2x.apps.serve._rows import ParsedRows, RowFormat, row_format
from l2x.apps.serve._settings import Settings
from l2x.apps.serve._tables import TableGraph, chosen_outputs, table_graph
from l2x.apps.serve._watching import Watcher
from l2x.errors import BlackBoxError, InputError, L2XError, some
from l2x.explainer import Explainer
from l2x.explanation import Effects, Explanation, Scale
from l2x.export import Artifact, read
from l2x.features import checked_k
from l2x.learning import EXACT, Examiner, Gaussian, checked_predictions, checked_share
from l2x.model import BlackBox, as_black_box

# Tables of up to this many rows are explained in the event loop: a change of threads takes longer.
SMALL = 64
# Subsets whose predictions take about as long as the rest of a row.
ROW_IN_SUBSETS = 8
# Polishing a row takes about as long as this many rows.
POLISHED = 20


@dataclass(frozen=True)
class ExplainRequest:
    """Rows to explain together."""

    rows: ParsedRows
    k: int  # the number of features, or their maximum number with `keep`
    predictions: Array | None = None  # (n, outputs), if the client sends the model's predictions
    keep: float | None = None  # the share of the information that the features of a row must preserve
    effects: bool = False
    output: int | None = None  # the position of the class that effects refer to; None for the predicted class
    polish: bool = False  # whether the surrogate improves the learned selection
    refine: int = 0  # the maximum number of masked queries per row that confirm a selection
    scale: Scale | None = None  # of effects, by default the probability or the predicted value

    @property
    def kind(self) -> tuple[Any, ...]:
        """Return what the requests of a batch must have in common; effects depend on k."""
        k = self.k if self.effects or self.keep is not None else None
        k = self.k if self.polish or self.refine else k
        return self.predictions is None, self.keep, self.effects, self.polish, self.refine, self.scale, k

    @property
    def cost(self) -> int:
        """Return how many rows without effects take about as long."""
        searched = POLISHED * (self.polish or self.refine > 0) + self.refine
        return len(self.rows) * (1 + searched + (1 << min(self.k, EXACT)) // ROW_IN_SUBSETS * self.effects)


@dataclass(frozen=True)
class Explained:
    """The result of one request."""

    features: list[list[dict[str, Any]]]  # per row, its selected features, best first, ready for JSON
    predictions: Array | None  # (n, outputs), if the model's predictions are known
    effects: Effects | None = None
    by: str = "surrogate"  # what made the prediction that effects add up to
    confirmed: Array | None = None  # (n,) whether the model predicts the same from the selection alone


@dataclass(frozen=True, eq=False)
class Served:
    """A loaded explainer, with its model if there is one. It never changes; a new file makes a new one."""

    name: str
    artifact: Artifact
    explainer: Explainer
    rows: RowFormat[Any]  # the format of rows in JSON
    model: BlackBox | None
    graph: TableGraph | None  # a faster way to score tables, if there is one
    effects: bool  # whether requests have effects by default

    @classmethod
    def load(cls, name: str, path: Path, model: BlackBox | None, *, effects: bool = True) -> Served:
        """Read a file and explain one row, so that an explainer that fails is never put into service.

        `effects` is whether requests have effects by default.
        """
        artifact = read(path)
        explainer = artifact.explainer(model=model, device="cpu")
        rows = row_format(explainer.features_)
        effects = effects and has_network(explainer)
        graph = table_graph(explainer, rows, effects=effects)
        served = cls(name, artifact, explainer, rows, model, graph, effects)
        outputs = explainer.surrogate_.likelihood.outputs
        even = np.zeros((1, outputs)) if served.regression else np.full((1, outputs), 1 / outputs)
        example = rows.parse([rows.example()])
        known = even if explainer.uses_prediction else None
        served.explain([ExplainRequest(example, explainer.k, known, effects=effects)])
        return served

    @cached_property
    def row_values(self) -> int:
        """Return how many values of JSON a row may need, with its prediction."""
        return self.rows.values + int(self.explainer.surrogate_.likelihood.outputs)

    def request(self, rows: ParsedRows, given: Mapping[str, Any], *, most: int = 0) -> ExplainRequest:
        """Return a request with the options of a client; raise if one is invalid.

        `most` is the maximum of 'refine'.
        """
        predictions = self._given_predictions(given.get("predictions"), len(rows))
        k, keep = self.k(given.get("k")), self.keep(given.get("keep"))
        effects, output = self.with_effects(given.get("effects")), self.output(given.get("class"))
        known = predictions is not None or self.model is not None
        polish, refine = (
            self.polish(given.get("polish"), keep, known=known),
            self.refine(given.get("refine"), most),
        )
        if keep is not None and refine:
            raise InputError("'keep' selects by the learned scores alone; leave out 'refine'.")
        if refine and given.get("polish") is False:
            raise InputError("'refine' begins with polished selections; leave out \"polish\": false.")
        scale = self.scale(given.get("scale"))
        return ExplainRequest(rows, k, predictions, keep, effects, output, polish, refine, scale)

    def polish(self, given: Any, keep: float | None, *, known: bool) -> bool:
        """Return whether selections are polished, by default if predictions are known, as by `explain`."""
        if given is not None and not isinstance(given, bool):
            raise invalid_body("'polish' must be true or false.")
        if given and not known:
            raise InputError("Polishing needs the model's predictions: send 'predictions', or use --model.")
        return known and self.explainer.polishes(given, keep, given=True)

    def refine(self, given: Any, most: int) -> int:
        """Return the maximum number of masked queries per row, at most `most`."""
        if given is None:
            return 0
        if not is_whole(given, least=0) or given > most:
            raise invalid_body(
                f"'refine' must be a whole number between 0 and {most}, the limit of this service."
            )
        if given and self.model is None:
            raise InputError("'refine' queries the model: start the service with --model.")
        if given:
            self.explainer.polishes(refine=int(given), given=True)  # raises if it is impossible
        return int(given)

    def with_effects(self, given: Any) -> bool:
        """Return whether a request has effects; raise an InputError if it cannot."""
        if given is None:
            return self.effects
        if not isinstance(given, bool):
            raise invalid_body("'effects' must be true or false.")
        if given and self.model is None and not has_network(self.explainer):
            raise InputError("This explainer has no surrogate network: effects need the model (--model).")
        return given

    def output(self, given: Any) -> int | None:
        """Return the position of a class, or of a predicted value; raise an InputError if there is none."""
        if given is None:
            return None
        count = int(self.explainer.surrogate_.likelihood.outputs)
        known = list(range(count)) if self.classes is None else self.classes
        matches = [i for i, name in enumerate(known) if str(name) == str(given)]
        if not matches:
            raise InputError(f"There is no class '{str(given)[:50]}'; choose one of {some(known)}.")
        return matches[0]

    def scale(self, given: Any) -> Scale | None:
        """Return the scale of effects; raise an InputError if it is invalid."""
        known: tuple[Scale, ...] = ("value",) if self.regression else ("probability", "log-odds")
        if given is None:
            return None
        if given not in known:
            raise invalid_body(f"'scale' must be one of {', '.join(known)}.")
        return cast(Scale, given)

    def k(self, given: Any) -> int:
        """Return the k of a request, by default the explainer's own; raise an InputError if it is invalid."""
        return self.explainer.k if given is None else checked_k(self.explainer.features_, given)

    def keep(self, given: Any) -> float | None:
        """Return the share of a request; raise an InputError if it is invalid or no sizes were learned."""
        if given is None:
            return None
        self.explainer.known_sizes()
        return checked_share(given)

    def _given_predictions(self, given: Any, rows: int) -> Array | None:
        if given is None:
            if self.explainer.uses_prediction and self.model is None:
                raise self._no_predictions()
            return None
        likelihood = self.explainer.surrogate_.likelihood
        try:
            if not only_numbers(given):
                raise ValueError
            return checked_predictions(np.array(given, dtype=np.float64), rows, likelihood)
        except (TypeError, ValueError, OverflowError, BlackBoxError, InputError):
            raise invalid_body(
                f"'predictions' must be {rows} lists of {likelihood.outputs} numbers, as from the model."
            ) from None

    def _no_predictions(self) -> ServiceError:
        return ServiceError(
            422,
            "no_predictions",
            "This explainer is prediction-aware and is served without its model: "
            "send 'predictions' with JSON rows, or start the service with --model.",
        )

    def explain(self, requests: Sequence[ExplainRequest]) -> list[Explained]:
        """Explain the rows of requests of one kind by one forward pass and one call of the model."""
        cells = [row for request in requests for row in request.rows.cells]
        predictions = self._predictions(requests, cells)
        k, keep = max(request.k for request in requests), requests[0].keep
        inputs, limits = None, [request.k for request in requests for _ in request.rows.cells]
        outputs = [request.output for request in requests for _ in request.rows.cells]
        effects, by, confirmed = None, "surrogate" if predictions is None else "model", None
        if self.graph is not None and predictions is None and self.quick(requests[0]):
            wanted = outputs if requests[0].effects else None
            indices, scores, effects = self.graph(cells, k, wanted)
        else:
            first = requests[0]
            explanation = self.explain_inputs(
                self.rows.inputs(cells), k, predictions, keep, polish=first.polish, refine=first.refine
            )
            confirmed = explanation.confirmed
            inputs, indices, scores = explanation.inputs, explanation.indices, explanation.scores
            limits = limits if explanation.sizes is None else explanation.sizes.tolist()
            if requests[0].effects:
                effects = self.effects_of(explanation, outputs, requests[0].scale)
                by = explanation.predicted_by
        amounts = None if effects is None else effects.effects.tolist()
        features = [
            [
                {"index": index, "score": scores.item(row, index)}
                | ({} if amounts is None else {"effect": amounts[row][rank]})
                | self.rows.feature(inputs, cells, row, index)
                for rank, index in enumerate(chosen[: limits[row]])
                if scores.item(row, index) > -np.inf
            ]
            for row, chosen in enumerate(indices.tolist())
        ]
        return _split(requests, Explained(features, predictions, effects, by, confirmed))

    def quick(self, request: ExplainRequest) -> bool:
        """Return whether the graph can explain a request; with predictions, selections are polished."""
        if self.graph is None or request.keep is not None or request.predictions is not None:
            return False
        if request.polish or request.refine or request.scale is not None:
            return False
        return not request.effects or (self.graph.effects and request.k == self.explainer.k)

    def effects_of(
        self, explanation: Explanation, outputs: Sequence[int | None], scale: Scale | None = None
    ) -> Effects:
        """Return effects on one class of each row, by default the predicted one."""
        explanation = replace(explanation, scale=scale)
        if any(output is not None for output in outputs):
            chosen = chosen_outputs(outputs, explanation.predictions, regression=self.regression)
            explanation = replace(explanation, explained=chosen)
        return explanation.contributions

    def _predictions(self, requests: Sequence[ExplainRequest], cells: Sequence[Any]) -> Array | None:
        """Return the predictions for all rows: those that the clients sent, or the model's."""
        given = [request.predictions for request in requests if request.predictions is not None]
        if given:
            return np.concatenate(given)
        return None if self.model is None else self.query(self.rows.inputs(cells))

    def predict(self, batches: Sequence[ParsedRows]) -> list[Array]:
        """Return the model's predictions for the rows of several requests."""
        predictions = self.query(self.rows.inputs([row for rows in batches for row in rows.cells]))
        ends = np.cumsum([len(rows) for rows in batches])
        return np.split(predictions, ends[:-1])

    def query(self, inputs: Any, mask: Array | None = None) -> Array:
        """Return the model's predictions for inputs, whole or masked outside of the mask (n, d)."""
        assert self.model is not None
        view = self.explainer.features_
        return self.model(view.for_model(view.check(inputs), mask))

    def explain_inputs(
        self,
        inputs: Any,
        k: int,
        predictions: Array | None,
        keep: float | None = None,
        *,
        polish: bool | None = None,
        refine: int = 0,
    ) -> Explanation:
        """Explain inputs in any form that `explain` accepts, without a warning about unseen categories.

        With `predictions`, selections are polished, and effects add up to them, without another query.
        """
        if self.explainer.uses_prediction and predictions is None and self.model is None:
            raise self._no_predictions()
        options: dict[str, Any] = {"refine": refine} if refine else {"polish": polish}
        return self.explainer.explain_quietly(inputs, k, predictions=predictions, keep=keep, **options)

    @cached_property
    def regression(self) -> bool:
        """Return whether the model is a regression."""
        return isinstance(self.explainer.surrogate_.likelihood, Gaussian)

    @cached_property
    def examiner(self) -> Examiner:
        """Return what verifies rows by the model."""
        return self.explainer.examiner()

    @property
    def age(self) -> float:
        """Return the seconds since `fit`; since the file was written, if it does not hold the time."""
        fitted = self.explainer.fitted_at_
        return time.time() - (self.artifact.path.stat().st_mtime if fitted is None else fitted.timestamp())

    @cached_property
    def classes(self) -> list[Any] | None:
        """Return the names of the model's classes, if they are known."""
        classes = self.explainer.classes_
        return None if classes is None else classes.tolist()

    def plain_predictions(self, predictions: Array) -> list[Any]:
        """Return predictions for JSON: per row the class probabilities, or a single predicted value."""
        single = self.regression and predictions.shape[1] == 1
        plain: list[Any] = (predictions[:, 0] if single else predictions).tolist()
        return plain

    @cached_property
    def origin(self) -> dict[str, Any]:
        """Return which file explains; every response contains it."""
        return {"explainer": self.name, "version": self.artifact.version, "checksum": self.artifact.checksum}

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """Return what the explainer takes, how it was trained, and its figures on held-out rows."""
        explainer, view = self.explainer, self.explainer.features_
        return {
            **self.origin,
            "k": explainer.k,
            "d": view.d,
            "unit": view.unit,
            "task": "regression" if self.regression else "classification",
            "classes": self.classes,
            "model": self.model is not None,
            "takes": self.rows.takes(),
            "features": [str(name) for name in view.names_],
            "trained": self._training(),
            "held_out": dict(explainer.history_[-1]) if explainer.history_ else {},
        }

    def _training(self) -> dict[str, Any]:
        explainer, settings = self.explainer, self.artifact.settings
        parts = {part: settings[part] for part in ("objective", "sampler")}
        return {
            "view": type(explainer.features_).__name__,
            "uses_prediction": explainer.uses_prediction,
            "masking": getattr(explainer.features_, "masking", None),
            **{
                part: chosen["name"] if isinstance(chosen, dict) else chosen for part, chosen in parts.items()
            },
            "seed": explainer.seed,
            "rows_queried": explainer.rows_queried_,
            "seconds": explainer.fit_seconds_,
        }


def has_network(explainer: Explainer) -> bool:
    """Return whether effects come from a network; otherwise, each would take masked queries of the model."""
    return bool(explainer.surrogate_.surrogate.networks)


def _split(requests: Sequence[ExplainRequest], whole: Explained) -> list[Explained]:
    """Split the results of a batch by request."""
    results, start = [], 0
    for request in requests:
        rows = slice(start, start + len(request.rows))
        predictions = None if whole.predictions is None else whole.predictions[rows]
        effects = None if whole.effects is None else whole.effects[rows]
        confirmed = None if whole.confirmed is None else whole.confirmed[rows]
        results.append(Explained(whole.features[rows], predictions, effects, whole.by, confirmed))
        start = rows.stop
    return results


class Slot:
    """One name: the explainer in service, and the queues in front of it and of its model."""

    def __init__(self, name: str, path: Path, model: BlackBox | None, settings: Settings, metrics: Metrics):
        self.name, self.path, self.model, self._metrics = name, path, model, metrics
        self._signature = _signature(path) if path.exists() else None  # `load` reports a file that is missing
        self._effects = settings.effects
        self.served = Served.load(name, path, model, effects=self._effects)
        self._waiting, self._batches = metrics.waiting.labels(name), metrics.batches.labels(name)
        self._rows = metrics.rows.labels(name)
        limits: dict[str, Any] = {
            "max_rows": settings.batch_rows, "queue": settings.queue, "promise": settings.timeout
        }  # fmt: skip
        self._explaining: Batcher[tuple[Served, ExplainRequest], Explained] = Batcher(
            _explain_batch, observe=self._observe, **limits
        )
        self._predicting: Batcher[tuple[Served, ParsedRows], Array] = Batcher(_predict_batch, **limits)
        watched = settings.watch > 0 and model is not None
        self.watcher = Watcher(name, settings.watch, settings.watch_rows, metrics) if watched else None

    def _observe(self, waiting: int, batch: int) -> None:
        self._waiting.set(waiting)
        self._batches.observe(batch)

    @property
    def _at_once(self) -> bool:
        """Whether a few rows are explained faster than a batch can be started."""
        return self.served.graph is not None and self.model is None

    def admit(self) -> None:
        """Raise 503 if the queue has no room for another row: before the body is read, that costs little."""
        if not self._at_once:
            self._explaining.admit(1)

    async def explain(self, served: Served, request: ExplainRequest) -> Explained:
        """Explain a request by the explainer that was in service when it arrived."""
        for column, rows in request.rows.unseen.items():
            self._metrics.unseen.labels(self.name, column).inc(rows)
        count = len(request.rows)
        if self._at_once and served.quick(request) and request.cost <= SMALL:
            self._observe(0, count)
            explained = contained(served.explain, [request])[0]
        else:
            explained = await self._explaining.submit((served, request), count, (served, request.kind))
        self._rows.inc(count)
        if self.watcher is not None:
            cells = request.rows.cells
            self.watcher.offer(
                served.examiner, count, lambda rows: partial(served.rows.inputs, [cells[i] for i in rows])
            )
        return explained

    async def predict(self, served: Served, rows: ParsedRows) -> Array:
        """Return the model's predictions."""
        return await self._predicting.submit((served, rows), len(rows), served)

    def close(self) -> None:
        """Stop both queues, and watching."""
        self._explaining.close()
        self._predicting.close()
        if self.watcher is not None:
            self.watcher.close()

    async def reload(self) -> None:
        """Load the file again if it has changed; keep the old explainer if the new one cannot be used."""
        try:
            signature = _signature(self.path)
        except OSError:
            return  # being replaced, or deleted: the loaded explainer stays
        if signature == self._signature or not self.path.is_file():  # reading a pipe would block forever
            return
        self._signature = signature
        try:
            load = partial(Served.load, self.name, self.path, self.model, effects=self._effects)
            new = await asyncio.to_thread(contained, load)
        except Exception as error:
            self._refuse(_reason(error))
            return
        if _kind(new) != _kind(self.served):
            self._refuse(f"explains {_kind(new)}, but the explainer in service {_kind(self.served)}")
            return
        self.served = new
        if self.watcher is not None:
            self.watcher.start_again(new.examiner)
        self._metrics.reloads.labels(self.name, "swapped").inc()
        log_event("reloaded", explainer=self.name, checksum=new.artifact.checksum)

    def _refuse(self, why: str) -> None:
        self._metrics.reloads.labels(self.name, "refused").inc()
        log_event("reload refused", logging.ERROR, explainer=self.name, error=why)


class Catalogue:
    """All explainers of a service; `models` are given by the names of their explainers."""

    def __init__(
        self, files: Sequence[Path], models: Mapping[str, Any], settings: Settings, metrics: Metrics
    ) -> None:
        paths = by_name(files)
        if unknown := [name for name in models if name not in paths]:
            raise InputError(f"A model is given for '{unknown[0]}'; the explainers are {', '.join(paths)}.")
        boxes = {name: as_black_box(model) for name, model in models.items()}
        self._slots = {
            name: Slot(name, path, boxes.get(name), settings, metrics) for name, path in paths.items()
        }
        self._settings = settings
        if settings.watch and not models:
            raise InputError(
                f"watch is {settings.watch:g}, but there is no model to verify rows with: give --model."
            )

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def __getitem__(self, name: str) -> Slot:
        try:
            return self._slots[name]
        except KeyError:
            raise ServiceError(
                404, "no_such_explainer", "No explainer has this name; GET /v1/explainers lists them."
            ) from None

    async def watch(self) -> None:
        """Reload changed files until cancelled; log unexpected errors and go on."""
        while True:
            await asyncio.sleep(self._settings.reload_every)
            for slot in self:
                try:
                    await slot.reload()
                except Exception as error:
                    log_failure(f"reload of {slot.name}", error)

    def close(self) -> None:
        """Stop all queues."""
        for slot in self:
            slot.close()


def by_name(files: Sequence[Path]) -> dict[str, Path]:
    """Return the files by the names under which they are served.

    >>> by_name([Path("models/churn.l2x")])
    {'churn': PosixPath('models/churn.l2x')}
    """
    if not files:
        raise InputError("There is nothing to serve: give at least one file.l2x.")
    named: dict[str, Path] = {}
    for path in files:
        if path.stem in named:
            raise InputError(f"'{named[path.stem]}' and '{path}' would both be served as '{path.stem}'.")
        named[path.stem] = path
    return named


def _signature(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _reason(error: Exception) -> str:
    """Return why a file cannot be used, without messages of the model, which may quote inputs."""
    if isinstance(error, BlackBoxError):
        return as_service_error(error).message
    return str(error) if isinstance(error, L2XError) else type(error).__name__


def _kind(served: Served) -> str:
    return str(served.description["takes"]["kind"])


def _explain_batch(jobs: Sequence[tuple[Served, ExplainRequest]]) -> Sequence[Explained]:
    return jobs[0][0].explain([request for _, request in jobs])


def _predict_batch(jobs: Sequence[tuple[Served, ParsedRows]]) -> Sequence[Array]:
    return jobs[0][0].predict([rows for _, rows in jobs])
