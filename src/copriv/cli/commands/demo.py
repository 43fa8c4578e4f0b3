"""`copriv demo`: three banks, real loans, a budget of 1 each. What does privacy cost, and who should join?

The question is demo.toml beside this file. Its terms are planned when the demo runs, from public loans alone, and `--out`
writes them out: everything shown can be had again, and changed, with `copriv simulate`.
"""

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.cli.commands.demo_network import demo_network
from copriv.cli.commands.options import AsJson, Runs, Workers, out_folder
from copriv.cli.show import words
from copriv.cli.show.console import log, out, plain_table, progress
from copriv.cli.show.output import save, series_csv
from copriv.forecast import Forecast, forecast
from copriv.model.fitness import Fitness, Regularizer, relative_fitness
from copriv.pictures.demo import alone_and_together
from copriv.pictures.style import png
from copriv.problem import Problem
from copriv.simulation import Simulation, simulate
from copriv.types import Array

_PLANNED = "# What `copriv demo` planned from 100 public loans, and simulated on the banks' own.\n\n"


def agreement_text() -> str:
    """demo.toml."""
    return files("copriv.cli.commands").joinpath("demo.toml").read_text(encoding="utf-8")


def command(
    runs: Runs = 200,
    workers: Workers = None,
    as_json: AsJson = False,
    directory: Annotated[
        Path | None,
        out_folder("Where demo.png, .csv, .json and .toml go; with --network, a new folder for all parties' files."),
    ] = None,
    network: Annotated[
        bool, typer.Option("--network", help="Owners and learner as four processes on this machine instead.")
    ] = False,
) -> None:
    """Three banks, real loans, epsilon = 1: what privacy costs, and who should join."""
    asked = Agreement.of(tomllib.loads(agreement_text()))
    with progress("planning") as report:
        outlook = forecast(asked, progress=report)
    planned = outlook.recommended.agreement
    if network:
        demo_network(planned, directory, as_json=as_json)
        return
    problem = Problem.load(planned)
    with progress("simulating") as report:
        result = simulate(problem, runs=runs, workers=workers, progress=report)
    rows, needed = table(problem, result), needed_budgets(outlook, result)
    conclusion = result.verdict
    added = {
        "table": rows,
        "conclusion": conclusion,
        "planned": outlook.recommended.words,
        "forecast": {"together": outlook.together, "verdict": outlook.verdict},
        "needed_epsilon": dict(needed),
    }
    document = json.dumps({**result.to_dict(), **added}, indent=2)
    made_by = f"copriv demo --runs {runs}"
    made = {
        "demo.json": document.encode() + b"\n",
        "demo.csv": series_csv(result).encode(),
        "demo.png": png(alone_and_together(result, outlook, needed), made_by),
        "demo.toml": (_PLANNED + planned.to_toml()).encode(),
    }
    directory = directory or Path("copriv-demo")
    paths = save(directory, made)
    if as_json:
        for path in paths:
            log(f"wrote {path}")
        typer.echo(document)
    else:
        show(problem, result, rows, needed, directory)


def needed_budgets(outlook: Forecast, result: Simulation) -> list[tuple[str, float | None]]:
    """For each bank, the budget of all from which joining pays for it, were its own model what it turned out to be."""
    members = outlook.consortium
    return [
        (owner.name, members.break_even_for_all(i, owner.alone) if owner.alone is not None else None)
        for i, owner in enumerate(result.owners)
    ]


def table(problem: Problem, result: Simulation) -> list[dict[str, Any]]:
    """Who has which model, how far its fitness is above the best, and its typical error in the target's unit."""
    own = [(f"{o.name} alone", o.records, p) for o, p in zip(result.owners, problem.owners, strict=True)]
    if problem.public is not None:
        own.append(("the public sample alone", problem.public.units, problem.public))
    rows = [_row(problem, name, n, problem.fitness_of(records).minimum().theta) for name, n, records in own]
    everything = sum(owner.records for owner in result.owners)
    rows.append(
        {
            "model": "together, with privacy",
            "records": everything,
            "relative_fitness": result.relative_fitness.final["median"],
            "p25": result.relative_fitness.final["p25"],
            "p75": result.relative_fitness.final["p75"],
            "error": float(np.median([_error(problem, theta) for theta in result.theta])),
        }
    )
    return [*rows, _row(problem, "pooled, without privacy", everything, problem.optimum.theta)]


def _row(problem: Problem, name: str, records: int, theta: Float[Array, " p"]) -> dict[str, Any]:
    ψ = float(relative_fitness(problem.fitness.value(theta), problem.optimum))
    return {"model": name, "records": records, "relative_fitness": ψ, "error": _error(problem, theta)}


def _error(problem: Problem, theta: Float[Array, " p"]) -> float:
    """√ of the mean squared error over all owners' loans, in percentage points of interest: f without its g."""
    plain = Fitness(problem.loss, Regularizer(0.0), problem.feasible_set, problem.fitness.records)
    return float(np.sqrt(plain.value(theta)))


def show(
    problem: Problem,
    result: Simulation,
    rows: list[dict[str, Any]],
    needed: list[tuple[str, float | None]],
    directory: Path,
) -> None:
    """The table, and one sentence that says what it means."""
    console, ε = out(), problem.agreement.owner[0].epsilon
    console.print(f"Three banks learn to predict the interest rate of a loan; each spends epsilon = {ε:g} of privacy.")
    console.print("How they do it was planned a moment ago, from 100 public loans alone.")
    console.print(f"{result.description}\n")
    shown = plain_table("model", "loans", "above the best", "25-75 % of runs", "typical error")
    for row in rows:
        band = f"{words.percent(row['p25'])} to {words.percent(row['p75'])}" if "p25" in row else ""
        loans, ψ, error = f"{row['records']:,}", words.percent(row["relative_fitness"]), f"{row['error']:.3f} points"
        shown.add_row(row["model"], loans, ψ, band, error, style="bold" if band else "")
    console.print(shown)
    console.print(f"\n{result.verdict}")
    console.print(f"{_in_budgets(needed, ε)}\n")
    console.print("above the best: f/f* - 1, the relative fitness; f is the mean squared error plus regularisation.")
    console.print(f"typical error: root mean square over all banks' loans. Median of {result.runs:,} runs.")
    for warning in words.warnings(result):
        console.print(f"Note: {warning}.")
    console.print(f"Picture: {directory / 'demo.png'}. To change things: copriv simulate {directory / 'demo.toml'}")


def _in_budgets(needed: list[tuple[str, float | None]], epsilon: float) -> str:
    """From which budget of everybody joining pays, or would pay, for each."""
    already = [f"{name} from {words.times(at)}" for name, at in needed if at is not None and at <= epsilon]
    later = [f"{name} from {words.times(at)}" for name, at in needed if at is not None and at > epsilon]
    never = [name for name, at in needed if at is None]
    said = [f"joining pays for {', '.join(already)}"] if already else []
    said += [f"it would pay for {', '.join(later)}"] if later else []
    said += [f"no budget is enough for {words.listed(never)}"] if never else []
    return f"By the epsilon of every bank, as forecast: {'; '.join(said)}."
