"""Witness of a ledger: a small file in another folder, by which an owner detects that its ledger is an older copy.

An older copy of a ledger is a valid chain, so that the file alone does not show it. Beside the owner's keys there is
therefore a file for each ledger, `ledger-<identity>.witness`, with the number of its lines, the hash of the last one, and
the budget spent. A charge is on the disk in the ledger first, and in the witness second; only then is a record read. Hence

- a crash between the two leaves the ledger ahead of its witness. Nothing was released for these charges, which had not
  returned, but they count as spent;
- a ledger that is *behind* its witness, or differs from it, is an older copy or another ledger, and is refused;
- an invalid line after the witness's last one is the rest of a line that a crash interrupted, for which nothing was
  released. It may be cut off.

The file has two halves, which are written alternately, so that a crash during one write leaves the other half intact.
A process that opens a ledger locks its witness too: copies of a ledger are different files with locks of their own, but
they have the same witness.

Limits: a witness does not detect a ledger and witness that are restored *together*, as by a snapshot of a whole machine, or
two copies of both with the keys on two machines. The learner detects these within a run (`LedgerFile.holds`); between runs
they are not detected.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.disk import BINARY, close, flush, flush_folder, lock, make_folder, write_all
from copriv.privacy.ledger.lines import Totals, text_of

SUFFIX = ".witness"
_HALF = 4096
"""Bytes of a half: no sector and no memory page contains parts of both halves."""


@dataclass(frozen=True)
class Seen:
    """State of a ledger, as its witness last recorded it."""

    ledger: str
    """The ledger's identity."""
    owner: str
    file: str
    """Path of the ledger."""
    lines: int
    head: str
    epsilon: str
    """Spent or paid for ahead, a fraction."""
    delta: str
    closed: bool
    """Whether the ledger was closed since, so that it has no later lines."""

    @classmethod
    def of(cls, totals: Totals, file: Path, closed: bool) -> "Seen":
        """The present state of a ledger."""
        ε, δ = text_of(totals.committed), text_of(totals.spent_delta)
        return cls(totals.identity, totals.owner, str(file)[:1000], totals.lines, totals.head, ε, δ, closed)

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """ε and δ spent, or paid for ahead."""
        return Fraction(self.epsilon), Fraction(self.delta)


class Witness:
    """One ledger's witness, open for writing."""

    def __init__(self, path: Path, descriptor: int, seen: Seen, written: int) -> None:
        self._path, self._descriptor, self.seen, self._written = path, descriptor, seen, written

    @staticmethod
    def create(folder: Path, seen: Seen) -> None:
        """Make a witness of this state where there is none. Raises LedgerDamaged for one of another state, LedgerFailed."""
        path = _path(folder, seen.ledger)
        made = path.with_suffix(".new")
        there = seen_in(folder, seen.ledger)
        if there is not None and there.head != seen.head:
            raise LedgerDamaged(f"{path}: is a witness that saw {there.lines} lines of it, and not these {seen.lines}")
        try:
            make_folder(folder)
            if there is None:
                descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_TRUNC | BINARY, 0o600)
                try:
                    os.ftruncate(descriptor, 2 * _HALF)
                    Witness(made, descriptor, seen, 0)._write(seen)
                finally:
                    close(descriptor)
                made.rename(path)  # atomic
            flush_folder(folder)
        except OSError as error:
            raise LedgerFailed(
                f"{folder}: no witness can be written ({error.strerror}); nothing was answered. Give another folder "
                "that can be written to (--witness)"
            ) from None

    @classmethod
    def open(cls, folder: Path, ledger: str) -> "Witness | None":
        """The witness of the ledger of this identity, for this process alone; None where there is none.

        Raises InUse while another process has it, through any copy of the ledger, and LedgerFailed.
        """
        path = _path(folder, ledger)
        try:
            descriptor = os.open(path, os.O_RDWR | BINARY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerFailed(
                f"{path}: cannot be used as a witness ({error.strerror}); nothing was answered. Where this folder cannot "
                "be written to any more, move the file to one that can, and give that (--witness)"
            ) from None
        try:
            lock(descriptor, path, "witness of this ledger, or of a copy of it,")
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)
            written, seen = _newest(path)
        except BaseException:
            close(descriptor)
            raise
        return cls(path, descriptor, seen, written)

    def see(self, totals: Totals, file: Path, closed: bool = False) -> None:
        """Record the present state of the ledger on the disk. Raises LedgerFailed."""
        try:
            if not os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                raise OSError(f"{self._path} was replaced while in use")
            self._write(Seen.of(totals, file, closed))
        except OSError as error:
            raise LedgerFailed(f"{file.name}: its witness cannot be written ({error}); nothing was answered") from None

    def close(self) -> None:
        """Close the file, which releases its lock."""
        if self._descriptor >= 0:
            close(self._descriptor)
            self._descriptor = -1

    def _write(self, seen: Seen) -> None:
        self._written += 1
        said = json.dumps({"written": self._written, **vars(seen)})
        half = f"{said}\n{hashlib.sha256(said.encode()).hexdigest()}\n".encode()
        if len(half) > _HALF:
            raise OSError(f"what it has to say takes {len(half)} bytes, more than {_HALF}")
        os.lseek(self._descriptor, (self._written % 2) * _HALF, os.SEEK_SET)
        write_all(self._descriptor, half.ljust(_HALF))
        flush(self._descriptor)
        self.seen = seen


def seen_in(folder: Path, ledger: str) -> Seen | None:
    """The last recorded state of a ledger in this folder; None where it has no witness there."""
    try:
        return _newest(_path(folder, ledger))[1]
    except FileNotFoundError:
        return None


def all_seen_in(folder: Path) -> list[Seen]:
    """The last recorded state of every ledger with a witness in this folder."""
    return [_newest(path)[1] for path in sorted(folder.glob(f"ledger-*{SUFFIX}"))]


def _newest(path: Path) -> tuple[int, Seen]:
    """The newer one of the valid halves."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LedgerFailed(f"{path}: cannot be read ({error.strerror}); nothing was answered") from None
    found = []
    for half in (raw[:_HALF], raw[_HALF : 2 * _HALF]):
        said, _, rest = half.partition(b"\n")
        if hashlib.sha256(said).hexdigest().encode() == rest.partition(b"\n")[0]:
            values = json.loads(said)
            found.append((values.pop("written"), Seen(**values)))
    if not found:
        raise LedgerDamaged(
            f"{path}: is damaged, and no ledger can be held against it; restore it with the ledger, or take the ledger "
            "as it is with copriv ledger adopt, once this file is moved away"
        )
    return max(found, key=lambda each: each[0])


def _path(folder: Path, ledger: str) -> Path:
    return folder / f"ledger-{ledger[:16]}{SUFFIX}"
