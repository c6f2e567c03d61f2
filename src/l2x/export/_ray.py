"""Explain and label with Ray Data: Parquet on local or object storage, batches on every node of a cluster.

What runs on a node is the same callable as in `scale.stream`: one Arrow batch in, one out. Ray reads, places,
retries and writes; nothing of a cluster is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from l2x.errors import InputError, require
from l2x.export._artifact import load
from l2x.export._stream import BatchExplainer, BatchLabeller, match_columns
from l2x.files import Origin, Table, equal_batches, known_columns, table_writer, with_floats
from l2x.learning import checked_share
from l2x.model import BlackBox, Task

# Rows that an actor takes at a time: some megabytes.
BATCH_ROWS = 16_384


def connect(address: str | None = None, *, progress: bool = True) -> Any:
    """Ray, connected to the cluster at `address`, or to one on this machine; rows keep their order."""
    ray = require("ray", extra="ray")
    require("ray.data", extra="ray")
    if not ray.is_initialized():
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="warning")
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = progress
    return ray


def read_parquet(source: str | Path, *, address: str | None = None, progress: bool = True) -> Any:
    """A Ray dataset of Parquet files: a file or folder, or an address that pyarrow knows, such as s3://."""
    ray = connect(address, progress=progress)
    filesystem, path = located(source)
    if filesystem.get_file_info(path).type == pa.fs.FileType.NotFound:
        raise InputError(f"There is no file '{source}'.")
    return ray.data.read_parquet(path, filesystem=filesystem)


def located(target: str | Path) -> tuple[Any, str]:
    """The file system and the path in it, of a path or an address such as s3://bucket/folder."""
    text = str(target)
    try:
        uri = text if "://" in text else str(Path(text).absolute())
        filesystem, path = pa.fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"Cannot read or write '{text}': {error}") from error
    return filesystem, str(path)


def explain(
    dataset: Any,
    path: str | Path,
    *,
    copy: Sequence[str] = (),
    drop: Sequence[str] = (),
    column: str | None = None,
    k: int | None = None,
    keep: float | None = None,
    actors: int | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Any:
    """A Ray dataset of explanations: copied columns, feature_1 .. feature_k, score_1 .. score_k.

    Parameters
    ----------
    dataset : a Ray dataset of rows, such as `ray.data.read_parquet(...)`
    path : of the saved explainer; it is read here, and travels to the actors
    copy, drop, column, k, keep : as for `l2x explain`
    actors : workers that explain, at most; by default as the cluster has room
    batch_rows : rows that an actor takes at a time
    """
    explainer, keep = load(path, device="cpu"), None if keep is None else checked_share(keep)
    if explainer.sees_answer:
        raise InputError("This explainer reads the model's answers, too: it cannot be used with Ray.")
    table = _described(dataset)
    columns, _ = match_columns(explainer, table, drop=drop, copy=copy, column=column)
    run = BatchExplainer(explainer, columns, copy=list(copy), k=k, keep=keep)
    return mapped(dataset, run, actors=actors, batch_rows=batch_rows)


def label(
    dataset: Any,
    black_box: BlackBox,
    *,
    drop: Sequence[str] = (),
    actors: int | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Any:
    """A Ray dataset of the model's answers, as files of answers have them; the model goes to the actors."""
    columns = known_columns(_described(dataset), black_box.columns, drop)
    return mapped(dataset, BatchLabeller(black_box, columns), actors=actors, batch_rows=batch_rows)


def write(dataset: Any, target: str | Path) -> None:
    """A .parquet or .csv file on this machine, whose rows pass through here; or Parquet files in a folder or
    at an address, which the nodes write, each when it is ready: copy an id to sort by."""
    if "://" not in str(target) and Path(target).suffix:
        with table_writer(Path(target)) as write_batch:
            for batch in _batches(dataset):
                write_batch(batch)
        return
    filesystem, path = located(target)
    dataset.write_parquet(path, filesystem=filesystem)


def write_answers(dataset: Any, target: Path, black_box: BlackBox) -> int:
    """One file of answers, the same as `l2x.label` would write; returns its number of rows."""
    rows = 0
    with table_writer(target) as write_batch:
        for batch in equal_batches(_batches(dataset)):
            # The actors asked, each with a black box of its own: this one may not know its task yet.
            task: Task = black_box.task or ("classification" if batch.num_columns > 2 else "regression")
            schema = replace(Origin.of_model(black_box), task=task).schema(batch.schema)
            write_batch(batch.replace_schema_metadata(schema.metadata))
            rows += len(batch)
    return rows


def _batches(dataset: Any) -> Any:
    for table in dataset.iter_batches(batch_size=BATCH_ROWS, batch_format="pyarrow"):
        yield from table.combine_chunks().replace_schema_metadata(None).to_batches()


def _described(dataset: Any) -> Table:
    schema = dataset.schema()
    if schema is None or not len(schema.names):
        raise InputError("The dataset has no rows.")
    return Table.described(pa.schema(zip(schema.names, schema.types, strict=True)), "the dataset")


def mapped(dataset: Any, run: Any, *, actors: int | None, batch_rows: int) -> Any:
    """The callable, Arrow batch in, Arrow batch out, runs in actors, which receive it once."""
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
    """A worker of Ray: the callable, with Ray's tables in place of Arrow's batches."""

    def __init__(self, run: Any) -> None:
        import ray
        import torch

        torch.set_num_threads(1)  # an actor has one processor
        self.run = ray.get(run) if isinstance(run, ray.ObjectRef) else run

    def __call__(self, table: pa.Table) -> pa.Table:
        decimals = [field.name for field in table.schema if pa.types.is_decimal(field.type)]
        batches = table.combine_chunks().to_batches()
        wanted = [name for name in decimals if name in self.run.columns]
        return pa.Table.from_batches([self.run(with_floats(batch, wanted)) for batch in batches])
