"""What befalls a process: it is killed at any step or stopped, its disk is full, slow or read-only, its clock jumps.

`Disk` stands between one process (a forked child, and nobody else) and the system's calls. It counts them, and strikes
at one that was chosen: so a kill comes not only at any time, but also at every place. It notes what was flushed, so that
a failure of the power can be told from a process that was killed: what was not flushed may be gone then, or in part.
"""

import errno
import mmap
import os
import random
import resource
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

WITNESS = 8192
"""Bytes."""
AT_A_CALL = ("killed before a call", "killed after a call", "killed half-way through a write")
OF_THE_DISK = ("the disk is full", "the disk is full for good", "the disk is read-only", "a flush fails")
BY_ANOTHER = ("killed at any time", "killed while the disk is slow", "stopped, and killed", "stopped, and let go on")
OF_TIME = ("killed while the clock jumps",)
OF_POWER = ("the power fails", "the power fails at a call")
WITH_A_MOUNT = ("a real disk is full", "a real disk is read-only")
KINDS = (*AT_A_CALL, *OF_THE_DISK, *BY_ANOTHER, *OF_TIME, *OF_POWER)


@dataclass(frozen=True)
class Strike:
    """One of `KINDS`, at the so-many-th call, or after so many seconds."""

    kind: str
    call: int
    seconds: float
    seed: int

    @classmethod
    def drawn(cls, chance: random.Random, kinds: tuple[str, ...] = KINDS) -> "Strike":
        return cls(chance.choice(kinds), chance.randint(0, 60), chance.uniform(0, 0.05), chance.randrange(2**32))

    @property
    def may_refuse(self) -> bool:
        """Whether the process may say by itself that it cannot go on."""
        return self.kind in (*OF_THE_DISK, *WITH_A_MOUNT)


class Flushed:
    """What of a ledger and its witness is on the disk for certain, shared by a process and its children."""

    def __init__(self, ledger: Path, witness: Path) -> None:
        self.ledger, self.witness = ledger, witness
        self._shared = mmap.mmap(-1, 8 + WITNESS)
        self.files = ledger.stat().st_ino, witness.stat().st_ino
        self.note(self.files[0], ledger.stat().st_size, b"")
        self.note(self.files[1], 0, witness.read_bytes())

    def note(self, file: int, size: int, content: bytes) -> None:
        if file == self.files[0]:
            self._shared[:8] = struct.pack("<Q", size)
        else:
            self._shared[8:] = content.ljust(WITNESS, b"\0")[:WITNESS]

    def power_fails(self, chance: random.Random) -> None:
        """Take away what was not flushed: all of it, a part of it, or sectors of it."""
        flushed = struct.unpack("<Q", self._shared[:8])[0]
        raw = self.ledger.read_bytes()
        kept = chance.randint(min(flushed, len(raw)), len(raw))
        tail = bytes(len(raw) - kept) if chance.random() < 0.3 else b""  # some file systems leave zeros
        with self.ledger.open("r+b") as stream:
            stream.truncate(kept)
            stream.seek(kept)
            stream.write(tail)
        now, before = self.witness.read_bytes(), self._shared[8:]
        sectors = [chance.choice((now, before))[at : at + 512] for at in range(0, WITNESS, 512)]
        with self.witness.open("r+b") as stream:
            stream.write(b"".join(sectors))
        self.note(self.files[0], kept + len(tail), b"")
        self.note(self.files[1], 0, self.witness.read_bytes())


class Disk:
    """The system's calls in this process from here on."""

    def __init__(self, strike: Strike, flushed: Flushed | None = None) -> None:
        self._strike, self._flushed, self._calls, self._chance = strike, flushed, 0, random.Random(strike.seed)
        self._write, self._fsync = os.write, os.fsync
        self._pipes: set[int] = set()

    def stand_between(self, *pipes: int) -> None:
        """Begin. pipes: descriptors that are no files."""
        self._pipes = set(pipes)
        os.write, os.fsync = self.write, self.fsync
        for name in ("ftruncate", "open", "rename"):
            setattr(os, name, self._counted(getattr(os, name)))
        if self._strike.kind == "killed while the clock jumps":
            from copriv.privacy.ledger import lines

            lines.datetime = _jumping(self._chance)  # type: ignore[attr-defined]
        if self._strike.kind == "the disk is full for good":
            _limit_files(self._chance)

    def write(self, descriptor: int, content: bytes) -> int:
        if descriptor in self._pipes:
            return self._write(descriptor, content)
        here = self._here()
        if here and self._strike.kind == "killed half-way through a write":
            self._write(descriptor, content[: self._chance.randint(0, len(content))])
            _die()
        if here and self._strike.kind == "the disk is full":
            part = self._chance.randint(0, len(content) - 1)
            if part:
                self._write(descriptor, content[:part])
            raise OSError(errno.ENOSPC, "No space left on device")
        self._refuse_writing()
        written = self._write(descriptor, content)
        self._after(here)
        return written

    def fsync(self, descriptor: int) -> None:
        here = self._here()
        if here and self._strike.kind == "a flush fails":
            raise OSError(errno.EIO, "Input/output error")
        if self._strike.kind == "killed while the disk is slow":
            time.sleep(self._chance.uniform(0, 0.01))
        self._fsync(descriptor)
        if self._flushed is not None:
            state = os.fstat(descriptor)
            if state.st_ino in self._flushed.files:
                content = b"" if state.st_ino == self._flushed.files[0] else self._flushed.witness.read_bytes()
                self._flushed.note(state.st_ino, state.st_size, content)
        self._after(here)

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **options: Any) -> Any:
            here = self._here()
            if call.__name__ != "open" or given[1] & (os.O_RDWR | os.O_WRONLY):
                self._refuse_writing()
            done = call(*given, **options)
            self._after(here)
            return done

        return counted

    def _here(self) -> bool:
        self._calls += 1
        here = self._calls == self._strike.call
        if here and self._strike.kind in ("killed before a call", "the power fails at a call"):
            _die()
        return here

    def _after(self, here: bool) -> None:
        if here and self._strike.kind == "killed after a call":
            _die()

    def _refuse_writing(self) -> None:
        if self._strike.kind == "the disk is read-only" and self._calls >= self._strike.call:
            raise OSError(errno.EROFS, "Read-only file system")


def strike_from_outside(strike: Strike, pid: int, heard: int) -> None:
    """What a parent does to its child: end it, in the end. Most times not before it has said something."""
    if strike.seed % 4:
        select.select([heard], [], [], 2.0)
    time.sleep(strike.seconds)
    with suppress(ProcessLookupError):
        if strike.kind.startswith("stopped"):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(strike.seconds / 4)
            if strike.kind == "stopped, and let go on":
                os.kill(pid, signal.SIGCONT)
                time.sleep(strike.seconds / 2)
        if not strike.may_refuse and strike.kind not in AT_A_CALL and strike.kind != "the power fails at a call":
            os.kill(pid, signal.SIGKILL)


class Mount:
    """A real small disk, where this process may make one (root, on Linux)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], check=True, capture_output=True)

    @classmethod
    def made(cls, folder: Path) -> "Mount | None":
        """One, or None where the system does not let this process."""
        try:
            return cls(folder)
        except (OSError, subprocess.CalledProcessError):
            with suppress(OSError):
                folder.rmdir()
            return None

    def begin(self, strike: Strike) -> None:
        if strike.kind == "a real disk is read-only":
            subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)
        elif strike.kind == "a real disk is full":
            state = os.statvfs(self.folder)
            free = state.f_bavail * state.f_frsize
            (self.folder / "filler").write_bytes(bytes(max(free - 4096 * random.Random(strike.seed).randint(0, 2), 0)))

    def end(self, strike: Strike) -> None:
        if strike.kind == "a real disk is read-only":
            subprocess.run(["mount", "-o", "remount,rw", self.folder], check=True)
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", self.folder], check=True)
        self.folder.rmdir()


def _limit_files(chance: random.Random) -> None:
    """No file may grow beyond a length that is soon reached: a write is cut short there, and the next one fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most = chance.randint(8192, 40_000)  # the witness has 8192 bytes, and does not grow
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _jumping(chance: random.Random) -> type[datetime]:
    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(days=chance.randint(-20_000, 20_000))

    return Jumping


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
