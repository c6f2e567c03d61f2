"""`l2x serve`: explanations over HTTP, and the playground."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from l2x.apps.serve import Settings

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Explainers that `l2x fit` saved; each is served under the name of its file.",
    ),
]  # fmt: skip
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="[NAME=]MODEL",
        help="The model, `module:attribute` or an `.onnx` file, whose predictions are returned as well. "
        "NAME= assigns it to one explainer; repeat the option for others.",
    ),
]  # fmt: skip
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts connections from everywhere.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Accept only requests with the token in this file.")
]
Workers = Annotated[int, typer.Option(min=1, help="Number of processes; one that dies is restarted.")]
MaxRows = Annotated[int, typer.Option(min=1, help="Maximum number of rows in a JSON request.")]
Queue = Annotated[int, typer.Option(min=1, help="Maximum number of waiting rows; further requests get 503.")]
Reload = Annotated[bool, typer.Option("--reload", help="Load a FILE again when it changes.")]
Watch = Annotated[
    float,
    typer.Option(
        min=0, max=1, metavar="SHARE",
        help="Verify this share of the served rows in the background, such as 0.01; needs --model.",
    ),
]  # fmt: skip
WatchRows = Annotated[
    int, typer.Option(min=1, help="Verify at most this many rows of each explainer per minute.")
]
EffectsOn = Annotated[
    bool,
    typer.Option(
        "--effects/--no-effects",
        help="Whether responses have signed effects, unless a request has its own `effects`.",
    ),
]
MostRefine = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Maximum of `refine` in requests: masked queries of the model per row."
    ),
]
RootPath = Annotated[
    str, typer.Option(metavar="PATH", help="Path under which a proxy exposes the service, such as /l2x.")
]

AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Accept only requests for this host, or for this machine; can be repeated. "
        "By default, a service on 127.0.0.1 without a token accepts requests for this machine only.",
    ),
]


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
    allow_host: AllowHost = None,
    watch: Watch = 0.0,
    watch_rows: WatchRows = 600,
    effects: EffectsOn = True,
    most_refine: MostRefine = 30,
) -> None:
    """Serve explainers over HTTP, with a playground at /. Requests that arrive together share a batch.

    Example:  `l2x serve churn.l2x --model churn:model --reload`

    then:  `curl --json '{"rows": [{"age": 42, "plan": "basic"}]}' localhost:8000/v1/explainers/churn/explain`
    """
    from l2x.errors import require

    for package in ("fastapi", "uvicorn", "prometheus_client", "jinja2"):
        require(package, extra="serve")
    from l2x.apps.serve import Dedicated, Settings, allowed_hosts, by_name, log_to_stderr, read_token, run

    root_path = root_path.rstrip("/")
    token = None if token_file is None else read_token(token_file)
    settings = Settings(
        token, max_rows=max_rows, queue=queue, reload=reload, root_path=root_path,
        hosts=allowed_hosts(host, token, allow_host or []), watch=watch, watch_rows=watch_rows,
        effects=effects, most_refine=most_refine,
    )  # fmt: skip
    models = models_by_explainer(model or [], list(by_name(files)))
    log_to_stderr()  # with several workers, this process logs as well
    run(
        Dedicated(partial(make_app, files, models, settings)), host=host, port=port, workers=workers,
        root_path=root_path,
        started=lambda address: typer.echo(f"serving    {address}{root_path}  (Ctrl-C stops)"),
    )  # fmt: skip


def make_app(files: Sequence[Path], models: dict[str, str], settings: Settings) -> Any:
    """Return the application, made in the process that serves it; `models` names a model by explainer."""
    from l2x.apps.cli._arguments import load_black_box
    from l2x.apps.serve import create_app

    boxes = {spec: load_black_box(spec) for spec in set(models.values())}
    return create_app(files, {name: boxes[spec] for name, spec in models.items()}, settings)


def models_by_explainer(options: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the values of --model by explainer; one without NAME= is for all explainers without their own.

    >>> models_by_explainer(["churn:model", "b=other:model"], ["a", "b"])
    {'a': 'churn:model', 'b': 'other:model'}
    """
    from l2x.errors import InputError

    models: dict[str, str] = {}
    common = None
    for option in options:
        name, named, spec = option.partition("=")
        if not named:
            common = option
        elif name not in names:
            raise InputError(
                f"--model {option}: there is no explainer '{name}'; the explainers are {', '.join(names)}."
            )
        else:
            models[name] = spec
    return models if common is None else {name: models.get(name, common) for name in names}
