"""The page at /: a form made from an explainer's own description, and what it says of the form's row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from l2x._version import __version__
from l2x.apps.serve import _snippets as snippets
from l2x.apps.serve._batching import Batcher
from l2x.apps.serve._bodies import read_body
from l2x.apps.serve._catalogue import Catalogue
from l2x.apps.serve._forms import Form, form_of
from l2x.apps.serve._gate import COOKIE, Token, record_of
from l2x.apps.serve._refusals import ServiceError, as_service_error
from l2x.apps.serve._served import Served
from l2x.apps.serve._settings import Settings
from l2x.apps.serve._whynot import Shown, shown
from l2x.display import environment
from l2x.errors import L2XError

# Forms that may wait to be shown: each belongs to somebody who looks at the page.
WAITING = 64


class Pages:
    """Everything that is rendered for a browser."""

    def __init__(self, catalogue: Catalogue, settings: Settings) -> None:
        self._catalogue, self._settings = catalogue, settings
        self._templates = environment("l2x.apps.serve", extra="serve")
        self._templates.globals["root"] = settings.root_path
        self._templates.globals["version"] = __version__
        self._templates.filters["path"] = lambda name: quote(name, safe="")
        self._showing: Batcher[tuple[Served, Any, int], Shown] = Batcher(
            _all_shown, most=1, queue=WAITING, promise=settings.timeout
        )

    def login(self, wrong: bool = False) -> str:
        return self._rendered("login.html", wrong=wrong)

    def docs(self, document: Mapping[str, Any]) -> str:
        return self._rendered("docs.html", document=document)

    async def page(self, served: Served, fields: Mapping[str, str] | None, base: str) -> str:
        """The whole page: the form as the fields have it, an ordinary row by default, and its result."""
        form = form_of(served)
        fields = form.fields() if fields is None else fields
        result = await self.result(served, form, fields, base)
        names = [slot.name for slot in self._catalogue]
        about = served.description
        return self._rendered(
            "playground.html", about=about, names=names, form=form, fields=fields, result=result
        )

    async def result(self, served: Served, form: Form, fields: Mapping[str, str], base: str) -> str:
        """What changes with the form: answers, explanation, and the request that would give them."""
        try:
            row, k = form.row(fields), form.k(fields)
            found = await self._showing.submit((served, row, k), 1)
        except (ServiceError, L2XError) as error:
            return self._rendered("problem.html", message=as_service_error(error).message)
        request = snippets.Request(base, served.name, row, k, token=self._settings.token is not None)
        return self._rendered(
            "result.html", about=served.description, k=k, shown=found,
            curl=snippets.curl(request), python=snippets.python(request),
        )  # fmt: skip

    def _rendered(self, name: str, **content: Any) -> str:
        return str(self._templates.get_template(name).render(**content))


def playground_routes(pages: Pages, catalogue: Catalogue, settings: Settings) -> APIRouter:
    router = APIRouter()
    first = next(iter(catalogue)).name

    async def fields_of(request: Request) -> dict[str, str]:
        body = await read_body(request, settings)
        record_of(request.scope).rows = 1
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
        return dict(pairs)

    @router.get("/")
    async def home(request: Request) -> Response:
        return HTMLResponse(await pages.page(catalogue[first].served, None, base_of(request)))

    @router.get("/playground/{name}")
    async def page(name: str, request: Request) -> Response:
        return HTMLResponse(await pages.page(catalogue[name].served, None, base_of(request)))

    @router.post("/playground/{name}")
    async def without_script(name: str, request: Request) -> Response:
        fields = await fields_of(request)
        return HTMLResponse(await pages.page(catalogue[name].served, fields, base_of(request)))

    @router.post("/playground/{name}/result")
    async def result(name: str, request: Request) -> Response:
        served = catalogue[name].served
        fields = await fields_of(request)
        return HTMLResponse(await pages.result(served, form_of(served), fields, base_of(request)))

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        return HTMLResponse(pages.docs(request.app.openapi()))

    @router.post("/login")
    async def login(request: Request) -> Response:
        given = (await fields_of(request)).get("token", "")
        if settings.token is None or not (token := Token(settings.token)).matches(given):
            return HTMLResponse(pages.login(wrong=True), 401)
        answer = RedirectResponse(f"{settings.root_path}/", 303)
        answer.set_cookie(
            COOKIE, token.cookie, httponly=True, samesite="strict", secure=request.url.scheme == "https",
            path=settings.root_path or "/",
        )  # fmt: skip
        return answer

    return router


def base_of(request: Request) -> str:
    """Where the service is, as the client sees it: scheme, host, and the proxy's path."""
    return str(request.base_url).rstrip("/")


def _all_shown(asked: Sequence[tuple[Served, Any, int]]) -> Sequence[Shown]:
    return [shown(served, row, k) for served, row, k in asked]
