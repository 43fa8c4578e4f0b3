"""How a ledger begins: only by being asked for, and not where there was one.

`create_ledger` for data that nobody has answered from yet, `adopt` for a ledger whose keys were renewed. One ledger counts
for the same people, whatever the run, and whatever their table is called or looks like: it is tied to an owner's keys and
not to a table, so that a column that is renamed or a table that is exported anew makes no new budget. What no ledger knows
is whether another owner, or the same one under other keys, holds the same people; the agreement's `overlap` is for that.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from copriv.errors import BudgetRefused
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.file import BINARY
from copriv.privacy.ledger.lines import START, ZERO, Entry, Totals, text_of
from copriv.privacy.ledger.read import named, verify
from copriv.privacy.ledger.witness import Seen, Witness, flush, flush_folder, witnessed


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

    witness: a folder for the witness, best that of the owner's keys; that of the ledger, when None.
    keys: the folder of the owner's keys, where the witness is in another: a ledger that they had is refused as well.
    another: where this owner has a ledger already, why this one counts for other people. It stands in the file.
    carry: the identity (or its beginning) of a ledger that is lost: this one begins with what that had spent.
    Raises LedgerDamaged where a file, what lay beside one, or a witness says that there is or was a ledger.
    """
    path = Path(path).resolve()
    folder = path.parent if witness is None else Path(witness).resolve()
    _refuse_traces(path)
    known = _known(folder, keys, owner)
    begun = [seen for seen in known if seen.lines == 0 and not Path(seen.file).exists()]  # a crash came between
    lost = [seen for seen in known if carry and seen.ledger.startswith(carry)]
    if carry and len(lost) != 1:
        raise LedgerFailed(f"{folder}: no witness of a ledger {carry}; found {named(known) or 'none'}")
    left = [seen for seen in known if seen not in begun and seen not in lost]
    if left and not another:
        raise LedgerDamaged(
            f"{owner} has a ledger already: {named(left)}. Budgets of the same people add up, so one ledger counts for "
            "them, whatever the run or the table's name: use it. If it is lost, carry over what it had spent (copriv "
            f"ledger create --carry {left[0].ledger[:16]}). Only for other people make another one (--another 'why')"
        )
    spent = (*lost[0].spent, lost[0].ledger) if lost else None
    lines = [Entry("ledger", identity=owner, content=another[:500]).after(0, START)]
    identity = lines[0].hash
    if spent is not None:
        lines.append(Entry("before", epsilon=spent[0], delta=spent[1], content=spent[2]).after(1, identity))
    totals = Totals()
    for line in lines:
        totals.add(line)
    replaces = tuple(seen.ledger for seen in (*begun, *lost))
    nothing = Seen(identity, owner, str(path)[:1000], 0, START, text_of(ZERO), text_of(ZERO), True, replaces)
    # The witness first: a ledger that is there has one. Nothing was charged while it has seen no line.
    kept = Witness.create(folder, nothing)
    made = Path(f"{path}.{secrets.token_hex(8)}.new")  # a name of its own: nobody's file is written over
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(b"".join(line.to_bytes() for line in lines))
            stream.flush()
            flush(stream.fileno())
        made.rename(path)  # it is there whole, or not at all
        flush_folder(path.parent)
        kept.see(totals, path, closed=True)
    except OSError as error:
        with suppress(OSError):
            made.unlink(missing_ok=True)
        raise LedgerFailed(f"{path}: no ledger can be made there ({error.strerror})") from None
    finally:
        kept.close()


def adopt(path: str | Path, owner: str, head: str, witness: str | Path, keys: str | Path | None = None) -> Totals:
    """Begin a witness for a whole ledger that has none in this folder: keys were renewed, or the witness is lost.

    keys: the folder of the owner's keys, where that is another one: a witness there is refused as well.

    head: of the ledger, as it was written down or is shown: it is a person who says that this is the newest copy.
    Raises LedgerDamaged where a witness is there already, or the head is another one.
    """
    path, folder = Path(path).resolve(), Path(witness).resolve()
    totals = verify(path)
    if totals.head != head:
        raise LedgerDamaged(f"{path.name}: its head is {totals.head}, not {head}; nothing was changed")
    if totals.owner != owner:
        raise BudgetRefused(f"{path.name}: is the ledger of {totals.owner!r}, not of {owner!r}; give its own keys")
    known = _known(folder, keys, owner)
    if known:
        raise LedgerDamaged(
            f"{folder}: these keys have a ledger already: {named(known)}; nothing was changed. A witness is brought to "
            "another folder by moving its file"
        )
    ε, δ = text_of(totals.committed), text_of(totals.spent_delta)
    Witness.create(folder, Seen(totals.identity, owner, str(path)[:1000], totals.lines, head, ε, δ, True)).close()
    return totals


def _known(folder: Path, keys: str | Path | None, owner: str) -> list[Seen]:
    """The ledgers that this owner has used, by the witnesses in one or two folders."""
    other = None if keys is None else Path(keys).resolve()
    return witnessed(folder, owner) + ([] if other is None or other == folder else witnessed(other, owner))


def _refuse_traces(path: Path) -> None:
    if os.path.lexists(path):
        raise LedgerDamaged(f"{path}: is there already, so there is or was a ledger: use it, or restore it")
