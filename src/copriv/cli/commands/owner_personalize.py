"""`copriv owner personalize MODEL`: the owner's own model, made at home from the common one and its own table."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson, Unfinished
from copriv.cli.commands.party_options import check_folder, check_not_read
from copriv.cli.show.console import log
from copriv.cli.show.output import replace_own_file
from copriv.cli.show.words import percent


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The common model that copriv learner wrote.")],
    data: Annotated[Path, typer.Option("--data", metavar="TABLE", help="This owner's own rows, .csv or .parquet.")],
    to: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the own model goes; it must not leave.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the folds that its rows are split into.")] = 0,
    unfinished: Unfinished = False,
    as_json: AsJson = False,
) -> None:
    """Fit an own model at home with the common one as a prior. It costs no budget, because it is not released."""
    from copriv.network.model import Model

    check_folder("--out", to)
    check_not_read("--out", to, model, data)
    common = Model.load(model, unfinished)
    own = common.personalized(data, seed=seed)
    replace_own_file(to, own.to_json().encode())
    found = own.record["personalized_at_home"]
    whose = f" of {found['persons']:,} persons" if "persons" in found else ""
    if as_json:
        typer.echo(json.dumps({"schema": "copriv.personalized/1", "path": str(to), **found}, indent=2))
    else:
        typer.echo(
            f"Your own model is in {to}: about {percent(found['common_share'])} of it is the common model, the rest "
            f"your {found['rows']:,} rows{whose}. It is made from your records and is not private: keep it. Nothing was sent "
            "and no budget was spent."
        )
    log(f"use it with: copriv predict {to} TABLE")
