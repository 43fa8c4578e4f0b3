"""`copriv verify`: whether a run followed the agreed rule, and whether all parties signed it."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copriv.agreement import Agreement
from copriv.cli.commands import options
from copriv.cli.commands.options import option
from copriv.cli.console import answer, waiting
from copriv.errors import InvalidInput, UsageError

if TYPE_CHECKING:
    from copriv.network.verify import Verdict
    from copriv.network.verify_lines import Problem


def command(
    run: options.RunPath,
    agreement: Annotated[Path | None, options.AgreementOption] = None,
    authority: Annotated[
        Path | None, option("Your own ca.pem; that of --keys, if it is given.", metavar="FILE")
    ] = None,
    keys: options.CaOfKeys = None,
    model: options.ModelOfRun = None,
    head: options.Head = None,
    ledger: Annotated[
        Path | None, option("An owner's ledger: its answers must be those in the run.", metavar="LEDGER")
    ] = None,
    public: Annotated[
        Path | None,
        option("The learner's public rows, by which what followed a pilot is computed again.", metavar="TABLE"),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Replay a run from agreement, queries and answers to its model; says which line is wrong, if one is."""
    from copriv.display.run import own_part_said, verdict_fields, verified
    from copriv.network.verify import verify_run

    beside = run.with_suffix(".json")
    if model is None and beside.is_file():
        model = beside
    own = None
    if agreement is not None:
        own = Agreement.load(agreement)
    verdict = verify_run(run, own, options.authority_in(keys, authority), model, head)
    state = verdict.run_state
    # Without public rows, the plan after a pilot follows from the run's file alone.
    planned_again = verdict.ok and (public is not None or (state.agreed.data.declared_only and bool(state.known)))
    if planned_again:
        verdict = replace(verdict, problems=_what_followed(verdict, public, agreement or run))
    own_part = None
    if ledger is not None and verdict.ok:
        own_part, problems = _own_part(ledger, run, own, options.authority_in(keys, authority), verdict.run)
        verdict = replace(verdict, problems=problems)
    trusted = {
        "agreement": agreement is not None,
        "authority": authority is not None or keys is not None,
        "keys": agreement is not None and verdict.agreement.owner_keys.keys() == set(verdict.agreement.owner_names),
    }
    more = {
        "model": model and str(model),
        "from_elsewhere": trusted,
        "own_part": own_part,
        "planned_again": planned_again,
    }
    document = {"schema": "copriv.run-verified/1", **verdict_fields(verdict), **more}
    followed = ["What followed the pilot was planned again from its answers: it follows from them."]
    if not planned_again:
        followed = [
            "What followed the pilot, and what the file says that it told, is on the learner's word; --public TABLE computes "
            "both again."
        ] * bool(state.known)
    answer(as_json, document, chain(own_part_said(own_part), verified(verdict, model, trusted), followed * verdict.ok))
    if not verdict.ok:
        raise typer.Exit(InvalidInput.exit_code)


def _own_part(
    ledger: Path, run: Path, agreement: Agreement | None, authority: bytes | None, name: str
) -> "tuple[dict[str, Any] | None, tuple[Problem, ...]]":
    """Compare an owner's answers in its ledger with those in a run's file, as `copriv report` does, and list the problems."""
    from copriv.network.verify_lines import Problem
    from copriv.report import RunFile, document

    held = document(ledger, [RunFile(run)], [agreement] if agreement else [], authority=authority)
    compared = next((one["compared"] for one in held["runs"] if one["run"] == name), None)
    problems = tuple(Problem(None, one["what"]) for one in held["problems"])
    return compared and {"owner": held["owner"], **compared}, problems


def _what_followed(verdict: "Verdict", public: Path | None, beside: Path) -> "tuple[Problem, ...]":
    """Plan again the run that followed a pilot, and list its differences; `beside`: a file beside the dictionary."""
    from copriv.forecast.phases import AfterPilot
    from copriv.network.setup import load_dictionary, public_file
    from copriv.network.verify_lines import Problem
    from copriv.report.phases import wrong_with

    agreed = verdict.run_state.agreed
    if not agreed.has_pilot:
        raise UsageError("--public: computes again what followed a pilot, and this run has none; leave it out")
    if not verdict.run_state.decided:
        raise UsageError(
            "--public: computes again what followed a pilot, and nothing has followed this run's yet; leave it out"
        )
    rows = strata = digest = None
    if public is not None:
        rows, strata, digest = public_file(agreed, public, load_dictionary(agreed, beside))
    with waiting("planning again by the pilot's answers"):
        pilot = verdict.run_state.phases[0]
        found = AfterPilot.of(agreed, rows, pilot.only_answers, pilot.whose_answers, strata=strata)
        wrong = wrong_with(verdict.run_state, found, digest)
    return (Problem(None, wrong),) if wrong else ()
