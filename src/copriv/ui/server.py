"""The server's life: a port of this machine, an address with a token, the browser, and an end."""

import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from copriv.errors import Unreachable, UsageError
from copriv.ui.auth import App, Door, Guard


@dataclass(frozen=True)
class Place:
    """An open port, and the door to it."""

    socket: socket.socket
    door: Door

    @property
    def address(self) -> str:
        """What to open in a browser; it holds the token."""
        return self._with(self.door.token)

    def once(self) -> str:
        """The same with a ticket, which opens one time."""
        return self._with(self.door.ticket())

    def _with(self, token: str) -> str:
        host = f"[{self.door.host}]" if ":" in self.door.host else self.door.host
        return f"http://{host}:{self.door.port}/?token={token}"


def take_place(host: str = "127.0.0.1", port: int = 0, *, exposed: bool = False) -> Place:
    """Bind a port; 0: any that is free. Raises UsageError for a host other machines can reach, unless `exposed`."""
    if not exposed and not _is_loopback(host):
        raise UsageError(
            f"--host: {host} can be reached from other machines, and pages travel there unencrypted; use 127.0.0.1, or "
            "add --exposed if you mean it"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()  # who opens the address before the server runs waits for it, and is not turned away
    except OSError as error:
        bound.close()
        raise Unreachable(f"--port: {host}:{port} cannot be used ({error}); name another port, or 0 for any") from None
    return Place(bound, Door(bound.getsockname()[1], secrets.token_urlsafe(24), host))


def server(app: App, place: Place) -> uvicorn.Server:
    """Uvicorn around the guarded application; it logs no request, so no log can hold an address."""
    config = uvicorn.Config(
        Guard(app, place.door), log_config=None, access_log=False, server_header=False, date_header=False,
        lifespan="on", ws="none", timeout_graceful_shutdown=1,
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(app: App, place: Place, *, browse: bool, log: Callable[[str], None]) -> None:
    """Serve until interrupted; `browse` opens the person's browser."""
    log(f"open {place.address}")
    log("this page answers your browser on this machine only; Ctrl-C ends it")
    if browse:
        webbrowser.open(place.once())
    server(app, place).run(sockets=[place.socket])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
