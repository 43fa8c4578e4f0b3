"""The server of the pages: its access control, its port, its address with a token, and the browser that it opens.

Requests are answered for one browser on this machine, which has the token. Any page in the same browser can send requests to
any port of this machine, and a foreign domain name can be made to resolve to it. Every request must therefore name this server
as its Host, must not come from another Origin, and must carry the token: once in the address, as for notebooks, and then in a
cookie that scripts cannot read.
"""

import asyncio
import hmac
import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from copriv.errors import Unreachable, UsageError

POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
        "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    )
)  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
ENTER = """<!doctype html><html lang="en"><meta charset="utf-8"><title>copriv</title>
<script type="module" src="/static/enter.js"></script><p><a href="/">copriv</a></p></html>
"""
MOST_BYTES = 1 << 20
"""Largest body of a request."""
MOST_FILE_BYTES = 1 << 28
"""Largest body of a request that holds files of rows or ledgers."""


@dataclass(frozen=True)
class Access:
    """The names under which the server is reached, and the secrets that give access to it."""

    port: int
    token: str = field(repr=False)
    host: str = "127.0.0.1"
    tickets: set[str] = field(default_factory=set, repr=False, compare=False)
    """Secrets that replace the token in one request each."""

    def ticket(self) -> str:
        """A new ticket, for a browser's command line, which other accounts of this machine can read."""
        made = secrets.token_urlsafe(24)
        self.tickets.add(made)
        return made

    @property
    def url_host(self) -> str:
        """The host as in an address: IPv6 in brackets."""
        if ":" in self.host:
            return f"[{self.host}]"
        return self.host

    @property
    def names(self) -> frozenset[str]:
        """Values of the header Host that name this server."""
        known = {self.url_host}
        if self.host in ("127.0.0.1", "::1", "localhost"):
            known |= {"127.0.0.1", "localhost", "[::1]"}
        return frozenset(f"{name}:{self.port}" for name in known)

    @property
    def cookie(self) -> str:
        """Name of the cookie; it contains the port, because browsers share cookies between the ports of a host."""
        return f"copriv-{self.port}"

    def is_token(self, given: str | None) -> bool:
        """Whether this is the token, compared in constant time."""
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def admits(self, given: str | None) -> bool:
        """Whether this is the token or an unused ticket, which is used up."""
        if self.is_token(given):
            return True
        found = [ticket for ticket in self.tickets if given and hmac.compare_digest(given.encode(), ticket.encode())]
        self.tickets.difference_update(found)
        return bool(found)


class Guard:
    """Application that passes on permitted requests to another one, and answers all others itself."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; anything but HTTP and the server's own start and stop is dropped."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        limit = MOST_BYTES
        if scope["path"].startswith("/api/file"):
            limit = MOST_FILE_BYTES
        answer = self._answer(Request(scope), limit)
        if answer is not None:
            await answer(scope, receive, send)
            return
        scope["query_string"] = b""  # no route reads it, and so none can repeat or log a token
        await self._pass_on(scope, receive, send, limit)

    def _answer(self, request: Request, limit: int) -> Response | None:
        """The guard's own answer to a request; None for one that is passed on. limit: most bytes of its body."""
        headers = request.headers
        refusal = self._refusal(request.method, headers)
        if refusal is None and self._access.admits(request.query_params.get("token")):
            # The redirect removes the token from the address bar and the history; the part after # stays.
            cookie = f"{self._access.cookie}={self._access.token}; HttpOnly; SameSite=Strict; Path=/"
            if headers.get("sec-fetch-site") == "cross-site":
                # A link in another page, such as a terminal in the browser: a redirect would not carry the cookie, so a
                # page of this server continues from here.
                return _response(200, ENTER, {"content-type": "text/html; charset=utf-8", "set-cookie": cookie})
            place = "/" + quote(request.scope["path"].lstrip("/\\"))  # always on this server
            return _response(303, "", {"location": place, "set-cookie": cookie})
        if refusal is None and not self._access.is_token(request.cookies.get(self._access.cookie)):
            refusal = 403, "Open the address that copriv showed when it started: it holds the token that lets you in."
        length = headers.get("content-length", "0")
        if refusal is None and not (length.isdecimal() and int(length) <= limit):
            refusal = 413, f"That is too large: at most {limit >> 20} MB are taken."
        return refusal and _response(*refusal)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        """Let the application answer, with `HEADERS`; the body ends at `limit` bytes, whatever its header says.

        Where the server is closed meanwhile, the client gets an answer too, and no traceback is logged.
        """
        received, begun = 0, False

        async def read() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                return {"type": "http.disconnect"}
            return message

        async def write(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            await self._app(scope, read, write)
        except asyncio.CancelledError:
            if begun:
                await send({"type": "http.response.body", "body": b""})
            else:
                await _response(503, "copriv is being closed.")(scope, receive, send)

    def _refusal(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Status and text of the answer to a request that is not permitted; None where it is."""
        if headers.get("host", "") not in self._access.names:
            return 421, "This server answers only under its own name on this machine."
        origin = headers.get("origin")
        own = {f"http://{name}" for name in self._access.names}
        if origin is not None and origin not in own:
            return 403, "This request comes from another page."
        if method not in ("GET", "HEAD") and origin is None:
            return 403, "This request does not say from which page it comes."
        # A link that a person follows opens a page, which the page with the link cannot read.
        navigates = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not navigates:
            return 403, "This request comes from another page."
        return None


def _response(status: int, text: str, extra: Mapping[str, str] | None = None) -> Response:
    headers = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store", **HEADERS, **(extra or {})}
    return Response(text, status, headers)


@dataclass(frozen=True)
class Place:
    """An open port, and the access to it."""

    socket: socket.socket
    access: Access

    @property
    def address(self) -> str:
        """The address to open in a browser, with the token."""
        return self._with(self.access.token)

    def one_time_address(self) -> str:
        """The address with a ticket in place of the token, valid for one request."""
        return self._with(self.access.ticket())

    def _with(self, token: str) -> str:
        return f"http://{self.access.url_host}:{self.access.port}/?token={token}"


def take_place(host: str = "127.0.0.1", port: int = 0, *, exposed: bool = False) -> Place:
    """Bind a port (0: any free one). Raises UsageError for a host that other machines can reach, unless `exposed`."""
    if not exposed and not _is_loopback(host):
        raise UsageError(
            f"--host: {host} is no address that this machine alone can reach, and pages travel unencrypted; use 127.0.0.1, or "
            "add --exposed if you mean it"
        )
    family = socket.AF_INET
    if ":" in host:
        family = socket.AF_INET6
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()  # a browser that opens the address before the server runs waits for it
    except OSError as error:
        bound.close()
        raise Unreachable(
            f"--host, --port: {host}:{port} cannot be used ({error}); name another port, or 0 for any"
        ) from None
    return Place(bound, Access(bound.getsockname()[1], secrets.token_urlsafe(24), host))


def server(app: ASGIApp, place: Place) -> uvicorn.Server:
    """A uvicorn server of the guarded application. It logs no requests, so that no log holds an address with its token."""
    config = uvicorn.Config(
        Guard(app, place.access), log_config=None, access_log=False, server_header=False, date_header=False,
        lifespan="on", ws="none", timeout_graceful_shutdown=1,
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(app: ASGIApp, place: Place, *, browse: bool, log: Callable[[str], None]) -> None:
    """Serve until interrupted; `browse`: open the user's browser."""
    log(f"open {place.address}")
    log("this page answers your browser on this machine only; Ctrl-C ends it")
    if browse:
        webbrowser.open(place.one_time_address())
    server(app, place).run(sockets=[place.socket])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
