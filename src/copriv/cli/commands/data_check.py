"""`copriv data check`: everything that is wrong with a table, before anybody depends on it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from copriv.agreed_data import own_table
from copriv.agreement import Agreement
from copriv.cli.commands.options import AsJson
from copriv.cli.show.console import out, plain_table
from copriv.cli.show.words import plain_number
from copriv.data import datasets
from copriv.data.preparation import Preparation
from copriv.data.schema import EncodedTable, Schema, check_table
from copriv.errors import AgreementError, CoprivError, InvalidInput, UsageError
from copriv.losses import by_name
from copriv.problem import Problem


@dataclass
class _Findings:
    """What was looked at, and every problem on a line of its own."""

    dataset: str
    description: str = ""
    owners: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    clamped: dict[str, int] = field(default_factory=dict)
    """Column → how many cells were out of bounds and count as a bound, as declared."""

    def to_json(self) -> str:
        return json.dumps({"schema": "copriv.data-check/1", "ok": not self.problems, **vars(self)}, indent=2)


def command(
    path: Annotated[
        Path, typer.Argument(metavar="AGREEMENT|TABLE", help="An agreement; or, with --agreement, one owner's table.")
    ],
    agreement: Annotated[
        Path | None,
        typer.Option(metavar="AGREEMENT", help="The agreement that the table is for.", envvar="COPRIV_AGREEMENT"),
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Whose table it is.", envvar="COPRIV_OWNER")] = None,
    as_json: AsJson = False,
) -> None:
    """Check an agreement's data, or one owner's table (.csv, .parquet): one line for each problem."""
    if path.suffix.lower() == ".toml":
        found = _check_agreement(Agreement.load(path))
    elif agreement is None:
        raise UsageError(f"{path}: to check a table, give the agreement it is for: --agreement AGREEMENT --owner NAME")
    else:
        found = _check_table(path, Agreement.load(agreement), owner)
    if as_json:
        typer.echo(found.to_json())
    else:
        _show(found)
    if found.problems:
        raise typer.Exit(InvalidInput.exit_code)


def _check_agreement(agreement: Agreement) -> _Findings:
    found = _Findings(agreement.data.named)
    data, unit = agreement.data, agreement.owner[0].unit
    if data.public is not None:
        _encoded(agreement, data.public, None, found, f"{data.public}: ")
    if data.path is not None:
        _encoded(agreement, data.path, unit, found, "")
    elif data.public is not None and datasets.named(data.named).own_columns:
        found.description = f"{data.public}, the public rows; the owners' tables are not here"
        return found
    if found.problems:
        return found
    try:
        problem = Problem.load(agreement)
    except InvalidInput as error:
        found.problems.append(str(error))
        return found
    found.description = problem.description
    for terms, records in zip(agreement.owner, problem.owners, strict=True):
        found.owners.append(
            {
                "name": terms.name,
                "agreed": terms.records,
                "records": records.units,
                "features": records.n_parameters,
                "feature_bound": problem.feature_bound,
                "target_bound": problem.target_bound,
            }
        )
    return found


def _check_table(path: Path, agreement: Agreement, name: str | None) -> _Findings:
    terms = {owner.name: owner for owner in agreement.owner}
    if name is None or name not in terms:
        known = ", ".join(list(terms)[:12])
        raise UsageError(f"--owner: {'missing' if name is None else repr(name)}; name one of the agreement's: {known}")
    found = _Findings(agreement.data.named, f"{path.name}, the table of {name}")
    agreed = terms[name]
    read = _encoded(agreement, str(path), agreed.unit, found, "")
    if read is None:
        return found
    encoded, schema = read
    records = Preparation(None, None, unit_records=agreed.unit_records).records(encoded)
    if records.units != agreed.records:
        what = "persons" if agreed.unit else "records"
        found.problems.append(
            f"owner.records: {name} is agreed to hold {agreed.records} {what}, the table has {records.units}; "
            "correct the agreement or the table"
        )
    try:
        by_name(agreement.model.loss, agreement.model.threshold).check_target(records.target)
    except InvalidInput as error:
        found.problems.append(str(error))
    found.owners.append(
        {
            "name": name,
            "agreed": agreed.records,
            "records": records.units,
            "features": records.n_parameters,
            "feature_bound": None,
            "target_bound": schema.target_bound,
        }
    )
    return found


def _encoded(
    agreement: Agreement, path: str, unit: str | None, found: _Findings, where: str
) -> tuple[EncodedTable, Schema] | None:
    """A party's table as numbers; None where it has problems, which are then among those found."""
    try:
        table, schema = own_table(agreement, path, unit)
    except AgreementError:
        raise
    except CoprivError as error:
        found.problems.append(f"{where}{error}")
        return None
    problems = check_table(table, schema)
    found.problems += [f"{where}{problem}" for problem in problems]
    if problems:
        return None
    encoded = schema.encode(table)
    found.clamped |= encoded.moved
    return encoded, schema


def _show(found: _Findings) -> None:
    console = out()
    if found.description:
        console.print(found.description)
    if found.owners:
        table = plain_table("owner", "agreed", "records", "features", "L1 bound on features", "bound on target")
        for owner in found.owners:
            bound = "none" if owner["feature_bound"] is None else plain_number(owner["feature_bound"])
            counts = (f"{owner['agreed']:,}", f"{owner['records']:,}", str(owner["features"]))
            table.add_row(owner["name"], *counts, bound, plain_number(owner["target_bound"]))
        console.print(table)
    for column, cells in found.clamped.items():
        console.print(f"{column}: {cells:,} {'value' if cells == 1 else 'values'} out of bounds, counted as the bound")
    for problem in found.problems:
        console.print(problem)
    many = len(found.problems)
    console.print("No problems." if not many else f"{many} problem{'' if many == 1 else 's'}.")
