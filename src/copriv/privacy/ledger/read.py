"""Reading and verification of a ledger's file, also while its owner writes to it."""

import os
from collections.abc import Iterator
from pathlib import Path

from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.book import Book
from copriv.privacy.ledger.lines import START, Line, Totals


def read_lines(path: str | Path) -> Iterator[Line]:
    """The lines of a ledger; works while an owner is writing. Raises LedgerFailed, or LedgerDamaged for a bad line."""
    path = Path(path)
    if path.is_dir():
        raise LedgerFailed(f"{path}: is a folder; give the path of an owner's ledger file in it")
    if not path.is_file():
        raise LedgerFailed(f"{path}: there is no such ledger; give the path of an owner's ledger file")
    for number, raw in enumerate(raw_lines(path), start=1):
        if number > 1 and not raw.endswith(b"\n"):
            return  # its writer has not finished the line, or died before it did
        yield parsed(path, raw, number)


def verify(path: str | Path, head: str | None = None, witness: str | Path | None = None) -> Totals:
    """Check every line of a ledger file, and that the ledger had the head `head`, which was kept elsewhere.

    witness: the folder of the owner's keys, or of the witness, to compare the ledger with its witness as well.
    Raises LedgerDamaged, naming the first line that is wrong, or LedgerFailed for a file that cannot be read.
    """
    path, totals, heads = Path(path), Totals(), {START: 0}
    for line in read_lines(path):
        totals.add(line)
        heads[line.hash] = line.number
    if totals.lines == 0:
        raise empty(path)
    if witness is not None:
        seen = Book(witness).witnessed(path, totals.identity)
        if heads.get(seen.head) != seen.lines:
            head = seen.head
    if head is not None and head not in heads:
        raise LedgerDamaged(
            f"{path}: never had the head {head[:16]}…: it is an older copy, or another ledger. What it "
            "does not show is spent all the same: restore the newest copy, and answer nothing until then"
        )
    return totals


def raw_lines(path: Path) -> Iterator[bytes]:
    """The bytes of each line, with its newline. Raises LedgerFailed."""
    try:
        with path.open("rb") as stream:
            yield from stream
    except OSError as error:
        raise LedgerFailed(f"{path}: cannot be read as a ledger ({error.strerror})") from None


def parsed(path: Path, raw: bytes, number: int) -> Line:
    """One line. Raises LedgerDamaged."""
    try:
        return Line.from_bytes(raw)
    except ValueError as error:
        if number == 1:
            raise LedgerDamaged(
                f"{path}: cannot be used as a ledger: its first line is no ledger's ({error}); give the path of an owner's "
                "ledger, or restore its newest copy"
            ) from None
        raise LedgerDamaged(f"ledger: line {number} cannot be read ({error}); restore the newest copy") from None


def first_hash(path: Path, descriptor: int) -> str:
    """The ledger's identity, read from the file that is open. Raises LedgerDamaged, LedgerFailed."""
    if os.fstat(descriptor).st_size == 0:
        raise empty(path)
    return parsed(path, next(raw_lines(path)), 1).hash


def empty(path: Path) -> LedgerDamaged:
    """Error for a file without lines."""
    return LedgerDamaged(
        f"{path}: is empty, and a ledger never is: it was cut off, or a file was made in its place. Restore the ledger; only "
        "if there never was one, remove this file and make one (copriv ledger create)"
    )
