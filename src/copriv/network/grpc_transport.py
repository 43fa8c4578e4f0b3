"""Links over gRPC: one bidirectional stream of frames for each owner, mutual TLS, owners dial out.

There is no protobuf: gRPC carries the frames of `messages` as they are. Both sides must show a certificate of the
consortium's own authority. The learner takes an owner's name from its certificate; an owner checks that the other side
is certified as the learner, whatever the host is called. Without keys nothing is dialled and nothing listens.

`insecure=True` is for measuring what TLS costs (benchmarks/throughput.py) and for nothing else.
"""

import asyncio
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from copriv.errors import Unreachable
from copriv.formatting.sanitize import reason
from copriv.network.keys import Keys
from copriv.network.messages import MAX_FRAME
from copriv.network.transport import Link, Serve

SERVICE, METHOD = "copriv.Consortium", "Session"
CONNECT_SECONDS = 10.0

_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_FRAME),
    ("grpc.max_send_message_length", MAX_FRAME),
    # A peer that is stopped, or a cable that is cut, is noticed in 15 s even when there is nothing to say.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Both sides ask; without these each would take the other's asking for an attack, and hang up.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
]
_SERVER_OPTIONS = [
    # Else a second learner could have the same port, and owners would come to either.
    ("grpc.so_reuseport", 0),
    # Whoever connects and does not show a certificate within this time makes room for others.
    ("grpc.server_handshake_timeout_ms", 5_000),
    # An owner has one stream. What is compressed could be a thousand times as long once it is read: nothing is.
    ("grpc.max_concurrent_streams", 2),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.max_metadata_size", 8_192),
]
_CLIENT_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # each dial is a connection of its own, with no memory of failures
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
]


class _StreamLink:
    """A stream, seen from either side: both have `read` and `write`."""

    def __init__(self, peer: str, stream: Any, channel: Any = None, certificate: str = "") -> None:
        self._peer, self._stream, self._channel, self._closed = peer, stream, channel, asyncio.Event()
        self._certificate = certificate
        self._writing = asyncio.Lock()  # gRPC takes one message of a stream at a time

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def certificate(self) -> str:
        return self._certificate

    async def send(self, frame: bytes) -> None:
        async with self._writing:
            if self._closed.is_set():
                raise Unreachable("the link is closed")
            try:
                await self._stream.write(frame)
            except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError) as error:
                raise Unreachable(f"the link broke ({_details(error)})") from None

    async def receive(self) -> bytes:
        if self._closed.is_set():
            raise Unreachable("the link is closed")
        try:
            frame = await self._stream.read()
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError) as error:
            raise Unreachable(f"the link broke ({_details(error)})") from None
        except asyncio.CancelledError:
            # gRPC cancels the reader of a stream that is cancelled; that is not this task being cancelled.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise Unreachable("the link is closed") from None
        if frame is grpc.aio.EOF:
            raise Unreachable("the other end closed the link")
        received: bytes = frame
        return received

    async def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        if self._channel is not None:
            self._stream.cancel()
            await self._channel.close()

    async def wait_closed(self) -> None:
        """Return once this end has closed."""
        await self._closed.wait()


class GrpcListener:
    """The learner's side: listens at `address` ("127.0.0.1:7443"; port 0: any free one)."""

    def __init__(self, address: str, keys: Keys | None, insecure: bool = False) -> None:
        _needs_keys(keys, insecure)
        self._address, self._keys = address, keys

    @asynccontextmanager
    async def listening(self, serve: Serve) -> AsyncIterator[str]:
        async def session(_: Any, context: Any) -> None:
            link = _StreamLink(_shown(context, "x509_common_name"), context, None, _shown(context, "x509_pem_cert"))
            try:
                await context.send_initial_metadata(())  # tells the owner that it was let in
            except (grpc.aio.InternalError, grpc.aio.UsageError):
                return  # it is gone, or sends what is not taken
            serving = asyncio.ensure_future(serve(link))
            closing = asyncio.ensure_future(link.wait_closed())
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
            if self._keys is None:
                port = server.add_insecure_port(self._address)
            else:
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

    def __init__(self, address: str, keys: Keys | None, learner: str = "learner", insecure: bool = False) -> None:
        _needs_keys(keys, insecure)
        self._address, self._keys, self._learner = address, keys, learner

    async def dial(self) -> Link:
        if self._keys is None:
            channel = grpc.aio.insecure_channel(self._address, options=[*_OPTIONS, *_CLIENT_OPTIONS])
        else:
            self._keys.check()
            # The certificate names a party, not a machine: that is the name to hold it against.
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
        except grpc.RpcError as error:
            await channel.close()
            raise Unreachable(await self._why(_details(error))) from None
        except BaseException:
            connecting.cancel()
            await channel.close()
            raise
        return _StreamLink(self._learner, stream, channel)

    async def _why(self, details: str) -> str:
        if self._keys is None:
            return f"no learner at {self._address} ({details})"
        return await asyncio.to_thread(_diagnosed, self._address, self._keys, self._learner)


def _diagnosed(address: str, keys: Keys, learner: str) -> str:
    """Why the learner at `address` cannot be reached with these keys, in a sentence: asked of TLS itself."""
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
            # With TLS 1.3 the verdict on our certificate comes after the handshake: the learner speaks, or hangs up.
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
    """As many connections as the system allows, not as many as an account begins with: a thousand is soon reached."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _needs_keys(keys: Keys | None, insecure: bool) -> None:
    if (keys is None) != insecure:
        raise Unreachable("plaintext is refused: give this party's keys (copriv init --network makes them)")


def _shown(context: Any, what: str) -> str:
    """What the other side's certificate says, once."""
    values = context.auth_context().get(what, [])
    return values[0].decode() if len(values) == 1 else ""


def _details(error: BaseException) -> str:
    details = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
    return " ".join(str(details or type(error).__name__).split())[:200]
