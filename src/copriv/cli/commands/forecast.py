"""`copriv forecast AGREEMENT`: what a consortium will cost and for whom it pays, from public rows alone."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import AgreementFile, AsJson, PublicRuns, out_folder
from copriv.cli.show.console import answer, columns, progress
from copriv.cli.show.forecast import lines
from copriv.cli.show.output import forecast_files, keep
from copriv.display.forecast import details
from copriv.display.what_if import about_target, about_without
from copriv.errors import UsageError
from copriv.forecast import forecast
from copriv.forecast.what_if import reach
from copriv.forecast.what_if import without as without_owners
from copriv.formatting.cards import Table
from copriv.formatting.numbers import listed

_STAGES = (
    "planning the best terms", "planning what is left open", "running the agreed terms", "running the best ones",
    "asking for whom it pays",
)  # fmt: skip
"""What `forecast` is at after each of its reports."""


def command(
    agreement: AgreementFile,
    runs: PublicRuns = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of simulated runs and bootstrap worlds.", envvar="COPRIV_SEED")] = 0,
    public_start: Annotated[
        bool, typer.Option("--public-start/--no-public-start", help="May the plan begin at the public model?")
    ] = True,
    preconditioner: Annotated[
        bool, typer.Option("--preconditioner/--no-preconditioner", help="May it descend along a public matrix?")
    ] = True,
    target: Annotated[
        str | None,
        typer.Option(metavar="2%", help="What it takes to come this close to the best possible model."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What if this owner stays away? Can be given more than once."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--details", help="Everything: terms, trades, what each owner brings.")
    ] = False,
    as_json: AsJson = False,
    directory: Annotated[
        Path | None, out_folder("Also write forecast.json, .csv, pictures and the recommended agreement there.")
    ] = None,
) -> None:
    """What an agreement will cost, what the best terms would, and for whom joining pays: no private record is read."""
    terms, wanted = Agreement.load(agreement), None if target is None else ratio(target)
    known = [table.name for table in terms.owner_tables]
    unknown = sorted(set(without or ()) - set(known))
    if unknown:
        raise UsageError(f"--without: no owner is called {unknown[0]!r}; they are {', '.join(known[:12])}")
    if without and len(set(without)) == len(known):
        raise UsageError("--without: nobody would be left; leave at least one owner in")
    with progress(_STAGES[0]) as report:
        outlook = forecast(
            terms, runs=runs, seed=seed, public_start=public_start, preconditioner=preconditioner,
            progress=lambda done, total: report(done, total, _STAGES[done]),
        )  # fmt: skip
    asked: list[str] = []
    headline: list[str] = []
    added: dict[str, Any] = {}
    shown = outlook
    if wanted is not None:
        found = reach(outlook, wanted)
        added["target"] = found.to_dict()
        asked += about_target(outlook, found)
    if without:
        with progress(f"without {listed(without)}"):
            left = without_owners(outlook, without)
        added["without"] = left.to_dict()
        headline, shown = about_without(outlook, left), left.others or outlook
    document = outlook.to_json(**added)
    keep(directory, lambda: forecast_files(outlook, document, f"copriv forecast {agreement.name}"))
    if everything:
        told: Sequence[str | Table] = [*details(outlook), *asked, *headline]
    else:
        told = lines(shown, asked, headline, columns())
    answer(as_json, document, told)


def ratio(text: str) -> float:
    """ "2%", "2 %" or "0.02" as 0.02. Raises UsageError for anything else."""
    written = text.strip()
    try:
        value = float(written.removesuffix("%")) / (100.0 if written.endswith("%") else 1.0)
    except ValueError:
        value = 0.0
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"--target: {text!r} is not a share above 0; write it as 2% or 0.02")
    return value
