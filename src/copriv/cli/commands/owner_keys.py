"""`copriv owner keys`: an owner's own key, made where it stays, and the request by which the coordinator certifies it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson
from copriv.cli.show.console import log
from copriv.terms import can_be_told_apart


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The folder of the owner's keys.", envvar="COPRIV_KEYS", file_okay=False),
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="As the agreement names it; the folder's name.", envvar="COPRIV_OWNER"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an owner's own secret key, and the request by which the coordinator certifies it."""
    from copriv.network.keys import KEY, REQUEST, KeysRefused, make_key

    owner = name or folder.resolve().name
    try:
        can_be_told_apart(owner)
    except ValueError as error:
        raise KeysRefused(f"--name: {owner!r} {error}") from None
    key = make_key(folder, owner)
    request = folder / REQUEST
    if as_json:
        fields = {"schema": "copriv.owner-keys/1", "name": owner, "request": str(request), "key": key}
        typer.echo(json.dumps(fields, indent=2))
    else:
        typer.echo(f"{owner}: made {folder / KEY}, which is secret and stays here. SHA-256 of its public key:\n{key}")
    log(
        f"send {request} to the coordinator, who gives back ca.pem, certificate.pem and policy.toml for this folder; "
        "before anything is answered, see that this SHA-256 is the key of this owner in the agreement"
    )
