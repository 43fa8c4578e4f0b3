"""Links over gRPC: one bidirectional stream of frames for each owner, mutual TLS, owners dial out.

There is no protobuf: gRPC carries the frames of `messages` as they are. Both sides must show a certificate of the
consortium's own authority. The learner takes an owner's name from its certificate; an owner checks that the other side
is certified as the learner, under any host name. Without keys neither side opens a connection.
"""

import asyncio
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "GRPC_VERBOSITY", "NONE"
)  # failures raise errors here; the variable is read when grpc is imported
import grpc

from copriv.errors import Unreachable
from copriv.formatting.sanitize import reason
from copriv.network.keys import Keys
from copriv.network.messages import MAX_FRAME
from copriv.network.transport import CONNECT_SECONDS, Link, Serve

SERVICE, METHOD = "copriv.Consortium", "Session"

_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_FRAME),
    ("grpc.max_send_message_length", MAX_FRAME),
    # A peer that stopped, or a broken connection, is detected within 15 s, also while nothing is sent.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Both sides ping; without these options each would take the other's pings for an attack and close the connection.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
]
_SERVER_OPTIONS = [
    # Otherwise a second learner could listen at the same port, and owners would reach either.
    ("grpc.so_reuseport", 0),
    # A connection without a certificate after this time is closed, to make room for others.
    ("grpc.server_handshake_timeout_ms", 5_000),
    # An owner has one stream. Compression is off: a compressed message could grow a thousandfold when it is read.
    ("grpc.max_concurrent_streams", 2),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.max_metadata_size", 8_192),
]
_BROKEN = (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError)
"""Errors of a stream whose other end is gone."""
_CLIENT_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # each dial opens a new connection, without back-off from earlier failures
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
]


class _StreamLink:
    """A link over a gRPC stream, of either side: both have `read` and `write`."""

    def __init__(self, peer: str, stream: Any, channel: Any = None, certificate: str = "") -> None:
        self.peer, self.certificate, self.closed = peer, certificate, asyncio.Event()
        self._stream, self._channel = stream, channel
        self._writing = asyncio.Lock()  # gRPC writes one message of a stream at a time

    async def send(self, frame: bytes) -> None:
        async with self._writing:
            if self.closed.is_set():
                raise Unreachable("the link is closed")
            try:
                await self._stream.write(frame)
            except _BROKEN as error:
                raise Unreachable(f"the link broke ({_details(error)})") from None

    async def receive(self) -> bytes:
        if self.closed.is_set():
            raise Unreachable("the link is closed")
        try:
            frame = await self._stream.read()
        except _BROKEN as error:
            raise Unreachable(f"the link broke ({_details(error)})") from None
        except asyncio.CancelledError:
            # gRPC cancels the reader of a cancelled stream, which is not a cancellation of this task.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise Unreachable("the link is closed") from None
        if frame is grpc.aio.EOF:
            raise Unreachable("the other end closed the link")
        received: bytes = frame
        return received

    async def close(self) -> None:
        if self._channel is not None and not self.closed.is_set():
            self.closed.set()
            self._stream.cancel()
            await self._channel.close()
        self.closed.set()


class GrpcListener:
    """The learner's side: listens at `address` ("127.0.0.1:7443"; port 0: any free one)."""

    def __init__(self, address: str, keys: Keys | None) -> None:
        self._address, self._keys = address, _needed(keys)

    @asynccontextmanager
    async def listening(self, serve: Serve) -> AsyncIterator[str]:
        async def session(_: Any, context: Any) -> None:
            name, certificate = (_of_certificate(context, what) for what in ("x509_common_name", "x509_pem_cert"))
            link = _StreamLink(name, context, certificate=certificate)
            try:
                await context.send_initial_metadata(())  # tells the owner that it was admitted
            except (grpc.aio.InternalError, grpc.aio.UsageError):
                return  # the owner is gone, or its call is not valid
            serving = asyncio.ensure_future(serve(link))
            closing = asyncio.ensure_future(link.closed.wait())
            try:
                await asyncio.wait({serving, closing}, return_when=asyncio.FIRST_COMPLETED)
                if serving.done():
                    serving.result()
            finally:
                await link.close()
                closing.cancel()
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)

        _open_many_files()
        server = grpc.aio.server(options=[*_OPTIONS, *_SERVER_OPTIONS])
        handler = grpc.stream_stream_rpc_method_handler(session)  # no serializers: frames are bytes already
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        try:
            credentials = grpc.ssl_server_credentials(
                [(self._keys.key, self._keys.certificate)], self._keys.authority, require_client_auth=True
            )
            port = server.add_secure_port(self._address, credentials)
        except RuntimeError as error:
            raise Unreachable(
                f"cannot listen at {self._address} ({' '.join(str(error).split(';')[0].split())}): the port is taken, or the "
                "address is not one of this machine's; give another"
            ) from None
        await server.start()
        try:
            yield f"{self._address.rsplit(':', 1)[0]}:{port}"
        finally:
            await server.stop(grace=0.5)


class GrpcDialer:
    """An owner's side: dials the learner at `address`, whose certificate must be that of the party `learner`."""

    def __init__(self, address: str, keys: Keys | None, learner: str = "learner") -> None:
        self._address, self._keys, self._learner = address, _needed(keys), learner

    async def dial(self) -> Link:
        self._keys.check()
        # The certificate names a party, not a machine: the party's name is compared.
        named = ("grpc.ssl_target_name_override", self._learner)
        credentials = grpc.ssl_channel_credentials(self._keys.authority, self._keys.key, self._keys.certificate)
        channel = grpc.aio.secure_channel(self._address, credentials, options=[*_OPTIONS, *_CLIENT_OPTIONS, named])
        stream = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
        connecting = asyncio.ensure_future(stream.wait_for_connection())
        try:
            await asyncio.wait({connecting}, timeout=CONNECT_SECONDS)
            if not connecting.done():
                raise Unreachable(f"the learner at {self._address} does not answer within {CONNECT_SECONDS:g} s")
            connecting.result()
        except grpc.RpcError:
            await channel.close()
            why = await asyncio.to_thread(_diagnosed, self._address, self._keys, self._learner)
            raise Unreachable(why) from None
        except BaseException:
            connecting.cancel()
            await channel.close()
            raise
        return _StreamLink(self._learner, stream, channel)


def _diagnosed(address: str, keys: Keys, learner: str) -> str:
    """A sentence that says why the learner at `address` cannot be reached with these keys, from a TLS handshake."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=keys.authority.decode())
    context.set_alpn_protocols(["h2"])
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(keys.key + b"\n" + keys.certificate)
        context.load_cert_chain(pair)
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=3) as plain,
            context.wrap_socket(plain, server_hostname=learner) as secure,
        ):
            # In TLS 1.3 the learner checks our certificate after the handshake: it then sends data, or closes.
            if secure.recv(1):
                return f"the learner at {address} let {keys.name} in and then closed the connection"
            return f"the learner at {address} refused the certificate of {keys.name}: foreign, expired or no owner's"
    except ssl.SSLCertVerificationError as error:
        return f"the learner's certificate at {address} is refused: {error.verify_message}"
    except ssl.SSLError as error:
        alert = (error.reason or "no reason").lower().replace("_", " ")
        if "alert" in alert:
            return f"the learner at {address} refused the certificate of {keys.name}: {alert}"
        return f"{address} does not speak TLS as the learner does ({alert}); is this the right port?"
    except (OSError, ValueError) as error:
        return f"no learner at {address} ({reason(error)}); see that it runs, and that the address is right"


def _open_many_files() -> None:
    """Raise the limit of open files from the account's default (often 1,024) to the most that the system allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _needed(keys: Keys | None) -> Keys:
    if keys is None:
        raise Unreachable("plaintext is refused: give this party's keys (copriv init --network makes them)")
    return keys


def _of_certificate(context: Any, what: str) -> str:
    """An entry of the other side's certificate; "" unless there is exactly one."""
    values = context.auth_context().get(what, [])
    if len(values) != 1:
        return ""
    return str(values[0].decode())


def _details(error: BaseException) -> str:
    details = str(error)
    if isinstance(error, grpc.aio.AioRpcError):
        details = error.details() or ""
    return " ".join((details or type(error).__name__).split())[:200]
