"""Shared parts of the applications: pages from templates in the user's language, JSON, errors as text, event streams."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from copriv import __version__
from copriv.display.sentences import TEXTS
from copriv.errors import CoprivError, InvalidInput
from copriv.formatting.numbers import json_ready

LANGUAGES = {"en": "English", "de": "Deutsch"}
"""Code and own name of each language. The texts of a language are in one JSON file; all files have the same keys."""


@cache
def texts(language: str) -> Mapping[str, str]:
    """The texts of one of LANGUAGES by key, such as "join.title"."""
    return {f"{part}.{key}": text for part, entries in _parts(language).items() for key, text in entries.items()}


def _parts(language: str) -> dict[str, dict[str, str]]:
    """The texts of a language by part and key, as browsers get them. Those of verdicts are the forecast's own in English."""
    content = files("copriv.ui").joinpath("texts", f"{language}.json").read_text(encoding="utf-8")
    parts: dict[str, dict[str, str]] = json.loads(content)
    return {"verdict": {key: text.replace("'", "’") for key, text in TEXTS.items()}, **parts}


def preferred(cookie: str | None, accepted: str) -> str:
    """The language that the user chose, else the first known one in Accept-Language, else English."""
    if cookie in LANGUAGES:
        return cookie
    wanted = [part.split(";")[0].strip().lower()[:2] for part in accepted.split(",")]
    return next((language for language in wanted if language in LANGUAGES), "en")


Handler = Callable[[Request], Awaitable[Response]]


def routes(pages: Sequence[str]) -> list[BaseRoute]:
    """Routes of the pages, their texts, styles and scripts; "/" redirects to the first page."""
    templates = Environment(
        loader=PackageLoader("copriv.ui"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )

    def page(name: str) -> Handler:
        template = templates.get_template(f"{name}.html")

        async def show(request: Request) -> Response:
            language = preferred(request.cookies.get("copriv-language"), request.headers.get("accept-language", ""))
            theme = {"light": "light", "dark": "dark"}.get(request.cookies.get("copriv-theme", ""), "auto")
            html = template.render(
                t=texts(language).__getitem__, language=language, languages=LANGUAGES, page=name, pages=pages,
                theme=theme, version=__version__,
            )  # fmt: skip
            return HTMLResponse(html, headers={"cache-control": "no-store"})

        return show

    async def to_first(request: Request) -> Response:
        return RedirectResponse(f"/{pages[0]}", 303)

    return [
        Route("/", to_first),
        *(Route(f"/{name}", page(name)) for name in pages),
        Route("/texts/{language}.json", _texts),
        Mount("/static", StaticFiles(directory=str(files("copriv.ui").joinpath("static")))),
    ]


async def _texts(request: Request) -> Response:
    language = request.path_params["language"]
    if language not in LANGUAGES:
        return Response(status_code=404)
    return as_json(_parts(language))


def json_handler(answer: Callable[[Request], Awaitable[Any]]) -> Handler:
    """A handler that sends the result of `answer` as JSON, and an error of copriv as its text with a status."""

    async def respond(request: Request) -> Response:
        try:
            return as_json(await answer(request))
        except InvalidInput as error:
            return as_json({"error": str(error)}, 422)
        except CoprivError as error:
            return as_json({"error": str(error)}, 409)
        except ClientDisconnect:
            return as_json({"error": "the request ended before its end"}, 400)

    return respond


async def body(request: Request) -> Any:
    """The request's JSON. Raises InvalidInput for another body."""
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise InvalidInput("the page's state cannot be read; open the page again") from None


def as_json(content: Any, status: int = 200) -> Response:
    """A JSON response that is not cached."""
    # In ASCII, because a name can hold half of a surrogate pair, which UTF-8 cannot encode.
    text = json.dumps(json_ready(content), allow_nan=False)
    return Response(text, status, {"cache-control": "no-store"}, media_type="application/json")


def stream(changes: Callable[[dict[str, Any]], dict[str, Any]], count: Callable[[int], None]) -> Response:
    """Server-sent events of the changes since a listener's last event.

    changes: takes the listener's state, which is empty after a reload, updates it, and returns what changed.
    count: called with 1 and −1 when a listener connects and disconnects.
    """

    async def events() -> AsyncIterator[str]:
        state: dict[str, Any] = {}
        count(1)
        try:
            yield "retry: 1000\n\n"
            while True:
                if found := changes(state):
                    yield f"data: {json.dumps(json_ready(found))}\n\n"
                else:
                    yield ": still here\n\n"
                await asyncio.sleep(0.5)
        finally:
            count(-1)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})
