"""Explain and label with Ray Data: Parquet files from disk or object storage, batches on a cluster.

The nodes run the same callables as a local stream, one Arrow batch in and one out. Ray reads, schedules,
retries and writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs

from l2x._base.arrays import Array
from l2x.errors import InputError, require
from l2x.export._stream import BatchExplainer
from l2x.files import (
    Origin,
    Table,
    columns_to_fit,
    equal_batches,
    prediction_batch,
    row_checksums,
    table_writer,
    with_floats,
)
from l2x.model import BlackBox, Part, Task, query_parts

__all__ = ["connect", "described", "explain", "label", "read_parquet", "write", "write_predictions"]

# Rows per batch: a few megabytes.
BATCH_ROWS = 16_384


def connect(address: str | None = None, *, progress: bool = True) -> Any:
    """Return `ray`, connected to a cluster, by default on this machine; datasets keep the order of rows."""
    ray = require("ray", extra="ray")
    require("ray.data", extra="ray")
    if not ray.is_initialized():
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="warning")
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = progress
    return ray


def read_parquet(source: str | Path, *, address: str | None = None, progress: bool = True) -> Any:
    """Return a Ray dataset of Parquet files: a file, a folder, or a URL such as `s3://bucket/folder`."""
    ray = connect(address, progress=progress)
    filesystem, path = _located(source)
    if filesystem.get_file_info(path).type == pa.fs.FileType.NotFound:
        raise InputError(f"There is no file '{source}'.")
    return ray.data.read_parquet(path, filesystem=filesystem)


def described(dataset: Any) -> Table:
    """Return the columns of a Ray dataset as a table without rows, for `match_columns`."""
    schema = dataset.schema()
    if schema is None or not len(schema.names):
        raise InputError("The dataset has no rows.")
    return Table.described(pa.schema(zip(schema.names, schema.types, strict=True)), "the dataset")


def explain(
    dataset: Any, explain: BatchExplainer, *, actors: int | None = None, batch_rows: int = BATCH_ROWS
) -> Any:
    """Return a Ray dataset of explanations: copied columns, feature_1 .. feature_k, score_1 .. score_k.

    Parameters
    ----------
    dataset : ray.data.Dataset
        Rows, such as `ray.data.read_parquet(...)`.
    explain : BatchExplainer
        What to compute for each batch; it is sent to the nodes once. Load its explainer with `device="cpu"`,
        and with the model if selections are to be polished, verified or refined.
    actors : int, optional
        Maximum number of parallel workers; by default as many as the cluster has processors.
    batch_rows : int
        Rows per batch.
    """
    explainer = explain.explainer
    if explainer.uses_prediction and not explain.predictions and explainer.model is None:
        raise InputError(
            "This explainer is prediction-aware: name the columns that hold the model's predictions, or load "
            "it with the model."
        )
    return _mapped(dataset, explain, actors=actors, batch_rows=batch_rows)


def label(
    dataset: Any,
    black_box: BlackBox,
    *,
    drop: Sequence[str] = (),
    actors: int | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Any:
    """Return a Ray dataset of the model's predictions, in the format of `l2x.label`.

    The model, which does not read the columns in `drop`, is sent to the nodes; see `explain` for the rest.
    """
    columns = columns_to_fit(described(dataset), black_box.columns, drop)
    return _mapped(dataset, BatchLabeller(black_box, columns), actors=actors, batch_rows=batch_rows)


@dataclass(frozen=True)
class BatchLabeller:
    """Query the model for one batch of rows, in the columns that it reads; return predictions."""

    black_box: BlackBox
    columns: Sequence[str]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        frame = batch.select(list(self.columns)).to_pandas()
        parts: dict[int, Array] = {}

        def store(part: Part, predictions: Array) -> None:
            parts[part.first] = predictions

        # In requests of the size that the model accepts, as `l2x.label` does.
        query_parts(self.black_box, [Part(0, frame, frame)], store, most=len(frame))
        predictions = np.concatenate([parts[first] for first in sorted(parts)])
        return prediction_batch(0, row_checksums(frame), predictions).drop_columns(["row"])


def write(dataset: Any, target: str | Path) -> None:
    """Write a Ray dataset.

    A `target` that ends in .parquet or .csv is one file on this machine, and all rows pass through this
    process. Any other path or URL is a folder, to which the nodes write Parquet files in any order: copy an
    id column to sort by.
    """
    if "://" not in str(target) and Path(target).suffix:
        with table_writer(Path(target)) as write_batch:
            for batch in _batches(dataset):
                write_batch(batch)
        return
    filesystem, path = _located(target)
    dataset.write_parquet(path, filesystem=filesystem)


def write_predictions(dataset: Any, target: Path, black_box: BlackBox) -> int:
    """Write a dataset of `label` as the file that `l2x.label` would write; return the number of rows."""
    rows = 0
    with table_writer(target) as write_batch:
        for batch in equal_batches(_batches(dataset)):
            # The actors queried copies of the black box, so this one may not know its task yet.
            task: Task = black_box.task or ("classification" if batch.num_columns > 2 else "regression")
            write_batch(replace(Origin.of_model(black_box), task=task).describe(batch))
            rows += len(batch)
    return rows


def _located(target: str | Path) -> tuple[Any, str]:
    """Return the pyarrow file system of a path or URL, and the path in it."""
    text = str(target)
    try:
        uri = text if "://" in text else str(Path(text).absolute())
        filesystem, path = pa.fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"Cannot read or write '{text}': {error}") from error
    return filesystem, str(path)


def _batches(dataset: Any) -> Iterator[pa.RecordBatch]:
    for table in dataset.iter_batches(batch_size=BATCH_ROWS, batch_format="pyarrow"):
        yield from table.combine_chunks().replace_schema_metadata(None).to_batches()


def _mapped(dataset: Any, run: Any, *, actors: int | None, batch_rows: int) -> Any:
    """Apply `run`, Arrow batch in and out, in actors; the callable is sent to each of them once."""
    ray = require("ray", extra="ray")
    size = 1 if actors == 1 else (1, actors or max(2, int(ray.cluster_resources().get("CPU", 1))))
    return dataset.map_batches(
        _Actor,
        fn_constructor_args=(ray.put(run),),
        batch_format="pyarrow",
        batch_size=batch_rows,
        concurrency=size,
        zero_copy_batch=True,
    )


class _Actor:
    """A Ray worker: it holds the callable and converts Ray's tables to Arrow batches and back."""

    def __init__(self, run: Any) -> None:
        import ray
        import torch

        torch.set_num_threads(1)  # an actor has one processor
        self.run = ray.get(run) if isinstance(run, ray.ObjectRef) else run

    def __call__(self, table: pa.Table) -> pa.Table:
        decimals = [field.name for field in table.schema if pa.types.is_decimal(field.type)]
        batches = table.combine_chunks().to_batches()
        numbers = [name for name in decimals if name in self.run.columns]
        return pa.Table.from_batches([self.run(with_floats(batch, numbers)) for batch in batches])
