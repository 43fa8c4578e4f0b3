"""`copriv ledger`: an owner's ledger: make it once, show its lines and totals, verify it, adopt it under new keys."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.cli.commands import options
from copriv.cli.commands.options import option
from copriv.cli.console import answer, plain_table, tell
from copriv.display.ledger import line_fields, phases_spent, spent_and_left, totals_fields
from copriv.formatting.sanitize import printable
from copriv.privacy.ledger.create import adopt as adopted
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.lines import Totals
from copriv.privacy.ledger.read import read_lines
from copriv.privacy.ledger.read import verify as verified


def create(
    path: options.LedgerPath,
    keys: options.KeysFolder = None,
    witness: options.WitnessFolder = None,
    another: Annotated[
        str, option("These keys have a ledger, and this one counts for other people.", metavar="WHY")
    ] = "",
    carry: Annotated[str, option("Begin with what a ledger that is lost had spent.", metavar="ID")] = "",
    as_json: options.AsJson = False,
) -> None:
    """Make an owner's ledger, once. What is spent of it never comes back, whatever runs and tables follow."""
    create_ledger(path, options.party_keys(keys, "owner").name, witness, another=another, carry=carry, keys=keys)
    totals = verified(path, witness=keys)
    _answer_begun("copriv.ledger-created/1", path, totals, as_json)


def show(path: options.LedgerPath, as_json: options.AsJson = False) -> None:
    """Every line of a ledger, and what is left. Reads only; an owner may be writing."""
    totals, lines = verified(path), list(read_lines(path))
    if as_json:
        said = [line_fields(line) for line in lines]
        typer.echo(json.dumps({"schema": "copriv.ledger/1", **totals_fields(totals), "lines": said}, indent=2))
        return
    with_delta = totals.lifetime_delta > 0
    table = plain_table("line", "time", "what", "run", "query", "epsilon", *["delta"] * with_delta, left=5)
    for line in lines:
        # The learner chooses the identity of a query, which may hold control characters.
        words = (line.time[:19], line.kind, line.run[:8], line.identity[:12])
        cost = ["", ""]
        if line.epsilon is not None:
            cost = [f"{float(line.epsilon):.6g}", f"{float(line.delta):.6g}"]
        table.add_row(str(line.number), *map(printable, words), *cost[: 1 + with_delta])
    phases = [phases_spent(run, each) for run, each in totals.runs.items() if each.phases]
    tell(table, *phases, f"{printable(totals.owner)}: {spent_and_left(totals)}. Head {totals.head}")


def verify(
    path: options.LedgerPath,
    head: options.Head = None,
    keys: options.KeysFolder = None,
    witness: options.WitnessFolder = None,
    as_json: options.AsJson = False,
) -> None:
    """Check every line of a ledger and the sums; with --keys or --head, also that no older copy was put back."""
    totals = verified(path, head, keys or witness)
    said = f"{totals.lines} lines, unbroken. {printable(totals.owner)}: {spent_and_left(totals)}. Head {totals.head}"
    answer(as_json, {"schema": "copriv.ledger-verified/1", "ok": True, **totals_fields(totals)}, [said])


def adopt(
    path: options.LedgerPath,
    head: Annotated[str, options.head_option("The ledger's head, as it was written down last.")],
    keys: options.KeysFolder = None,
    witness: options.WitnessFolder = None,
    as_json: options.AsJson = False,
) -> None:
    """Begin a new witness for a whole ledger: its keys were renewed, or their folder is lost."""
    name = options.party_keys(keys, "owner").name
    assert keys is not None
    totals = adopted(path, name, head, witness or keys, keys)
    _answer_begun("copriv.ledger-adopted/1", path, totals, as_json)


def _answer_begun(schema: str, path: Path, totals: Totals, as_json: bool) -> None:
    said = f"{path}: the ledger of {printable(totals.owner)}"
    if totals.before > 0:
        said += f", which begins with {float(totals.before):.6g} spent"
    said += ". Keep it, and back it up; it never begins again."
    answer(as_json, {"schema": schema, **totals_fields(totals)}, [said, f"Head {totals.head}"])
