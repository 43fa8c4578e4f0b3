"""What an owner remembers of its ledger in another place, by which it notices by itself that the file is an older one.

An older copy of a ledger is a whole chain: the file alone cannot tell. So beside the owner's keys lies a small file for
each ledger, `ledger-<identity>.witness`: how many lines the ledger has, the hash of the last one, and what is spent. A
charge is on the disk in the ledger first, and in the witness second; only then is a record read. Hence

- a crash between the two leaves the ledger ahead of its witness. Nothing was released for what is ahead: the charge had
  not returned. It counts as spent all the same;
- a ledger that is *behind* its witness, or that went another way, is an older copy or another ledger: refused;
- what stands in the ledger after the witness's last line, and makes no sense, is what a crash left of a line that was
  never paid with. It may be cut off.

The file has two halves, written in turn, so that a crash while one is written leaves the other. Whoever has a ledger open
holds its witness too: two copies of a ledger are two files, each with a lock of its own, but they have one witness.

What a witness cannot notice: ledger and witness that are set back *together*, as by a snapshot of a whole machine, and two
copies of both with the keys, used on two machines. The learner notices within a run (`LedgerFile.holds`); between runs nobody
does.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.disk import BINARY, flush, flush_folder, lock, make_folder, write_all
from copriv.privacy.ledger.lines import Totals, text_of

SUFFIX = ".witness"
_HALF = 4096
"""Bytes: no sector, and no page, has parts of both halves."""


@dataclass(frozen=True)
class Seen:
    """What a witness last saw of a ledger."""

    ledger: str
    """The ledger's identity."""
    owner: str
    file: str
    """Where the ledger was."""
    lines: int
    head: str
    epsilon: str
    """Spent or paid for ahead, a fraction."""
    delta: str
    closed: bool
    """Whether the ledger was closed since: then all its lines are here."""

    @classmethod
    def of(cls, totals: Totals, file: Path, closed: bool) -> "Seen":
        """What there is to see of a ledger."""
        ε, δ = text_of(totals.committed), text_of(totals.spent_delta)
        return cls(totals.identity, totals.owner, str(file)[:1000], totals.lines, totals.head, ε, δ, closed)

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """ε and δ."""
        return Fraction(self.epsilon), Fraction(self.delta)


class Witness:
    """One ledger's witness, open for writing."""

    def __init__(self, path: Path, descriptor: int, seen: Seen, written: int) -> None:
        self._path, self._descriptor, self.seen, self._written = path, descriptor, seen, written

    @staticmethod
    def create(folder: Path, seen: Seen) -> None:
        """A witness that saw this, if it is not there. Raises LedgerDamaged for one that saw something else, LedgerFailed."""
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
                    os.close(descriptor)
                made.rename(path)  # it is there whole, or not at all
            flush_folder(folder)
        except OSError as error:
            raise LedgerFailed(
                f"{folder}: no witness can be written ({error.strerror}); nothing was answered. Give another folder "
                "that can be written to (--witness)"
            ) from None

    @classmethod
    def open(cls, folder: Path, ledger: str) -> "Witness | None":
        """The witness of the ledger of this identity, for this process alone; None where there is none.

        Raises InUse while another process has it, by whatever copy of the ledger, and LedgerFailed.
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
            os.close(descriptor)
            raise
        return cls(path, descriptor, seen, written)

    def see(self, totals: Totals, file: Path, closed: bool = False) -> None:
        """Remember what stands in the ledger, on the disk. Raises LedgerFailed."""
        try:
            if not os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                raise OSError(f"{self._path} was replaced while in use")
            self._write(Seen.of(totals, file, closed))
        except OSError as error:
            raise LedgerFailed(f"{file.name}: its witness cannot be written ({error}); nothing was answered") from None

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, seen: Seen) -> None:
        self._written += 1
        said = json.dumps({"written": self._written, **asdict(seen)})
        half = f"{said}\n{hashlib.sha256(said.encode()).hexdigest()}\n".encode()
        if len(half) > _HALF:
            raise OSError(f"what it has to say takes {len(half)} bytes, more than {_HALF}")
        os.lseek(self._descriptor, (self._written % 2) * _HALF, os.SEEK_SET)
        write_all(self._descriptor, half.ljust(_HALF))
        flush(self._descriptor)
        self.seen = seen


def seen_in(folder: Path, ledger: str) -> Seen | None:
    """What the witness of a ledger in this folder saw last; None where there is none."""
    try:
        return _newest(_path(folder, ledger))[1]
    except FileNotFoundError:
        return None


def all_seen_in(folder: Path) -> list[Seen]:
    """What all witnesses in a folder saw last."""
    return [_newest(path)[1] for path in sorted(folder.glob(f"ledger-*{SUFFIX}"))]


def _newest(path: Path) -> tuple[int, Seen]:
    """The later of the two halves that are whole."""
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
