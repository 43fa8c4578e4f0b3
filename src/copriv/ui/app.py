"""Which address shows what: pages from templates, their numbers as JSON."""

import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from copriv import __version__
from copriv.agreement import Agreement
from copriv.data import DATASETS
from copriv.errors import CoprivError, InvalidInput
from copriv.ui import drafts, views
from copriv.ui.forecaster import Forecaster, Superseded
from copriv.ui.rows import Rows
from copriv.ui.words import LANGUAGES, preferred, source, texts

PAGES = ("join", "agreement")
"""In the order of the navigation."""

Handler = Callable[[Request], Awaitable[Response]]


class Pages:
    """The application for planning: everything but a run in progress."""

    def __init__(self, agreement: Agreement | None = None) -> None:
        self._agreement = agreement
        self._forecaster, self._rows = Forecaster(), Rows()
        self._templates = Environment(
            loader=PackageLoader("copriv.ui"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        static = files("copriv.ui").joinpath("static")
        self.app = Starlette(
            routes=[
                Route("/", _to_first_page),
                *(Route(f"/{page}", self._page(page)) for page in PAGES),
                Route("/texts/{language}.json", _texts),
                Route("/api/start", self._start),
                Route("/api/join/quick", _answered(self._quick), methods=["POST"]),
                Route("/api/join/exact", _answered(self._exact), methods=["POST"]),
                Route("/api/agreement", _answered(self._draft), methods=["POST"]),
                Route("/api/file/rows", _answered(self._take_rows), methods=["POST"]),
                Mount("/static", StaticFiles(directory=str(static))),
            ],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self._forecaster.close()
        self._rows.close()

    def _page(self, page: str) -> Handler:
        template = self._templates.get_template(f"{page}.html")

        async def show(request: Request) -> Response:
            language = preferred(request.cookies.get("copriv-language"), request.headers.get("accept-language", ""))
            theme = request.cookies.get("copriv-theme", "")
            shown = template.render(
                t=texts(language).__getitem__, language=language, languages=LANGUAGES, page=page, pages=PAGES,
                theme=theme if theme in ("light", "dark") else "auto", version=__version__,
            )  # fmt: skip
            return HTMLResponse(shown, headers={"cache-control": "no-store"})

        return show

    async def _start(self, request: Request) -> Response:
        """What the pages begin with, where the address has no state of its own."""
        return _json({"state": drafts.first(self._agreement), "datasets": DATASETS, "schema": drafts.schema()})

    async def _quick(self, request: Request) -> Any:
        question = self._question(await _body(request))
        agreement = question.agreement
        made = self._forecaster.known(agreement)
        if made is not None:
            return await run_in_threadpool(views.exact, question, made)
        near = self._forecaster.near(agreement)
        return {"kind": "none"} if near is None else await run_in_threadpool(views.quick, question, near)

    async def _exact(self, request: Request) -> Any:
        question = self._question(await _body(request))
        try:
            made = await self._forecaster.forecast(question.agreement)
        except Superseded:
            return {"kind": "superseded"}
        return await run_in_threadpool(views.exact, question, made)

    async def _draft(self, request: Request) -> Any:
        return drafts.checked(await _body(request))

    async def _take_rows(self, request: Request) -> Any:
        content = await request.body()
        return await run_in_threadpool(self._rows.take, unquote(request.headers.get("x-file-name", "")), content)

    def _question(self, document: Any) -> views.Question:
        """What is asked; a file that it names must be one that the person gave, here or with the agreement."""
        question = views.Question.of(document)
        data = question.tables.get("data", {})
        for key in ("path", "dictionary"):
            agreed = None if self._agreement is None else getattr(self._agreement.data, key)
            if (path := data.get(key)) is not None and path != agreed and not self._rows.holds(str(path)):
                raise InvalidInput(f"data.{key}: this file is not at hand any more; choose it again")
        return question


async def _to_first_page(request: Request) -> Response:
    return RedirectResponse("/join", 303)


async def _texts(request: Request) -> Response:
    language = request.path_params["language"]
    if language not in LANGUAGES:
        return Response(status_code=404)
    return Response(source(language), media_type="application/json")


def _answered(answer: Callable[[Request], Awaitable[Any]]) -> Handler:
    """JSON of what comes back; what copriv raises on purpose as text beside its status."""

    async def respond(request: Request) -> Response:
        try:
            return _json(await answer(request))
        except InvalidInput as error:
            return _json({"error": str(error)}, 422)
        except CoprivError as error:
            return _json({"error": str(error)}, 409)
        except ClientDisconnect:
            return _json({"error": "the request ended before its end"}, 400)

    return respond


async def _body(request: Request) -> Any:
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise InvalidInput("the page's state cannot be read; open the page again") from None


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(_finite(content), status, headers={"cache-control": "no-store"})


def _finite(value: Any) -> Any:
    """JSON has no infinity: null in its place."""
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
