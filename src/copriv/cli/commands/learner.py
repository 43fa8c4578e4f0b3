"""`copriv learner`: wait for owners, conduct the run, write the model."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from copriv.agreement import Agreement
from copriv.cli.commands import options
from copriv.cli.commands.options import option
from copriv.cli.commands.service import Ui, UiPort, going_on, watched
from copriv.cli.console import answer, log, log_about, tell, waiting
from copriv.cli.following import Following
from copriv.cli.output import replace_file
from copriv.display import Table
from copriv.display.run import compared, in_sums, now_known, phases_told, run_tables
from copriv.errors import CoprivError, Unreachable, UsageError
from copriv.formatting.numbers import counted

if TYPE_CHECKING:
    from copriv.data.dictionary import PublicDictionary
    from copriv.model.records import Records
    from copriv.network.model import Model
    from copriv.network.run import Run
    from copriv.network.run_state import Conductor, Decision
    from copriv.network.store import RunStore
    from copriv.report.public_rows import PublicRows


def command(
    agreement: options.AgreementFile,
    store: Annotated[Path, option("Where the run is kept.", env="STORE", metavar="FILE")],
    keys: options.KeysFolder = None,
    listen: Annotated[str, option("Where owners dial.", env="LISTEN", metavar="HOST:PORT")] = "127.0.0.1:7443",
    resume: Annotated[bool, option("Go on with the run in the store.", "--resume")] = False,
    talk: Annotated[
        str | None,
        option(
            "choose, broadcast or request: how owners come to their turns; else as agreed.", env="TALK", metavar="HOW"
        ),
    ] = None,
    at_once: Annotated[
        int | None, option("Owners at work at once, if the rule allows it; else all.", env="AT_ONCE", min=1)
    ] = None,
    begin: Annotated[
        str, option("all: once every owner has come; any: with the first.", env="BEGIN", metavar="WHEN")
    ] = "all",
    deadline: Annotated[
        float, option("After which an owner is late.", env="DEADLINE", metavar="SECONDS", min=0.01)
    ] = 30.0,
    stragglers: Annotated[
        str, option("Rounds of all owners: wait for late ones, or drop them.", env="STRAGGLERS", metavar="HOW")
    ] = "wait",
    patience: Annotated[
        float, option("Without any answer, before the run is stopped.", env="PATIENCE", metavar="SECONDS", min=0.1)
    ] = 300.0,
    pace: Annotated[
        float, option("Owners' mean waiting time (broadcast, request).", env="PACE", metavar="SECONDS", min=0)
    ] = 0.02,
    model: Annotated[Path | None, option("Where the model goes; the store's name + .json.", metavar="FILE")] = None,
    skops: Annotated[Path | None, option("Also a scikit-learn pipeline, by skops.", metavar="FILE")] = None,
    events: Annotated[
        Path | None, option("Append events there as JSON lines; -: stderr.", env="EVENTS", metavar="FILE")
    ] = None,
    public: Annotated[
        Path | None,
        option(
            "The learner's public rows; public.parquet beside the keys, if there is one.", env="PUBLIC", metavar="TABLE"
        ),
    ] = None,
    forecast_runs: Annotated[
        int,
        option(
            "Once the model is shown, forecast the run by N simulated ones; 0: do not.",
            env="FORECAST_RUNS",
            metavar="N",
            min=0,
        ),
    ] = 0,
    stay: options.Stay = False,
    metrics: options.Metrics = None,
    json_logs: options.JsonLogs = False,
    ui: Ui = False,
    ui_port: UiPort = 0,
    as_json: options.AsJson = False,
) -> None:
    """Wait for owners, conduct the run, write the model. A run that was stopped or killed goes on with --resume."""
    from copriv.cli.commands.service import Figures, Service, agreements, operated
    from copriv.network.exports import save_skops
    from copriv.network.grpc_transport import GrpcListener
    from copriv.network.learner import Learner
    from copriv.network.portable import needed
    from copriv.network.run_state import Conductor
    from copriv.network.setup import load_dictionary, n_parameters
    from copriv.network.store import RunStore
    from copriv.network.turns import Conduct

    for name, value, known in (
        ("--talk", talk, ("choose", "broadcast", "request")),
        ("--begin", begin, ("all", "any")),
        ("--stragglers", stragglers, ("wait", "drop")),
    ):
        if value is not None and value not in known:
            raise UsageError(f"{name}: must be {' or '.join(known)}, not {value!r}")
    options.check_address("--listen", listen, least_port=0)
    # Checked now, because at the end the owners' budgets are spent.
    for name, file in (("--model", model), ("--skops", skops), ("--events", events)):
        options.check_target(name, file, agreement, store)
    for name, given in (("--model", model), ("--skops", skops)):
        if stay and given is not None:
            raise UsageError(f"{name}: names one file, and --stay makes one for each agreement; leave it out")
    if skops is not None:
        needed("skops.io", "model")
    first, own = Agreement.load(agreement), options.party_keys(keys, "learner")
    service = Service(own, log)
    log_about(role="learner", party=own.name)

    def conduct_under(terms: Agreement) -> None:
        log_about(agreement=terms.fingerprint)
        conduct = Conduct(
            cast(Any, talk),
            at_once,
            deadline,
            begin=cast(Any, begin),
            stragglers=cast(Any, stragglers),
            patience=patience,
        ).under(terms)
        dictionary = load_dictionary(terms, agreement)
        p = n_parameters(terms, dictionary)
        rows, strata, digest = _public_rows(terms, public, keys, dictionary)
        if terms.has_pilot and digest is None and not terms.data.declared_only:
            raise UsageError("--public: what follows the pilot is planned on public rows; give the learner's")
        asked = terms.agreement.pilot_terms
        if asked is not None and digest is not None and asked.public not in (None, digest):
            raise UsageError(
                "--public: another file of rows than the one that was signed before the pilot; give that one, as copriv init "
                "wrote it for the learner"
            )
        kept = store
        if stay:  # each agreement's run has its own file, and is resumed from it
            kept = store.with_name(f"{store.stem}-{terms.fingerprint[:12]}{store.suffix}")
        is_new = not kept.exists()
        path = model or kept.with_suffix(".json")
        if resume or (stay and not is_new):
            run = RunStore.resume(kept, terms)
        else:
            run = RunStore.create(kept, terms, p)
        listened: list[str] = []

        def listening(address: str) -> None:
            listened.append(address)
            log(f"listening at {address}; run {run.run[:8]}")

        how = f"the run is safe in {kept}: start the same command again with --resume, and it goes on where it was"
        try:
            written = _existing_model(run, path)
            # A model is whole with its result on public rows, and a forecast where one is asked for.
            if written is not None and (
                rows is None
                or (
                    written.record["realised"]["public"] is not None
                    and (forecast_runs == 0 or written.record["forecast"])
                )
            ):
                if skops is not None and not skops.exists():
                    save_skops(written, skops)
                how = (
                    f"The run is over: {written.record['outcome']}. {path} is as it was; nothing was asked or written."
                )
                answer(
                    as_json,
                    written.to_json(),
                    [*run_tables(written.record, terms.error_in_words), *phases_told(written.record), how],
                )
                return
            conductor = Conductor(run, conduct, time.monotonic(), own, dictionary.fingerprint if dictionary else "")

            def figures() -> Figures:
                parties = conductor.parties.values()
                values = {
                    "answers": float(sum(party.answered for party in parties)),
                    "refusals": float(sum(party.refusals for party in parties)),
                    "connected": float(sum(party.there for party in parties)),
                    "lag_seconds": conductor.idle(time.monotonic()),
                }
                return Figures(bool(listened), values, bool(listened))

            with Following(conductor, events), watched(conductor, rows, strata, ui, ui_port) as conduct_it:
                conducted = Learner(
                    conductor, GrpcListener(listen, own), keys=own, pace=pace, on_listening=listening,
                    decide=_decision(terms, rows, strata, digest),
                )  # fmt: skip
                with going_on(how):
                    outcome = conduct_it(service.attended(conducted.run(), figures))
            result = conductor.signed_model(dictionary)
            # The model is written before anything else can fail.
            _write(result, path, kept)
            seen, judged = None, None
            if rows is not None:
                with going_on(f"the model is in {path}, without what the public rows say of it"):
                    seen, judged = _judged(conductor, rows, strata)
                    result = conductor.signed_model(dictionary, judged)
                _write(result, path, kept)
            if skops is not None and result.finished_run:
                save_skops(result, skops)
            told: list[str | Table] = [*run_tables(result.record, terms.error_in_words), *phases_told(result.record)]
            told += [f"{outcome.status}: {outcome.reason}. Wrote {path}"]
            told += [in_sums(terms)] * terms.summed
            if seen is not None and forecast_runs > 0 and result.finished_run:
                if not as_json:
                    tell(*told)
                with going_on(f"the model is in {path}, without a forecast beside it"):
                    result = conductor.signed_model(dictionary, judged, _expected(seen, forecast_runs))
                _write(result, path, kept)
                told = [compared(result.record, terms.error_in_words)]
        finally:
            run.close()
            if is_new and not listened:
                kept.unlink(missing_ok=True)  # nothing began; a file that was there before is not removed
        answer(as_json, result.to_json(), told)
        if outcome.status == "stopped":
            raise Unreachable(f"the run stopped: {outcome.reason}")

    with operated(service, metrics):
        for terms in agreements(first, agreement, stay, service):
            conduct_under(terms)


def _existing_model(run: "RunStore", path: Path) -> "Model | None":
    """The model of this run in a file, if the run finished and the learner signed this model; None otherwise.

    Raises UsageError for any other file there, which is not replaced, before a budget is spent.
    """
    from copriv.network.model import Model, digest_of, read_document

    if not path.is_file():
        return None
    try:
        document = read_document(path)
        found, digest = Model.of(document), digest_of(document)
    except CoprivError:
        raise UsageError(
            f"{path}: is there already, and is not a model of this run; name another with --model"
        ) from None
    if found.record.get("run") != run.run:
        raise UsageError(f"{path}: holds the model of another run; name another file with --model, or move it away")
    if digest == run.signed_model and found.finished_run:
        return found
    return None


def _decision(
    agreed: Agreement, rows: "Records | None", strata: tuple[str, ...] | None, digest: str | None
) -> "Callable[[Run], Decision] | None":
    """Function that plans the run after a pilot from its answers; None where the agreed public rows are not given."""
    if digest is None and not agreed.data.declared_only:
        return None

    def decide(run: "Run") -> "Decision":
        from copriv.report.phases import decided

        whose = f"{len(run.whose_answers)} of {counted(len(run.parties), 'owner')}"
        what = f"the sum of the answers of {whose} is" if run.agreement.summed else f"the answers of {whose} are"
        log(f"pilot: {what} here, and what follows is planned by that")
        decision = decided(run, rows, strata, digest)
        log(now_known(dict(decision.said), decision.chosen is None))
        log(decision.reason)
        return decision

    return decide


def _public_rows(
    agreement: Agreement, table: Path | None, keys: Path | None, dictionary: "PublicDictionary | None"
) -> tuple["Records | None", tuple[str, ...] | None, str | None]:
    """The learner's public rows, their strata and their file's SHA-256.

    The file is `table`, else public.parquet beside the keys, if it is there. It is read here alone: one that is changed or
    moved away during a run would give that run the hash of other rows than it is planned by.
    Raises DataError for a `table` that cannot be read; the file beside the keys is then ignored.
    """
    from copriv.network.setup import PUBLIC, public_file

    rows = table
    if rows is None and keys is not None and (keys / PUBLIC).is_file():
        rows = keys / PUBLIC
    if rows is None:
        return None, None, None
    try:
        return public_file(agreement, rows, dictionary)
    except CoprivError as error:
        if table is not None:
            raise
        log(f"the run is not held against a forecast: {error}")
        return None, None, None


def _write(model: "Model", path: Path, store: Path) -> None:
    try:
        replace_file(path, model.to_json().encode() + b"\n")
    except OSError as error:
        raise CoprivError(
            f"{path}: the model cannot be written ({error}); the run is safe in {store}: make room, and start this command "
            "again with --resume"
        ) from None


def _judged(
    conductor: "Conductor", public: "Records", strata: tuple[str, ...] | None
) -> "tuple[PublicRows | None, dict[str, Any] | None]":
    """The agreement with the public rows, and the result of the run on them; None where they cannot be computed.

    The run is over and its model written, so that no error here is raised.
    """
    from copriv.report.public_rows import PublicRows

    try:
        rows = PublicRows(conductor.agreement, public, strata)
        return rows, rows.said_of(conductor)
    except CoprivError as error:
        log(f"the public rows say nothing of the model: {error}")
        return None, None


def _expected(rows: "PublicRows", runs: int) -> dict[str, Any] | None:
    """The forecast of the run; None, with a line that says why, where it cannot be computed."""
    log(f"the model is written; now what was to be expected, from {runs} simulated runs on {rows.rows:,} public rows")
    try:
        with waiting(f"{runs} simulated runs on public rows"):
            return rows.expected(runs)
    except CoprivError as error:
        log(f"no forecast to hold the run against: {error}")
        return None
