"""`copriv ledger upgrade`: what a ledger of version 0.1.0 had spent, brought into a new one."""

from pathlib import Path
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson, KeysFolder, LedgerPath, WitnessFolder
from copriv.cli.commands.party_options import party_keys
from copriv.cli.show.ledger import show_made
from copriv.privacy.ledger_making import upgrade
from copriv.privacy.ledger_reading import verify


def command(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The ledger of version 0.1.0.")],
    path: LedgerPath,
    keys: KeysFolder = None,
    witness: WitnessFolder = None,
    as_json: AsJson = False,
) -> None:
    """Check every line of an old ledger, and begin a new one with what it had spent. The old file is left as it is."""
    upgrade(old, path, party_keys(keys, "owner").name, witness or keys, keys)
    show_made(verify(path, witness=witness or keys), path, "copriv.ledger-upgraded/1", as_json)
