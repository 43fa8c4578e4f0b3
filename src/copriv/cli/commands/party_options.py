"""What the commands of a consortium's parties share: keys, an address, a folder that is there, and how they are stopped."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from copriv.errors import UsageError


def check_address(option: str, address: str, least_port: int) -> None:
    """Refuse what is not HOST:PORT, which gRPC would take for something else."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not least_port <= int(port) <= 65535:
        raise UsageError(f"{option}: must be HOST:PORT with a port of {least_port} to 65535, not {address!r}")


def check_folder(option: str, file: Path | None) -> None:
    """Refuse a file whose folder is not there, or that is one: found out at the end, it would cost what was done till then."""
    if file is not None and str(file) != "-" and file.is_dir():
        raise UsageError(f"{option}: {file} is a folder; give the name of a file in it")
    if file is not None and str(file) != "-" and not file.parent.is_dir():
        raise UsageError(f"{option}: there is no folder {file.parent}; make it, or give a path in one that exists")


def check_not_read(option: str, file: Path, *read: Path) -> None:
    """Refuse to write over what the command reads: an owner's records would be gone."""
    if file.exists() and any(one.exists() and file.samefile(one) for one in read):
        raise UsageError(f"{option}: {file} is read by this command and would be overwritten; name another file")


def party_keys(folder: Path | None, role: str, name: str | None = None) -> Any:
    """The keys in a folder, which must be those of this role and name. Raises KeysRefused."""
    from copriv.network.keys import Keys, KeysRefused

    if folder is None:
        raise KeysRefused(f"--keys: an {role} speaks with its keys only; give its folder (copriv init --network)")
    keys = Keys.load(folder)
    if keys.role != role:
        raise KeysRefused(
            f"{folder}: the certificate is for {keys.role}s, and this is the {role}'s command; give the {role}'s own keys"
        )
    if name is not None and name != keys.name:
        raise KeysRefused(
            f"--name: {name!r}, but the certificate in {folder} is that of {keys.name!r}; give its own keys"
        )
    return keys


def run_stoppably(work: Awaitable[Any]) -> Any:
    """The outcome of `work`. Ctrl-C and SIGTERM end it between two messages, so that files are closed as they should be.

    Raises KeyboardInterrupt then, here and not within: a loop leaves such a task behind, and says so whenever it is collected.
    """
    try:
        return asyncio.run(_stoppable(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _stoppable(work: Awaitable[Any]) -> Any:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    stops: list[Callable[[], object]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, task.cancel)
        except (NotImplementedError, RuntimeError):
            continue  # Windows, or not the main thread: Python's own KeyboardInterrupt does
        stops.append(lambda number=number: loop.remove_signal_handler(number))  # type: ignore[misc]
    try:
        return await task
    finally:
        for stop in stops:
            stop()
