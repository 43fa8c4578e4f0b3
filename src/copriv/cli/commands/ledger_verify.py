"""`copriv ledger verify`: is every line of an owner's ledger as it was written, and is this the newest copy?"""

import json
import re
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson, KeysFolder, LedgerPath, WitnessFolder
from copriv.cli.show.console import out
from copriv.cli.show.ledger import spent, totals_fields
from copriv.errors import UsageError
from copriv.formatting.sanitize import printable
from copriv.privacy.ledger.read import verify


def command(
    path: LedgerPath,
    head: Annotated[str | None, typer.Option(metavar="HASH", help="A head that was written down elsewhere.")] = None,
    keys: KeysFolder = None,
    witness: WitnessFolder = None,
    as_json: AsJson = False,
) -> None:
    """Check every line of a ledger and the sums; with --keys or --head, also that no older copy was put back."""
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise UsageError(f"--head: a head has 64 hexadecimal digits, not {head!r}; `copriv ledger show` prints it")
    totals = verify(path, head, keys or witness)
    if as_json:
        typer.echo(json.dumps({"schema": "copriv.ledger-verified/1", "ok": True, **totals_fields(totals)}, indent=2))
    else:
        out().print(f"{totals.lines} lines, unbroken. {printable(totals.owner)}: {spent(totals)}. Head {totals.head}")
