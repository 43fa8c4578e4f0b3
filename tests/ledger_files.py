"""Ledger files for tests: made where they are not there, which no owner's own command does by itself."""

from fractions import Fraction
from pathlib import Path

from copriv.privacy.ledger.book import Book
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.witness import Seen


def seen(keys: Path) -> Seen:
    """What the witness of the one ledger of these keys saw."""
    book = Book(keys)
    (booked,) = book.booked().values()
    found = book.seen(booked)
    assert found is not None
    return found


def opened(
    path: str | Path,
    owner: str,
    lifetime: Fraction,
    delta: Fraction = Fraction(0),
    ahead: int = 0,
    witness: Path | None = None,
) -> LedgerFile:
    """Open the ledger, and make it first where there is none."""
    if not Path(path).exists():
        create_ledger(path, owner, witness, another="a test's")
    return LedgerFile.open(path, owner, lifetime, delta, ahead, witness)
