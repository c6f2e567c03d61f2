"""The site of a study: raters behind their own secret links, the organiser behind another.

An answer is acknowledged, by a redirect to the next task, only when it is on disk. Nothing that a rater
receives tells the method behind an item, and nothing of the site is loaded from another host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from l2x.apps.study import _session as session
from l2x.apps.study._report import answers_csv, render
from l2x.apps.study._study import Rater, Study
from l2x.display import SECURITY_HEADERS, STATIC, environment
from l2x.errors import InputError, StudyError

OWN = Path(__file__).parent / "static"
# Answers are tiny; whatever is longer is not one.
BODY_BYTES = 10_000
MOST_INVITED = 200
# A report brings its styles along, and needs nothing else.
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
UNKNOWN_LINK = "This link is not known. Check that it was copied whole, or ask whoever sent it."
SENTENCES = {404: UNKNOWN_LINK, 405: "This address is not for that.", 413: "That is too long."}
NEUTRAL = "neutral"
# The page's key for taking an answer back (undo.html), and those that answers may have.
UNDO_KEY = "u"
KEYS = "1234567890abcdefghijklmnopqrstvwxyz"


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a form, as browsers send them; too long a body is not read to its end."""
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


def site(study: Study, *, open_to_all: bool = False) -> FastAPI:
    """The web application; `open_to_all` lets anybody rate, under a nickname."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    pages = environment("l2x.apps.study", extra="study")
    pages.globals |= {"settings": study.settings, "keys": answer_keys(study.settings.classes)}

    def page(name: str, status: int = 200, **content: Any) -> HTMLResponse:
        return HTMLResponse(pages.get_template(name).render(**content), status)

    _add_errors(app, page)
    _add_frame(app)
    _add_joining(app, study, page, open_to_all)
    _add_rating(app, study, page)
    _add_organising(app, study, page, open_to_all)
    return app


Page = Callable[..., HTMLResponse]


def _add_frame(app: FastAPI) -> None:
    """Files of the pages, and headers of every answer."""
    files = {path.name: path for folder in (STATIC, OWN) for path in folder.iterdir()}

    @app.get("/static/{name}")
    def static(name: str) -> FileResponse:
        if name not in files:
            raise HTTPException(404)
        return FileResponse(files[name], headers={"Cache-Control": "max-age=3600"})

    @app.get("/health/live")
    def live() -> Response:
        return Response("alive\n", media_type="text/plain")

    @app.middleware("http")
    async def headers(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call(request)
        for name, value in {**SECURITY_HEADERS, "Cache-Control": "no-store"}.items():
            response.headers.setdefault(name, value)
        return response


def _add_errors(app: FastAPI, page: Page) -> None:
    """Every refusal is a page with one sentence."""

    def refusal(status: int, sentence: str) -> HTMLResponse:
        return page("message.html", status, heading="That did not work", sentence=sentence)

    @app.exception_handler(StudyError)
    def conflict(_: Request, error: StudyError) -> HTMLResponse:
        return refusal(409, str(error))

    @app.exception_handler(InputError)
    def wrong(_: Request, error: InputError) -> HTMLResponse:
        return refusal(400, str(error))

    @app.exception_handler(HTTPException)
    def http(_: Request, error: HTTPException) -> HTMLResponse:
        return refusal(error.status_code, SENTENCES.get(error.status_code, str(error.detail)))

    @app.exception_handler(Exception)
    def unexpected(_: Request, error: Exception) -> HTMLResponse:
        return refusal(
            500, "Something went wrong here. What you answered before is stored; load the page again."
        )


def _add_joining(app: FastAPI, study: Study, page: Page, open_to_all: bool) -> None:
    """How somebody without a link of their own gets one."""

    def joined(fields: dict[str, str], *, named: bool) -> RedirectResponse:
        if study.closed:
            raise StudyError("This study is closed: it takes no more answers.")
        nickname = fields.get("nickname", "")
        if named and not nickname.strip():
            raise InputError("Choose a nickname, so that the organiser can tell raters apart.")
        return _to(f"/r/{study.invite(nickname).token}")

    @app.get("/")
    def front() -> HTMLResponse:
        if not open_to_all:
            return page(
                "message.html", heading=study.settings.title, sentence="Open the link that you were sent."
            )
        return page("join.html", action="/join", named=True)

    @app.post("/join")
    def join(fields: Fields) -> RedirectResponse:
        if not open_to_all:
            raise HTTPException(404)
        return joined(fields, named=True)

    @app.get("/j/{token}")
    def invitation(token: str) -> HTMLResponse:
        if not study.may_join(token):
            raise HTTPException(404)
        return page("join.html", action=f"/j/{study.join_token}", named=False)

    @app.post("/j/{token}")
    def accept(token: str, fields: Fields) -> RedirectResponse:
        if not study.may_join(token):
            raise HTTPException(404)
        return joined(fields, named=False)


def _add_rating(app: FastAPI, study: Study, page: Page) -> None:
    """A rater's own pages, all at one address: consent, instructions, tasks, thanks."""

    def known(token: str) -> Rater:
        rater = study.rater(token)
        if rater is None or rater.simulated:
            raise HTTPException(404)
        return rater

    def ready(token: str) -> Rater:
        rater = known(token)
        if not (rater.consented and rater.started):
            raise StudyError("Read the instructions first; your own link leads to them.")
        return rater

    @app.get("/r/{token}")
    def current(token: str) -> HTMLResponse:
        rater = known(token)
        here = f"/r/{rater.token}"
        if study.closed:
            sentence = "This study is closed: it takes no more answers. Thank you for your help."
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
        study.consent(known(token))
        return _to(f"/r/{token}")

    @app.post("/r/{token}/start")
    def start(token: str) -> RedirectResponse:
        study.start(known(token))
        return _to(f"/r/{token}")

    @app.post("/r/{token}/answer")
    def answer(token: str, fields: Fields) -> RedirectResponse:
        rater = ready(token)
        given = fields.get("choice", "")
        choice = None if given == NEUTRAL else _whole(fields, "choice")
        session.give_answer(study, rater, _whole(fields, "position"), _whole(fields, "attempt"), choice)
        return _to(f"/r/{token}")

    @app.post("/r/{token}/undo")
    def undo(token: str, fields: Fields) -> RedirectResponse:
        rater = ready(token)
        session.undo(study, rater, _whole(fields, "position"), _whole(fields, "attempt"))
        return _to(f"/r/{token}")


def _add_organising(app: FastAPI, study: Study, page: Page, open_to_all: bool) -> None:
    """The organiser's page: progress, links, closing, the report."""

    def only_the_organiser(token: str) -> None:
        if not study.is_organiser(token):
            raise HTTPException(404)

    def overview(name: str, request: Request) -> HTMLResponse:
        base = f"{request.url.scheme}://{request.url.netloc}"
        people, simulated = study.progress(), study.progress(simulated=True)
        return page(
            name,
            here=f"/o/{study.organiser_token}",
            base=base,
            join=base if open_to_all else f"{base}/j/{study.join_token}",
            open_to_all=open_to_all,
            closed=study.closed,
            quotas=study.quotas(),
            people=people,
            simulated=simulated,
        )

    @app.get("/o/{token}", dependencies=[Depends(only_the_organiser)])
    def organiser(request: Request) -> HTMLResponse:
        return overview("organiser.html", request)

    @app.get("/o/{token}/progress", dependencies=[Depends(only_the_organiser)])
    def progress(request: Request) -> HTMLResponse:
        return overview("progress.html", request)

    @app.post("/o/{token}/invite", dependencies=[Depends(only_the_organiser)])
    def invite(token: str, fields: Fields) -> RedirectResponse:
        number = _whole(fields, "number")
        if not 1 <= number <= MOST_INVITED:
            raise InputError(f"Invite between 1 and {MOST_INVITED} raters at a time.")
        for _ in range(number):
            study.invite()
        return _to(f"/o/{token}")

    @app.post("/o/{token}/close", dependencies=[Depends(only_the_organiser)])
    def close(token: str, fields: Fields) -> RedirectResponse:
        study.set_closed(fields.get("closed") == "yes")
        return _to(f"/o/{token}")

    @app.get("/o/{token}/report", dependencies=[Depends(only_the_organiser)])
    def report() -> HTMLResponse:
        return HTMLResponse(render(study), headers={"Content-Security-Policy": REPORT_POLICY})

    @app.get("/o/{token}/answers.csv", dependencies=[Depends(only_the_organiser)])
    def answers() -> Response:
        saved = {"Content-Disposition": 'attachment; filename="answers.csv"'}
        return Response(answers_csv(study), media_type="text/csv", headers=saved)


def answer_keys(classes: Sequence[str]) -> list[str]:
    """Return one key for each class, then the key for "cannot tell"; no two are equal, and none is undo's.

    If every class is a letter or a digit of its own, the keys are the classes themselves; otherwise they are
    `KEYS`, in order. Classes for which no key is left have "": raters click on their buttons.

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
    """The acknowledgement of a form: what comes next is at this address."""
    return RedirectResponse(path, status_code=303)


def _whole(fields: dict[str, str], name: str) -> int:
    given = fields.get(name, "")
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise InputError(f"The form's field '{name}' is {given[:40]!r}; expected a whole number.")
    return int(given)
