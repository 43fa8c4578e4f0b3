"""Options that several commands share: one meaning, one help, one COPRIV_* variable."""

from pathlib import Path
from typing import Annotated, Any

import typer

from copriv.errors import UsageError

MOST_RUNS = 1_000_000
"""More would not fit into memory, nor tell more."""
AgreementFile = Annotated[
    Path,
    typer.Argument(metavar="AGREEMENT", help="The agreement, a TOML file.", envvar="COPRIV_AGREEMENT", readable=False),
]
Runs = Annotated[int, typer.Option(min=1, max=MOST_RUNS, help="How many independent runs.", envvar="COPRIV_RUNS")]
PublicRuns = Annotated[
    int, typer.Option(min=10, max=MOST_RUNS, help="Simulated runs on the public rows.", envvar="COPRIV_RUNS")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.", envvar="COPRIV_JSON")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Threads; all processors when not given.", envvar="COPRIV_WORKERS")
]
KeysFolder = Annotated[
    Path | None,
    typer.Option("--keys", metavar="DIR", help="This party's folder of keys.", envvar="COPRIV_KEYS", file_okay=False),
]
LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="An owner's ledger file.", envvar="COPRIV_LEDGER")]
WitnessFolder = Annotated[
    Path | None,
    typer.Option(
        "--witness",
        metavar="DIR",
        help="Where the ledger's witness is kept; the folder of the keys.",
        envvar="COPRIV_WITNESS",
        file_okay=False,
    ),
]

Unfinished = Annotated[bool, typer.Option("--unfinished", help="Use the model although its run did not finish.")]


def out_folder(also: str) -> Any:
    """The option `--out DIR`; `also` says what is written there."""
    return typer.Option(
        "--out", metavar="DIR", file_okay=False, help=also, envvar="COPRIV_OUT", callback=_can_be_a_folder
    )


def _can_be_a_folder(path: Path | None) -> Path | None:
    """Said before anything is computed. Raises UsageError where a file stands in the way."""
    there = path
    while there is not None and not there.exists() and there != there.parent:
        there = there.parent
    if there is not None and there.exists() and not there.is_dir():
        raise UsageError(f"--out: {there} is a file, so no folder can be made at {path}; choose another one")
    return path
