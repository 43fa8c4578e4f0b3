"""`copriv data fetch`: the papers' public data sets, downloaded once and kept with their checksums."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson
from copriv.cli.show.console import log, out, plain_table, progress
from copriv.data.fetch import REMOTES, data_folder, fetch, found


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="creditcard, hospital, sparcs or lending; none: list them.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH|ADDRESS", help="A file at hand, or another address."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Download anew.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download a data set of the papers, or take it from a file; it is then found by `copriv reproduce`."""
    if name is None:
        _list(as_json)
        return
    with progress(f"fetching {name}") as report:
        path = fetch(name, source, report, again)
    log(f"kept as {path}, its checksum beside it")
    if as_json:
        record = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
        typer.echo(json.dumps({"schema": "copriv.fetch/1", "name": name, "path": str(path), **record}, indent=2))
    else:
        typer.echo(path)


def _list(as_json: bool) -> None:
    known = [
        {"name": one.name, "title": one.title, "address": one.address, "path": str(found(one.name) or "")}
        for one in REMOTES.values()
    ]
    if as_json:
        typer.echo(json.dumps({"schema": "copriv.fetch/1", "folder": str(data_folder()), "known": known}, indent=2))
        return
    table = plain_table("name", "what", "here", left=3)
    for one in known:
        table.add_row(one["name"], one["title"], one["path"] or "not fetched")
    out().print(table)
