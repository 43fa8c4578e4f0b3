"""`copriv data`: downloads of the papers' data sets, and checks of an agreement's data or of an owner's table."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from copriv.cli.commands import options
from copriv.cli.commands.options import argument, option
from copriv.cli.console import answer, log, plain_table, progress
from copriv.data.fetch import REMOTES, data_folder
from copriv.data.fetch import fetch as fetched
from copriv.data.fetch import found as at_hand
from copriv.errors import AgreementError, CoprivError, InvalidInput, UsageError
from copriv.formatting.numbers import counted, plain_number
from copriv.formatting.sanitize import printable, without_user

if TYPE_CHECKING:
    from copriv.agreement import Agreement
    from copriv.data.dictionary import PublicDictionary
    from copriv.data.schema import EncodedTable, Schema


def fetch(
    name: Annotated[
        str | None, argument("creditcard, hospital, sparcs or lending; none: list them.", metavar="[NAME]")
    ] = None,
    source: Annotated[
        str | None, option("A file at hand, or another address.", "--from", metavar="PATH|ADDRESS")
    ] = None,
    again: Annotated[bool, option("Download anew.", "--again")] = False,
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
        argument(
            "An agreement; or, with --agreement, one owner's table as `owner serve --data` takes it.",
            metavar="AGREEMENT|TABLE",
        ),
    ],
    agreement: Annotated[Path | None, options.AgreementOption] = None,
    owner: Annotated[str | None, option("Whose table it is.", env="OWNER", metavar="NAME")] = None,
    query: options.Query = "",
    keys: options.KeysFolder = None,
    policy: options.PolicyFile = None,
    ledger: Annotated[Path | None, options.LedgerOption] = None,
    witness: options.WitnessFolder = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Check an agreement's data, or one owner's table (.csv, .parquet): one line for each problem."""
    from copriv.agreement import Agreement
    from copriv.data.sql import is_sql

    if not is_sql(path) and Path(path).suffix.lower() == ".toml":
        found = _Findings(Agreement.load(path))
        if owner is not None:
            _check_named(found.agreement, owner)
        found.check_agreement()
    elif agreement is None:
        shown = printable(without_user(path), 200)
        raise UsageError(f"{shown}: to check a table, give the agreement it is for: --agreement AGREEMENT --owner NAME")
    elif query and not is_sql(path):
        raise UsageError("--query: is for a data base (duckdb:FILE, postgresql://…), and a file is read whole")
    else:
        found = _Findings(Agreement.load(agreement))
        owner = _check_named(found.agreement, owner)
        found.check_table(path, query, agreement, owner, memory)
        if (keys, policy, ledger) != (None, None, None):
            found.check_readiness(owner, keys, policy, ledger, witness)
    answer(as_json, found.to_dict(), found.told())
    if found.problems:
        raise typer.Exit(InvalidInput.exit_code)


def _check_named(agreement: "Agreement", owner: str | None) -> str:
    """The owner's name. Raises UsageError where none is given, or nobody in the agreement is called that."""
    if owner is None or owner not in agreement.owner_names:
        known = ", ".join(agreement.owner_names[:12])
        given = "missing" if owner is None else repr(owner)
        raise UsageError(f"--owner: {given}; name one of the agreement's: {known}")
    return owner


@dataclass
class _Findings:
    """Results of the checks: what was checked, and each problem as a line."""

    agreement: "Agreement"
    description: str = ""
    owners: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    clamped: Counter[str] = field(default_factory=Counter)
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
            self._checked(data.public, None, where=f"{data.public}: ")
        if data.path is not None:
            self._checked(data.path, unit)
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
                counts = {"agreed": terms.records, "records": records.units, "features": records.n_parameters}
                self.owners.append({"name": terms.name, **counts, **bounds})

    def check_table(self, path: str, query: str, beside: Path, name: str, memory: float | None) -> None:
        """Check one owner's table in one pass, as `owner serve` would read it. `beside`: path of the agreement."""
        from copriv.data.public import Preparation
        from copriv.data.sql import is_sql
        from copriv.losses import by_name

        self.description = f"{Path(path).name}, the table of {name}"
        if is_sql(path):
            self.description = f"the rows of the query, the table of {name}"
        agreed, model, known = self.agreement.terms_of(name), self.agreement.model, len(self.problems)
        served, dictionary = self._as_served(path, query, beside, name, memory)
        if len(self.problems) > known:
            return
        preparation = Preparation(dictionary, None, model.intercept and served, agreed.unit_records)
        loss, units, features, refused = by_name(model.loss, model.threshold), 0, 0, dict[str, None]()

        def prepared(encoded: "EncodedTable") -> None:
            nonlocal units, features
            try:
                records = preparation.records(preparation.mapped(encoded))
                units, features = units + records.units, records.n_parameters
                loss.check_target(records.target)
            except InvalidInput as error:
                refused[str(error)] = None

        schema = self._checked(path, agreed.unit, query, prepared)
        if schema is None:
            return
        if units != agreed.records:
            self.problems.append(
                f"owner.records: {name} is agreed to hold {agreed.records} {agreed.counted}, the table has {units}; "
                "correct the agreement or the table"
            )
        self.problems += refused
        bound = self.agreement.data.feature_bound or None
        counts = {"agreed": agreed.records, "records": units, "features": features}
        bounds = {"feature_bound": bound if served else None, "target_bound": schema.target_bound}
        self.owners.append({"name": name, **counts, **bounds})

    def _as_served(
        self, path: str, query: str, beside: Path, name: str, memory: float | None
    ) -> "tuple[bool, PublicDictionary | None]":
        """Whether the table is checked as `owner serve` reads it, with the agreed dictionary and bound; and the dictionary."""
        data = self.agreement.data
        if "auto" in (data.feature_bound, self.agreement.agreement.rule) or (data.mapped and data.dictionary is None):
            return False, None  # `init --network` has yet to complete the agreement
        try:
            from copriv.network.setup import load_dictionary, memory_needed, n_parameters, streamed_records
        except ImportError:
            self.looked_at.append(
                "without copriv[network], which `owner serve` needs: the dictionary was not looked at"
            )
            return False, None
        dictionary = None
        with self._noted():
            dictionary = load_dictionary(self.agreement, beside)
            if dictionary is not None:
                self.looked_at.append(f"dictionary {dictionary.fingerprint[:16]}…: {dictionary.components} components")
            if memory is not None:
                needed, how = (
                    memory_needed(self.agreement, name, n_parameters(self.agreement, dictionary)) / 1e6,
                    "holds",
                )
                if needed > memory:
                    streamed_records(self.agreement, name, path, query, dictionary)
                    how = "does not hold"
                said = f"memory: `owner serve` needs about {needed:.3g} MB to hold the records, and {how} them under"
                self.looked_at.append(f"{said} {memory:g} MB")
        return True, dictionary

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

    def _checked(
        self,
        source: object,
        unit: str | None,
        query: str = "",
        each: "Callable[[EncodedTable], None]" = lambda encoded: None,
        where: str = "",
    ) -> "Schema | None":
        """Read a table once, in pieces where it can be, and add its problems to those found.

        each: called with each encoded piece that has no problems. Returns the schema; None where there are problems.
        """
        from copriv.agreement.data_terms import own_pieces, own_table
        from copriv.data.cells import Fault, joined
        from copriv.data.tables import read_table

        faults: list[Fault] = []
        rows, known, schema = 0, len(self.problems), None
        try:
            found = own_pieces(self.agreement, source, unit, query)
            if found is None:
                table, schema = own_table(self.agreement, source, unit, query)
                tables: Iterable[Any] = [read_table(table, schema.names)]
            else:
                pieces, schema = found
                tables = pieces()
            for table in tables:
                piece = read_table(table)
                encoded, wrong = schema.checked(piece)
                if len(piece):  # a file's reader begins with a piece without rows
                    faults = joined([*((0, one) for one in faults), *((rows, one) for one in wrong)])
                rows += len(piece)
                if encoded is not None:
                    self.clamped.update(encoded.moved)
                    each(encoded)
            if not rows:
                faults.append(Fault("table", "rows", "has no rows; give at least one record"))
        except AgreementError:
            raise
        except CoprivError as error:
            self.problems.append(f"{where}{error}")
        self.problems += [f"{where}{one}" for one in faults]
        if schema is None or len(self.problems) > known:
            return None
        self.columns = schema.names
        return schema

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
        longest = 800  # characters of a line, which can quote any cell of a table
        if self.description:
            yield printable(self.description, longest)
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
            yield printable(line, longest)
        if self.problems:
            yield f"{counted(len(self.problems), 'problem')}."
        else:
            yield "No problems."
