"""The server of the pages: its port, its address with a token, and the browser that it opens."""

import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from copriv.errors import Unreachable, UsageError
from copriv.ui.auth import Access, App, Guard


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
        """The same with a ticket, which is valid for one request."""
        return self._with(self.access.ticket())

    def _with(self, token: str) -> str:
        return f"http://{self.access.url_host}:{self.access.port}/?token={token}"


def take_place(host: str = "127.0.0.1", port: int = 0, *, exposed: bool = False) -> Place:
    """Bind a port (0: any free one). Raises UsageError for a host that other machines can reach, unless `exposed`."""
    if not exposed and not _is_loopback(host):
        raise UsageError(
            f"--host: {host} can be reached from other machines, and pages travel there unencrypted; use 127.0.0.1, or "
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
        raise Unreachable(f"--port: {host}:{port} cannot be used ({error}); name another port, or 0 for any") from None
    return Place(bound, Access(bound.getsockname()[1], secrets.token_urlsafe(24), host))


def server(app: App, place: Place) -> uvicorn.Server:
    """A uvicorn server of the guarded application. It logs no requests, so that no log holds an address with its token."""
    config = uvicorn.Config(
        Guard(app, place.access), log_config=None, access_log=False, server_header=False, date_header=False,
        lifespan="on", ws="none", timeout_graceful_shutdown=1,
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(app: App, place: Place, *, browse: bool, log: Callable[[str], None]) -> None:
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
