"""`copriv simulate AGREEMENT`: many runs on records at hand, with simulated noise. What is "auto" is planned first."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli import words
from copriv.cli.console import log, out, plain_table, progress
from copriv.cli.output import save, simulation_files
from copriv.forecast import plan
from copriv.problem import Problem
from copriv.simulation import Simulation, simulate

MOST_ROWS = 20
"""Owners shown; the JSON lists all."""

AgreementFile = Annotated[
    Path, typer.Argument(metavar="AGREEMENT", help="The agreement, a TOML file.", envvar="COPRIV_AGREEMENT")
]
Runs = Annotated[int, typer.Option(min=1, help="How many independent runs.", envvar="COPRIV_RUNS")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.", envvar="COPRIV_JSON")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Threads; all processors when not given.", envvar="COPRIV_WORKERS")
]


def command(
    agreement: AgreementFile,
    runs: Runs = 100,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of schedules and noise, in place of the agreement's.", envvar="COPRIV_SEED"),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            file_okay=False,
            help="Also write simulation.json, .csv and .png there.",
            envvar="COPRIV_OUT",
        ),
    ] = None,
) -> None:
    """Run an agreement many times with simulated noise: what the collaboration would give."""
    problem = Problem.load(Agreement.load(agreement))
    planned = None
    if _open(problem.terms):
        log('still "auto": planning on the public rows')
        choice = plan(problem).choice
        problem, planned = problem.under(choice.agreement), choice.describe()
        log(f"planned: {planned}")
    terms = problem.terms
    with progress("simulating") as report:
        result = simulate(problem, runs=runs, seed=seed, workers=workers, progress=report)
    document = result.to_json()
    if planned is not None:
        document = json.dumps({**json.loads(document), "planned": planned}, indent=2)
    if directory is not None:
        made_by = f"copriv simulate {agreement.name} --runs {runs} --seed {result.seed}"
        for path in save(directory, simulation_files(result, document, made_by)):
            log(f"wrote {path}")
    if as_json:
        typer.echo(document)
    else:
        show(terms, result)


def _open(agreement: Agreement) -> bool:
    return "auto" in (agreement.agreement.rule, agreement.agreement.step, agreement.model.gradient_bound)


def show(agreement: Agreement, result: Simulation) -> None:
    """The result in words and one table."""
    console, ψ = out(), result.relative_fitness.final
    runs = "1 run" if result.runs == 1 else f"{result.runs:,} runs"
    queries = f"{int(result.relative_fitness.k[-1]):,} {'rounds' if agreement.synchronous else 'queries'}"
    console.print(f"{agreement.agreement.name}: rule {result.rule}, {queries}, {runs}, seed {result.seed}")
    console.print(f"{result.description}\n")
    table = plain_table("owner", "records", "epsilon", "answers", "noise scale", "alone, above the best")
    for owner in result.owners[:MOST_ROWS]:
        alone = "" if owner.alone is None else words.percent(owner.alone)
        numbers = (
            f"{owner.records:,}",
            f"{owner.epsilon:g}",
            str(owner.answers),
            words.plain_number(owner.noise_scale),
        )
        table.add_row(owner.name, *numbers, alone)
    console.print(table)
    if len(result.owners) > MOST_ROWS:
        console.print(f"and {len(result.owners) - MOST_ROWS} more owners: --json lists them all")
    spread = f"25-75 % of runs: {words.percent(ψ['p25'])} to {words.percent(ψ['p75'])}; mean {words.percent(ψ['mean'])}"
    together = "Together, with privacy" if result.private else "Together"
    console.print(f"\n{together}: {words.percent(ψ['median'])} above the best fitness (median; {spread}).")
    console.print(words.conclusion(result))
    if result.clipped > 0:
        console.print(f"{words.percent(result.clipped)} of the records' gradients were clipped.")
    for warning in words.warnings(result):
        console.print(f"Note: {warning}.")
