"""`copriv owner learn RUN`: the owner's own model, from the others' private answers and its own exact records."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson, Unfinished
from copriv.cli.commands.party_options import check_folder, check_not_read
from copriv.cli.show.console import log
from copriv.cli.show.output import replace_own_file
from copriv.cli.show.words import listed
from copriv.errors import InvalidInput


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The file of `copriv learner --store`.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Who learns, as the agreement names it.")],
    data: Annotated[Path, typer.Option("--data", metavar="TABLE", help="This owner's own rows, .csv or .parquet.")],
    to: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the own model goes; it must not leave.")],
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="The run's model; RUN's name + .json otherwise.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="DIR", help="Your folder of keys, for its ca.pem.", envvar="COPRIV_KEYS"),
    ] = None,
    unfinished: Unfinished = False,
    as_json: AsJson = False,
) -> None:
    """Learn an own model from everybody's answers in a run's file. It costs no budget, because it is not released."""
    from copriv.network.own_model import own_model

    check_folder("--out", to)
    check_not_read("--out", to, run, data, model or run.with_suffix(".json"))
    try:
        authority = None if keys is None else (keys / "ca.pem").read_bytes()
    except OSError as error:
        raise InvalidInput(f"--keys: {keys} has no ca.pem that can be read ({error.strerror})") from None
    made = own_model(run, model or run.with_suffix(".json"), name, str(data), authority, unfinished)
    replace_own_file(to, made.to_json().encode())
    found = made.record["learned_at_home"]
    if as_json:
        typer.echo(json.dumps({"schema": "copriv.learned/1", "path": str(to), **found}, indent=2))
    else:
        others = found["answers_of"]
        typer.echo(
            f"Your own model is in {to}: your records as they are, and the answers of "
            f"{listed(others) if others else 'nobody else'}. It is made from your records and is not private: keep it. "
            "Nothing was sent and no budget was spent."
        )
    log(f"use it with: copriv predict {to} TABLE")
