"""`copriv ledger show`: every line of an owner's ledger, and what is left."""

import json

import typer

from copriv.cli.commands.options import AsJson, LedgerPath
from copriv.cli.show.console import out, plain_table
from copriv.cli.show.ledger import line_fields, spent, totals_fields
from copriv.formatting.sanitize import printable
from copriv.privacy.ledger.read import read_lines, verify


def command(path: LedgerPath, as_json: AsJson = False) -> None:
    """Every line of a ledger, and what is left. Reads only; an owner may be writing."""
    totals, lines = verify(path), list(read_lines(path))
    if as_json:
        document = {"schema": "copriv.ledger/1", **totals_fields(totals), "lines": [line_fields(x) for x in lines]}
        typer.echo(json.dumps(document, indent=2))
        return
    with_delta = totals.lifetime_delta > 0
    table = plain_table("line", "time", "what", "run", "query", "epsilon", *["delta"] * with_delta, left=5)
    for line in lines:
        # A query's name is the learner's to choose.
        said = (line.time[:19], line.kind, line.run[:8], line.identity[:12])
        row = (str(line.number), *map(printable, said))
        cost = ("", "") if line.epsilon is None else (f"{float(line.epsilon):.6g}", f"{float(line.delta):.6g}")
        table.add_row(*row, *cost[: 1 + with_delta])
    out().print(table)
    out().print(f"{printable(totals.owner)}: {spent(totals)}. Head {totals.head}")
