"""`copriv owner`: a data owner's keys, its process in a run, and its own models and verdicts, made at home."""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copriv.agreement import Agreement
from copriv.cli.commands import options
from copriv.cli.commands.options import argument, option
from copriv.cli.commands.service import Ui, UiPort, going_on, page_beside
from copriv.cli.commands.ui import needed
from copriv.cli.console import answer, log, log_about, progress, waiting
from copriv.display.ledger import spent
from copriv.display.run import promises
from copriv.errors import AgreementError, InvalidInput, UsageError
from copriv.formatting.numbers import counted, json_ready, listed, percent
from copriv.terms import can_be_told_apart

if TYPE_CHECKING:
    from copriv.data.dictionary import PublicDictionary
    from copriv.model.records import InBlocks, Records
    from copriv.network.model import Model


def keys(
    folder: Annotated[Path, argument("The folder of the owner's keys.", env="KEYS", metavar="DIR", file_okay=False)],
    name: options.OwnerName = None,
    as_json: options.AsJson = False,
) -> None:
    """Make an owner's own secret key, and the request by which the coordinator certifies it."""
    from copriv.network.keys import KEY, REQUEST, KeysRefused, make_key

    owner, request = name or folder.resolve().name, folder / REQUEST
    try:
        can_be_told_apart(owner)
    except ValueError as error:
        raise KeysRefused(f"--name: {owner!r} {error}") from None
    key = make_key(folder, owner)
    said = f"{owner}: made {folder / KEY}, which is secret and stays here. SHA-256 of its public key:\n{key}"
    answer(as_json, {"schema": "copriv.owner-keys/1", "name": owner, "request": str(request), "key": key}, [said])
    log(
        f"send {request} to the coordinator, who gives back ca.pem, certificate.pem and policy.toml for this folder; "
        "before anything is answered, see that this SHA-256 is the key of this owner in the agreement"
    )


def serve(
    agreement: Annotated[Path, options.AgreementOption],
    data: Annotated[str, option("A .csv or .parquet file, duckdb:FILE or postgresql://…", env="DATA", metavar="TABLE")],
    ledger: Annotated[Path, options.LedgerOption],
    new_ledger: Annotated[bool, option("Make the ledger if these keys never had one.", "--new-ledger")] = False,
    witness: options.WitnessFolder = None,
    keys: options.KeysFolder = None,
    name: options.OwnerName = None,
    learner: Annotated[
        str, option("Where the learner listens.", env="LEARNER", metavar="HOST:PORT")
    ] = "127.0.0.1:7443",
    query: options.Query = "",
    policy: options.PolicyFile = None,
    ahead: Annotated[int, option("Pay for N answers ahead.", env="AHEAD", metavar="N", min=0)] = 0,
    memory: options.Memory = None,
    give_up: Annotated[
        float, option("How long to dial without an answer.", env="GIVE_UP", metavar="SECONDS", min=1)
    ] = 600.0,
    stay: options.Stay = False,
    metrics: options.Metrics = None,
    json_logs: options.JsonLogs = False,
    ui: Ui = False,
    ui_port: UiPort = 0,
) -> None:
    """Answer the learner's queries on this owner's table, until the agreement is fulfilled or the budget is spent."""
    from copriv.cli.commands.service import Figures, Service, agreements, next_agreement, operated
    from copriv.cli.following import beside
    from copriv.losses import by_name
    from copriv.network.agent import OwnerAgent, Patience, RefusedByLearner
    from copriv.network.grpc_transport import GrpcDialer
    from copriv.network.messages import STOPPED
    from copriv.network.policy import Policy
    from copriv.network.setup import load_dictionary
    from copriv.privacy.ledger.create import create_ledger
    from copriv.privacy.ledger.file import LedgerFile

    options.check_address("--learner", learner, least_port=1)
    first, own = Agreement.load(agreement), options.party_keys(keys, "owner", name)
    name, policy = own.name, options.policy_file(policy, keys)
    log_about(role="owner", party=name)
    service = Service(own, log)

    def answer_under(terms: Agreement) -> None:
        log_about(agreement=terms.fingerprint)
        rules = Policy()
        if policy is not None:
            rules = Policy.load(policy)
        dictionary = load_dictionary(terms, agreement)
        records, columns = _own_records(terms, name, data, query, dictionary, memory)
        ε, δ = map(Fraction, rules.lifetime(terms, name))
        if new_ledger and not ledger.exists():
            create_ledger(ledger, name, witness, keys=keys)
        with LedgerFile.open(ledger, name, ε, δ, ahead, witness, keys) as file:
            promise = "; ".join(promises(terms, name))
            log(f"{name} answers to {rules.learner!r} at {learner}, under agreement {terms.fingerprint[:16]}…")
            log(promise)
            log(f"ledger: {spent(file.totals)}")
            log(f"policy: {policy or 'none; whatever the agreement says is answered, once'}")
            watch, page = None, None
            agent_log: Callable[[str], None] = log
            if ui:
                needed()
                from copriv.ui.live import OwnerWatch

                watch = OwnerWatch(name, terms.fingerprint, f"{rules.learner} at {learner}", promise)
                page, agent_log = watch.watch, watch.copied(log)

            def look() -> None:
                if watch is not None:
                    watch.look(file.totals)

            look()
            agent = OwnerAgent(
                terms, name, records, by_name(terms.model.loss, terms.model.threshold), file,
                GrpcDialer(learner, own, rules.learner), policy=rules, keys=own,
                dictionary=dictionary.fingerprint if dictionary else "", columns=columns,
                patience=Patience(give_up=give_up), log=agent_log,
            )  # fmt: skip
            service.slot = agent.slot

            def figures() -> Figures:
                left = file.totals.lifetime - file.totals.committed
                values: dict[str, Any] = {
                    "epsilon_spent": file.totals.committed, "epsilon_left": left, "slot_seconds": agent.slot,
                    "answers": agent.answers, "refusals": agent.refusals, "lag_seconds": agent.idle,
                }  # fmt: skip
                return Figures(agent.connected, {key: float(value) for key, value in values.items()})

            how = f"{name} can go on: start the same command again; what it has answered stays answered, and paid for"
            with going_on(how), page_beside(page, look, ui_port) as do:
                while True:
                    try:
                        work = beside(agent.serve(), name, terms, lambda: file.totals)
                        reason = str(do(service.attended(work, figures)))
                        if not (stay and reason.startswith(STOPPED)):
                            break
                    except RefusedByLearner as error:  # it may have another agreement, the one before or the next
                        if not stay:
                            raise
                        reason = str(error)
                    log(f"{reason}; dialling again in 5 s", logging.WARNING)
                    do(service.attended(asyncio.sleep(5.0), figures))  # twice the time that a learner takes to leave
                    with suppress(AgreementError):  # a file that is being replaced
                        if next_agreement(agreement, terms.fingerprint) is not None:
                            return
                if watch is not None:
                    watch.over = reason
                look()
            how = f"the run is over ({reason})"
            if reason.startswith(STOPPED):
                how = f"the run was {reason}; start this command again if the learner goes on with it"
            typer.echo(f"{name}: {how}; {spent(file.totals)}")

    with operated(service, metrics):
        for terms in agreements(first, agreement, stay, service):
            answer_under(terms)


def personalize(
    model: options.ModelFile,
    data: options.OwnTable,
    to: options.OwnModel,
    seed: Annotated[int, option("Of the folds that its rows are split into.", min=0)] = 0,
    unfinished: options.Unfinished = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit an own model at home with the common one as a prior. It costs no budget, because it is not released."""
    options.check_target("--out", to, model, data)
    own = options.model_for_use(model, unfinished).personalized(data, seed=seed)
    found = own.record["personalized_at_home"]
    how = f"about {percent(found['common_share'])} of it is the common model, the rest your {counted(found['rows'], 'row')}"
    if "persons" in found:
        how += f" of {counted(found['persons'], 'person')}"
    _kept_at_home(to, own, {"schema": "copriv.personalized/1", "path": str(to), **found}, how, as_json)


def verdict(
    agreement: options.AgreementFile,
    name: Annotated[str, option("Who asks, as the agreement names it.", "--name", metavar="NAME")],
    data: options.OwnTable,
    public: Annotated[
        Path | None, option("The public rows; those that data.public names otherwise.", metavar="TABLE")
    ] = None,
    forecast: Annotated[
        Path | None, option("The forecast's JSON; made here from the public rows otherwise.", metavar="FILE")
    ] = None,
    model: Annotated[
        Path | None, option("After a run: the model's file that copriv learner wrote.", metavar="FILE")
    ] = None,
    to: Annotated[Path | None, option("Also keep the JSON there; it must not leave.", "--out", metavar="FILE")] = None,
    seed: Annotated[int, option("Of folds and draws.", env="SEED", min=0)] = 0,
    unfinished: options.Unfinished = False,
    as_json: options.AsJson = False,
) -> None:
    """Does joining pay on this owner's own records? Asked at home, of them and of what is released; not for release."""
    from copriv import forecast as forecast_of
    from copriv import owner_verdict
    from copriv.cli.output import replace_own_file
    from copriv.display.verdict import at_home
    from copriv.forecast.result import read_forecast
    from copriv.problem.personalization import rows_at_home

    if model is not None and forecast is not None:
        raise UsageError("--model: is what a run gave, and --forecast what came before it; give one of them")
    options.check_target("--out", to, agreement, data, *filter(None, (public, forecast, model)))
    terms, dictionary = Agreement.load(agreement), None
    released: Any = None
    if model is not None:
        common = options.model_for_use(model, unfinished).released()
        # That of a run with a pilot has the terms that followed it, and the fingerprint of those that were signed before.
        if common.record.get("agreed", common.agreement.fingerprint) != terms.fingerprint:
            raise InvalidInput(f"{model}: is the model of another agreement than {agreement}; give the one of this run")
        terms = common.agreement
        released, dictionary = common.theta, common.dictionary
    paths: dict[str, str] = {}
    if public is not None:
        paths["public"] = str(public)
    if terms.data.dictionary is not None:
        paths["dictionary"] = str(options.beside(agreement, terms.data.dictionary))
    terms = terms.replace(data=paths)
    own, sample, strata = rows_at_home(terms, name, str(data), dictionary)
    if forecast is not None:
        released = read_forecast(forecast)
    elif model is None:
        if sample is None and not terms.data.declared_only:
            raise UsageError(
                "--public: before a run the verdict needs the forecast; give its JSON (--forecast), or the public rows that "
                "it is made from"
            )
        with progress("forecasting") as report:
            released = forecast_of(terms, progress=report)
    with waiting("asking your records"):
        found = owner_verdict(terms, name, own, released, public=sample, strata=strata, seed=seed)
    document = json.dumps(json_ready({**found.to_dict(), "goal": terms.goal}), indent=2)
    if to is not None:
        replace_own_file(to, document.encode() + b"\n")
        log(f"wrote {to}, for this account alone to read")
    answer(as_json, document, at_home(found, terms.goal))


def learn(
    run: options.RunPath,
    name: Annotated[str, option("Who learns, as the agreement names it.", "--name", metavar="NAME")],
    data: options.OwnTable,
    to: options.OwnModel,
    model: options.ModelOfRun = None,
    keys: options.CaOfKeys = None,
    unfinished: options.Unfinished = False,
    as_json: options.AsJson = False,
) -> None:
    """Learn an own model from everybody's answers in a run's file. It costs no budget, because it is not released."""
    from copriv.network.own_model import own_model

    model = model or run.with_suffix(".json")
    options.check_target("--out", to, run, data, model)
    made = own_model(run, model, name, str(data), options.authority_in(keys), unfinished)
    options.tell_if_of_pilot(to, made)
    found = made.record["learned_at_home"]
    how = f"your records as they are, and the answers of {listed(found['answers_of'] or ['nobody else'])}"
    _kept_at_home(to, made, {"schema": "copriv.learned/1", "path": str(to), **found}, how, as_json)


def _own_records(
    agreement: Agreement, name: str, data: str, query: str, dictionary: "PublicDictionary | None", memory: float | None
) -> "tuple[Records | InBlocks, tuple[str, ...]]":
    """An owner's records, in memory unless they need more than `memory` megabytes."""
    import pyarrow

    from copriv.network.setup import memory_needed, n_parameters, owner_records, streamed_records

    if memory is not None and name in agreement.owner_names:
        needed = memory_needed(agreement, name, n_parameters(agreement, dictionary)) / 1e6
        if needed > memory:
            log(
                f"{name}: with its records in memory this process takes about {needed:.3g} MB, more than {memory:g}; "
                "they are read in blocks for each answer"
            )
            return streamed_records(agreement, name, data, query, dictionary)
    # The table is read once, and Arrow's own pool would keep what that took: 9 MB of a small CSV table's process.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    return owner_records(agreement, name, data, dictionary, query)


def _kept_at_home(to: Path, own: "Model", document: dict[str, Any], how: str, as_json: bool) -> None:
    """Write an owner's own model, which is made from its records, so that its own account alone can read it."""
    from copriv.cli.output import replace_own_file

    replace_own_file(to, own.to_json().encode())
    said = (
        f"Your own model is in {to}: {how}. It is made from your records and is not private: keep it. "
        "Nothing was sent and no budget was spent."
    )
    answer(as_json, document, [said])
    log(f"use it with: copriv predict {to} TABLE")
