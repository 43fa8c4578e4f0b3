"""One writer at a time for a file: a lock that the system releases when its holder dies, however it dies."""

import os
from pathlib import Path

from copriv.errors import CoprivError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt


class InUse(CoprivError):
    """Another process is writing to this file."""

    exit_code = 4


class OneWriter:
    """The right to write to a file, held through a lock on `<file>.lock` beside it.

    The lock belongs to the process: a SIGKILL releases it, a SIGSTOP does not. The lock file itself stays; removing it
    while it is held would let a second writer in.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def claim(cls, path: Path, what: str) -> "OneWriter":
        """Take the lock, or raise InUse with the holder's process number."""
        lock = Path(f"{path}.lock")
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise CoprivError(
                f"{path}: cannot open the {what} ({error.strerror}); give a path in a folder that exists"
            ) from None
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # the byte that is locked is not one that is read
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            os.lseek(descriptor, 0, os.SEEK_SET)
            holder = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise InUse(
                f"{path.name}: the {what} is in use by process {holder}; one process writes at a time: stop it first"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let the next writer in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
