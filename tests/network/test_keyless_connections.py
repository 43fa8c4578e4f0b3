"""Whoever reaches the learner's port without a key: no reply, no memory, and no keeping honest owners out."""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from copriv.errors import Unreachable
from copriv.network.grpc_transport import METHOD, SERVICE, GrpcDialer, GrpcListener
from copriv.network.keys import Keys
from copriv.network.transport import Link
from network_parties import keys

resource = pytest.importorskip("resource")

_LISTENS = """
import asyncio, resource, sys
from copriv.network.grpc_transport import GrpcListener
from copriv.network.keys import Keys
soft, hard = int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
async def echo(link):
    while True:
        await link.send(await link.receive())
async def main():
    async with GrpcListener("127.0.0.1:0", Keys.load(sys.argv[1])).listening(echo) as address:
        print(address, flush=True)
        await asyncio.sleep(120)
asyncio.run(main())
"""


@contextlib.contextmanager
def listener(folder: Path, soft: int, hard: int) -> Iterator[str]:
    command = [sys.executable, "-c", _LISTENS, str(folder / "learner"), str(soft), str(hard)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def honest(address: str, held: Keys, seconds: float) -> bytes:
    """An owner that dials until it is let in."""

    async def dial() -> bytes:
        while True:
            with contextlib.suppress(Unreachable):
                link = await GrpcDialer(address, held).dial()
                await link.send(b"here")
                return await link.receive()

    return asyncio.run(asyncio.wait_for(dial(), seconds))


@pytest.mark.parametrize(
    ("soft", "hard", "seconds"),
    [
        pytest.param(128, 4096, 8.0, id="more files are allowed than an account begins with"),
        pytest.param(128, 128, 40.0, id="no more are", marks=pytest.mark.slow),
    ],
)
def test_idle_connections_do_not_keep_an_owner_out(tmp_path: Path, soft: int, hard: int, seconds: float) -> None:
    held = keys(tmp_path, ["bank-1"])
    with listener(tmp_path, soft, hard) as address, contextlib.ExitStack() as idle:
        host, port = address.split(":")
        for _ in range(300):
            idle.enter_context(socket.create_connection((host, int(port)), 2))
        assert honest(address, held["bank-1"], seconds) == b"here"


def test_a_message_that_would_be_long_once_it_is_read_is_not_read(tmp_path: Path) -> None:
    """Compression is how a small message becomes a large one: an owner's certificate does not help."""
    held = keys(tmp_path, ["bank-1"])
    received: list[int] = []

    async def note(link: Link) -> None:
        while True:
            received.append(len(await link.receive()))

    async def send() -> None:
        async with GrpcListener("127.0.0.1:0", held["learner"]).listening(note) as address:
            own = held["bank-1"]
            credentials = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
            options = [("grpc.max_send_message_length", -1), ("grpc.ssl_target_name_override", "learner")]
            gzip = grpc.Compression.Gzip
            async with grpc.aio.secure_channel(address, credentials, options=options, compression=gzip) as channel:
                stream = channel.stream_stream(f"/{SERVICE}/{METHOD}")(compression=gzip)

                async def ask() -> object:
                    await stream.write(bytes(3 << 20))
                    return await asyncio.wait_for(stream.read(), 10)

                with pytest.raises(grpc.aio.AioRpcError):
                    await ask()

    asyncio.run(send())
    assert received == []
