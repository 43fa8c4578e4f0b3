"""`copriv verify`: whether a run followed the agreed rule, and whether all parties signed it."""

from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import (
    AgreementOption,
    AsJson,
    CaOfKeys,
    Head,
    ModelOfRun,
    RunPath,
    authority_in,
    option,
)
from copriv.cli.console import answer
from copriv.errors import InvalidInput


def command(
    run: RunPath,
    agreement: Annotated[Path | None, AgreementOption] = None,
    authority: Annotated[
        Path | None, option("Your own ca.pem; that of --keys, if it is given.", metavar="FILE")
    ] = None,
    keys: CaOfKeys = None,
    model: ModelOfRun = None,
    head: Head = None,
    as_json: AsJson = False,
) -> None:
    """Replay a run from agreement, queries and answers to its model; says which line is wrong, if one is."""
    from copriv.display.run import verdict_fields, verified
    from copriv.network.verify import verify_run

    beside = run.with_suffix(".json")
    if model is None and beside.is_file():
        model = beside
    own = None
    if agreement is not None:
        own = Agreement.load(agreement)
    verdict = verify_run(run, own, authority_in(keys, authority), model, head)
    trusted = {
        "agreement": agreement is not None,
        "authority": authority is not None or keys is not None,
        "keys": agreement is not None and verdict.agreement.owner_keys.keys() == set(verdict.agreement.owner_names),
    }
    more = {"model": model and str(model), "from_elsewhere": trusted}
    document = {"schema": "copriv.run-verified/1", **verdict_fields(verdict), **more}
    answer(as_json, document, verified(verdict, model, trusted))
    if not verdict.ok:
        raise typer.Exit(InvalidInput.exit_code)
