"""`copriv owner serve`, `copriv learner`, `copriv ledger show|verify`, `copriv predict`; and what `copriv init
--network` and `copriv demo --network` call.

`owner_app` and `ledger_app` are mounted as `owner` and `ledger`; `learner` and `predict` are commands of their own;
`init_network` and `demo_network` are plain functions. All that these need beyond copriv's core is the extra [network].
"""

import asyncio
import csv
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.live import Live
from rich.table import Table

from copriv.agreement import Agreement
from copriv.answering import noise_scale, promise, spent_after
from copriv.cli.console import log, out, plain_table
from copriv.cli.output import replace_file
from copriv.data.sql import is_sql, read_sql
from copriv.errors import CoprivError, Unreachable, UsageError
from copriv.losses import by_name
from copriv.privacy.sqlite_ledger import LedgerFile, Totals, read_lines, verify

if TYPE_CHECKING:
    from copriv.data.dictionary import PublicDictionary
    from copriv.network.conductor import Conductor
    from copriv.network.store import Event
    from copriv.records import InBlocks, Records

owner_app = typer.Typer(help="A data owner's own process.", no_args_is_help=True, rich_markup_mode=None)
ledger_app = typer.Typer(help="What an owner has spent.", no_args_is_help=True, rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.", envvar="COPRIV_JSON")]
KeysFolder = Annotated[
    Path | None,
    typer.Option("--keys", metavar="DIR", help="This party's folder of keys.", envvar="COPRIV_KEYS", file_okay=False),
]
LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="An owner's ledger file.", envvar="COPRIV_LEDGER")]


@owner_app.callback()
def _owner() -> None:
    pass


@ledger_app.callback()
def _ledger() -> None:
    pass


@owner_app.command("serve")
def serve(
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
) -> None:
    """Answer the learner's queries on this owner's table, until the agreement is fulfilled or the budget is spent."""
    from copriv.network.agent import OwnerAgent, Patience
    from copriv.network.grpc_transport import GrpcDialer
    from copriv.network.learner import STOPPED
    from copriv.network.setup import load_dictionary

    _check_address("--learner", learner, least_port=1)
    terms = Agreement.load(agreement)
    own = _keys(keys, "owner", name)
    name = own.name
    policy_file = _policy_file(policy, keys)
    rules = _policy(policy_file)
    dictionary = load_dictionary(terms, agreement)
    records, columns = _own_records(terms, name, data, query, dictionary, memory)
    ε, δ = rules.lifetime(terms, name)
    with LedgerFile.open(ledger, name, Fraction(ε), Fraction(δ), ahead) as file:
        _promise(terms, name, learner, rules.learner, file.totals)
        log(f"policy: {policy_file or 'none; whatever the agreement says is answered, once'}")
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
            log=log,
            noise_ahead=ahead > 0,
        )
        reason = asyncio.run(_stoppable(agent.serve()))
        if reason.startswith(STOPPED):
            again = "start this command again when the learner goes on with it"
            typer.echo(f"{name}: the run was {reason}; {again}; {_spent(file.totals)}")
        else:
            typer.echo(f"{name}: the run is over ({reason}); {_spent(file.totals)}")


@ledger_app.command("show")
def show(path: LedgerPath, as_json: AsJson = False) -> None:
    """Every line of a ledger, and what is left. Reads only; an owner may be writing."""
    totals, lines = verify(path), list(read_lines(path))
    if as_json:
        typer.echo(
            json.dumps({"schema": "copriv.ledger/1", **_totals(totals), "lines": [_shown(x) for x in lines]}, indent=2)
        )
        return
    with_delta = totals.lifetime_delta > 0
    table = plain_table("line", "time", "what", "run", "query", "epsilon", *["delta"] * with_delta, left=5)
    for line in lines:
        row = (str(line.number), line.time[:19], line.kind, line.run[:8], line.identity[:12])
        cost = ("", "") if line.epsilon is None else (f"{float(line.epsilon):.6g}", f"{float(line.delta):.6g}")
        table.add_row(*row, *cost[: 1 + with_delta])
    out().print(table)
    out().print(f"{totals.owner}: {_spent(totals)}. Head {totals.head}")


@ledger_app.command("verify")
def check(
    path: LedgerPath,
    head: Annotated[str | None, typer.Option(metavar="HASH", help="A head that was written down elsewhere.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check every line of a ledger and the sums; with --head, also that no older copy was put back."""
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise UsageError(f"--head: a head has 64 hexadecimal digits, not {head!r}; `copriv ledger show` prints it")
    totals = verify(path, head)
    if as_json:
        typer.echo(json.dumps({"schema": "copriv.ledger-verified/1", "ok": True, **_totals(totals)}, indent=2))
    else:
        out().print(f"{totals.lines} lines, unbroken. {totals.owner}: {_spent(totals)}. Head {totals.head}")


def learner(
    agreement: Annotated[
        Path, typer.Argument(metavar="AGREEMENT", help="The agreement, a TOML file.", envvar="COPRIV_AGREEMENT")
    ],
    store: Annotated[Path, typer.Option(metavar="FILE", help="Where the run is kept.", envvar="COPRIV_STORE")],
    keys: KeysFolder = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where owners dial.", envvar="COPRIV_LISTEN")
    ] = "127.0.0.1:7443",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the store.")] = False,
    talk: Annotated[
        str, typer.Option(metavar="HOW", help="choose, broadcast or request: how owners come to their turns.")
    ] = "choose",
    at_once: Annotated[int | None, typer.Option(min=1, help="A2: owners at work at once; all when not given.")] = None,
    begin: Annotated[
        str, typer.Option(metavar="WHEN", help="all: once every owner has come; any: with the first.")
    ] = "all",
    deadline: Annotated[float, typer.Option(metavar="SECONDS", min=0.01, help="After which an owner is late.")] = 30.0,
    stragglers: Annotated[
        str, typer.Option(metavar="HOW", help="S1, S2: wait for late owners, or drop them.")
    ] = "wait",
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Without any answer, before the run is stopped.")
    ] = 300.0,
    pace: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Owners' mean waiting time (broadcast, request).")
    ] = 0.02,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the model goes; the store's name + .json.")
    ] = None,
    skops: Annotated[Path | None, typer.Option(metavar="FILE", help="Also a scikit-learn estimator, by skops.")] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append events there as JSON lines; -: stderr.")
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE", help="The learner's public rows; public.parquet beside the keys, if there is one."
        ),
    ] = None,
    forecast_runs: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Simulated runs of the forecast that the run is held against; 0: none."),
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """Wait for owners, conduct the run, write the model. A run that was stopped or killed goes on with --resume."""
    from copriv.cli.realised import compared, realised
    from copriv.network.conductor import Conduct, Conductor
    from copriv.network.grpc_transport import GrpcListener
    from copriv.network.learner import Learner
    from copriv.network.model import Model
    from copriv.network.setup import load_dictionary, n_parameters
    from copriv.network.store import RunStore

    for option, value, known in (
        ("--talk", talk, ("choose", "broadcast", "request")),
        ("--begin", begin, ("all", "any")),
        ("--stragglers", stragglers, ("wait", "drop")),
    ):
        if value not in known:
            raise UsageError(f"{option}: must be {' or '.join(known)}, not {value!r}")
    _check_address("--listen", listen, least_port=0)
    # What is found out at the end would be found out after the owners' budgets are spent.
    for option, file in (("--model", model), ("--skops", skops), ("--events", events)):
        _check_folder(option, file)
    terms, own = Agreement.load(agreement), _keys(keys, "learner")
    conduct = Conduct(
        cast(Any, talk), at_once, deadline, begin=cast(Any, begin), stragglers=cast(Any, stragglers), patience=patience
    )
    dictionary = load_dictionary(terms, agreement)
    p = n_parameters(terms, dictionary)
    rows = _public_rows(terms, public, keys, dictionary)
    begun, is_new = time.monotonic(), not store.exists()
    run = RunStore.resume(store, terms) if resume else RunStore.create(store, terms, p)
    listened: list[str] = []

    def listening(address: str) -> None:
        listened.append(address)
        log(f"listening at {address}; run {run.run[:8]}")

    try:
        conductor = Conductor(run, conduct, time.monotonic())
        with _Following(conductor, events):
            outcome = asyncio.run(
                _stoppable(
                    Learner(
                        conductor,
                        GrpcListener(listen, own),
                        keys=own,
                        dictionary="" if dictionary is None else dictionary.fingerprint,
                        pace=pace,
                        on_listening=listening,
                    ).run()
                )
            )
        path = model or store.with_suffix(".json")
        seconds = time.monotonic() - begun
        record = _record(conductor, seconds) | {"realised": realised(conductor, rows, seconds), "forecast": None}
        result = Model(terms, conductor.model, dictionary, record)
        # The model is safe before anything else is tried.
        replace_file(path, result.to_json().encode() + b"\n")
        if rows is not None and forecast_runs > 0 and outcome.status == "finished":
            record["forecast"] = _expected(terms, rows, forecast_runs)
            replace_file(path, result.to_json().encode() + b"\n")
        if skops is not None:
            result.save_skops(skops)
    finally:
        run.close()
        if is_new and not listened:
            store.unlink(missing_ok=True)  # nothing began; a file that was there before is not ours to remove
    if as_json:
        typer.echo(result.to_json())
    else:
        out().print(_owners_table(result.record["owners"]))
        out().print(compared(record["realised"], record["forecast"]))
        out().print(f"{outcome.status}: {outcome.reason}. Wrote {path}")
    if outcome.status == "stopped":
        raise Unreachable(f"the run stopped: {outcome.reason}")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The file that copriv learner wrote.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Rows to predict, .csv or .parquet.")],
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A .csv file; standard output if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the target of each row of a table, in the table's order."""
    from copriv.network.model import Model

    _check_folder("--out", to)
    loaded = Model.load(model)
    scores, predicted = loaded.scores(table), loaded.predict(table)
    if as_json:
        document = {"schema": "copriv.predictions/1", "predictions": predicted, "scores": scores.tolist()}
        text = json.dumps(document, indent=2) + "\n"
    else:
        from io import StringIO

        buffer = StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["row", "prediction"])
        writer.writerows(enumerate(predicted, start=1))
        text = buffer.getvalue()
    if to is None:
        typer.echo(text, nl=False)
    else:
        replace_file(to, text.encode())
        log(f"wrote {to}")


def init_network(agreement: Path, folder: Path, public: Path | None = None, days: int = 365) -> None:
    """`copriv init --network`: write every party's files. Raises as `make_consortium` does."""
    from copriv.network.setup import make_consortium

    made = make_consortium(Agreement.load(agreement), folder, public, days)
    for path in made.files:
        log(f"wrote {path}")
    out().print(
        f"Give {folder}/agreement.toml{'' if made.dictionary is None else ' and dictionary.json'} to everybody, and "
        f"each folder to its own party over a safe way. Keep {folder}/authority."
    )


def demo_network(
    agreement: Agreement, folder: Path | None = None, as_json: bool = False, talk: str = "choose"
) -> dict[str, Any]:
    """`copriv demo --network`: owners and learner as processes of their own on this machine, over mutual TLS.

    Writes everything into `folder` (a temporary one when None) and shows the commands that it runs. Gives the run's
    record. Raises Unreachable where the run does not finish.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="copriv-") as made:
            return demo_network(agreement, Path(made) / "consortium", as_json, talk)
    from copriv.network.model import Model
    from copriv.network.setup import make_consortium, share_out

    make_consortium(agreement, folder)
    tables = share_out(agreement, folder)
    copriv = [sys.executable, "-c", "from copriv.cli import main; main()"]
    file = str(folder / "agreement.toml")
    learner_log = folder / "learner.log"
    at_learner = ["learner", file, "--store", str(folder / "run.db"), "--keys", str(folder / "learner")]
    at_learner += ["--listen", "127.0.0.1:0", "--talk", talk, "--patience", "60"]
    processes: list[subprocess.Popen[bytes]] = []

    def start(arguments: list[str], errors: Path) -> None:
        log("copriv " + " ".join(arguments))
        with errors.open("wb") as stream:
            processes.append(subprocess.Popen([*copriv, *arguments], stdout=subprocess.DEVNULL, stderr=stream))

    try:
        start(at_learner, learner_log)
        address = _address_in(learner_log, processes[0])
        for table in tables:
            own = table.parent
            at_owner = ["owner", "serve", "--agreement", file, "--data", str(table), "--keys", str(own)]
            at_owner += ["--ledger", str(own / "data.ledger"), "--learner", address]
            start(at_owner, own / "owner.log")
        for process in processes:
            if process.wait(120) != 0:
                logs = " ".join(path.read_text().strip()[-300:] for path in sorted(folder.glob("**/*.log")))
                raise Unreachable(f"a process of the demonstration failed: {logs}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
    model = Model.load(folder / "run.json")
    if as_json:
        typer.echo(json.dumps(model.record, indent=2))
    else:
        from copriv.cli.realised import compared

        out().print(_owners_table(model.record["owners"]))
        out().print(compared(model.record["realised"], model.record["forecast"]))
        out().print(f"{model.record['outcome']}, in {model.record['seconds']:.1f} s over mutual TLS on this machine.")
    return model.record


# What is shown -------------------------------------------------------------------------------------------------------


def _promise(agreement: Agreement, name: str, address: str, learner_name: str, totals: Totals) -> None:
    """What will be answered and to whom, before anything is."""
    log(f"{name} answers to {learner_name!r} at {address}, under agreement {agreement.fingerprint[:16]}…")
    log(promise(agreement, agreement.owner[agreement.owner_names.index(name)]))
    log(f"ledger: {_spent(totals)}")


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


def _spent(totals: Totals) -> str:
    δ = ""
    if totals.lifetime_delta > 0:
        δ = f", delta {float(totals.spent_delta):.6g} of {float(totals.lifetime_delta):.6g}"
    ahead = f" and {float(totals.ahead):.6g} paid ahead" if totals.ahead > 0 else ""
    return f"{float(totals.spent):.6g} of {float(totals.lifetime):.6g} spent{ahead}{δ}, in {len(totals.runs)} runs"


def _totals(totals: Totals) -> dict[str, Any]:
    runs = [
        {
            "run": run,
            "fingerprint": t.fingerprint,
            "epsilon": float(t.epsilon),
            "spent": float(t.spent),
            "spent_exactly": str(t.spent),
            "delta": float(t.delta),
            "spent_delta": float(t.spent_delta),
            "answers": t.charged,
            "lost": t.charged - t.answered,
            "most_answers": t.cap,
        }
        for run, t in totals.runs.items()
    ]
    return {
        "owner": totals.owner,
        "lifetime": float(totals.lifetime),
        "spent": float(totals.spent),
        "spent_exactly": str(totals.spent),
        "ahead": float(totals.ahead),
        "lifetime_delta": float(totals.lifetime_delta),
        "spent_delta": float(totals.spent_delta),
        "runs": runs,
        "head": totals.head,
    }


def _shown(line: Any) -> dict[str, Any]:
    return {
        "line": line.number,
        "time": line.time,
        "kind": line.kind,
        "run": line.run,
        "identity": line.identity,
        "epsilon": None if line.epsilon is None else str(line.epsilon),
        "delta": None if line.epsilon is None else str(line.delta),
        "hash": line.hash,
    }


def _record(conductor: "Conductor", seconds: float) -> dict[str, Any]:
    """How the run went: realised beside what was agreed."""
    agreement, outcome = conductor.agreement, conductor.outcome
    lost = [e.data["owner"] for e in conductor.store.events("refused") if e.data["code"] == "lost"]
    owners = []
    for terms in agreement.owner:
        answered = conductor.parties[terms.name].answered
        ε, δ = spent_after(agreement, terms, answered)
        owners.append(
            {
                "name": terms.name,
                "records": terms.records,
                "epsilon": terms.epsilon,
                "delta": terms.delta,
                "answers": answered,
                "most_answers": agreement.answers,
                "lost": lost.count(terms.name),
                "spent": float(ε),
                "spent_delta": float(δ),
                "noise_scale": noise_scale(agreement, terms),
            }
        )
    return {
        "run": conductor.store.run,
        "rule": agreement.agreement.rule,
        "mechanism": agreement.agreement.mechanism,
        "talk": conductor.conduct.talk,
        "status": None if outcome is None else outcome.status,
        "outcome": None if outcome is None else outcome.reason,
        "queries": conductor.stepped,
        "agreed_queries": agreement.queries,
        "seconds": round(seconds, 3),
        "finished_at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "owners": owners,
    }


def _public_rows(
    agreement: Agreement, table: Path | None, keys: Path | None, dictionary: "PublicDictionary | None"
) -> "Records | None":
    """The learner's own rows, if there are any; only a table that was asked for has to be one."""
    from copriv.network.setup import PUBLIC, public_records

    if table is not None:
        return public_records(agreement, table, dictionary)
    if keys is None or not (keys / PUBLIC).is_file():
        return None
    try:
        return public_records(agreement, keys / PUBLIC, dictionary)
    except CoprivError as error:
        log(f"the run is not held against a forecast: {error}")
        return None


def _expected(agreement: Agreement, public: "Records", runs: int) -> dict[str, Any] | None:
    from copriv.cli.realised import expected

    try:
        return expected(agreement, public, runs)
    except CoprivError as error:  # the run is over and its model written: it does not fail for want of a comparison
        log(f"no forecast to hold the run against: {error}")
        return None


def _owners_table(owners: list[dict[str, Any]]) -> Table:
    with_delta = any(owner["delta"] > 0 for owner in owners)
    columns = (
        "owner",
        "records",
        "answers",
        "of",
        "lost",
        "epsilon spent",
        *["delta spent"] * with_delta,
        "noise scale",
    )
    table = plain_table(*columns)
    for owner in owners:
        table.add_row(
            owner["name"],
            f"{owner['records']:,}",
            str(owner["answers"]),
            str(owner["most_answers"]),
            str(owner["lost"]),
            f"{owner['spent']:.6g}",
            *[f"{owner['spent_delta']:.6g}"] * with_delta,
            f"{owner['noise_scale']:.3g}",
        )
    return table


class _Following:
    """Events as JSON lines in a file, and on a terminal a table of who has answered what."""

    def __init__(self, conductor: "Conductor", events: Path | None) -> None:
        self._conductor, self._path = conductor, events
        self._live: Live | None = None
        self._stream: Any = None

    def __enter__(self) -> None:
        if self._path is not None:
            # - is the usual name of a stream where a file is expected.
            self._stream = sys.stderr if str(self._path) == "-" else self._path.open("a", encoding="utf-8")
        if sys.stderr.isatty() and self._stream is not sys.stderr:
            from rich.console import Console

            self._live = Live(self._table(), console=Console(stderr=True), refresh_per_second=8, transient=True)
            self._live.start()
        self._conductor.store.on_event = self._event

    def __exit__(self, *_: object) -> None:
        self._conductor.store.on_event = None
        if self._live is not None:
            self._live.stop()
        if self._stream is not None and self._stream is not sys.stderr:
            self._stream.close()

    def _event(self, event: "Event") -> None:
        if self._stream is not None:
            self._stream.write(event.to_json() + "\n")
            self._stream.flush()
        if self._live is not None:
            self._live.update(self._table())

    def _table(self) -> Table:
        conductor = self._conductor
        queries = f"{conductor.stepped} of {conductor.agreement.queries}"
        table = plain_table("owner", f"answers ({queries} queries)", "", left=1)
        for name, party in conductor.parties.items():
            state = party.out or ("here" if party.there else "away")
            table.add_row(name, f"{party.answered} of {conductor.agreement.answers}", state)
        return table


# Small things --------------------------------------------------------------------------------------------------------


def _check_address(option: str, address: str, least_port: int) -> None:
    """Refuse what is not HOST:PORT, which gRPC would take for something else."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not least_port <= int(port) <= 65535:
        raise UsageError(f"{option}: must be HOST:PORT with a port of {least_port} to 65535, not {address!r}")


def _check_folder(option: str, file: Path | None) -> None:
    if file is not None and str(file) != "-" and not file.parent.is_dir():
        raise UsageError(f"{option}: there is no folder {file.parent}; make it, or give a path in one that exists")


def _keys(folder: Path | None, role: str, name: str | None = None) -> Any:
    from copriv.network.keys import Keys, KeysRefused

    if folder is None:
        raise KeysRefused(f"--keys: an {role} speaks with its keys only; give its folder (copriv init --network)")
    keys = Keys.load(folder)
    if keys.role != role:
        raise KeysRefused(
            f"{folder}: the certificate is for {keys.role}s, and this is the {role}'s command; give the {role}'s own keys"
        )
    if name is not None and name != keys.name:
        raise KeysRefused(
            f"--name: {name!r}, but the certificate in {folder} is that of {keys.name!r}; give its own keys"
        )
    return keys


def _policy_file(path: Path | None, keys: Path | None) -> Path | None:
    inside = None if keys is None else keys / "policy.toml"
    return inside if path is None and inside is not None and inside.is_file() else path


def _policy(path: Path | None) -> Any:
    from copriv.network.policy import Policy

    return Policy() if path is None else Policy.load(path)


async def _stoppable(work: Any) -> Any:
    """Ctrl-C and SIGTERM end `work` between two messages, so that files are closed as they should be."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    stops: list[Callable[[], object]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, task.cancel)
        except (NotImplementedError, RuntimeError):
            continue  # Windows, or not the main thread: Python's own KeyboardInterrupt does
        stops.append(lambda number=number: loop.remove_signal_handler(number))  # type: ignore[misc]
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for stop in stops:
            stop()


def _address_in(path: Path, process: "subprocess.Popen[bytes]") -> str:
    """The address that the learner says it listens at, in its log."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if "listening at " in text and ";" in text.split("listening at ")[1]:
            return text.split("listening at ")[1].split(";")[0]
        time.sleep(0.05)
    raise CoprivError(f"the learner did not start: {path.read_text(encoding='utf-8')[-300:]}")
