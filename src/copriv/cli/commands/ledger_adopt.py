"""`copriv ledger adopt`: go on with a ledger under new keys, once a person has seen that it is the newest copy."""

import re
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson, KeysFolder, LedgerPath, WitnessFolder
from copriv.cli.commands.party_options import party_keys
from copriv.cli.show.ledger import show_made
from copriv.errors import UsageError
from copriv.privacy.ledger.create import adopt


def command(
    path: LedgerPath,
    head: Annotated[str, typer.Option(metavar="HASH", help="The ledger's head, as it was written down last.")],
    keys: KeysFolder = None,
    witness: WitnessFolder = None,
    as_json: AsJson = False,
) -> None:
    """Begin a new witness for a whole ledger: its keys were renewed, or their folder is lost."""
    if not re.fullmatch("[0-9a-f]{64}", head):
        raise UsageError(f"--head: a head has 64 hexadecimal digits, not {head!r}; `copriv ledger show` prints it")
    name = party_keys(keys, "owner").name
    assert keys is not None
    show_made(adopt(path, name, head, witness or keys, keys), path, "copriv.ledger-adopted/1", as_json)
