"""Writing of bytes and names that lasts on the disk, and locks for one writer of a file at a time.

The system releases a lock when its holder dies, in whatever way.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

from copriv.errors import CoprivError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

BINARY = getattr(os, "O_BINARY", 0)
_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
"""Errors of locking a file that another process holds."""


class InUse(CoprivError):
    """Another process is writing to this file."""

    exit_code = 4


def write_all(descriptor: int, content: bytes) -> None:
    """Write the whole content at the file's position. Raises OSError."""
    while content:
        content = content[os.write(descriptor, content) :]


def flush(descriptor: int) -> None:
    """Wait until a file is on the disk. Raises OSError."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS, where fsync returns while the data may be in the disk's cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def close(descriptor: int) -> None:
    """Close a file. An error is ignored: the system releases the file anyway, and the content was flushed before."""
    with suppress(OSError):
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk; not on Windows, where folders cannot be opened. Raises OSError."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder where there is none, with its name on the disk. Raises OSError."""
    if folder.is_dir():
        with suppress(OSError):  # the process that made it may have died before this; it may also be a mount
            flush_folder(folder.parent)
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    flush_folder(folder.parent)


def lock(descriptor: int, path: Path, what: str) -> None:
    """Lock the file that is open as `descriptor`. Raises InUse, or CoprivError where it cannot be locked.

    The lock belongs to the file, under any of its names: a hard link, a symbolic link and a mount of the same file share
    it. It lasts until the descriptor is closed, and is shared by processes that are forked while it is open.
    """
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            os.lseek(descriptor, 1 << 40, os.SEEK_SET)  # a byte beyond those that are read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in _HELD:
            raise CoprivError(
                f"{path}: the {what} cannot be locked ({error.strerror}), so that nobody can tell whether another process "
                "has it; keep it on a disk of this machine"
            ) from None
        raise InUse(
            f"{path.name}: the {what} is in use by {_holder(descriptor)}; one process writes at a time: stop it first"
        ) from None


def _holder(descriptor: int) -> str:
    """The process that holds the lock, where the system tells it (Linux)."""
    state = os.fstat(descriptor)
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    with suppress(OSError):
        for entry in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            parts = entry.split()
            if len(parts) > 5 and parts[1] == "FLOCK" and parts[5] == place:
                return f"process {parts[4]}"
    return "another process"


class OneWriter:
    """The right to write to a file that another library opens and closes, held by a lock on `<file>.lock` beside it.

    The lock file is never removed: removing it while it is locked would let a second writer in.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def claim(cls, path: Path, what: str) -> "OneWriter":
        """Take the lock, or raise InUse with the holder's process number."""
        try:
            descriptor = os.open(Path(f"{path}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise CoprivError(
                f"{path}: cannot open the {what} ({error.strerror}); give a path in a folder that exists"
            ) from None
        try:
            lock(descriptor, path, what)
        except InUse:
            close(descriptor)
            raise
        return cls(descriptor)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            close(self._descriptor)
            self._descriptor = None
