"""One writer at a time for a file: a lock that the system releases when its holder dies, however it dies."""

import errno
import os
from pathlib import Path

from copriv.errors import CoprivError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt


_TAKEN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
"""How a system says that somebody else has a lock."""


class InUse(CoprivError):
    """Another process is writing to this file."""

    exit_code = 4


def lock(descriptor: int, path: Path, what: str) -> None:
    """Take the lock of the file that is open as `descriptor`, or raise InUse; CoprivError where it cannot have one.

    The lock is the file's own, whatever name it was opened by: a hard link, a symbolic link and a mount of the same file
    all meet it. It lasts until the descriptor is closed, and is shared by processes that are forked while it is open.
    """
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            os.lseek(descriptor, 1 << 40, os.SEEK_SET)  # the byte that is locked is not one that is read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise CoprivError(
                f"{path}: the {what} cannot be locked ({error.strerror}), so that nobody can tell whether another process "
                "has it; keep it on a disk of this machine"
            ) from None
        raise InUse(
            f"{path.name}: the {what} is in use by {_holder(descriptor)}; one process writes at a time: stop it first"
        ) from None


def _holder(descriptor: int) -> str:
    """Who has the lock, where the system tells (Linux)."""
    state = os.fstat(descriptor)
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        locks = ""
    for entry in locks.splitlines():
        parts = entry.split()
        if len(parts) > 5 and parts[1] == "FLOCK" and parts[5] == place:
            return f"process {parts[4]}"
    return "another process"


class OneWriter:
    """The right to write to a file that somebody else opens and closes, held through a lock on `<file>.lock` beside it.

    The lock file itself stays; removing it while it is held would let a second writer in.
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
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Let the next writer in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
