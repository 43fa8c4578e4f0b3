"""`copriv simulate AGREEMENT`: many runs on records at hand, with simulated noise. What is "auto" is planned first."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import AgreementFile, AsJson, Runs, Workers, out_folder
from copriv.cli.show.console import answer, log, progress
from copriv.cli.show.output import keep, replace_own_file, simulation_files
from copriv.display.simulation import details, title
from copriv.formatting.sanitize import printable
from copriv.plan import leaves_open, plan
from copriv.problem import Problem
from copriv.simulation import simulate


def command(
    agreement: AgreementFile,
    runs: Runs = 100,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of schedules and noise, in place of the agreement's.", envvar="COPRIV_SEED"),
    ] = None,
    workers: Workers = None,
    own_records: Annotated[
        bool | None,
        typer.Option(
            "--own-records/--no-own-records",
            help="Judge models on each owner's own records, held out in turn. Default: where the agreement's goal asks for it.",
            envvar="COPRIV_OWN_RECORDS",
        ),
    ] = None,
    as_json: AsJson = False,
    directory: Annotated[Path | None, out_folder("Also write simulation.json, .csv and .png there.")] = None,
) -> None:
    """Run an agreement many times with simulated noise: what the collaboration would give."""
    with progress("reading the records"):
        problem = Problem.load(Agreement.load(agreement))
    planned = None
    if leaves_open(problem.terms):
        log('still "auto": planning on the public rows, which anybody may read')
        public = problem
        if problem.terms.data.strata is not None:  # as in a forecast, with the strata of the public rows
            public = Problem.load_public(problem.terms)
        with progress("planning"):
            choice = plan(public).choice
        problem, planned = problem.under(choice.agreement), choice.describe()
        log(f"planned: {planned}")
    with progress("simulating") as report:
        result = simulate(problem, runs=runs, seed=seed, workers=workers, progress=report, own_records=own_records)
    document = result.to_json()
    if planned is not None:
        document = json.dumps({**json.loads(document), "planned": planned}, indent=2)
    made_by = f"copriv simulate {agreement.name} --runs {runs} --seed {result.seed}"
    keep(directory, lambda: simulation_files(result, document, made_by), replace_own_file)
    name = printable(problem.terms.agreement.name, 80)
    answer(as_json, document, [f"{name}: {title(result)}", *details(result)])
