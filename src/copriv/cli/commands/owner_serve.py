"""`copriv owner serve`: answer the learner's queries on this owner's table, as agreed and as its policy allows."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.interrupted import going_on
from copriv.cli.commands.live_page import Ui, UiPort, owner_watch, serving
from copriv.cli.commands.options import KeysFolder, WitnessFolder
from copriv.cli.commands.party_options import check_address, party_keys
from copriv.cli.show.console import log
from copriv.cli.show.ledger import spent
from copriv.cli.show.owner_progress import beside
from copriv.data.sql import is_sql, read_sql
from copriv.losses import by_name
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.lines import Totals

if TYPE_CHECKING:
    from copriv.data.dictionary import PublicDictionary
    from copriv.model.records import InBlocks, Records


def command(
    agreement: Annotated[
        Path, typer.Option(metavar="AGREEMENT", help="The agreement, a TOML file.", envvar="COPRIV_AGREEMENT")
    ],
    data: Annotated[
        str,
        typer.Option(
            metavar="TABLE", help="A .csv or .parquet file, duckdb:FILE or postgresql://…", envvar="COPRIV_DATA"
        ),
    ],
    ledger: Annotated[Path, typer.Option(metavar="FILE", help="This data's ledger.", envvar="COPRIV_LEDGER")],
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Make the ledger if these keys never had one.")
    ] = False,
    witness: WitnessFolder = None,
    keys: KeysFolder = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which owner; that of the keys.", envvar="COPRIV_OWNER")
    ] = None,
    learner: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the learner listens.", envvar="COPRIV_LEARNER")
    ] = "127.0.0.1:7443",
    query: Annotated[str, typer.Option(metavar="SQL", help="The rows to read from a data base.")] = "",
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What this owner allows; policy.toml in the keys' folder, if there is one."),
    ] = None,
    ahead: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Pay for N answers ahead and draw the next one's noise.", envvar="COPRIV_AHEAD"
        ),
    ] = 0,
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="MB", min=0, help="Larger tables are read in blocks for each answer.", envvar="COPRIV_MEMORY"
        ),
    ] = None,
    give_up: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="How long to dial without an answer.")
    ] = 600.0,
    ui: Ui = False,
    ui_port: UiPort = 0,
) -> None:
    """Answer the learner's queries on this owner's table, until the agreement is fulfilled or the budget is spent."""
    from copriv.network.agent import OwnerAgent, Patience
    from copriv.network.grpc_transport import GrpcDialer
    from copriv.network.learner import STOPPED
    from copriv.network.setup import load_dictionary

    check_address("--learner", learner, least_port=1)
    terms = Agreement.load(agreement)
    own = party_keys(keys, "owner", name)
    name = own.name
    policy_file = _policy_file(policy, keys)
    rules = _policy(policy_file)
    dictionary = load_dictionary(terms, agreement)
    records, columns = _own_records(terms, name, data, query, dictionary, memory)
    ε, δ = rules.lifetime(terms, name)
    if new_ledger and not ledger.exists():
        create_ledger(ledger, name, witness, keys=keys)
    with LedgerFile.open(ledger, name, Fraction(ε), Fraction(δ), ahead, witness, keys) as file:
        _promise(terms, name, learner, rules.learner, file.totals)
        promise = terms.mechanism.promise(terms, terms.owner[terms.owner_names.index(name)])
        log(f"policy: {policy_file or 'none; whatever the agreement says is answered, once'}")
        watch = None if not ui else owner_watch(name, terms.fingerprint, f"{rules.learner} at {learner}", promise)
        agent = OwnerAgent(
            terms,
            name,
            records,
            by_name(terms.model.loss, terms.model.threshold),
            file,
            GrpcDialer(learner, own, rules.learner),
            policy=rules,
            keys=own,
            dictionary="" if dictionary is None else dictionary.fingerprint,
            columns=columns,
            patience=Patience(give_up=give_up),
            log=log if watch is None else watch.heard(log),
            noise_ahead=ahead > 0,
        )
        how = f"{name} can go on: start the same command again; what it has answered stays answered, and paid for"
        with going_on(how):
            reason = serving(lambda: beside(agent.serve(), name, terms, lambda: file.totals), file, watch, ui_port)
        if reason.startswith(STOPPED):
            again = "start this command again when the learner goes on with it"
            typer.echo(f"{name}: the run was {reason}; {again}; {spent(file.totals)}")
        else:
            typer.echo(f"{name}: the run is over ({reason}); {spent(file.totals)}")


def _promise(agreement: Agreement, name: str, address: str, learner_name: str, totals: Totals) -> None:
    """What will be answered and to whom, before anything is."""
    log(f"{name} answers to {learner_name!r} at {address}, under agreement {agreement.fingerprint[:16]}…")
    log(agreement.mechanism.promise(agreement, agreement.owner[agreement.owner_names.index(name)]))
    log(f"ledger: {spent(totals)}")


def _own_records(
    agreement: Agreement, name: str, data: str, query: str, dictionary: "PublicDictionary | None", memory: float | None
) -> "tuple[Records | InBlocks, tuple[str, ...]]":
    """An owner's records, in memory unless they take more of it than `memory` megabytes."""
    from copriv.network.setup import declared_schema, memory_needed, n_parameters, owner_records, streamed_records

    if memory is not None and name in agreement.owner_names:
        needed = memory_needed(agreement, name, n_parameters(agreement, dictionary)) / 1e6
        if needed > memory:
            log(
                f"{name}: the table takes about {needed:.3g} MB, more than {memory:g}; it is read in blocks for each answer"
            )
            return streamed_records(agreement, name, data, query, dictionary)
    declared = declared_schema(agreement)
    source: object = read_sql(data, query, None if declared is None else declared.names) if is_sql(data) else data
    return owner_records(agreement, name, source, dictionary)


def _policy_file(path: Path | None, keys: Path | None) -> Path | None:
    inside = None if keys is None else keys / "policy.toml"
    return inside if path is None and inside is not None and inside.is_file() else path


def _policy(path: Path | None) -> Any:
    from copriv.network.policy import Policy

    return Policy() if path is None else Policy.load(path)
