"""Ledger files for tests: made where they are not there, which no owner's own command does by itself."""

from fractions import Fraction
from pathlib import Path

from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile


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
