"""The application of the pages for planning and reading: its routes, and the files of public rows that users upload.

Uploaded rows must be public, as the page says; of a private table it takes only the names of columns. Bounds or levels are
proposed for each column (`copriv.data.proposal`), for the user to correct.
"""

import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from copriv.agreement import Agreement
from copriv.data import DATASETS
from copriv.data.proposal import proposals
from copriv.data.tables import read_table
from copriv.errors import CoprivError, DataError, InvalidInput
from copriv.market import check, lots, unstated
from copriv.ui import agreement_form, reading, views
from copriv.ui.gallery import Gallery, transient
from copriv.ui.shell import as_json, body, json_handler, routes
from copriv.ui.views import Forecaster, Prepared, Superseded

PAGES = ("join", "market", "agreement", "ledger", "gallery")
"""In the order of the navigation."""

FILES = ("path", "public", "dictionary")
"""Keys of [data] that name files. A link can hold a state, and must not make the server read a file."""


class Pages:
    """The application of all pages but that of a run in progress."""

    def __init__(self, agreement: Agreement | None = None, figures: Path | None = None) -> None:
        self._agreement, self._gallery = agreement, Gallery(figures)
        self._forecaster, self._rows = Forecaster(), Rows()
        self.app = Starlette(
            routes=[
                *routes(PAGES),
                Route("/api/start", self._start),
                Route("/api/join/quick", json_handler(self._quick), methods=["POST"]),
                Route("/api/join/exact", json_handler(self._exact), methods=["POST"]),
                Route("/api/market", json_handler(self._market), methods=["POST"]),
                Route("/api/agreement", json_handler(self._draft), methods=["POST"]),
                Route("/api/file/rows", json_handler(self._take_rows), methods=["POST"]),
                Route("/api/file/read", json_handler(self._read), methods=["POST"]),
                Route("/api/file/report", json_handler(self._report), methods=["POST"]),
                Route("/api/gallery", json_handler(self._figures)),
                Route("/api/gallery/transient", json_handler(self._transient), methods=["POST"]),
                Route("/gallery/{identity}.png", self._picture),
            ],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self._forecaster.close()
        self._rows.close()

    async def _start(self, request: Request) -> Response:
        """The initial state of the pages, where the address holds none."""
        return as_json(
            {"state": agreement_form.first(self._agreement), "datasets": DATASETS, "schema": agreement_form.schema()}
        )

    async def _quick(self, request: Request) -> Any:
        question = self._question(await body(request))
        agreement = question.agreement
        made = self._forecaster.known(agreement)
        if made is not None:
            return await self._shown(views.exact, question, made)
        near = self._forecaster.near(agreement)
        if near is None:
            return {"kind": "none"}
        return await self._shown(views.quick, question, near)

    async def _exact(self, request: Request) -> Any:
        question = self._question(await body(request))
        try:
            made = await self._forecast(question.agreement, request)
        except Superseded:
            return {"kind": "superseded"}
        return await self._shown(views.exact, question, made)

    async def _market(self, request: Request) -> Any:
        document = await body(request)
        question = self._question(document)
        terms = question.agreement
        check(terms)
        wanted, made = (unstated(terms), lots(terms)), []
        try:
            for one in wanted:
                quick = self._forecaster.known(one) or self._forecaster.near(one)
                made.append(await self._forecast(one, request) if document.get("exact") is True else quick)
        except Superseded:
            return {"kind": "superseded"}
        if None in made:
            return {"kind": "none"}
        return await self._shown(views.market, question, str(document.get("mechanism")), *made)

    async def _forecast(self, agreement: Agreement, request: Request) -> Prepared:
        try:
            return await self._forecaster.forecast(agreement, request.is_disconnected)
        except Superseded:
            raise
        except CoprivError as error:
            raise type(error)(self._rows.without_paths(str(error))) from None

    async def _draft(self, request: Request) -> Any:
        return agreement_form.checked(await body(request))

    async def _take_rows(self, request: Request) -> Any:
        content = await request.body()
        return await run_in_threadpool(self._rows.take, unquote(request.headers.get("x-file-name", "")), content)

    async def _read(self, request: Request) -> Any:
        return await run_in_threadpool(reading.opened, *await _files(request))

    async def _report(self, request: Request) -> Any:
        return {"html": await run_in_threadpool(reading.report, *await _files(request))}

    async def _figures(self, request: Request) -> Any:
        return await run_in_threadpool(self._gallery.figures)

    async def _transient(self, request: Request) -> Any:
        asked = await body(request)
        if not isinstance(asked, dict):
            raise InvalidInput("figure: the page's question cannot be read; open the page again")
        return await run_in_threadpool(transient, str(asked.get("id")), asked.get("epsilon"))

    async def _picture(self, request: Request) -> Response:
        path = self._gallery.picture(request.path_params["identity"])
        if path is None:
            return Response(status_code=404)
        return FileResponse(path)

    def _question(self, document: Any) -> views.Question:
        """The question of a page; a file that it names must have been uploaded, or be named by the agreement."""
        question = views.Question.of(document)
        data = question.tables.get("data", {})
        for key in FILES:
            called = data.get(key)
            if called is None or (self._agreement is not None and called == getattr(self._agreement.data, key)):
                continue
            if (path := self._rows.path(str(called))) is None:
                raise InvalidInput(f"data.{key}: this file is not at hand any more; choose it again")
            question.tables["data"] = data = {**data, key: str(path)}
        return question

    async def _shown(self, view: Callable[..., Any], question: views.Question, *given: Any) -> Any:
        """A view of a question, with the names of uploaded files in place of their paths."""
        return self._rows.without_paths(await run_in_threadpool(view, question, *given))


async def _files(request: Request, most: int = 8) -> tuple[list[bytes], str | None, list[str]]:
    """The files of a body that concatenates them, a ledger's head, and the names of the files; sizes and names are headers."""
    content, sizes = await request.body(), request.headers.get("x-sizes", "").split(",")
    known = len(sizes) <= most and all(size.isdecimal() and len(size) < 12 for size in sizes)
    if not known or sum(map(int, sizes)) != len(content):
        raise InvalidInput(f"the files did not arrive whole, or are more than {most}; choose them again")
    ends = accumulate(map(int, sizes))
    files = [content[end - int(size) : end] for size, end in zip(sizes, ends, strict=True)]
    head = unquote(request.headers.get("x-head", "")).strip().lower() or None
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise InvalidInput("a head has 64 hexadecimal digits; copriv shows it below the verdict")
    return files, head, [unquote(name) for name in request.headers.get("x-names", "").split(",")]


class Rows:
    """Uploaded files, in a private folder while the server runs, by the names under which the agreement refers to them."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="copriv-rows-"))  # readable by this account alone
        self._given: dict[str, Path] = {}
        """Path of the newest file of each name."""

    def take(self, name: str, content: bytes) -> dict[str, Any]:
        """Store a file; returns its rows and proposed columns. Raises DataError for a file that is no table."""
        ending = Path(name).suffix.lower()
        if ending not in (".csv", ".parquet"):
            raise DataError("data.path: give a .csv or .parquet file")
        called = re.sub(r"[^\w. ()-]", "_", Path(name).name)[-80:].lstrip(". ")
        path = self._folder / secrets.token_hex(8) / called
        path.parent.mkdir()
        path.write_bytes(content)
        try:
            table = read_table(path)
        except DataError as error:
            path.unlink()
            raise DataError(str(error).replace(str(path), "the file")) from None
        found = proposals(table)
        self._given[called] = path
        return {
            "path": called,
            "rows": len(table),
            "columns": [{**vars(one), "predictable": one.predictable} for one in found if one.kind is not None],
            "left_out": [{"name": one.name, "why": one.why_not} for one in found if one.kind is None],
        }

    def path(self, called: str) -> Path | None:
        """Path of the newest file of this name; None without one."""
        return self._given.get(called)

    def without_paths(self, value: Any) -> Any:
        """Replace the paths of uploaded files by their names in all texts of a JSON value."""
        match value:
            case dict():
                return {key: self.without_paths(one) for key, one in value.items()}
            case list() | tuple():
                return [self.without_paths(one) for one in value]
            case str():
                return re.sub(re.escape(str(self._folder)) + r"[/\\]+[0-9a-f]{16}[/\\]+", "", value)
        return value

    def close(self) -> None:
        """Remove all files."""
        shutil.rmtree(self._folder, ignore_errors=True)
