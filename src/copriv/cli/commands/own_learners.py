"""`copriv own-learners AGREEMENT`: every owner learns for itself from shared answers; for whom does that pay?"""

import json
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import AgreementFile, AsJson
from copriv.cli.show.console import progress
from copriv.cli.show.own_learners import show
from copriv.forecast.own_learners import forecast_own_learners


def command(
    agreement: AgreementFile,
    runs: Annotated[int, typer.Option(min=10, help="Simulated runs on the public rows.", envvar="COPRIV_RUNS")] = 128,
    seed: Annotated[int, typer.Option(min=0, help="Of simulated runs and worlds.", envvar="COPRIV_SEED")] = 0,
    as_json: AsJson = False,
) -> None:
    """Without a central model: each owner answers once, and learns from everybody's answers. For whom does it pay?"""
    with progress("forecasting"):
        outlook = forecast_own_learners(Agreement.load(agreement), runs=runs, seed=seed)
    if as_json:
        typer.echo(json.dumps(outlook.to_dict(), indent=2))
    else:
        show(outlook)
