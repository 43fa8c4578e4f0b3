"""`copriv demo`: three banks, real loans, a budget of 1 each. What does privacy cost, and who should join?

The agreement is demo.toml beside this file. Its terms are planned when the demo runs, from public loans alone, and `--out`
writes them, so that `copriv simulate` can repeat and change the demo. With `--network` the banks and their learner are
separate processes on this machine, over mutual TLS.
"""

import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.cli.commands.options import AsJson, Runs, Workers, option, out_folder, packaged_text
from copriv.cli.console import answer, log, progress
from copriv.cli.output import replace_file, save, series_csv
from copriv.display import Table
from copriv.display.simulation import notes
from copriv.errors import CoprivError, Unreachable
from copriv.forecast import forecast
from copriv.formatting.numbers import listed, percent, percent_range, times
from copriv.model.fitness import Fitness, Regularizer, relative_fitness
from copriv.pictures.simulation import alone_and_together
from copriv.pictures.style import png
from copriv.problem import Problem
from copriv.simulation import Simulation, simulate
from copriv.types import Array

PATIENCE = 600.0
"""Time limit of the run over the network, in seconds; on an idle machine it takes ten."""


def command(
    runs: Runs = 200,
    workers: Workers = None,
    as_json: AsJson = False,
    directory: Annotated[
        Path | None,
        out_folder("Where demo.png, .csv, .json and .toml go; with --network, a new folder for all parties' files."),
    ] = None,
    network: Annotated[
        bool, option("Owners and learner as four processes on this machine instead.", "--network")
    ] = False,
) -> None:
    """Three banks, real loans, epsilon = 1: what privacy costs, and who should join."""
    asked = Agreement.of(tomllib.loads(packaged_text("demo.toml")))
    with progress("planning") as report:
        outlook = forecast(asked, progress=report)
    planned = outlook.recommended.agreement
    if network:
        demo_network(planned, directory, as_json)
        return
    problem = Problem.load(planned)
    with progress("simulating") as report:
        result = simulate(problem, runs=runs, workers=workers, progress=report)
    # For each bank, the common budget from which the common model is better on everybody's loans than its own, as simulated.
    needed: dict[str, float | None] = {}
    for i, owner in enumerate(result.owners):
        needed[owner.name] = None
        if owner.alone is not None:
            needed[owner.name] = outlook.consortium.break_even_for_all(i, owner.alone)
    rows = table(problem, result)
    added = {
        "table": rows,
        "conclusion": result.verdict,
        "planned": outlook.recommended.words,
        "forecast": {"together": outlook.together, "verdict": outlook.verdict},
        "needed_epsilon": needed,
    }
    document = json.dumps({**result.to_dict(), **added}, indent=2)
    directory = directory or Path("copriv-demo")
    head = "# What `copriv demo` planned from 100 public loans, and simulated on the banks' own.\n\n"
    made = {
        "demo.json": document.encode() + b"\n",
        "demo.csv": series_csv(result).encode(),
        "demo.png": png(alone_and_together(result, outlook, [*needed.items()]), f"copriv demo --runs {runs}"),
        "demo.toml": (head + planned.to_toml()).encode(),
    }
    paths = save(directory, made)
    if as_json:
        for path in paths:
            log(f"wrote {path}")
    answer(as_json, document, _told(problem, result, rows, needed, directory))


def table(problem: Problem, result: Simulation) -> list[dict[str, Any]]:
    """The models, with their relative fitness and their typical error in the target's unit."""
    # f without its g, over all owners' loans: the mean squared error.
    plain = Fitness(problem.loss, Regularizer(0.0), problem.feasible_set, problem.fitness.records)

    def error(theta: Float[Array, " p"]) -> float:
        """Root mean squared error, in percentage points of interest."""
        return float(np.sqrt(plain.value(theta)))

    def row(name: str, records: int, theta: Float[Array, " p"]) -> dict[str, Any]:
        ψ = float(relative_fitness(problem.fitness.value(theta), problem.optimum))
        return {"model": name, "records": records, "relative_fitness": ψ, "error": error(theta)}

    own = [(f"{o.name} alone", o.records, p) for o, p in zip(result.owners, problem.owners, strict=True)]
    if problem.public is not None:
        own.append(("the public sample alone", problem.public.units, problem.public))
    everything, final = sum(owner.records for owner in result.owners), result.relative_fitness.final
    together = {
        "model": "together, with privacy",
        "records": everything,
        "relative_fitness": final["median"],
        "p25": final["p25"],
        "p75": final["p75"],
        "error": float(np.median([error(theta) for theta in result.theta])),
    }
    return [
        *(row(name, n, problem.fitness_of(records).minimum().theta) for name, n, records in own),
        together,
        row("pooled, without privacy", everything, problem.optimum.theta),
    ]


def _told(
    problem: Problem,
    result: Simulation,
    rows: list[dict[str, Any]],
    needed: dict[str, float | None],
    directory: Path,
) -> Iterator[str | Table]:
    """The table, and sentences that explain it."""
    ε = problem.agreement.owner[0].epsilon
    yield f"Three banks learn to predict the interest rate of a loan; each spends epsilon = {ε:g} of privacy."
    yield "How they do it was planned a moment ago, from 100 public loans alone."
    yield result.description
    shown, together = [], 0
    for i, row in enumerate(rows):
        band = ""
        if "p25" in row:
            together, band = i, percent_range(row["p25"], row["p75"])
        ψ, error = percent(row["relative_fitness"]), f"{row['error']:.3f} points"
        shown.append((row["model"], f"{row['records']:,}", ψ, band, error))
    yield Table(("model", "loans", "above the best", "25-75 % of runs", "typical error"), tuple(shown), strong=together)
    yield result.verdict
    better = [f"that of {name} from {times(at)}" for name, at in needed.items() if at is not None]
    never = [name for name, at in needed.items() if at is None]
    said = [f"the common model is better than {listed(better)}"] * bool(better)
    if never:
        said.append(
            f"than that of {listed(never)} at no budget" if better else "the common model is better at no budget"
        )
    yield f"On everybody's loans, by the epsilon of every bank, as forecast: {'; '.join(said)}.\n"
    yield "above the best: f/f* - 1, the relative fitness; f is the mean squared error plus regularisation."
    yield f"typical error: root mean square over all banks' loans. Median of {result.runs:,} runs."
    yield from (f"Note: {note}." for note in notes(result))
    yield f"Picture: {directory / 'demo.png'}. To change things: copriv simulate {directory / 'demo.toml'}"


def demo_network(agreement: Agreement, folder: Path | None, as_json: bool) -> dict[str, Any]:
    """`copriv demo --network`: write all parties' files into `folder` (a temporary one when None), run, show the result.

    Logs the commands that it runs, and returns the run's record. Raises Unreachable where the run does not finish.
    """
    from copriv.display.run import run_tables
    from copriv.network.model import Model
    from copriv.network.setup import make_consortium, share_out

    with ExitStack() as held:
        place = folder or Path(held.enter_context(TemporaryDirectory(prefix="copriv-")), "consortium")
        make_consortium(agreement, place)
        tables = share_out(agreement, place)
        _conduct(place, tables)
        replace_file(place / "COMMANDS.md", commands_page(tables).encode())
        record = Model.load(place / "run.json").record
    said = [f"{record['outcome']}, in {record['seconds']:.1f} s over mutual TLS on this machine."]
    if folder is not None:
        said.append(f"What can be done with it: {folder / 'COMMANDS.md'}")
    answer(as_json, json.dumps(record, indent=2), [*run_tables(record, agreement.error_in_words), *said])
    return record


def _conduct(folder: Path, tables: Sequence[Path]) -> None:
    """Run the commands that the parties would type."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(errors: Path, *arguments: object) -> None:
        log(f"copriv {' '.join(map(str, arguments))}")
        command = [sys.executable, "-c", "from copriv.cli import main; main()", *map(str, arguments)]
        with errors.open("wb") as stream:
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream))

    terms, learner_log = folder / "agreement.toml", folder / "learner.log"
    try:
        start(
            learner_log, "learner", terms, "--store", folder / "run.db", "--keys", folder / "learner",
            "--listen", "127.0.0.1:0", "--patience", f"{PATIENCE / 2:.0f}", "--forecast-runs", 50,
        )  # fmt: skip
        address = _address_in(learner_log, processes[0])
        for table in tables:
            own = table.parent
            start(
                own / "owner.log", "owner", "serve", "--agreement", terms, "--data", table, "--keys", own,
                "--ledger", own / "data.ledger", "--new-ledger", "--learner", address,
            )  # fmt: skip
        for process in processes:
            if (failure := _failure(process)) is not None:
                logs = " ".join(path.read_text().strip()[-300:] for path in sorted(folder.glob("**/*.log")))
                raise Unreachable(f"a process of the demonstration {failure}: {logs}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def _failure(process: "subprocess.Popen[bytes]") -> str | None:
    """Wait for a process; returns how it failed, or None where it did not."""
    try:
        return None if process.wait(PATIENCE) == 0 else "failed"
    except subprocess.TimeoutExpired:
        return f"was not over after {PATIENCE:.0f} seconds"


def _address_in(path: Path, process: "subprocess.Popen[bytes]") -> str:
    """The address in the learner's log at which it listens."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if found := re.search("listening at (.*?);", path.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.05)
    raise CoprivError(f"the learner did not start: {path.read_text(encoding='utf-8')[-300:]}")


def commands_page(tables: Sequence[Path]) -> str:
    """A page of commands that can be typed in the demonstration's folder."""
    own = [table.parent.name for table in tables]
    given = "--agreement agreement.toml"
    serve = "copriv owner serve {given} --data {name}/data.parquet --ledger {name}/data.ledger --keys {name}"
    check = "copriv data check {name}/data.parquet {given} --owner {name} --keys {name} --ledger {name}/data.ledger"
    return Template(packaged_text("demo-network.md")).substitute(
        owners=", ".join(own),
        first=own[0],
        serve="\n".join(serve.format(given=given, name=name) for name in own),
        checks="\n".join(check.format(given=given, name=name) for name in own),
    )
