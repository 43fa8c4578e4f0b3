"""`copriv data check`: everything that is wrong with a table, before anybody depends on it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from copriv.agreement import Agreement
from copriv.agreement.data_terms import own_table, schema_of
from copriv.cli.commands.options import AsJson, KeysFolder, WitnessFolder
from copriv.cli.show.console import out, plain_table
from copriv.cli.show.words import plain_number
from copriv.data import datasets
from copriv.data.preparation import Preparation
from copriv.data.schema import EncodedTable, Schema, check_table
from copriv.data.sql import is_sql, read_sql
from copriv.errors import AgreementError, CoprivError, DataError, InvalidInput, UsageError
from copriv.formatting.sanitize import printable
from copriv.losses import by_name
from copriv.problem import Problem

_LONGEST = 800
"""Characters of a line: what stands in a table may be of any length."""


@dataclass
class _Findings:
    """What was looked at, and every problem on a line of its own."""

    dataset: str
    description: str = ""
    owners: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    clamped: dict[str, int] = field(default_factory=dict)
    """Column → how many cells were out of bounds and count as a bound, as declared."""
    looked_at: list[str] = field(default_factory=list)
    """Besides the table: what else `owner serve` would read, and what it says."""
    columns: tuple[str, ...] = ()
    """Of the table, those that are read."""

    def to_json(self) -> str:
        return json.dumps({"schema": "copriv.data-check/1", "ok": not self.problems, **vars(self)}, indent=2)


def command(
    path: Annotated[
        str,
        typer.Argument(
            metavar="AGREEMENT|TABLE",
            help="An agreement; or, with --agreement, one owner's table as `owner serve --data` takes it.",
        ),
    ],
    agreement: Annotated[
        Path | None,
        typer.Option(metavar="AGREEMENT", help="The agreement that the table is for.", envvar="COPRIV_AGREEMENT"),
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Whose table it is.", envvar="COPRIV_OWNER")] = None,
    query: Annotated[str, typer.Option(metavar="SQL", help="The rows to read from a data base.")] = "",
    keys: KeysFolder = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What the owner allows; policy.toml in the keys' folder.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This data's ledger.", envvar="COPRIV_LEDGER")
    ] = None,
    witness: WitnessFolder = None,
    as_json: AsJson = False,
) -> None:
    """Check an agreement's data, or one owner's table (.csv, .parquet): one line for each problem."""
    if not is_sql(path) and Path(path).suffix.lower() == ".toml":
        found = _check_agreement(Agreement.load(path))
    elif agreement is None:
        raise UsageError(
            f"{printable(path, 200)}: to check a table, give the agreement it is for: --agreement AGREEMENT --owner NAME"
        )
    else:
        if query and not is_sql(path):
            raise UsageError("--query: is for a data base (duckdb:FILE, postgresql://…), and a file is read whole")
        terms = Agreement.load(agreement)
        name = _whose(terms, owner)
        found = _check_table(path, query, terms, agreement, name)
        if (keys, policy, ledger) != (None, None, None):
            from copriv.cli.commands.readiness import readiness

            ready = readiness(terms, name, found.columns, keys=keys, policy=policy, ledger=ledger, witness=witness)
            found.looked_at += ready.seen
            found.problems += ready.problems
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


def _whose(agreement: Agreement, name: str | None) -> str:
    if name is None or name not in agreement.owner_names:
        known = ", ".join(agreement.owner_names[:12])
        raise UsageError(f"--owner: {'missing' if name is None else repr(name)}; name one of the agreement's: {known}")
    return name


def _check_table(path: str, query: str, agreement: Agreement, beside: Path, name: str) -> _Findings:
    shown = "the rows of the query" if is_sql(path) else Path(path).name
    found = _Findings(agreement.data.named, f"{shown}, the table of {name}")
    agreed = agreement.owner[agreement.owner_names.index(name)]
    source: object = path
    if is_sql(path):
        declared = schema_of(agreement, agreed.unit)
        try:
            source = read_sql(path, query, None if declared is None else declared.names)
        except DataError as error:
            found.problems.append(str(error))
            return found
    read = _encoded(agreement, source, agreed.unit, found, "")
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
    if not found.problems and "auto" not in (agreement.data.feature_bound, agreement.agreement.rule):
        _as_served(agreement, beside, name, source, found)
    return found


def _as_served(agreement: Agreement, beside: Path, name: str, source: object, found: _Findings) -> None:
    """The way that `owner serve` goes with the table: through the agreed dictionary, under the agreed bound."""
    if agreement.data.mapped and agreement.data.dictionary is None:
        return  # the agreement is still to be completed by `init --network`
    try:
        from copriv.network.setup import load_dictionary, owner_records
    except ImportError:
        found.looked_at.append("without copriv[network], which `owner serve` needs: the dictionary was not looked at")
        return
    try:
        dictionary = load_dictionary(agreement, beside)
        records, _ = owner_records(agreement, name, source, dictionary)
    except CoprivError as error:
        found.problems.append(str(error))
        return
    if dictionary is not None:
        found.looked_at.append(f"dictionary {dictionary.fingerprint[:16]}…: {dictionary.components} components")
    bound = agreement.data.feature_bound
    found.owners[-1] |= {"features": records.n_parameters, "feature_bound": bound or None}


def _encoded(
    agreement: Agreement, path: object, unit: str | None, found: _Findings, where: str
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
    found.columns = schema.names
    found.clamped |= encoded.moved
    return encoded, schema


def _show(found: _Findings) -> None:
    console = out()
    if found.description:
        console.print(printable(found.description, _LONGEST))
    if found.owners:
        table = plain_table("owner", "agreed", "records", "features", "L1 bound on features", "bound on target")
        for owner in found.owners:
            bound = "none" if owner["feature_bound"] is None else plain_number(owner["feature_bound"])
            counts = (f"{owner['agreed']:,}", f"{owner['records']:,}", str(owner["features"]))
            table.add_row(printable(owner["name"], 60), *counts, bound, plain_number(owner["target_bound"]))
        console.print(table)
    for column, cells in found.clamped.items():
        console.print(f"{column}: {cells:,} {'value' if cells == 1 else 'values'} out of bounds, counted as the bound")
    for line in found.looked_at:
        console.print(printable(line, _LONGEST))
    for problem in found.problems:
        console.print(printable(problem, _LONGEST))
    many = len(found.problems)
    console.print("No problems." if not many else f"{many} problem{'' if many == 1 else 's'}.")
