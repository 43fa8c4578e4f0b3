"""`copriv report`: one page for a data-protection officer on what left an owner, and what of its budget that took."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import AsJson, LedgerPath, Unfinished, WitnessFolder
from copriv.cli.commands.party_options import check_folder
from copriv.cli.show.console import log
from copriv.errors import BudgetRefused, CoprivError, InvalidInput, UsageError


def command(
    path: LedgerPath,
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="Files of `copriv learner --store`, from the learner.")
    ] = None,
    agreement: Annotated[
        list[Path] | None,
        typer.Option(metavar="AGREEMENT", help="Your own copy of an agreement; more than once for more."),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys", metavar="DIR", help="The owner's keys: their ca.pem, and the ledger's witness.",
            envvar="COPRIV_KEYS", file_okay=False,
        ),
    ] = None,
    witness: WitnessFolder = None,
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="A head of the ledger that was written down elsewhere.")
    ] = None,
    docs: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where copriv's documentation is, for the links.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the page goes; the ledger's name + .report.html."),
    ] = None,
    unfinished: Unfinished = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Write a report for a data-protection officer: what left, what is spent, who asked, what is not covered."""
    from copriv.report import RunFile, document, page

    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise UsageError(f"--head: a head has 64 hexadecimal digits, not {head!r}; `copriv ledger show` prints it")
    target = out if out is not None else path.with_name(f"{path.name}.report.html")
    check_folder("--out", target)
    made = document(
        path, [RunFile.at(run) for run in runs or ()], [Agreement.load(one) for one in agreement or ()],
        authority=None if keys is None else _authority(keys), witness=keys or witness, head=head, docs=docs,
        unfinished=unfinished,
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(made, indent=2, allow_nan=False))
        if out is not None:
            _write(target, page(made))
    else:
        _write(target, page(made))
        typer.echo(f"{target}: {'all that was checked is in order' if made['ok'] else 'NOT in order'}")
    for problem in made["problems"]:
        log(problem["what"])
    if not made["ok"]:
        of_the_ledger = any(problem["where"] != "file" for problem in made["problems"])
        raise typer.Exit(BudgetRefused.exit_code if of_the_ledger else InvalidInput.exit_code)


def _authority(keys: Path) -> bytes:
    path = keys / "ca.pem"
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror}); give the owner's folder of keys") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CoprivError(f"{path}: cannot be written ({error.strerror}); give another --out") from None
