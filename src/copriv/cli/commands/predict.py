"""`copriv predict`: the target of each row of a table, by a model that a run gave."""

import json
from pathlib import Path
from typing import Annotated

import typer

from copriv.cli.commands.options import AsJson, ModelFile, Unfinished, argument, check_target, model_for_use, option
from copriv.cli.console import log
from copriv.cli.output import csv_text, replace_file, replace_own_file
from copriv.formatting.sanitize import cell


def command(
    model: ModelFile,
    table: Annotated[Path, argument("Rows to predict, .csv or .parquet.", metavar="TABLE")],
    to: Annotated[
        Path | None,
        option(
            "A .csv file; standard output if not given. A class name that a spreadsheet would compute gets a ' before "
            "it; --json has names as they are.",
            "--out",
            metavar="FILE",
        ),
    ] = None,
    unfinished: Unfinished = False,
    as_json: AsJson = False,
) -> None:
    """Predict the target of each row of a table, in the table's order."""
    check_target("--out", to, model, table)
    loaded = model_for_use(model, unfinished)
    scores, predicted = loaded.scores(table), loaded.predict(table)
    if as_json:
        document = {"schema": "copriv.predictions/1", "predictions": predicted, "scores": scores.tolist()}
        text = json.dumps(document, indent=2) + "\n"
    else:
        names: dict[object, str] = {one: cell(one) for one in set(predicted) if isinstance(one, str)}
        text = csv_text({"row": range(1, len(predicted) + 1), "prediction": [names.get(one, one) for one in predicted]})
    if to is None:
        typer.echo(text, nl=False)
    else:
        if loaded.at_home:
            replace_own_file(to, text.encode())
        else:
            replace_file(to, text.encode())
        log(f"wrote {to}")
