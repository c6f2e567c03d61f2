"""Arrow IPC streams in and out, for many rows, in memory that does not grow with their number.

Body and results are kept in temporary files, and the response starts when the last row is explained. An
invalid row in the middle therefore gives an error, never half a result.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Annotated, Any

import numpy as np
import pyarrow as pa
from fastapi import FastAPI, Query, Request
from starlette.responses import Response, StreamingResponse

from l2x.apps.serve import _openapi as openapi
from l2x.apps.serve._batching import contained
from l2x.apps.serve._catalogue import Catalogue, Served
from l2x.apps.serve._monitoring import Metrics
from l2x.apps.serve._requests import (
    ServiceError,
    body_pieces,
    check_media_type,
    invalid_body,
    overloaded,
    record_of,
    slow_body,
)
from l2x.apps.serve._settings import MIB, Settings
from l2x.apps.serve._watching import Watcher
from l2x.errors import InputError, some
from l2x.explanation import arrow_columns
from l2x.features import View

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
# Bytes of a stream in memory, maximum bytes of one record batch, and rows explained at a time.
BUFFER, MESSAGE, ROWS = 8 * MIB, 256 * MIB, 1 << 16
OUTPUT = "feature_1 .. k, score_1 .. k; effect_1 .. k, base, rest, prediction; predictions of the model"
# Bytes that must arrive within the time limit, so that clients that drip bytes do not hold the streams.
LEAST = 1 << 16
# Streams at a time: each has a thread, and up to one record batch in memory.
STREAMS = 2


class ArrowRoute:
    """The route for streams."""

    def __init__(self, catalogue: Catalogue, settings: Settings, metrics: Metrics) -> None:
        self._catalogue, self._settings, self._metrics = catalogue, settings, metrics
        self._free = STREAMS

    def add_to(self, app: FastAPI) -> None:
        """Add the route to an application."""
        content = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
        app.post(
            "/v1/explainers/{name}/explain.arrow", tags=["explainers"],
            summary="Explain many rows, as an Arrow stream", response_class=Response,
            openapi_extra={"requestBody": {"required": True, "content": content}},
            responses={200: {"content": {MEDIA_TYPE: {}}, "description": OUTPUT}},
        )(self.explain)  # fmt: skip

    async def explain(
        self,
        name: str,
        request: Request,
        k: Annotated[int | None, Query(ge=1, description="default: the explainer's own k")] = None,
        copy: Annotated[list[str], Query(description="columns to copy, such as an id")] = [],  # noqa: B006
        keep: Annotated[float | None, Query(gt=0, le=1, description=openapi.KEEP)] = None,
        effects: Annotated[bool | None, Query(description=openapi.EFFECTS)] = None,
        for_class: Annotated[str | None, Query(alias="class", description=openapi.CLASS)] = None,
    ) -> Response:
        """Return the selected features of each row, with the copied columns."""
        check_media_type(request, MEDIA_TYPE)
        slot = self._catalogue[name]
        served = slot.served
        wanted, output = served.with_effects(effects), served.output(for_class)
        explain = StreamExplainer(served, served.k(k), keep, copy, slot.watcher, wanted, output)
        if not self._free:
            raise overloaded(5)
        self._free -= 1
        results = tempfile.SpooledTemporaryFile(max_size=BUFFER)  # noqa: SIM115 - closed by the response
        try:
            with tempfile.SpooledTemporaryFile(max_size=BUFFER) as body:
                await self._receive(request, body)
                rows = await asyncio.to_thread(contained, explain, body, results)
        except BaseException:
            results.close()
            raise
        finally:
            self._free += 1
        record_of(request).rows = rows
        self._metrics.rows.labels(name).inc(rows)
        return StreamingResponse(_pieces(results), media_type=MEDIA_TYPE)

    async def _receive(self, request: Request, body: IO[bytes]) -> None:
        """Write the body of a request into a file; the time limit is for every LEAST bytes."""
        pieces = body_pieces(request, self._settings.max_arrow_body)
        try:
            while True:
                received = 0
                async with asyncio.timeout(self._settings.body_timeout):
                    while received < LEAST:
                        received += body.write(await anext(pieces))
        except StopAsyncIteration:
            body.seek(0)
        except TimeoutError:
            raise slow_body(self._settings.body_timeout) from None


def _pieces(results: IO[bytes]) -> Iterator[bytes]:
    with results:
        results.seek(0)
        while piece := results.read(MIB):
            yield piece


@dataclass(frozen=True)
class StreamExplainer:
    """Explain the batches of one stream into another; `copy` names columns to copy."""

    served: Served
    k: int
    keep: float | None
    copy: Sequence[str]
    watcher: Watcher | None = None
    effects: bool = False
    output: int | None = None  # the class that effects refer to; None for the predicted class of each row

    def __call__(self, body: IO[bytes], results: IO[bytes]) -> int:
        """Explain a stream from `body` into `results`; return the number of rows."""
        rows = 0
        try:
            with pa.ipc.open_stream(pa.PythonFile(_BoundedReads(body), mode="r")) as batches:
                columns = matching_columns(self.served.explainer.features_, batches.schema, self.copy)
                writer = None
                for batch in batches:
                    batch.validate(full=True)
                    for start in range(0, len(batch), ROWS):
                        result = self._explained(batch.slice(start, ROWS), columns, first_row=rows)
                        writer = writer or pa.ipc.new_stream(results, result.schema)
                        writer.write_batch(result)
                        rows += len(result)
                if writer is None:
                    raise invalid_body("The stream has no rows.")
                writer.close()
        except InputError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise ServiceError(
                400, "not_arrow", f"The body is not a complete Arrow IPC stream: {error}."
            ) from error
        return rows

    def _explained(self, batch: pa.RecordBatch, columns: Sequence[str], *, first_row: int) -> pa.RecordBatch:
        """Return the copied columns, the explanations and, with a model, the predictions of a batch."""
        inputs = _inputs(self.served.explainer.features_, batch, columns)
        try:
            predictions = None if self.served.model is None else self.served.query(_for_model(inputs))
            explanation = self.served.explain_inputs(inputs, self.k, predictions, self.keep)
        except InputError as error:
            start = f" (Row 0 of this message is row {first_row} of the stream.)" if first_row else ""
            raise InputError(f"{error}{start}") from error
        if self.watcher is not None:
            self.watcher.offer(self.served.examiner, len(batch), partial(self._picked, inputs))
        if self.output is not None:
            explanation = replace(explanation, explained=np.full(len(explanation), self.output))
        result = arrow_columns(explanation, effects=self.effects)
        if predictions is not None:
            flat = pa.array(predictions.ravel())
            result["predictions"] = pa.FixedSizeListArray.from_arrays(flat, predictions.shape[1])
        copied = {name: batch.column(name) for name in self.copy}
        if clash := [name for name in copied if name in result]:
            raise InputError(
                f"Cannot copy column '{clash[0]}': the result has that column too. Rename yours."
            )
        return pa.RecordBatch.from_pydict(copied | result)

    def _picked(self, inputs: Any, rows: Sequence[int]) -> Callable[[], Any]:
        """Return a function that returns these rows, copied, so that the batch need not stay in memory."""
        view = self.served.explainer.features_
        picked = view.take(view.check(_for_model(inputs)), np.asarray(rows))
        return lambda: picked


class _BoundedReads:
    """A file that refuses to read a large record batch, whose size a damaged stream may exaggerate."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if size > MESSAGE:
            raise ServiceError(
                413, "batch_too_large", f"A record batch is larger than {MESSAGE:,} bytes; send smaller ones."
            )
        return self._file.read(size)


def matching_columns(view: View, schema: pa.Schema, copy: Sequence[str]) -> list[str]:
    """Return the columns of a stream that the view reads, in its order; images are a single column."""
    names = list(schema.names)
    for name in copy:
        if names.count(name) != 1:
            raise InputError(f"The stream has no column '{name[:50]}' to copy; it has {some(names)}.")
    if view.kind != "image":
        return view.table_layout().match(names, copied=copy, source="the stream")
    rest = [name for name in names if name not in copy]
    if len(rest) != 1:
        raise InputError(f"Expected one column of images, but the stream has {len(rest)}: {some(rest)}.")
    return rest


def _inputs(view: View, batch: pa.RecordBatch, columns: Sequence[str]) -> Any:
    """Return a batch as the view accepts it: a table, a column of texts, or an array."""
    if view.kind != "image":
        return view.table_layout().inputs(pa.Table.from_batches([batch.select(list(columns))]))
    cells, size = batch.column(columns[0]), int(np.prod(view.image_shape_))
    if not (pa.types.is_list(cells.type) or pa.types.is_fixed_size_list(cells.type)) or cells.null_count:
        raise InputError(f"Images must be lists of {size} numbers, not {cells.type}.")
    flat = cells.flatten().to_numpy(zero_copy_only=False)
    if flat.dtype.kind not in "iuf" or len(flat) != len(batch) * size:
        raise InputError(f"Each image must be a list of {size} numbers.")
    return flat.astype(np.float32).reshape(-1, *view.image_shape_)


def _for_model(inputs: Any) -> Any:
    """Return tables as pandas frames, which models accept."""
    return inputs.to_pandas() if isinstance(inputs, pa.Table) else inputs
