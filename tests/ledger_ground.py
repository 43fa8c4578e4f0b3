"""One owner's ledgers under one set of keys, on a disk that may fail at any call: what was answered, and what is known.

`Process` runs one command in this process as if it had one of its own: at a chosen call to the system it is killed, the call
fails, the power fails, or another command runs from beginning to end. Calls that only read are counted where another process
could come between; a crash at one of them is a crash at the next that writes. `Disk` remembers what was flushed: after the
power failed a file has its flushed bytes and any part of the later ones, and a folder the names of some moment since its last
flush.
"""

import errno
import fcntl
import io
import itertools
import os
import random
import shutil
import stat
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from copriv.errors import CoprivError
from copriv.privacy.ledger import PhaseBudget
from copriv.privacy.ledger.create import adopt, create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.read import read_lines, verify

LIFETIME, EACH, THETA = Fraction(1), Fraction(1, 8), np.zeros(3)
DELTA, LIFETIME_DELTA, NONE = Fraction(1, 10**6), Fraction(1, 10**5), Fraction(0)
WRITING = ("open", "write", "fsync", "ftruncate", "rename", "replace", "link", "unlink", "mkdir", "fchmod")
CALLS = (*WRITING, "close", "stat", "fstat")
KINDS = ("killed", "killed half-way through a write", "the call fails", "all calls fail from here", "the power fails")
WRITES = os.O_WRONLY | os.O_RDWR
FAILING = KINDS[2:4]
_REAL = {(os, name): getattr(os, name) for name in CALLS} | {(fcntl, "flock"): fcntl.flock, (io, "open"): io.open}


class Killed(BaseException):
    """The process is gone: whatever it still does has no effect."""


@dataclass(frozen=True)
class Strike:
    """What happens at the so-many-th call."""

    kind: str
    call: int
    seed: int = 0


class Disk:
    """What is on the disk for certain."""

    def __init__(self, root: Path) -> None:
        self.root, self._held = root, dict[int, int]()
        self.settle()

    def settle(self) -> None:
        """All is flushed: the power did not fail for a long time."""
        self.close()
        self._bytes, self._names = dict[int, bytes](), dict[Path, list[dict[str, int]]]()
        for folder, _, files in os.walk(self.root):
            self._names[Path(folder)] = [_listing(folder)]
            for name in files:
                self.hold(Path(folder, name))
                self._bytes[Path(folder, name).stat().st_ino] = Path(folder, name).read_bytes()

    def hold(self, path: Path) -> None:
        """Keep a file's number, and its bytes, after its last name is gone."""
        descriptor = _REAL[os, "open"](path, os.O_RDONLY)
        if self._held.setdefault(os.fstat(descriptor).st_ino, descriptor) != descriptor:
            _REAL[os, "close"](descriptor)

    def named(self, folder: Path) -> None:
        """The names in a folder changed."""
        if folder.is_relative_to(self.root):
            self._names.setdefault(folder, [{}]).append(_listing(folder))

    def flushed(self, descriptor: int) -> None:
        state = _REAL[os, "fstat"](descriptor)
        if stat.S_ISDIR(state.st_mode):
            for folder in list(self._names):
                with suppress(FileNotFoundError):
                    if _REAL[os, "stat"](folder).st_ino == state.st_ino:
                        self._names[folder] = [_listing(folder)]
        else:
            self._bytes[state.st_ino] = _content(self._held[state.st_ino])

    def power_fails(self, chance: random.Random) -> None:
        """Take away what was not flushed: all of it, or a part."""
        contents = {number: _content(held) for number, held in self._held.items()}
        then = {folder: chance.choice(states) for folder, states in self._names.items()}
        shutil.rmtree(self.root)
        for folder in sorted(then):
            if folder != self.root and folder.name not in then.get(folder.parent, {}):
                continue  # its own name was not flushed
            folder.mkdir()
        made = dict[int, Path]()
        for folder, names in then.items():
            for name, number in names.items():
                path = folder / name
                if path in then or not folder.is_dir():
                    continue
                if number in made:
                    os.link(made[number], path)
                else:
                    path.write_bytes(_left(self._bytes.get(number, b""), contents[number], chance))
                    made[number] = path
        self.settle()

    def close(self) -> None:
        for held in self._held.values():
            os.close(held)
        self._held.clear()


def _left(flushed: bytes, now: bytes, chance: random.Random) -> bytes:
    if len(flushed) == len(now):  # written over: any sector of it is the old or the new one
        return b"".join(chance.choice((flushed, now))[at : at + 512] for at in range(0, len(now), 512))
    if not now.startswith(flushed):
        return chance.choice((flushed, now))
    kept = chance.randint(len(flushed), len(now))
    return now[:kept] + chance.choice((b"", b"", bytes(len(now) - kept)))  # some file systems leave zeros


def _listing(folder: str | Path) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


class Process:
    """One command, and what it had open when it ended."""

    def __init__(self, disk: Disk, strike: Strike | None = None, other: Callable[[], object] | None = None) -> None:
        self._disk, self._strike, self._other = disk, strike or Strike("", 0), other
        self._open = set[int]()
        self.calls, self.said, self._killed = 0, "", False
        self.chance = random.Random(self._strike.seed)

    @property
    def struck(self) -> bool:
        return 0 < self._strike.call <= self.calls

    def run(self, work: Callable[[], Any]) -> "Process":
        """What became of it is `said`: "done", "killed", or why it refused. Anything but a CoprivError is raised."""
        before = {(where, name): getattr(where, name) for where, name in _REAL}
        for (where, name), call in _REAL.items():
            setattr(where, name, self._between(name, call))
        try:
            work()
            self.said = "done"
        except Killed:
            self.said = "killed"
        except CoprivError as refused:
            self.said = str(refused)
        finally:
            for (where, name), call in before.items():
                setattr(where, name, call)
            for descriptor in self._open:
                with suppress(OSError):
                    _REAL[os, "close"](descriptor)
            if self._killed and self._strike.kind == "the power fails":
                self._disk.power_fails(self.chance)
        return self

    def _between(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def between(*given: Any, **options: Any) -> Any:
            if self._killed:
                raise Killed
            counted = self._counted(name, given)
            self.calls += counted
            if counted and self.calls == self._strike.call:
                self._happens(name, call, given)
            elif counted and self.struck and self._strike.kind == "all calls fail from here":
                if name == "close":
                    call(*given)
                raise OSError(errno.EROFS, "Read-only file system")
            done = call(*given, **options)
            self._note(name, given, done)
            return done

        return between

    def _happens(self, name: str, call: Callable[..., Any], given: Any) -> None:
        if self._other is not None:
            self._other()
            return
        if name == "close" and self._strike.kind in FAILING:
            call(*given)  # the system releases a file even where closing it tells of an error
        if name == "write" and self._strike.kind != "killed":  # a part of it, as on a disk that is full
            call(given[0], given[1][: self.chance.randrange(len(given[1]))])
        if self._strike.kind in FAILING:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._killed = True
        raise Killed

    def _counted(self, name: str, given: Any) -> bool:
        """A process is struck where it writes; another one may come between at any call."""
        if self._other is not None:
            return True
        if self._strike.kind == "killed half-way through a write":
            return name == "write"
        reads = name == "open" and (len(given) < 2 or not isinstance(given[1], int) or not given[1] & WRITES)
        return (name in WRITING and not reads) or (self._strike.kind in FAILING and name in ("close", "fstat"))

    def _note(self, name: str, given: Any, done: Any) -> None:
        if name == "open" and isinstance(done, int):
            self._open.add(done)
            if given[1] & os.O_CREAT:
                self._disk.hold(Path(given[0]))
        elif name == "close":
            self._open.discard(given[0])
        elif name == "fsync":
            self._disk.flushed(given[0])
        if name in ("open", "rename", "replace", "link", "unlink", "mkdir") and not hasattr(done, "read"):
            self._disk.named(Path(given[-1] if name in ("rename", "replace", "link") else given[0]).parent)
        if name == "mkdir":
            self._disk.named(Path(given[0]))


@dataclass
class Ground:
    """Keys, two more folders for a witness, a folder for ledgers; and what an onlooker knows of all of them."""

    root: Path
    answered: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    """ε of what left, by the people that a ledger counts for."""
    people: dict[str, str] = field(default_factory=dict)
    """Whom each ledger counts for: the reason for which it was made, or those of the ledger that it replaces."""
    newest: dict[str, bytes] = field(default_factory=dict)
    """The newest content of every ledger, by its identity."""
    older: list[bytes] = field(default_factory=list)
    opened: set[str] = field(default_factory=set)
    witness_lost: bool = False
    queries: int = 0
    paid_together: set[tuple[str, int]] = field(default_factory=set)
    """Runs and the numbers of their phases whose answers are private together, of which one has left."""

    def __post_init__(self) -> None:
        for name in ("keys", "data"):
            (self.root / name).mkdir()
        self.disk = Disk(self.root)

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    def place(self, witness: str) -> Path | None:
        """The folder that --witness names, if it is given."""
        return self.root / witness if witness else None

    # Commands -----------------------------------------------------------------------------------------------------

    def create(self, path: str, witness: str = "", carry: str = "", another: str = "") -> None:
        create_ledger(
            self.root / path, "bank", self.place(witness) or self.keys, another=another, carry=carry, keys=self.keys
        )

    def adopt(self, path: str, witness: str = "") -> None:
        """By a person who knows whether this is the newest copy."""
        totals = verify(self.root / path)
        kept = self.newest.get(totals.identity, b"")
        head = totals.head if (self.root / path).read_bytes() == kept else "0" * 64
        adopt(self.root / path, "bank", head, self.place(witness) or self.keys, self.keys)

    def spend(self, path: str, witness: str = "", answers: int = 1, ahead: int = 0, phase: str = "") -> None:
        """Answers of an eighth each; what has left is counted when its charge returns, for then records are read.

        phase: "" goes on with a run as it stands; else a phase begins, "pure" or "together": an eighth and DELTA for all
        answers of it, and nothing for those of another.
        """
        with LedgerFile.open(
            self.root / path, "bank", LIFETIME, LIFETIME_DELTA, ahead, witness=self.place(witness), keys=self.keys
        ) as file:
            people = self._people(self.root / path)
            self.opened.add(people)
            assert file.totals.committed >= self.answered[people], "what was spent is forgotten"
            go_on = (run for run, t in file.totals.runs.items() if t.committed < t.epsilon and (t.phase or not phase))
            run = next(go_on, f"run {self.queries}")
            known = file.totals.runs.get(run)
            ε = LIFETIME - file.totals.committed if known is None else known.epsilon
            δ = LIFETIME_DELTA - file.totals.spent_delta if known is None else known.delta
            if ε <= 0:
                return
            ledger, now = file.run("f" * 64, run, ε, 20, δ), known.phase if known else None
            if phase:
                together = phase == "together"
                now = PhaseBudget(
                    now.number + 1 if now else 1, EACH if together else ε, 20, DELTA if together else NONE
                )
            for _ in range(answers):
                self.queries += 1
                paid = now is not None and now.delta > 0 and (run, now.number) in self.paid_together
                ledger.charge(f"q{self.queries}", THETA, EACH, now.delta if now else NONE, now)
                self.answered[people] += NONE if paid else EACH
                if now is not None and now.delta > 0:
                    self.paid_together.add((run, now.number))
                assert self.answered[people] <= LIFETIME, "more was answered than the lifetime allows"
                ledger.record(f"q{self.queries}", THETA)

    def run(
        self, work: Callable[[], Any], strike: Strike | None = None, other: Callable[[], Any] | None = None
    ) -> Process:
        process = Process(self.disk, strike, other).run(work)
        self.look()
        return process

    def _people(self, path: Path) -> str:
        first, *more = itertools.islice(read_lines(path), 2)
        said = self.people[more[0].content] if more and more[0].kind == "before" else first.content
        return self.people.setdefault(first.hash, said)

    def look(self) -> None:
        """Remember the newest content of every ledger that was written to."""
        for path in sorted((self.root / "data").iterdir()):
            raw = path.read_bytes()
            with suppress(CoprivError):
                identity = verify(path).identity
                self._people(path)
                before = self.newest.get(identity, b"")
                if len(raw) > len(before) or (not self._copied(raw) and raw != before):
                    self.older += [before] if before else []
                    self.newest[identity] = raw

    def _copied(self, raw: bytes) -> bool:
        return raw in self.older

    # In the end ---------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Try every copy of every ledger with every witness, and new ledgers: no more is answered than a lifetime."""
        trial = self.root / "data" / "trial"
        self.opened.clear()
        candidates = [*self.newest.values(), *self.older[-6:]]
        candidates += [path.read_bytes() for path in (self.root / "data").iterdir()]
        for content in dict.fromkeys(candidates):
            for witness in ("", "w1", "w2"):
                trial.unlink(missing_ok=True)
                trial.write_bytes(content)
                self.disk.hold(trial)
                Process(self.disk).run(lambda witness=witness: self.spend("data/trial", witness, 8))  # type: ignore[misc]
        begun = {people for people, spent in self.answered.items() if spent}
        assert self.witness_lost or begun <= self.opened, "the true ledger is refused"
        for witness in ("", "w1", "w2"):
            trial.unlink(missing_ok=True)
            Process(self.disk).run(lambda witness=witness: self.create("data/trial", witness))  # type: ignore[misc]
            Process(self.disk).run(lambda witness=witness: self.spend("data/trial", witness, 8))  # type: ignore[misc]

    def close(self) -> None:
        self.disk.close()
        shutil.rmtree(self.root)


def fresh() -> Ground:
    """In memory, where there is such a disk: a flush costs nothing there."""
    memory = Path("/dev/shm")
    return Ground(Path(tempfile.mkdtemp(prefix="copriv-ledgers-", dir=memory if os.access(memory, os.W_OK) else None)))
