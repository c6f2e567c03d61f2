"""The site of a study: every rater has a secret link, and so has the organiser.

An answer is acknowledged, by a redirect to the next task, only when it is on disk. Pages do not reveal the
method behind an item to raters, and load nothing from another host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from l2x.apps.study import _session as session
from l2x.apps.study._report import answers_csv, render
from l2x.apps.study._study import Rater, Study
from l2x.display import SECURITY_HEADERS, STATIC, environment
from l2x.errors import InputError, StudyError

# Answers are tiny; longer bodies are refused.
BODY_BYTES = 10_000
MOST_INVITED = 200
# A report contains its styles and loads nothing.
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
UNKNOWN_LINK = "This link is unknown. Check that you copied all of it, or ask the person who sent it."
SENTENCES = {
    404: UNKNOWN_LINK,
    405: "This address does not accept that kind of request.",
    413: "The request is too long.",
}
NEUTRAL = "neutral"
# The key that undoes an answer (undo.html), and the keys for answers.
UNDO_KEY = "u"
KEYS = "1234567890abcdefghijklmnopqrstvwxyz"


async def form_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form, as browsers send them; a body that is too long is not read to its end."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise HTTPException(413)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True))
    except UnicodeDecodeError as error:
        raise InputError("The form is not text in UTF-8.") from error


Fields = Annotated[dict[str, str], Depends(form_fields)]


def site(study: Study) -> FastAPI:
    """Return the web application."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    pages = environment("l2x.apps.study", extra="study")
    pages.globals |= {"settings": study.settings, "keys": answer_keys(study.settings.classes)}

    def page(name: str, status: int = 200, **content: Any) -> HTMLResponse:
        return HTMLResponse(pages.get_template(name).render(**content), status)

    _add_errors(app, page)
    _add_frame(app)
    _add_joining(app, study, page)
    _add_rating(app, study, page)
    _add_answering(app, study)
    _add_organising(app, study, page)
    return app


Page = Callable[..., HTMLResponse]


def _add_frame(app: FastAPI) -> None:
    """Add the static files and the headers of every response."""
    app.mount("/static", StaticFiles(directory=STATIC, packages=[("l2x.apps.study", "static")]))

    @app.api_route("/health/live", methods=["GET", "HEAD"])
    def live() -> Response:
        return Response("alive\n", media_type="text/plain")

    @app.middleware("http")
    async def headers(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call(request)
        cached = "max-age=3600" if request.url.path.startswith("/static/") else "no-store"
        for name, value in {**SECURITY_HEADERS, "Cache-Control": cached}.items():
            response.headers.setdefault(name, value)
        return response


def _add_errors(app: FastAPI, page: Page) -> None:
    """Show every error as a page with one sentence."""

    def refusal(_: Request, error: Exception) -> HTMLResponse:
        status, sentence = (
            500,
            "Something went wrong here. Your earlier answers are stored; load the page again.",
        )
        if isinstance(error, HTTPException):
            status, sentence = error.status_code, SENTENCES.get(error.status_code, str(error.detail))
        elif isinstance(error, StudyError | InputError):
            status, sentence = (409 if isinstance(error, StudyError) else 400), str(error)
        return page("message.html", status, heading="That did not work", sentence=sentence)

    for kind in (StudyError, InputError, HTTPException, Exception):
        app.add_exception_handler(kind, refusal)


def _add_joining(app: FastAPI, study: Study, page: Page) -> None:
    """Add the pages on which people get a link of their own."""

    @app.api_route("/", methods=["GET", "HEAD"])
    def front() -> HTMLResponse:
        sentence = "Open the link that you were sent."
        return page("message.html", heading=study.settings.title, sentence=sentence)

    @app.get("/j/{token}")
    def invitation(token: str) -> HTMLResponse:
        if not study.may_join(token):
            raise HTTPException(404)
        return page("join.html", action=f"/j/{study.join_token}")

    @app.post("/j/{token}")
    def accept(token: str, fields: Fields) -> RedirectResponse:
        if not study.may_join(token):
            raise HTTPException(404)
        if study.closed:
            raise StudyError("This study is closed: it accepts no more answers.")
        return _to(f"/r/{study.invite(fields.get('nickname', '')).token}")


def _add_rating(app: FastAPI, study: Study, page: Page) -> None:
    """Add the rater's page, whose address stays the same: consent, instructions, tasks, thanks."""

    @app.get("/r/{token}")
    def current(token: str) -> HTMLResponse:
        rater = _rater(study, token)
        here = f"/r/{rater.token}"
        if study.closed:
            sentence = "This study is closed: it accepts no more answers. Thank you for your help."
            return page("message.html", heading="Closed", sentence=sentence)
        if not rater.consented:
            return page("consent.html", here=here)
        if not rater.started:
            return page("instructions.html", here=here, examples=study.examples())
        task = session.next_task(study, rater)
        if task is None:
            last, given = session.last_answer(study, rater), session.answered(study, rater)
            return page("done.html", here=here, undoable=last, answered=given)
        return page("task.html", here=here, task=task)

    @app.post("/r/{token}/consent")
    def consent(token: str) -> RedirectResponse:
        study.consent(_rater(study, token))
        return _to(f"/r/{token}")

    @app.post("/r/{token}/start")
    def start(token: str) -> RedirectResponse:
        study.start(_rater(study, token))
        return _to(f"/r/{token}")


def _add_answering(app: FastAPI, study: Study) -> None:
    """Add the forms of a task: answer, and undo the last answer."""

    def ready(token: str) -> Rater:
        rater = _rater(study, token)
        if not (rater.consented and rater.started):
            raise StudyError("Read the instructions first; your own link leads to them.")
        return rater

    @app.post("/r/{token}/answer")
    def answer(token: str, fields: Fields) -> RedirectResponse:
        rater = ready(token)
        choice = None if fields.get("choice") == NEUTRAL else _whole(fields, "choice")
        session.give_answer(study, rater, _whole(fields, "position"), _whole(fields, "attempt"), choice)
        return _to(f"/r/{token}")

    @app.post("/r/{token}/undo")
    def undo(token: str, fields: Fields) -> RedirectResponse:
        rater = ready(token)
        session.undo(study, rater, _whole(fields, "position"), _whole(fields, "attempt"))
        return _to(f"/r/{token}")


def _rater(study: Study, token: str) -> Rater:
    """Return the person with this link, or raise a 404."""
    rater = study.rater(token)
    if rater is None or rater.simulated:
        raise HTTPException(404)
    return rater


def _add_organising(app: FastAPI, study: Study, page: Page) -> None:
    """Add the organiser's page: progress, links, closing, the report."""

    def only_organiser(token: str) -> None:
        if not study.is_organiser(token):
            raise HTTPException(404)

    private = APIRouter(prefix="/o/{token}", dependencies=[Depends(only_organiser)])

    @private.get("")
    def organiser(request: Request) -> HTMLResponse:
        base = f"{request.url.scheme}://{request.url.netloc}"
        return page(
            "organiser.html",
            here=f"/o/{study.organiser_token}",
            base=base,
            join=f"{base}/j/{study.join_token}",
            closed=study.closed,
            quotas=study.quotas(),
            people=study.progress(),
            simulated=study.progress(simulated=True),
        )

    _add_actions(private, study)
    app.include_router(private)


def _add_actions(private: APIRouter, study: Study) -> None:
    """Add the organiser's actions: invite, close, and download report and answers."""

    @private.post("/invite")
    def invite(token: str, fields: Fields) -> RedirectResponse:
        number = _whole(fields, "number")
        if not 1 <= number <= MOST_INVITED:
            raise InputError(f"Invite between 1 and {MOST_INVITED} raters at a time.")
        for _ in range(number):
            study.invite()
        return _to(f"/o/{token}")

    @private.post("/close")
    def close(token: str, fields: Fields) -> RedirectResponse:
        study.set_closed(fields.get("closed") == "yes")
        return _to(f"/o/{token}")

    @private.get("/report")
    def report() -> HTMLResponse:
        return HTMLResponse(render(study), headers={"Content-Security-Policy": REPORT_POLICY})

    @private.get("/answers.csv")
    def answers() -> Response:
        saved = {"Content-Disposition": 'attachment; filename="answers.csv"'}
        return Response(answers_csv(study), media_type="text/csv", headers=saved)


def answer_keys(classes: Sequence[str]) -> list[str]:
    """Return one key for each class, then the key for "cannot tell"; they differ, and none is the undo key.

    If every class is a different letter or digit, the keys are the classes themselves; otherwise they are
    `KEYS`, in order. Classes without a key have "": raters click on their buttons.

    >>> answer_keys(["negative", "positive"]), answer_keys(["3", "8"])
    (['1', '2', '3'], ['3', '8', 'x'])
    """
    own = [name.lower() for name in classes]
    free = [key for key in "xyz" + KEYS if key not in own]
    letters = all(len(key) == 1 and key.isalnum() for key in own)
    if letters and len(set(own)) == len(own) and UNDO_KEY not in own and free:
        return [*own, free[0]]
    keys = KEYS[: len(classes) + 1]
    return [*keys[:-1], *[""] * (len(classes) + 1 - len(keys)), keys[-1]]


def _to(path: str) -> RedirectResponse:
    """Acknowledge a form; the next page is at this address."""
    return RedirectResponse(path, status_code=303)


def _whole(fields: dict[str, str], name: str) -> int:
    given = fields.get(name, "")
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise InputError(f"The form's field '{name}' is {given[:40]!r}; expected a whole number.")
    return int(given)
