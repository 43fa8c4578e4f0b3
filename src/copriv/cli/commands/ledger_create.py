"""`copriv ledger create`: a ledger for data that nobody has answered from yet, and its witness beside the owner's keys."""

from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson, KeysFolder, LedgerPath, WitnessFolder
from copriv.cli.commands.party_options import party_keys
from copriv.cli.show.ledger import show_made
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.read import verify


def command(
    path: LedgerPath,
    keys: KeysFolder = None,
    witness: WitnessFolder = None,
    another: Annotated[
        str, typer.Option(metavar="WHY", help="These keys have a ledger, and this one counts for other people.")
    ] = "",
    carry: Annotated[str, typer.Option(metavar="ID", help="Begin with what a ledger that is lost had spent.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make an owner's ledger, once. What is spent of it never comes back, whatever runs and tables follow."""
    create_ledger(path, party_keys(keys, "owner").name, witness, another=another, carry=carry, keys=keys)
    show_made(verify(path, witness=keys), path, "copriv.ledger-created/1", as_json)
