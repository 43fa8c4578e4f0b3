"""Who may ask: the pages answer one browser on this machine, which came with the token, and nobody else.

A page in the same browser can send requests to any port of this machine, and a name that somebody else's server gives
can be made to point here. So every request must name this server as its Host, must not come from another Origin, and
must carry the token: in the address once, as notebooks do, and from then on in a cookie that scripts cannot read.
"""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

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
MOST_FILE_BYTES = 1 << 28
"""Of a body; the larger number for files of rows and ledgers."""


@dataclass(frozen=True)
class Door:
    """Under which names the server is reached, and the token."""

    port: int
    token: str = field(repr=False)
    host: str = "127.0.0.1"
    tickets: set[str] = field(default_factory=set, repr=False, compare=False)
    """Each opens the door once, in place of the token."""

    def ticket(self) -> str:
        """One for the browser that is started: others on this machine can read what it was started with."""
        made = secrets.token_urlsafe(24)
        self.tickets.add(made)
        return made

    @property
    def names(self) -> frozenset[str]:
        """Values of Host that mean this server."""
        known = {self.host} if ":" not in self.host else {f"[{self.host}]"}
        if self.host in ("127.0.0.1", "::1", "localhost"):
            known |= {"127.0.0.1", "localhost", "[::1]"}
        return frozenset(f"{name}:{self.port}" for name in known)

    @property
    def cookie(self) -> str:
        """Named by the port, since cookies do not tell ports apart."""
        return f"copriv-{self.port}"

    def opens(self, given: str | None) -> bool:
        """Whether this is the token; in a time that does not depend on how much of it is right."""
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def takes(self, given: str | None) -> bool:
        """Whether an address with this token, or with a ticket that nobody used before, lets in."""
        if self.opens(given):
            return True
        found = [ticket for ticket in self.tickets if given and hmac.compare_digest(given.encode(), ticket.encode())]
        self.tickets.difference_update(found)
        return bool(found)


class Guard:
    """Wraps the whole application: what it refuses never reaches a route."""

    def __init__(self, app: App, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; anything but HTTP (and the server's own start and stop) is dropped."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]
        refusal = self._refusal(scope["method"], headers)
        if refusal is None and self._door.takes(asked):
            # The token leaves the address bar, and with it the history; the part after # stays with the browser.
            cookie = f"{self._door.cookie}={self._door.token}; HttpOnly; SameSite=Strict; Path=/"
            if headers.get("sec-fetch-site") == "cross-site":
                # A link in another page, as of a terminal in the browser: the cookie is not sent along such a way, so a
                # page of this server's own has to go on from here.
                await _answer(send, 200, ENTER, {"content-type": "text/html; charset=utf-8", "set-cookie": cookie})
                return
            place = "/" + quote(scope["path"].lstrip("/\\"))  # one of this server, whatever was asked
            await _answer(send, 303, "", {"location": place, "set-cookie": cookie})
            return
        if refusal is None and not self._door.opens(_cookie(headers.get("cookie", ""), self._door.cookie)):
            refusal = 403, "Open the address that copriv showed when it started: it holds the token that lets you in."
        if refusal is not None:
            await _answer(send, *refusal)
            return
        scope["query_string"] = b""  # nothing here takes one, so nothing can repeat or log one
        limit = MOST_FILE_BYTES if scope["path"].startswith("/api/file") else MOST_BYTES
        length = headers.get("content-length", "0")
        if not (length.isdecimal() and int(length) <= limit):
            await _answer(send, 413, f"That is too large: at most {limit >> 20} MB are taken.")
            return
        await _to_the_end(self._app, scope, _limited(receive, limit), _with_headers(send))

    def _refusal(self, method: str, headers: dict[str, str]) -> tuple[int, str] | None:
        if headers.get("host", "") not in self._door.names:
            return 421, "This server answers only under its own name on this machine."
        origin = headers.get("origin")
        own = {f"http://{name}" for name in self._door.names}
        if origin is not None and origin not in own:
            return 403, "This request comes from another page."
        if method not in ("GET", "HEAD") and origin is None:
            return 403, "This request does not say from which page it comes."
        # A link that a person followed shows a page of its own, which the page with the link cannot read.
        navigates = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not navigates:
            return 403, "This request comes from another page."
        return None


def _cookie(header: str, name: str) -> str | None:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _limited(receive: Receive, limit: int) -> Receive:
    """The same body, cut off where it grows beyond what it may be, whatever its head said."""
    seen = 0

    async def read() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return {"type": "http.disconnect"} if seen > limit else message

    return read


async def _to_the_end(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, also where the server is closed in the middle: who waits hears so, and no log is filled with it."""
    begun = False

    async def write(message: MutableMapping[str, Any]) -> None:
        nonlocal begun
        begun = True
        await send(message)

    try:
        await app(scope, receive, write)
    except asyncio.CancelledError:
        if not begun:
            await _answer(send, 503, "copriv is being closed.")
        else:
            await send({"type": "http.response.body", "body": b""})


def _with_headers(send: Send) -> Send:
    async def write(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *_encoded(HEADERS)]}
        await send(message)

    return write


async def _answer(send: Send, status: int, text: str, extra: dict[str, str] | None = None) -> None:
    headers = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store", **HEADERS, **(extra or {})}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": text.encode()})


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
