"""`copriv simulate AGREEMENT`: many runs on records at hand, with simulated noise. What is "auto" is planned first."""

import json
from pathlib import Path
from typing import Annotated

from copriv.agreement import Agreement
from copriv.cli.commands.options import AgreementFile, AsJson, Runs, Workers, option, out_folder
from copriv.cli.console import answer, log, progress
from copriv.cli.output import keep, replace_own_file, simulation_files
from copriv.display.simulation import details, title
from copriv.forecast.after_pilot import after_pilot, before_pilot
from copriv.forecast.assessment import RUNS
from copriv.forecast.forecaster import forecast_of
from copriv.forecast.phases import stops
from copriv.formatting.numbers import counted
from copriv.formatting.sanitize import printable
from copriv.plan import leaves_open, plan
from copriv.problem import Problem
from copriv.simulation import Simulation, simulate


def command(
    agreement: AgreementFile,
    runs: Runs = 100,
    seed: Annotated[
        int | None, option("Of schedules and noise, in place of the agreement's.", env="SEED", min=0)
    ] = None,
    workers: Workers = None,
    own_records: Annotated[
        bool | None,
        option(
            "Judge models on each owner's own records, held out in turn. Default: where the agreement's goal asks for it.",
            "--own-records/--no-own-records",
            env="OWN_RECORDS",
        ),
    ] = None,
    as_json: AsJson = False,
    directory: Annotated[Path | None, out_folder("Also write simulation.json, .csv and .png there.")] = None,
) -> None:
    """Run an agreement many times with simulated noise: what the collaboration would give."""
    with progress("reading the records"):
        problem = Problem.load(Agreement.load(agreement))
    planned, said, each, stopping = None, list[str](), [problem], 0
    if problem.terms.has_pilot:
        at = problem.terms.agreement.seed if seed is None else seed
        each, said, stopping = _after_pilots(problem, at, min(runs, 4))  # a plan after each takes seconds
    elif leaves_open(problem.terms):
        log('still "auto": planning on the public rows, which anybody may read')
        public = problem
        if problem.terms.data.strata is not None:  # as in a forecast, with the strata of the public rows
            public = Problem.load_public(problem.terms)
        with progress("planning"):
            choice = plan(public).choice
        each, planned = [problem.under(choice.agreement)], choice.describe()
        log(f"planned: {planned}")
    parts = list[Simulation]()
    for k, one in enumerate(each):
        part, done = (runs + len(each) - 1 - k) // len(each), sum(part.runs for part in parts)
        with progress("simulating") as report:
            parts.append(
                simulate(
                    one, runs=part, seed=seed, first_run=done, workers=workers, alone=k == 0,
                    own_records=k == 0 and own_records, progress=report,
                )
            )  # fmt: skip
    result = parts[0].merge(parts[1:])
    document, told = result.to_json(), details(result)
    if said:
        of_pilots = {"planned": said[0], "pilots": said, "pilots_that_stop": stopping}
        document = json.dumps({**json.loads(document), **of_pilots}, indent=2)
        pilots = counted(len(said), "simulated pilot")
        told.append(
            f"{pilots}, and a plan after each for an equal part of the runs. Epsilon is what a pilot leaves; verdicts on own "
            "records and noise scales are those after the first. "
            + (
                f"After {stopping} of {pilots} the run would stop: by the answers joining pays for nobody, or public rows are "
                "unlike the records; it is simulated all the same."
                if stopping
                else f"After none of the {pilots} the run would stop: by the answers joining pays, or it is open for whom."
            )
        )
    elif planned is not None:
        document = json.dumps({**json.loads(document), "planned": planned}, indent=2)
    made_by = f"copriv simulate {agreement.name} --runs {runs} --seed {result.seed}"
    keep(directory, lambda: simulation_files(result, document, made_by), replace_own_file)
    name = printable(problem.terms.agreement.name, 80)
    answer(as_json, document, [f"{name}: {title(result)}", *told])


def _after_pilots(problem: Problem, seed: int, pilots: int) -> tuple[list[Problem], list[str], int]:
    """Simulate pilots, and plan the run after each: the problem under each plan, the plans in words, how many runs stop."""
    known = "from the declared columns" if problem.terms.data.declared_only else "on the public rows"
    log(f"planning rule, mechanism and number of answers of the run {known}, before the pilot")
    with progress("planning"):
        before = before_pilot(problem, seed)
    found, said, stopping = [], list[str](), 0
    for k in range(pilots):
        with progress(f"pilot {k + 1} of {pilots}, and the plan after it"):
            sample = after_pilot(before, problem, seed + k)
            terms, words = sample.problem.terms, "as agreed"
            after = forecast_of(sample, "after the pilot", RUNS, seed + k)
            if leaves_open(terms):
                terms, words = after.recommended.agreement, after.recommended.words
        stopping += stops(after)
        found.append(problem.under(terms))
        said.append(words)
        log(f"planned after pilot {k + 1}: {words}")
    return found, said, stopping
