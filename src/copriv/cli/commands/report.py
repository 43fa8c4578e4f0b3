"""`copriv report`: a page for a data-protection officer on an owner's released answers and the budget that they took."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.commands import options
from copriv.cli.commands.options import argument, option
from copriv.cli.console import answer, log
from copriv.cli.output import replace_own_file
from copriv.errors import BudgetRefused, InvalidInput


def command(
    path: options.LedgerPath,
    runs: Annotated[
        list[Path] | None, argument("Files of `copriv learner --store`, from the learner.", metavar="[RUN]...")
    ] = None,
    agreement: Annotated[
        list[Path] | None, option("Your own copy of an agreement; more than once for more.", metavar="AGREEMENT")
    ] = None,
    keys: Annotated[
        Path | None,
        option(
            "The owner's keys: their ca.pem, and the ledger's witness.",
            "--keys",
            env="KEYS",
            metavar="DIR",
            file_okay=False,
        ),
    ] = None,
    witness: options.WitnessFolder = None,
    head: options.Head = None,
    docs: Annotated[str, option("Where copriv's documentation is, for the links.", metavar="ADDRESS")] = "",
    out: Annotated[
        Path | None, option("Where the page goes; the ledger's name + .report.html.", metavar="FILE")
    ] = None,
    forecast: Annotated[
        Path | None, option("The forecast's JSON: does joining pay? With --agreement.", metavar="FILE")
    ] = None,
    unfinished: options.Unfinished = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a report for a data-protection officer: what left, what is spent, who asked, what is not covered."""
    from copriv.forecast.result import read_forecast
    from copriv.report import RunFile, document, page

    target = out or path.with_name(f"{path.name}.report.html")
    options.check_target("--out", target, path, *(runs or ()), *(agreement or ()), *filter(None, (forecast,)))
    made = document(
        path, [RunFile.at(run) for run in runs or ()], [Agreement.load(one) for one in agreement or ()],
        authority=options.authority_in(keys), witness=keys or witness, head=head, docs=docs,
        unfinished=unfinished, forecast=None if forecast is None else read_forecast(forecast),
    )  # fmt: skip
    if out is not None or not as_json:
        replace_own_file(target, page(made).encode())  # it contains the content of the ledger
    said = f"{target}: {'all that was checked is in order' if made['ok'] else 'NOT in order'}"
    answer(as_json, json.dumps(made, indent=2, allow_nan=False), [said])
    for problem in made["problems"]:
        log(problem["what"])
    if any(problem["where"] != "file" for problem in made["problems"]):
        raise typer.Exit(BudgetRefused.exit_code)
    if not made["ok"]:
        raise typer.Exit(InvalidInput.exit_code)
