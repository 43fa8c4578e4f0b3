"""Creation of ledgers, which is always explicit and never where there was one already.

`create_ledger` is for data from which no answer was given, `adopt` for a ledger whose keys were renewed. The same people
have one ledger for all runs, whatever their table is called or contains: a ledger belongs to an owner's keys and not to a
table, so that renaming a column or exporting a table again makes no new budget. A ledger cannot detect that another owner,
or the same one under other keys, holds the same people; the agreement's `overlap` is for that.
"""

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from copriv.errors import BudgetRefused, CoprivError
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.book import Book, home
from copriv.privacy.ledger.disk import BINARY, close, flush, flush_folder, write_all
from copriv.privacy.ledger.lines import Entry, Line, Totals, chained
from copriv.privacy.ledger.read import read_lines, verify
from copriv.privacy.ledger.witness import Seen, Witness


def create_ledger(
    path: str | Path,
    owner: str,
    witness: str | Path | None = None,
    *,
    another: str = "",
    carry: str = "",
    keys: str | Path | None = None,
) -> None:
    """Make a new ledger and its witness. Its lifetime budget is 0 until it is opened with one.

    The ledger is valid once the list of the keys (`book`) names it, which is written last: after a failure before that, the
    same call can be repeated, or a lost ledger used where it is found.

    witness: a folder for the witness; that of the keys when None.
    keys: the folder of the owner's keys, whose list names the ledgers; that of the witness or else of the ledger when None.
    another: where this owner has a ledger already, the reason why this one is for other people; it is kept in the file.
    carry: the identity (or its beginning) of a lost ledger; the new one starts from the budget that it had spent.
    Raises LedgerDamaged where there is a file, or was a ledger, InUse while another process makes one or answers from the
    one to carry over.
    """
    path, given = Path(path).resolve(), keys or witness or Path(path).parent
    folder = home(witness or given)
    with Book(given).claimed() as book, ExitStack() as held:
        begun = _unused(path, book)
        mine = [line.hash for line in begun[:1]]
        counting = [each for each in book.counting(book.folder, folder, unused=keys is None) if each.ledger not in mine]
        lost = [each for each in counting if carry and each.ledger.startswith(carry)]
        if carry and len(lost) != 1:
            raise LedgerFailed(
                f"{book.folder}: no witness of a ledger {carry}; found {book.named(counting) or 'none'}. Give the beginning of "
                "the identity of one of these, or the folder of its witness (--witness)"
            )
        left = [each for each in counting if each not in lost]
        if left and not another:
            raise LedgerDamaged(
                f"{owner} has a ledger already: {book.named(left)}. Budgets of the same people add up, so one ledger counts "
                "for them, whatever the run or the table's name: use it. If it is lost, carry over what it had spent (copriv "
                f"ledger create --carry {left[0].ledger[:16]}). Only for other people make another one (--another 'why')"
            )
        said = [Entry("ledger", identity=owner, content=another[:500])]
        for each in lost:
            old = Witness.open(book.place(each), each.ledger)
            if old is None:
                raise LedgerDamaged(book.missing(path, each))
            held.callback(old.close)  # its lock keeps other processes from answering from it meanwhile
            said.append(Entry("before", epsilon=old.seen.spent[0], delta=old.seen.spent[1], content=each.ledger))
        if begun and [line.entry for line in begun] != said:
            raise _there(path)
        totals = Totals.of(begun or _written(path, said))
        try:
            flush_folder(path.parent)
            Witness.create(folder, Seen.of(totals, path, closed=True))
        except CoprivError:
            with suppress(OSError):
                if not begun:
                    path.unlink()
            raise
        book.add(totals, folder, *(each.ledger for each in lost))


def adopt(path: str | Path, owner: str, head: str, witness: str | Path, keys: str | Path | None = None) -> Totals:
    """Make a witness for a ledger that has none, because keys were renewed, or the witness was lost or moved.

    head: the ledger's head, by which a person confirms that this is the newest copy.
    keys: the folder of the owner's keys, if it is not that of the witness.
    Raises LedgerDamaged where the keys have a ledger already, or the ledger another head; InUse, LedgerFailed.
    """
    path, folder = Path(path).resolve(), home(witness)
    with Book(keys or witness).claimed() as book:
        totals = verify(path)
        if totals.head != head:
            raise LedgerDamaged(
                f"{path.name}: its head is {totals.head}, not {head}; nothing was changed. If the second one was written down "
                "last, this is an older copy or another ledger: restore the newest copy"
            )
        if totals.owner != owner:
            raise BudgetRefused(
                f"{path.name}: is the ledger of {totals.owner!r}, not of {owner!r}; give its own keys. If these are the same "
                "people's records under another name, begin a ledger with what it had spent (copriv ledger create --carry "
                f"{totals.identity[:16]}, with the folder of its witness as --witness)"
            )
        counting = book.counting()
        mine = [each for each in counting if each.ledger == totals.identity]
        if any(book.seen(each) for each in mine) or (counting and not mine):
            raise LedgerDamaged(
                f"{book.folder}: these keys have a ledger already: {book.named(counting)}; nothing was changed. A witness is "
                "brought to another folder by moving its file there first"
            )
        # Without a list of these keys, witnesses show whether another ledger was in use, which may have replaced this one.
        known = {totals.identity, *(line.content for line in read_lines(path) if line.kind == "before")}
        later = [
            each for each in book.counting(book.folder, folder) if each not in counting and each.ledger not in known
        ]
        if later and not mine:
            raise LedgerDamaged(
                f"{folder}: has witnesses of other ledgers that were in use: {book.named(later)}; nothing was changed. One of "
                "them may have carried this one on, and what it spent would be forgotten: take the newest one. If they are of "
                "other people, move their witnesses to a folder of their own first"
            )
        # Not closed: answers that were paid ahead may be in lines that a crash lost.
        Witness.create(folder, Seen.of(totals, path, closed=False))
        book.add(totals, folder)
    return totals


def _unused(path: Path, book: Book) -> list[Line]:
    """The lines that an interrupted call left at this path; empty without a file. Raises LedgerDamaged for any other file."""
    if not os.path.lexists(path):
        return []
    try:
        identity, lines = verify(path).identity, list(read_lines(path))
    except CoprivError:
        raise _there(path) from None
    if identity in book.booked() or any(line.kind not in ("ledger", "before") for line in lines):
        raise _there(path)
    with suppress(OSError):
        _beside(path, identity).unlink()
    return lines


def _there(path: Path) -> LedgerDamaged:
    return LedgerDamaged(
        f"{path}: is there already, so there is or was a ledger: use it, or restore it. If it is what another copriv ledger "
        "create left that was cut short, remove it"
    )


def _written(path: Path, said: list[Entry]) -> list[Line]:
    """Write the ledger's first lines to the disk atomically."""
    lines = chained(said)
    made = _beside(path, lines[0].hash)
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        try:
            write_all(descriptor, b"".join(line.to_bytes() for line in lines))
            flush(descriptor)
        finally:
            close(descriptor)
        os.link(made, path)  # not a rename, which would replace an existing file
        made.unlink()
    except FileExistsError:
        raise _there(path) from None
    except OSError as error:
        raise LedgerFailed(f"{path}: no ledger can be made there ({error.strerror}); choose another place") from None
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)
    return lines


def _beside(path: Path, identity: str) -> Path:
    """Path of a temporary file beside the ledger."""
    return path.with_name(f"{path.name}.{identity[:16]}.new")
