"""What it takes until bytes and names are on the disk."""

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BINARY = getattr(os, "O_BINARY", 0)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it, where the file stands. Raises OSError."""
    while content:
        content = content[os.write(descriptor, content) :]


def flush(descriptor: int) -> None:
    """Wait until a file is on the disk. Raises OSError."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync ends when the disk has it, perhaps in its own memory
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk. Where a folder cannot be opened (Windows), nothing."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder where there is none, with its name on the disk. Raises OSError."""
    if folder.is_dir():
        with suppress(OSError):  # who made it may have died before this; and it may be a mount of another disk
            flush_folder(folder.parent)
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    flush_folder(folder.parent)
