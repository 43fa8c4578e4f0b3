"""List of the ledgers of an owner's keys: `ledgers.jsonl` in the folder of the keys, one line for each.

The list decides which ledger is valid, wherever the ledger and its witness are, and under whatever name the keys are
certified. `create` and `adopt` write its line last, when all else is on the disk: until then nothing has changed, and from
then on the named ledger is valid and the one that it replaces is not. The file is replaced atomically, so that a process
that is killed leaves no partial line: such a line is damage, and may have been a ledger. One command writes to it at a time.
Once a ledger is made, the keys may be on a read-only disk.
"""

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from copriv.formatting.numbers import counted
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.disk import BINARY, close, flush, flush_folder, lock, make_folder, write_all
from copriv.privacy.ledger.lines import Totals
from copriv.privacy.ledger.witness import Seen, all_seen_in, seen_in

NAME = "ledgers.jsonl"


@dataclass(frozen=True)
class Booked:
    """A ledger of these keys."""

    ledger: str
    """The ledger's identity."""
    owner: str
    witness: str
    """The folder of its witness; "" for that of the keys."""
    replaces: str = ""
    """Identity of the ledger whose spent budget this one starts from, and which must not be used any more."""


def home(folder: str | Path) -> Path:
    """The folder that holds the key file itself, where `folder` has a symbolic link to it; otherwise `folder`."""
    return Path(os.path.realpath(Path(folder) / "key.pem")).parent


class Book:
    """The ledgers of the key in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder, self._linked = home(folder), Path(folder) / NAME
        self.path = Path(os.path.realpath(self.folder / NAME))

    def booked(self) -> dict[str, Booked]:
        """All ledgers that were used with these keys, by identity.

        Raises LedgerDamaged where a line is not valid, since it may name a ledger, and LedgerFailed.
        """
        booked = dict[str, Booked]()
        for number, line in enumerate(io.BytesIO(self._whole()), start=1):
            try:
                each = Booked(**json.loads(line))
                if not all(isinstance(value, str) for value in asdict(each).values()):
                    raise TypeError
            except (ValueError, TypeError):
                raise LedgerDamaged(
                    f"{self.path}: line {number} cannot be read: it is damaged, cut off, or of a later version. It tells of a "
                    "ledger, whose spending counts. Restore this file from a backup, or use the version that wrote it. If it "
                    "is lost, move it away, see that the ledger is the newest copy, and take it with copriv ledger adopt --head"
                ) from None
            before = booked.get(each.ledger, each)
            booked[each.ledger] = replace(each, replaces=each.replaces or before.replaces)  # never withdrawn
        return booked

    def counting(self, *folders: Path, unused: bool = False) -> list[Booked]:
        """The valid ledgers of these keys, of any owner's name: those that no other one replaces.

        folders: ledgers with a witness there are included if they were used, since the list may be lost or the keys renewed.
        unused: whether to include those that were never used.
        """
        booked = self.booked()
        replaced = {each.replaces for each in booked.values()}
        for folder in folders:
            for seen in all_seen_in(folder):
                if unused or seen.lines > 2:  # a ledger that was never opened has `ledger` and perhaps `before`
                    booked.setdefault(seen.ledger, Booked(seen.ledger, seen.owner, str(folder)))
        return [each for each in booked.values() if each.ledger not in replaced]

    def place(self, booked: Booked) -> Path:
        """The folder of a ledger's witness."""
        return Path(booked.witness or self.folder)

    def seen(self, booked: Booked) -> Seen | None:
        """The state that its witness last recorded; None where the witness is not in its place."""
        return seen_in(self.place(booked), booked.ledger)

    def witnessed(self, path: Path, ledger: str) -> Seen:
        """The recorded state of the ledger at a path. Raises LedgerDamaged where it is not valid, or has no witness.

        A folder without keys has no list, but may have the witness.
        """
        booked = self.booked().get(ledger, Booked(ledger, "", ""))
        seen = self.seen(booked)
        if seen is None and ledger in self.booked():
            raise LedgerDamaged(self.missing(path, booked))
        if seen is None or (self.booked() and booked not in self.counting()):
            raise LedgerDamaged(self.unknown(path))
        return seen

    def named(self, booked: list[Booked]) -> str:
        """The paths, identities, lines and spent budgets of ledgers, as text."""
        return "; ".join(self._named(each) for each in booked)

    def unknown(self, path: Path) -> str:
        """Message for a ledger that these keys have not used."""
        counting = self.counting()
        if counting:
            return (
                f"{path}: is not the ledger that these keys have used, which is {self.named(counting)}: give that one"
            )
        return (
            f"{path}: there is no witness of it in {self.folder}, so nobody can tell whether it is the newest copy. Give "
            "the keys that it was used with; if they were renewed, see that it is the newest, and take it with copriv "
            "ledger adopt"
        )

    def missing(self, path: Path, booked: Booked) -> str:
        """Message for a witness that is not in its place."""
        return (
            f"{path}: there is no witness of it in {self.place(booked)}, where these keys had it: bring it back. If it is "
            "lost, see that this is the newest copy, and take it with copriv ledger adopt"
        )

    def settle(self) -> None:
        """Flush the folder, because lines of a process that was killed are valid and must last. Raises OSError."""
        if os.access(self.path.parent, os.W_OK):  # a read-only folder has no unwritten names
            flush_folder(self.path.parent)

    @contextmanager
    def claimed(self) -> Iterator["Book"]:
        """The right to add lines, for one process at a time. Raises InUse, LedgerFailed."""
        try:
            make_folder(self.folder)
            descriptor = os.open(Path(f"{self.path}.lock"), os.O_RDWR | os.O_CREAT | BINARY, 0o600)
        except OSError as error:
            raise LedgerFailed(
                f"{self.path}: cannot be written ({error.strerror}), and a ledger that its keys do not know of could be "
                "made twice. Make the ledger once where the folder of the keys can be written to; later it may be read only"
            ) from None
        try:
            lock(descriptor, self.path, "list of these keys' ledgers")
            if self.path.exists() and self.path.stat().st_nlink > 1:
                raise LedgerFailed(
                    f"{self.path}: has {self.path.stat().st_nlink} names, and only this one would get the new ledger; remove "
                    "the others, or copy this file to a name of its own and back"
                )
            yield self
        except OSError as error:
            raise LedgerFailed(f"{self.path}: cannot be written ({error.strerror})") from None
        finally:
            close(descriptor)

    def add(self, ledger: Totals, witness: Path, replaces: str = "") -> None:
        """Make this ledger valid instead of the one that it replaces; only inside `claimed`. Raises OSError."""
        booked = Booked(ledger.identity, ledger.owner, "" if witness == self.folder else str(witness), replaces)
        whole = self._whole()
        begun = b"\n" if whole and not whole.endswith(b"\n") else b""
        made = Path(f"{self.path}.new")
        made.unlink(missing_ok=True)
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        try:
            write_all(descriptor, whole + begun + json.dumps(asdict(booked)).encode() + b"\n")
            flush(descriptor)
        finally:
            close(descriptor)
        made.replace(self.path)
        flush_folder(self.path.parent)

    def _named(self, booked: Booked) -> str:
        seen = self.seen(booked)
        if seen is None:
            return f"{booked.ledger[:16]} (its witness is not in {self.place(booked)})"
        return f"{seen.file} ({seen.ledger[:16]}, {counted(seen.lines, 'line')}, {float(seen.spent[0]):.6g} spent)"

    def _whole(self) -> bytes:
        """Content of the file; empty where there is none. Raises LedgerDamaged, LedgerFailed."""
        for link in (self._linked, self.folder / NAME):
            if link.is_symlink() and not link.exists():
                raise LedgerFailed(
                    f"{link}: leads to {os.path.realpath(link)}, which is not there, so nobody can tell what was spent; bring "
                    "back the disk or folder that it is on"
                )
        if self._linked.exists() and os.path.realpath(self._linked) != str(self.path):
            raise LedgerDamaged(
                f"{self._linked}: lists ledgers of a key that is in {self.folder}, which has a list of its own. Move this file "
                "there, or where there is one, move this away, and take its ledgers with copriv ledger adopt"
            )
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise LedgerFailed(f"{self.path}: cannot be read ({error.strerror}); nothing was answered") from None
