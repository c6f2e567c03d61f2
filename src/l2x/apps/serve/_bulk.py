"""Arrow IPC streams in and out, for bulk: explained as they arrive, in memory that does not grow with them.

Results wait in a temporary file until the last row is explained: a bad row in the middle gets an error, never
half an answer, and clients need not read before they have sent everything.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO, Annotated, Any

import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from l2x.apps.serve._batching import contained
from l2x.apps.serve._bodies import chunks
from l2x.apps.serve._catalogue import Catalogue
from l2x.apps.serve._gate import record_of
from l2x.apps.serve._metrics import Metrics
from l2x.apps.serve._refusals import ServiceError, overloaded
from l2x.apps.serve._served import Served
from l2x.apps.serve._settings import MIB, Settings
from l2x.display import arrow_columns
from l2x.errors import InputError, some
from l2x.features import View, kind_of, reading_of

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
# Bytes that may wait between the network and the explainer, those of one record batch, and rows at a time.
BUFFER, MESSAGE, ROWS = 8 * MIB, 256 * MIB, 1 << 16
# Streams at a time: each has a thread and, at the most, a message in memory.
STREAMS = 2


def bulk_routes(catalogue: Catalogue, settings: Settings, metrics: Metrics) -> APIRouter:
    router = APIRouter(prefix="/v1/explainers", tags=["explainers"])
    free = STREAMS

    @router.post(
        "/{name}/explain.arrow",
        summary="The same for many rows, as an Arrow stream",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
            }
        },
        response_class=Response,
        responses={200: {"content": {MEDIA_TYPE: {}}, "description": "feature_1 .. k and score_1 .. k"}},
    )
    async def explain_arrow(
        name: str,
        request: Request,
        k: Annotated[int | None, Query(ge=1)] = None,
        copy: Annotated[list[str], Query(description="columns to copy, such as an id")] = [],  # noqa: B006
        keep: Annotated[
            float | None,
            Query(gt=0, le=1, description="as many features as a row needs: a share of the information"),
        ] = None,
    ) -> Response:
        nonlocal free
        served = catalogue[name].served
        size = served.k(k)
        if not free:
            raise overloaded(5)
        free -= 1
        results = tempfile.SpooledTemporaryFile(max_size=BUFFER)  # noqa: SIM115 - closed by the response
        inlet = Inlet(asyncio.get_running_loop())
        work = asyncio.ensure_future(
            asyncio.to_thread(contained, explain_stream, served, inlet, results, size, keep, list(copy))
        )
        try:
            await _feed(request, inlet, work, settings)
            rows = await work
        except BaseException:
            inlet.fail()
            await asyncio.wait([work])
            results.close()
            raise
        finally:
            free += 1
        record_of(request.scope).rows = rows
        metrics.rows(name, rows)
        return StreamingResponse(_pieces(results), media_type=MEDIA_TYPE)

    return router


async def _feed(request: Request, inlet: Inlet, work: asyncio.Future[int], settings: Settings) -> None:
    """The body into the inlet, as fast as it is explained."""
    async for piece in chunks(request, settings.max_arrow_body, settings.body_timeout):
        if work.done():  # it failed, or the stream has ended
            break
        await inlet.put(piece)
    inlet.end()


def _pieces(results: IO[bytes]) -> Iterator[bytes]:
    with results:
        results.seek(0)
        while piece := results.read(MIB):
            yield piece


class Inlet(io.RawIOBase):
    """A file that one thread reads while the event loop still writes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._space = loop, asyncio.Event()
        self._pieces: deque[memoryview] = deque()
        self._held = 0
        self._ended = self._failed = False
        self._changed = threading.Condition()

    async def put(self, piece: bytes) -> None:
        """Add bytes; waits while enough of them are waiting."""
        with self._changed:
            self._pieces.append(memoryview(piece))
            self._held += len(piece)
            full = self._held > BUFFER
            if full:
                self._space.clear()
            self._changed.notify()
        if full:
            await self._space.wait()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def fail(self) -> None:
        """The rest will not come: the reader gets an error."""
        with self._changed:
            self._failed = self._ended = True
            self._changed.notify()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Exactly this many bytes, fewer only at the end: what Arrow's readers expect."""
        if size > MESSAGE:
            raise ServiceError(
                413, "batch_too_large", f"A record batch is larger than {MESSAGE:,} bytes; send smaller ones."
            )
        found = bytearray()
        while size < 0 or len(found) < size:
            with self._changed:
                self._changed.wait_for(lambda: self._pieces or self._ended)
                if self._failed:
                    raise OSError("the request was interrupted")
                if not self._pieces:
                    break
                piece = self._pieces.popleft()
                if size >= 0 and len(piece) > size - len(found):
                    wanted = size - len(found)
                    self._pieces.appendleft(piece[wanted:])
                    piece = piece[:wanted]
                self._held -= len(piece)
                if self._held <= BUFFER // 2:
                    self._loop.call_soon_threadsafe(self._space.set)
            found += piece
        return bytes(found)

    def release(self) -> None:
        """Nobody reads any more: writers go on without waiting."""
        self._loop.call_soon_threadsafe(self._space.set)


def explain_stream(
    served: Served, inlet: Inlet, results: IO[bytes], k: int, keep: float | None, copy: Sequence[str]
) -> int:
    """Explain every batch of a stream into another; the number of rows."""
    rows = 0
    try:
        with pa.ipc.open_stream(pa.PythonFile(inlet, mode="r")) as reader:
            columns = matching(served.explainer.features_, reader.schema, copy)
            writer = None
            for batch in reader:
                batch.validate(full=True)
                for start in range(0, len(batch), ROWS):
                    part = batch.slice(start, ROWS)
                    result = _explained(served, part, columns, copy, k, keep, first_row=rows)
                    writer = writer or pa.ipc.new_stream(results, result.schema)
                    writer.write_batch(result)
                    rows += len(part)
            if writer is None:
                raise ServiceError(422, "invalid_body", "The stream has no rows.")
            writer.close()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, InputError):
            raise
        raise ServiceError(400, "not_arrow", f"The body is not a whole Arrow IPC stream: {error}.") from error
    finally:
        inlet.release()
    return rows


def matching(view: View, schema: pa.Schema, copy: Sequence[str]) -> list[str]:
    """The stream's columns that the view reads, in its order: by name, or by position where it knows none."""
    names = list(schema.names)
    for name in copy:
        if names.count(name) != 1:
            raise InputError(f"There is no column '{name}' to copy; the stream has {some(names)}.")
    rest = [name for name in names if name not in copy]
    if kind_of(view) == "image" or (reading := reading_of(view)).one_text:
        if len(rest) != 1:
            raise InputError(f"Expected one column besides those to copy; the stream has {some(rest)}.")
        return rest
    assert reading.columns is not None
    missing = [name for name in reading.columns if name not in names]
    if missing and not reading.named and len(rest) == len(reading.columns):
        return rest
    if missing:
        raise InputError(f"The stream lacks the columns {some(missing)}; it has {some(names)}.")
    if twice := [name for name in reading.columns if names.count(name) > 1]:
        raise InputError(f"The stream has the column '{twice[0]}' twice.")
    return list(reading.columns)


def _explained(
    served: Served,
    batch: pa.RecordBatch,
    columns: Sequence[str],
    copy: Sequence[str],
    k: int,
    keep: float | None,
    *,
    first_row: int,
) -> pa.RecordBatch:
    inputs = _inputs(served.explainer.features_, batch, columns)
    try:
        answers = None if served.model is None else served.ask(_for_model(inputs))
        explanation = served.explain_inputs(inputs, k, answers, keep)
    except InputError as error:
        start = f" (Rows are counted from row {first_row} on.)" if first_row else ""
        raise InputError(f"{error}{start}") from error
    found = arrow_columns(explanation)
    if answers is not None:
        flat = pa.array(answers.ravel())
        found["answer"] = pa.FixedSizeListArray.from_arrays(flat, answers.shape[1])
    copied = {name: batch.column(name) for name in copy}
    if clash := [name for name in copied if name in found]:
        raise InputError(f"The copied column '{clash[0]}' has the name of a result; rename it first.")
    return pa.RecordBatch.from_pydict(copied | found)


def _inputs(view: View, batch: pa.RecordBatch, columns: Sequence[str]) -> Any:
    """A batch as the view takes it: a table, a column of texts, or an array of images."""
    if kind_of(view) != "image":
        return pa.Table.from_batches([batch.select(list(columns))])
    cells = batch.column(columns[0])
    if not (pa.types.is_list(cells.type) or pa.types.is_fixed_size_list(cells.type)) or cells.null_count:
        raise InputError(
            f"Images come as lists of {np.prod(view.image_shape_)} numbers, not as {cells.type}."
        )
    flat = cells.flatten().to_numpy(zero_copy_only=False)
    if flat.dtype.kind not in "iuf" or len(flat) != len(batch) * np.prod(view.image_shape_):
        raise InputError(f"An image is a list of {np.prod(view.image_shape_)} numbers, row by row.")
    return flat.astype(np.float32).reshape(-1, *view.image_shape_)


def _for_model(inputs: Any) -> Any:
    """Tables as pandas frames, which models know."""
    return inputs.to_pandas() if isinstance(inputs, pa.Table) else inputs
