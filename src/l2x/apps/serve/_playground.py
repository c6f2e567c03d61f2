"""The pages for browsers: a form made from the explainer's description, and the explanation of its row."""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from l2x._base.arrays import Array
from l2x._version import __version__
from l2x.apps.serve._batching import Batcher
from l2x.apps.serve._catalogue import Catalogue, Served
from l2x.apps.serve._requests import ServiceError, as_service_error, read_form, record_of
from l2x.apps.serve._settings import COOKIE, Settings, Token
from l2x.display import environment, percent, plain, png, readings_if_affordable, row_html
from l2x.errors import L2XError
from l2x.features import Patches
from l2x.learning import complement_of

# Maximum number of forms that wait for their result; each belongs to a person who looks at the page.
WAITING = 64
# A slider divides the range of a column into at least this many steps.
STEPS = 200
# Maximum bytes of a number in a form, and of a text, whose characters may take six bytes each.
NUMBER_BYTES, TEXT_BYTES = 64, 1 << 20
# The page lists this many classes, the most probable ones.
MAX_CLASSES = 6


class Form(ABC):
    """The form of one row. Fields are texts by name, as browsers send them.

    They are `k`, `class` (the position of the explained class; empty for the predicted one), and the parts of
    the row.
    """

    kind: str

    def __init__(self, served: Served) -> None:
        self._served, self.takes = served, served.description["takes"]

    def fields(self) -> dict[str, str]:
        """Return the fields of a typical row."""
        return {"k": str(self._served.explainer.k), "class": ""} | self._fields(self._served.rows.example())

    def k(self, fields: Mapping[str, str]) -> int:
        """Return k; raise an error if the field is invalid."""
        given = fields.get("k", "")
        if not given.isascii() or not given.isdigit():
            raise invalid_form("k must be a whole number.")
        return self._served.k(int(given[:9]))

    @property
    def classes(self) -> list[str]:
        """Return the names of the classes that can be explained."""
        return [str(name) for name in self._served.classes or ()]

    def output(self, fields: Mapping[str, str]) -> int | None:
        """Return the position of the explained class; raise an error if there is none."""
        given = fields.get("class", "")
        if not given:
            return None
        if not given.isascii() or not given.isdigit() or not int(given[:9]) < len(self.classes):
            raise invalid_form("There is no such class.")
        return int(given[:9])

    @property
    @abstractmethod
    def limits(self) -> tuple[int, int]:
        """Return how many bytes and fields the row may have in a form."""

    @abstractmethod
    def row(self, fields: Mapping[str, str]) -> Any:
        """Return the row as a client of the API would send it."""

    @abstractmethod
    def _fields(self, row: Any) -> dict[str, str]: ...


class TableForm(Form):
    """Column number c is the field c<c>: a number, or the position of a category; empty if missing."""

    kind = "table"

    @property
    def limits(self) -> tuple[int, int]:
        """Return limits by the number of columns, which have a cell and a tick each; see `Form.limits`."""
        columns = len(self.takes["columns"])
        return NUMBER_BYTES * columns, 3 * columns

    def row(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Return an object by column name; see `Form.row`."""
        row: dict[str, Any] = {}
        for c, column in enumerate(self.takes["columns"]):
            given = fields.get(f"c{c}", "").strip()
            if not given or f"m{c}" in fields:
                if not column["missing"]:
                    raise invalid_form(f"'{column['name']}' is empty.")
                row[column["name"]] = None
            elif column["type"] == "number":
                row[column["name"]] = _number(given, column["name"])
            else:
                row[column["name"]] = _category(given, column)
        return row

    def _fields(self, row: Any) -> dict[str, str]:
        fields = {}
        for c, column in enumerate(self.takes["columns"]):
            value = row[column["name"]]
            if column["type"] == "category":
                fields[f"c{c}"] = "" if value is None else str(column["categories"].index(value))
            else:
                fields[f"c{c}"] = f"{value:.6g}" if isinstance(value, float) else str(value)
        return fields

    @staticmethod
    def slider(column: Mapping[str, Any]) -> dict[str, float]:
        """Return min, max and step of a column's slider; the step is round, so that its numbers are short."""
        low, high = column["range"]
        if column["whole"]:
            return {"min": int(low), "max": int(high), "step": 1}
        step = 10.0 ** np.floor(np.log10((high - low) / STEPS)) if high > low else 1.0
        return {
            "min": float(f"{np.floor(low / step) * step:.10g}"),
            "max": float(f"{np.ceil(high / step) * step:.10g}"),
            "step": float(f"{step:.3g}"),
        }


class TextForm(Form):
    """The field `text`."""

    kind = "text"

    @property
    def limits(self) -> tuple[int, int]:
        """Return the limits of a long text; see `Form.limits`."""
        return TEXT_BYTES, 1

    def row(self, fields: Mapping[str, str]) -> Any:
        """Return the text; see `Form.row`."""
        return fields.get("text", "").replace("\r\n", "\n")

    def _fields(self, row: Any) -> dict[str, str]:
        return {"text": row}


class PassagesForm(TextForm):
    """The field `text`, in which blank lines separate passages."""

    kind = "passages"

    def row(self, fields: Mapping[str, str]) -> Any:
        """Return the passages; see `Form.row`."""
        parts = re.split(r"\n[^\S\n]*\n", super().row(fields))
        return [part.strip() for part in parts if part.strip()]

    def _fields(self, row: Any) -> dict[str, str]:
        return {"text": "\n\n".join(row)}


class ArrayForm(Form):
    """The field `numbers`: nested lists of numbers, as JSON."""

    kind = "array"

    @property
    def limits(self) -> tuple[int, int]:
        """Return limits by the number of cells; see `Form.limits`."""
        return NUMBER_BYTES * int(np.prod(self.takes["shape"])), 1

    def row(self, fields: Mapping[str, str]) -> Any:
        """Return nested lists; see `Form.row`."""
        try:
            return json.loads(fields.get("numbers", ""))
        except (ValueError, RecursionError):
            raise invalid_form(f"Expected lists of numbers of shape {self.takes['shape']}.") from None

    def _fields(self, row: Any) -> dict[str, str]:
        return {"numbers": json.dumps(row)}


class ImageForm(Form):
    """The field `pixels`: red, green and blue bytes of every pixel, row by row, in base64."""

    kind = "image"

    @property
    def size(self) -> tuple[int, int]:
        """Return height and width."""
        return cast(Patches, self._served.explainer.features_).sides

    @property
    def limits(self) -> tuple[int, int]:
        """Return limits by the number of pixels, each of four characters, some escaped; see `Form.limits`."""
        height, width = self.size
        return 12 * height * width, 1

    def row(self, fields: Mapping[str, str]) -> str:
        """Return a PNG file in base64; see `Form.row`."""
        height, width = self.size
        try:
            content = base64.b64decode(fields.get("pixels", ""), validate=True)
            colours = np.frombuffer(content, dtype=np.uint8).reshape(height, width, 3)
        except (binascii.Error, ValueError):
            raise invalid_form(f"Expected {width} x {height} pixels.") from None
        return base64.b64encode(png(colours / 255)).decode()

    def _fields(self, row: Any) -> dict[str, str]:
        view = cast(Patches, self._served.explainer.features_)
        colours = np.rint(plain(view, np.array(row)) * 255).astype(np.uint8)
        return {"pixels": base64.b64encode(colours.tobytes()).decode()}


def form_for(served: Served) -> Form:
    """Return the form for the rows of an explainer."""
    kinds = {form.kind: form for form in (TableForm, TextForm, PassagesForm, ArrayForm, ImageForm)}
    return kinds[served.description["takes"]["kind"]](served)


def invalid_form(message: str) -> ServiceError:
    """Return the error for a field that cannot be used."""
    return ServiceError(422, "invalid_form", message)


def _number(given: str, name: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise invalid_form(f"'{name}' must be a number, not '{given[:24]}'.") from None


def _category(given: str, column: Mapping[str, Any]) -> Any:
    categories = column["categories"]
    if not given.isascii() or not given.isdigit() or len(given) > 9 or int(given) >= len(categories):
        raise invalid_form(f"'{column['name']}' has no such category.")
    return categories[int(given)]


@dataclass(frozen=True)
class RowResult:
    """The result of a form.

    `predictions` has, per class, its name and its probability given all features, the selected features, and
    the other features; for regression, predicted values.
    """

    html: str  # the explanation
    prediction: str  # the prediction that effects add up to, in words; empty if nothing predicts
    predictions: list[tuple[str, ...]]
    source: str  # what made the predictions: the model, or the explainer's surrogate
    same: bool | None  # whether the selected features alone give the same class
    unseen: list[str]  # columns with a category that was not in the training rows


def row_result(served: Served, row: Any, k: int, output: int | None = None) -> RowResult:
    """Explain one row, and predict from all, from the selected, and from the other features.

    Effects refer to the class at the position `output`, by default to the predicted class.
    """
    parsed = served.rows.parse([row])
    inputs = served.rows.inputs(parsed.cells)
    whole = None if served.model is None else served.query(inputs)
    explanation = served.explain_inputs(inputs, k, whole)
    if output is not None:
        explanation = replace(explanation, explained=np.array([output]))
    mask = explanation.mask
    predictions: list[Array] = []
    source = ""
    if whole is not None:
        predictions = [whole, served.query(inputs, mask), served.query(inputs, complement_of(mask))]
        source = "the model"
    elif served.explainer.surrogate_.surrogate.networks:
        # The surrogate reads only features that can be selected.
        selectable = explanation.scores > -np.inf
        parts = (selectable, mask, selectable & complement_of(mask))
        predictions = [served.explainer.surrogate_.predict(inputs, part) for part in parts]
        source = "the explainer's surrogate of the model"
    same = None
    if predictions and not served.regression:
        same = bool(np.argmax(predictions[0]) == np.argmax(predictions[1]))
    table = _prediction_table(served, [part[0] for part in predictions])
    (reading,) = readings_if_affordable(explanation)
    title = _headline(served, table) if reading is None else reading.title
    return RowResult(row_html(explanation), title, table, source, same, sorted(parsed.unseen))


def _headline(served: Served, table: list[tuple[str, ...]]) -> str:
    """Return the prediction of a row without effects, in words; an empty text if there is none."""
    if not table:
        return ""
    return f"Prediction: {table[0][1]}" if served.regression else f"Prediction: {', '.join(table[0][:2])}"


def _prediction_table(served: Served, predictions: list[Array]) -> list[tuple[str, ...]]:
    """Return the rows of the table of predictions: the most probable classes, or the predicted values."""
    if not predictions:
        return []
    if served.regression:
        outputs = range(len(predictions[0]))
        return [("prediction", *(f"{part[i]:.4g}" for part in predictions)) for i in outputs]
    order = np.argsort(-predictions[0], kind="stable")[:MAX_CLASSES]
    classes = served.classes or list(range(len(predictions[0])))
    return [(str(classes[i]), *(percent(float(part[i])) for part in predictions)) for i in order]


@dataclass(frozen=True)
class Snippet:
    """The request of a form, as a command to copy."""

    base: str  # the address of the service
    name: str
    row: Any
    k: int
    explained: Any = None  # the class that effects refer to; None for the predicted class
    token: bool = False  # whether the service needs a token, which the command reads from $L2X_TOKEN

    @property
    def url(self) -> str:
        """Return the address of the route."""
        return f"{self.base}/v1/explainers/{quote(self.name, safe='')}/explain"

    @property
    def _body(self) -> dict[str, Any]:
        chosen = {} if self.explained is None else {"class": self.explained}
        return {"rows": [self.row], "k": self.k} | chosen

    def curl(self) -> str:
        """Return a shell command; the row is quoted, whatever it contains."""
        token = ' \\\n  -H "Authorization: Bearer $L2X_TOKEN"' if self.token else ""
        return (
            f"curl {shlex.quote(self.url)} \\\n  -H 'Content-Type: application/json'{token} \\\n"
            f"  -d {shlex.quote(json.dumps(self._body))}"
        )

    def python(self) -> str:
        """Return a Python program that needs the standard library only."""
        token = ', "Authorization": f"Bearer {os.environ[\'L2X_TOKEN\']}"' if self.token else ""
        return (
            f"import json{', os' if self.token else ''}, urllib.request\n\n"
            f"body = {self._body!r}\n"
            f'headers = {{"Content-Type": "application/json"{token}}}\n'
            f"request = urllib.request.Request({self.url!r}, json.dumps(body).encode(), headers)\n"
            "print(json.load(urllib.request.urlopen(request)))"
        )


class Pages:
    """The pages and their routes."""

    def __init__(self, catalogue: Catalogue, settings: Settings) -> None:
        self._catalogue, self._settings = catalogue, settings
        self._templates = environment("l2x.apps.serve", extra="serve")
        self._templates.globals["root"] = settings.root_path
        self._templates.globals["version"] = __version__
        self._templates.filters["path"] = lambda name: quote(name, safe="")
        self._templates.filters["plural"] = lambda unit: "patches" if unit == "patch" else f"{unit}s"
        self._batcher: Batcher[tuple[Served, Any, int, int | None], RowResult] = Batcher(
            _row_results, max_rows=1, queue=WAITING, promise=settings.timeout
        )

    def router(self) -> APIRouter:
        """Return the routes of all pages."""
        router = APIRouter()
        router.get("/")(self.home)
        router.add_api_route("/playground/{name}", self.playground, methods=["GET", "POST"])
        router.post("/playground/{name}/result")(self.result)
        router.get("/playground/{name}/validity")(self.validity)
        router.get("/docs")(self.docs)
        router.post("/login")(self.login)
        return router

    async def home(self, request: Request) -> Response:
        """Show the playground of the first explainer."""
        return await self.playground(next(iter(self._catalogue)).name, request)

    async def playground(self, name: str, request: Request) -> Response:
        """Show a typical row, or the row that a browser without JavaScript sends, and its result."""
        slot = self._catalogue[name]
        served = slot.served
        form = form_for(served)
        fields = form.fields() if request.method == "GET" else await self._fields(request, form)
        content = {
            "about": served.description,
            "names": [slot.name for slot in self._catalogue],
            "form": form,
            "fields": fields,
            "result": await self._result(request, form, served, fields),
            "watch": None if slot.watcher is None else slot.watcher.state(),
        }
        return HTMLResponse(self._rendered("playground.html", **content))

    async def result(self, name: str, request: Request) -> Response:
        """Return the result of the form alone."""
        served = self._catalogue[name].served
        form = form_for(served)
        return HTMLResponse(await self._result(request, form, served, await self._fields(request, form)))

    async def validity(self, name: str) -> Response:
        """Return whether the explainer is still valid; the page requests this repeatedly."""
        watcher = self._catalogue[name].watcher
        watch = None if watcher is None else watcher.state()
        return HTMLResponse(self._rendered("validity.html", watch=watch))

    async def docs(self, request: Request) -> Response:
        """Show the routes of the API."""
        return HTMLResponse(self._rendered("docs.html", document=request.app.openapi()))

    async def login(self, request: Request) -> Response:
        """Set the cookie, if the token is right."""
        given = (await read_form(request, self._settings)).get("token", "")
        if self._settings.token is None or not (token := Token(self._settings.token)).matches(given):
            return HTMLResponse(self.login_page(wrong=True), 401)
        response = RedirectResponse(f"{self._settings.root_path}/", 303)
        response.set_cookie(
            COOKIE, token.cookie, httponly=True, samesite="strict", secure=request.url.scheme == "https",
            path=self._settings.root_path or "/",
        )  # fmt: skip
        return response

    def login_page(self, wrong: bool = False) -> str:
        """Return the page that asks for the token."""
        return self._rendered("login.html", wrong=wrong)

    async def _fields(self, request: Request, form: Form) -> dict[str, str]:
        """Return the fields that a browser has sent."""
        size, fields = form.limits
        given = await read_form(request, self._settings, size=size, fields=fields)
        record_of(request).rows = 1
        return given

    async def _result(self, request: Request, form: Form, served: Served, fields: Mapping[str, str]) -> str:
        """Return explanation, predictions and the equivalent request; or a description of the problem."""
        try:
            row, k, output = form.row(fields), form.k(fields), form.output(fields)
            result = await self._batcher.submit((served, row, k, output), 1)
        except (ServiceError, L2XError) as error:
            return self._rendered("problem.html", message=as_service_error(error).message)
        base = str(request.base_url).rstrip("/")  # as the client sees it, with the proxy's path
        explained = None if output is None or served.classes is None else served.classes[output]
        snippet = Snippet(base, served.name, row, k, explained, token=self._settings.token is not None)
        return self._rendered("result.html", about=served.description, k=k, result=result, snippet=snippet)

    def _rendered(self, name: str, **content: Any) -> str:
        return str(self._templates.get_template(name).render(**content))


def _row_results(jobs: Sequence[tuple[Served, Any, int, int | None]]) -> Sequence[RowResult]:
    return [row_result(*job) for job in jobs]
