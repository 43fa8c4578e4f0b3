"""What every application here shares: pages from templates in the person's language, JSON, errors as text, streams."""

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
from copriv.errors import CoprivError, InvalidInput
from copriv.formatting.numbers import json_ready

LANGUAGES = {"en": "English", "de": "Deutsch"}
"""Code, and the language's name for itself. All texts are in one JSON file a language, with the same keys."""


@cache
def texts(language: str) -> Mapping[str, str]:
    """Every text of one of LANGUAGES by its key, such as "join.title"."""
    written: dict[str, Any] = json.loads(_source(language))
    return {f"{part}.{key}": text for part, entries in written.items() for key, text in entries.items()}


def _source(language: str) -> str:
    """The file itself, as the browser reads it."""
    return files("copriv.ui").joinpath("texts", f"{language}.json").read_text(encoding="utf-8")


def preferred(cookie: str | None, accepted: str) -> str:
    """The language that was chosen, else the first that the browser would like (Accept-Language), else English."""
    if cookie in LANGUAGES:
        return cookie
    wanted = [part.split(";")[0].strip().lower()[:2] for part in accepted.split(",")]
    return next((language for language in wanted if language in LANGUAGES), "en")


Handler = Callable[[Request], Awaitable[Response]]
BEAT = 0.5
"""Seconds between two looks at what is streamed."""


def routes(pages: Sequence[str]) -> list[BaseRoute]:
    """The pages, the first of which is shown at "/", with their texts, styles and scripts."""
    templates = Environment(
        loader=PackageLoader("copriv.ui"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )

    def page(name: str) -> Handler:
        template = templates.get_template(f"{name}.html")

        async def show(request: Request) -> Response:
            language = preferred(request.cookies.get("copriv-language"), request.headers.get("accept-language", ""))
            theme = request.cookies.get("copriv-theme", "")
            shown = template.render(
                t=texts(language).__getitem__, language=language, languages=LANGUAGES, page=name, pages=pages,
                theme=theme if theme in ("light", "dark") else "auto", version=__version__,
            )  # fmt: skip
            return HTMLResponse(shown, headers={"cache-control": "no-store"})

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
    return Response(_source(language), media_type="application/json")


def answered(answer: Callable[[Request], Awaitable[Any]]) -> Handler:
    """JSON of what comes back; what copriv raises on purpose as text beside its status."""

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
    """The request's JSON. Raises InvalidInput for what is none."""
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise InvalidInput("the page's state cannot be read; open the page again") from None


def as_json(content: Any, status: int = 200) -> Response:
    """A JSON answer that nobody keeps."""
    # In ASCII: half of a surrogate pair, which a name can hold, is no UTF-8.
    text = json.dumps(json_ready(content), allow_nan=False)
    return Response(text, status, {"cache-control": "no-store"}, media_type="application/json")


def stream(changes: Callable[[dict[str, Any]], dict[str, Any]], seen: Callable[[int], None]) -> Response:
    """Server-sent events: what `changes` gives of what this listener has not had (its argument is the listener's own).

    A listener that comes back begins anew, so a reload shows what a first visit shows. `seen` counts listeners.
    """

    async def events() -> AsyncIterator[str]:
        mine: dict[str, Any] = {}
        seen(1)
        try:
            yield "retry: 1000\n\n"
            while True:
                found = changes(mine)
                yield f"data: {json.dumps(json_ready(found))}\n\n" if found else ": still here\n\n"
                await asyncio.sleep(BEAT)
        finally:
            seen(-1)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})
