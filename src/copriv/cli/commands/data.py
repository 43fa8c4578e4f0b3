"""`copriv data`: downloads of the papers' data sets, and checks of an agreement's data or of an owner's table."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from copriv.cli.commands import options
from copriv.cli.show.console import answer, log, plain_table, progress
from copriv.data.fetch import REMOTES, data_folder
from copriv.data.fetch import fetch as fetched
from copriv.data.fetch import found as at_hand
from copriv.errors import AgreementError, CoprivError, DataError, InvalidInput, UsageError
from copriv.formatting.numbers import counted, plain_number
from copriv.formatting.sanitize import printable

if TYPE_CHECKING:
    from copriv.agreement import Agreement
    from copriv.data.schema import EncodedTable, Schema


def fetch(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="creditcard, hospital, sparcs or lending; none: list them.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH|ADDRESS", help="A file at hand, or another address."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Download anew.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Download a data set of the papers, or take it from a file; it is then found by `copriv reproduce`."""
    document: dict[str, Any] = {"schema": "copriv.fetch/1"}
    if name is None:
        table, known = plain_table("name", "what", "here", left=3), []
        for one in REMOTES.values():
            path = str(at_hand(one.name) or "")
            known.append({"name": one.name, "title": one.title, "address": one.address, "path": path})
            table.add_row(one.name, one.title, path or "not fetched")
        answer(as_json, document | {"folder": str(data_folder()), "known": known}, [table])
        return
    with progress(f"fetching {name}") as report:
        kept = fetched(name, source, report, again)
    log(f"kept as {kept}, its checksum beside it")
    record = json.loads(Path(f"{kept}.json").read_text(encoding="utf-8"))
    answer(as_json, document | {"name": name, "path": str(kept), **record}, [str(kept)])


def check(
    path: Annotated[
        str,
        typer.Argument(
            metavar="AGREEMENT|TABLE",
            help="An agreement; or, with --agreement, one owner's table as `owner serve --data` takes it.",
        ),
    ],
    agreement: Annotated[Path | None, options.AgreementOption] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Whose table it is.", envvar="COPRIV_OWNER")] = None,
    query: options.Query = "",
    keys: options.KeysFolder = None,
    policy: options.PolicyFile = None,
    ledger: Annotated[Path | None, options.LedgerOption] = None,
    witness: options.WitnessFolder = None,
    as_json: options.AsJson = False,
) -> None:
    """Check an agreement's data, or one owner's table (.csv, .parquet): one line for each problem."""
    from copriv.agreement import Agreement
    from copriv.data.sql import is_sql

    if not is_sql(path) and Path(path).suffix.lower() == ".toml":
        found = _Findings(Agreement.load(path))
        found.check_agreement()
    elif agreement is None:
        raise UsageError(
            f"{printable(path, 200)}: to check a table, give the agreement it is for: --agreement AGREEMENT --owner NAME"
        )
    elif query and not is_sql(path):
        raise UsageError("--query: is for a data base (duckdb:FILE, postgresql://…), and a file is read whole")
    else:
        found = _Findings(Agreement.load(agreement))
        if owner is None or owner not in found.agreement.owner_names:
            known = ", ".join(found.agreement.owner_names[:12])
            given = "missing" if owner is None else repr(owner)
            raise UsageError(f"--owner: {given}; name one of the agreement's: {known}")
        found.check_table(path, query, agreement, owner)
        if (keys, policy, ledger) != (None, None, None):
            found.check_readiness(owner, keys, policy, ledger, witness)
    answer(as_json, found.to_dict(), found.told())
    if found.problems:
        raise typer.Exit(InvalidInput.exit_code)


@dataclass
class _Findings:
    """Results of the checks: what was checked, and each problem as a line."""

    agreement: "Agreement"
    description: str = ""
    owners: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    clamped: dict[str, int] = field(default_factory=dict)
    """Number of cells per column that were out of bounds and count as the bound, as declared."""
    looked_at: list[str] = field(default_factory=list)
    """Results on the other files that `owner serve` would read."""
    columns: tuple[str, ...] = ()
    """Columns of the table that are read."""

    @contextmanager
    def _noted(self, errors: type[CoprivError] = CoprivError) -> Iterator[None]:
        """Add the error that the block raises to the problems."""
        try:
            yield
        except errors as error:
            self.problems.append(str(error))

    def check_agreement(self) -> None:
        """Check the tables that the agreement names, and the records that its owners get from them."""
        from copriv.data import datasets
        from copriv.problem import Problem

        data, unit = self.agreement.data, self.agreement.owner[0].unit
        if data.public is not None:
            self._encoded(data.public, None, f"{data.public}: ")
        if data.path is not None:
            self._encoded(data.path, unit)
        elif data.public is not None and datasets.named(data.named).own_columns:
            self.description = f"{data.public}, the public rows; the owners' tables are not here"
            return
        if self.problems:
            return
        with self._noted(InvalidInput):
            problem = Problem.load(self.agreement)
            self.description = problem.description
            bounds = {"feature_bound": problem.feature_bound, "target_bound": problem.target_bound}
            for terms, records in zip(self.agreement.owner, problem.owners, strict=True):
                self._holds(terms, records, **bounds)

    def check_table(self, path: str, query: str, beside: Path, name: str) -> None:
        """Check one owner's table as `owner serve` would read it. `beside`: path of the agreement."""
        from copriv.agreement.data_terms import schema_of
        from copriv.data.public import Preparation
        from copriv.data.sql import is_sql, read_sql
        from copriv.losses import by_name

        self.description = f"{Path(path).name}, the table of {name}"
        agreed = self.agreement.terms_of(name)
        source: object = path
        if is_sql(path):
            self.description = f"the rows of the query, the table of {name}"
            declared = schema_of(self.agreement, agreed.unit)
            try:
                names = declared.names if declared else None
                source = read_sql(path, query, names, own_order=agreed.unit_records is not None)
            except DataError as error:
                self.problems.append(str(error))
                return
        read = self._encoded(source, agreed.unit)
        if read is None:
            return
        encoded, schema = read
        records = Preparation(None, None, unit_records=agreed.unit_records).records(encoded)
        if records.units != agreed.records:
            what = "persons" if agreed.unit else "records"
            self.problems.append(
                f"owner.records: {name} is agreed to hold {agreed.records} {what}, the table has {records.units}; "
                "correct the agreement or the table"
            )
        with self._noted(InvalidInput):
            by_name(self.agreement.model.loss, self.agreement.model.threshold).check_target(records.target)
        self._holds(agreed, records, feature_bound=None, target_bound=schema.target_bound)
        if not self.problems and "auto" not in (self.agreement.data.feature_bound, self.agreement.agreement.rule):
            self._check_as_served(beside, name, source)

    def _check_as_served(self, beside: Path, name: str, source: object) -> None:
        """Map the table through the agreed dictionary under the agreed bound, as `owner serve` does."""
        data = self.agreement.data
        if data.mapped and data.dictionary is None:
            return  # `init --network` has yet to complete the agreement
        try:
            from copriv.network.setup import load_dictionary, owner_records
        except ImportError:
            self.looked_at.append(
                "without copriv[network], which `owner serve` needs: the dictionary was not looked at"
            )
            return
        with self._noted():
            dictionary = load_dictionary(self.agreement, beside)
            records, _ = owner_records(self.agreement, name, source, dictionary)
            if dictionary is not None:
                self.looked_at.append(f"dictionary {dictionary.fingerprint[:16]}…: {dictionary.components} components")
            self.owners[-1] |= {"features": records.n_parameters, "feature_bound": data.feature_bound or None}

    def check_readiness(
        self, name: str, keys: Path | None, policy: Path | None, ledger: Path | None, witness: Path | None
    ) -> None:
        """Check keys, policy and ledger as `owner serve` does when it begins; nothing is charged or written."""
        from copriv.network.policy import Policy

        rules, file = Policy(), options.policy_file(policy, keys)
        if keys is not None:
            with self._noted():
                own = options.party_keys(keys, "owner", name)
                own.check_agreed(self.agreement.owner_keys.get(name))
                self.looked_at.append(f"keys {keys}: those of {own.name}, certificate {own.party.fingerprint[:16]}…")
        if file is not None:
            with self._noted():
                rules = Policy.load(file)
                rules.check(self.agreement, name, self.columns)
                self.looked_at.append(f"policy {file}: allows this agreement")
        if ledger is not None:
            with self._noted():
                self._check_budget(name, ledger, keys or witness, *map(Fraction, rules.lifetime(self.agreement, name)))

    def _check_budget(self, name: str, ledger: Path, witness: Path | None, ε: Fraction, δ: Fraction) -> None:
        from copriv.privacy.ledger.read import verify

        totals = verify(ledger, None, witness)
        if totals.owner != name:
            self.problems.append(f"{ledger}: is the ledger of {totals.owner}, not of {name}; give its own")
            return
        agreement = self.agreement
        terms = agreement.terms_of(name)
        said = f"{ledger}: {float(totals.committed):.6g} of {float(ε):.6g} spent"
        if any(run.fingerprint == agreement.fingerprint and run.charged < run.cap for run in totals.runs.values()):
            self.looked_at.append(f"{said}; a run of this agreement is under way, and goes on")
        elif totals.committed + Fraction(terms.epsilon) > ε or totals.spent_delta + Fraction(terms.delta) > δ:
            self.problems.append(
                f"{said}, and a run of this agreement takes {terms.epsilon:g}: it would be refused; raise "
                "policy.lifetime_epsilon only if you mean it"
            )
        else:
            self.looked_at.append(f"{said}, enough for a run")

    def _encoded(self, path: object, unit: str | None, where: str = "") -> "tuple[EncodedTable, Schema] | None":
        """An encoded table and its schema; None where it has problems, which are added to those found."""
        from copriv.agreement.data_terms import own_table
        from copriv.data.schema import check_table

        try:
            table, schema = own_table(self.agreement, path, unit)
        except AgreementError:
            raise
        except CoprivError as error:
            self.problems.append(f"{where}{error}")
            return None
        problems = check_table(table, schema)
        self.problems += [f"{where}{problem}" for problem in problems]
        if problems:
            return None
        encoded = schema.encode(table)
        self.columns = schema.names
        self.clamped |= encoded.moved
        return encoded, schema

    def _holds(self, terms: Any, records: Any, **bounds: float | None) -> None:
        counts = {"records": records.units, "features": records.n_parameters}
        self.owners.append({"name": terms.name, "agreed": terms.records, **counts, **bounds})

    def to_dict(self) -> dict[str, Any]:
        """JSON of schema `copriv.data-check/1`."""
        return {
            "schema": "copriv.data-check/1",
            "ok": not self.problems,
            "dataset": self.agreement.data.named,
            **{key: value for key, value in vars(self).items() if key != "agreement"},
        }

    def told(self) -> Iterator[RenderableType]:
        """The results as lines and a table."""
        if self.description:
            yield printable(self.description, _LONGEST)
        if self.owners:
            table = plain_table("owner", "agreed", "records", "features", "L1 bound on features", "bound on target")
            for owner in self.owners:
                bound = "none" if owner["feature_bound"] is None else plain_number(owner["feature_bound"])
                counts = (f"{owner['agreed']:,}", f"{owner['records']:,}", str(owner["features"]))
                table.add_row(printable(owner["name"], 60), *counts, bound, plain_number(owner["target_bound"]))
            yield table
        for column, cells in self.clamped.items():
            yield f"{printable(column, 60)}: {counted(cells, 'value')} out of bounds, counted as the bound"
        for line in (*self.looked_at, *self.problems):
            yield printable(line, _LONGEST)
        if self.problems:
            yield f"{counted(len(self.problems), 'problem')}."
        else:
            yield "No problems."


_LONGEST = 800
"""Largest number of characters of a line, which can quote any cell of a table."""
