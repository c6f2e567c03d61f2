"""`l2x serve`: explanations over HTTP, and the playground."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from l2x.apps.serve._settings import Settings


Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Explainers that `l2x fit` saved; each is served under its file's name.",
        show_default=False,
    ),
]  # fmt: skip
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="[NAME=]MODEL",
        help="The model, `module:attribute` or an `.onnx` file: answers come with its predictions. "
        "With NAME= it is that of one explainer; repeat for more.",
    ),
]  # fmt: skip
Host = Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Answer only requests that carry the token in this file.")
]
Workers = Annotated[int, typer.Option(min=1, help="Processes; one that dies is replaced.")]
MaxRows = Annotated[int, typer.Option(min=1, help="Rows of one JSON request.")]
Queue = Annotated[int, typer.Option(min=1, help="Rows that may wait; requests beyond get 503.")]
Reload = Annotated[bool, typer.Option("--reload", help="Swap in a FILE that changes, if it can be used.")]
RootPath = Annotated[str, typer.Option(metavar="PATH", help="Where a proxy shows the service, such as /l2x.")]


def serve(
    files: Files,
    model: Models = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: TokenFile = None,
    workers: Workers = 1,
    max_rows: MaxRows = 1000,
    queue: Queue = 2000,
    reload: Reload = False,
    root_path: RootPath = "",
) -> None:
    """Serve explainers over HTTP: requests that arrive together share a forward pass. A playground is at /.

    Example:  `l2x serve churn.l2x --model churn:model --reload`

    then:  `curl localhost:8000/v1/explainers/churn/explain -d '{"rows": [{"age": 42, "plan": "basic"}]}'`
    """
    from l2x.errors import require

    for package in ("fastapi", "uvicorn", "prometheus_client", "jinja2"):
        require(package, extra="serve")
    from l2x.apps.serve._catalogue import by_name
    from l2x.apps.serve._logs import log_to_stderr
    from l2x.apps.serve._running import Dedicated, run
    from l2x.apps.serve._settings import Settings, read_token

    models = model_of_each(model or [], list(by_name(files)))
    settings = Settings(
        token=None if token_file is None else read_token(token_file),
        max_rows=max_rows,
        queue=queue,
        reload=reload,
        root_path=root_path.rstrip("/"),
    )

    def started(address: str) -> None:
        typer.echo(f"serving    {address}{settings.root_path}  (Ctrl-C stops)")

    log_to_stderr()  # with several workers this process logs, too
    make = Dedicated(partial(make_app, files, models, settings))
    run(make, host=host, port=port, workers=workers, started=started)


def make_app(files: Sequence[Path], models: dict[str, str], settings: Settings) -> Any:
    """The application, in the process that serves it."""
    from l2x.apps.cli._model import load_black_box
    from l2x.apps.serve._app import create_app

    boxes = {spec: load_black_box(spec) for spec in set(models.values())}
    return create_app(files, {name: boxes[spec] for name, spec in models.items()}, settings)


def model_of_each(given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """--model as {explainer: model}; without a name it is the model of all that have none of their own.

    >>> model_of_each(["churn:model", "b=other:model"], ["a", "b"])
    {'a': 'churn:model', 'b': 'other:model'}
    """
    from l2x.errors import InputError

    found: dict[str, str] = {}
    common = None
    for option in given:
        name, named, spec = option.partition("=")
        if not named:
            common = option
        elif name not in names:
            raise InputError(
                f"--model {option}: there is no explainer '{name}'; there is {', '.join(names)}."
            )
        else:
            found[name] = spec
    return {name: found.get(name, common) for name in names if name in found or common}  # type: ignore[misc]
