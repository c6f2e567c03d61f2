"""The explainers in service, by name: loaded at the start, swapped when their files change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2x._base.arrays import Array
from l2x.apps.serve._batching import Batcher, contained
from l2x.apps.serve._logs import log, log_failure
from l2x.apps.serve._metrics import Metrics
from l2x.apps.serve._refusals import ServiceError
from l2x.apps.serve._served import Explained, Question, Served
from l2x.apps.serve._settings import Settings
from l2x.apps.serve.rows._reader import Parsed
from l2x.errors import InputError
from l2x.model import BlackBox, as_black_box

# Rows of a table that are explained in the event loop: some hundred microseconds.
INLINE = 64


@dataclass(frozen=True)
class _Asked:
    """A question with the explainer that was in service when it came."""

    served: Served
    content: Any


class Slot:
    """One name: the explainer in service, and the queues of requests to it and to its model."""

    def __init__(self, name: str, path: Path, model: BlackBox | None, settings: Settings, metrics: Metrics):
        self.name, self.path, self.model, self._metrics = name, path, model, metrics
        self._seen = _signature(path) if path.exists() else None  # the next line says that it is not there
        self.served = Served.load(name, path, model)
        watch = metrics.queue(name)
        limits: dict[str, Any] = {
            "most": settings.batch_rows, "queue": settings.queue, "promise": settings.timeout
        }  # fmt: skip
        # Texts, images and models take longer than a request should hold up the others.
        inline = INLINE if model is None and self.served.description["takes"]["kind"] == "table" else 0
        self._explaining: Batcher[_Asked, Explained] = Batcher(
            _explained, inline=inline, watch=watch, **limits
        )
        self._predicting: Batcher[_Asked, Array] = Batcher(_predicted, **limits)

    def admit(self) -> None:
        """Raises 503 where not even a row would be taken: before a body is read, that costs little."""
        self._explaining.admit(1)

    async def explain(self, served: Served, question: Question) -> Explained:
        """In a batch with what else waits for it; after a swap the old one answers what came before."""
        for column, rows in question.rows.unseen.items():
            self._metrics.unseen(self.name, column, rows)
        kind = (served, question.answers is None)
        return await self._explaining.submit(_Asked(served, question), len(question.rows), kind)

    async def predict(self, served: Served, rows: Parsed) -> Array:
        return await self._predicting.submit(_Asked(served, rows), len(rows), served)

    def close(self) -> None:
        self._explaining.close()
        self._predicting.close()

    async def look(self) -> None:
        """Swap in a file that has changed; one that cannot be used is refused, and the old one stays."""
        try:
            found = _signature(self.path)
        except OSError:
            return  # being replaced, or gone: what is loaded stays
        if found == self._seen or not self.path.is_file():  # a pipe would keep its reader waiting for ever
            return
        self._seen = found
        try:
            new = await asyncio.to_thread(contained, Served.load, self.name, self.path, self.model)
        except Exception as error:
            self._metrics.reloaded(self.name, "refused")
            log.error("reload refused", extra={"fields": {"explainer": self.name, "error": str(error)}})
            return
        if _kind(new) != _kind(self.served):
            self._metrics.reloaded(self.name, "refused")
            about = f"explains {_kind(new)}, the one in service {_kind(self.served)}"
            log.error("reload refused", extra={"fields": {"explainer": self.name, "error": about}})
            return
        self.served = new
        self._metrics.reloaded(self.name, "swapped")
        log.info("reloaded", extra={"fields": {"explainer": self.name, "checksum": new.artifact.checksum}})


class Catalogue:
    """Every explainer of the service."""

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

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def __getitem__(self, name: str) -> Slot:
        try:
            return self._slots[name]
        except KeyError:
            raise ServiceError(
                404, "no_such_explainer", "There is no such explainer; GET /v1/explainers."
            ) from None

    async def watch(self) -> None:
        """Look for changed files until cancelled; log an unexpected error, and go on watching."""
        while True:
            await asyncio.sleep(self._settings.reload_every)
            for slot in self:
                try:
                    await slot.look()
                except Exception as error:
                    log_failure(f"reload of {slot.name}", error)

    def close(self) -> None:
        for slot in self:
            slot.close()


def by_name(files: Sequence[Path]) -> dict[str, Path]:
    """The files by the names under which they are served.

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


def _kind(served: Served) -> str:
    return str(served.description["takes"]["kind"])


def _explained(asked: Sequence[_Asked]) -> Sequence[Explained]:
    return asked[0].served.explain([one.content for one in asked])


def _predicted(asked: Sequence[_Asked]) -> Sequence[Array]:
    return asked[0].served.predict([one.content for one in asked])
