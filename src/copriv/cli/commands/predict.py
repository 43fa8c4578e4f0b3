"""`copriv predict`: the target of each row of a table, by a model that a run gave."""

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson, Unfinished
from copriv.cli.commands.party_options import check_folder
from copriv.cli.show.console import log
from copriv.cli.show.output import replace_file, replace_own_file
from copriv.formatting.sanitize import cell


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The file that copriv learner wrote.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Rows to predict, .csv or .parquet.")],
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="A .csv file; standard output if not given. A class name that a spreadsheet would compute gets a ' before "
            "it; --json has names as they are.",
        ),
    ] = None,
    unfinished: Unfinished = False,
    as_json: AsJson = False,
) -> None:
    """Predict the target of each row of a table, in the table's order."""
    from copriv.network.model import Model

    check_folder("--out", to)
    loaded = Model.load(model, unfinished)
    scores, predicted = loaded.scores(table), loaded.predict(table)
    if as_json:
        document = {"schema": "copriv.predictions/1", "predictions": predicted, "scores": scores.tolist()}
        text = json.dumps(document, indent=2) + "\n"
    else:
        buffer = StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["row", "prediction"])
        names: dict[object, str] = {one: cell(one) for one in set(predicted) if isinstance(one, str)}
        writer.writerows((row, names.get(one, one)) for row, one in enumerate(predicted, start=1))
        text = buffer.getvalue()
    if to is None:
        typer.echo(text, nl=False)
    else:
        write = replace_own_file if loaded.at_home else replace_file
        write(to, text.encode())
        log(f"wrote {to}")
