"""`copriv forecast AGREEMENT`: what a consortium will cost and for whom it pays, from public rows alone."""

from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import AgreementFile, AsJson
from copriv.cli.show.console import log, progress
from copriv.cli.show.forecast_tables import show
from copriv.cli.show.output import forecast_files, save
from copriv.forecast import forecast


def command(
    agreement: AgreementFile,
    runs: Annotated[int, typer.Option(min=10, help="Simulated runs on the public rows.", envvar="COPRIV_RUNS")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of simulated runs and bootstrap worlds.", envvar="COPRIV_SEED")] = 0,
    public_start: Annotated[
        bool, typer.Option("--public-start/--no-public-start", help="May the plan begin at the public model?")
    ] = True,
    preconditioner: Annotated[
        bool, typer.Option("--preconditioner/--no-preconditioner", help="May it descend along a public matrix?")
    ] = True,
    as_json: AsJson = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            file_okay=False,
            help="Also write forecast.json, .csv, pictures and the recommended agreement there.",
            envvar="COPRIV_OUT",
        ),
    ] = None,
) -> None:
    """What an agreement will cost, what the best terms would, and for whom joining pays: no private record is read."""
    terms = Agreement.load(agreement)
    with progress("forecasting") as report:
        outlook = forecast(
            terms, runs=runs, seed=seed, public_start=public_start, preconditioner=preconditioner, progress=report
        )
    document = outlook.to_json()
    if directory is not None:
        made_by = f"copriv forecast {agreement.name}"
        for path in save(directory, forecast_files(outlook, document, made_by)):
            log(f"wrote {path}")
    if as_json:
        typer.echo(document)
    else:
        show(terms, outlook)
