"""`copriv verify`: does a run's file lead to its model by the agreed rule, and did everybody sign their part?"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import AsJson
from copriv.cli.show.console import out, plain_table
from copriv.errors import InvalidInput, UsageError
from copriv.formatting.numbers import listed
from copriv.formatting.sanitize import printable

if TYPE_CHECKING:
    from rich.console import Console

    from copriv.network.verify import Verdict


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The file of `copriv learner --store`.")],
    agreement: Annotated[
        Path | None,
        typer.Option(metavar="AGREEMENT", help="Your own copy of the agreement.", envvar="COPRIV_AGREEMENT"),
    ] = None,
    authority: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own ca.pem; that of --keys, if it is given.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="DIR", help="Your folder of keys, for its ca.pem.", envvar="COPRIV_KEYS"),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model; RUN's name + .json, if there is one.")
    ] = None,
    head: Annotated[str | None, typer.Option(metavar="HASH", help="A head that was written down elsewhere.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay a run from agreement, queries and answers to its model; says which line is wrong, if one is."""
    from copriv.network.verify import verify_run

    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise UsageError(f"--head: a head has 64 hexadecimal digits, not {head!r}; `copriv verify` prints it")
    beside = run.with_suffix(".json")
    held = model if model is not None else beside if beside.is_file() else None
    own = None if agreement is None else Agreement.load(agreement)
    verdict = verify_run(run, own, _authority(authority, keys), held, head)
    trusted = {
        "agreement": agreement is not None,
        "authority": authority is not None or keys is not None,
        "keys": agreement is not None and verdict.agreement.owner_keys.keys() == set(verdict.agreement.owner_names),
    }
    if as_json:
        typer.echo(json.dumps(_fields(verdict, held) | {"from_elsewhere": trusted}, indent=2))
    else:
        _show(verdict, held, trusted)
    if not verdict.ok:
        raise typer.Exit(InvalidInput.exit_code)


def _authority(file: Path | None, keys: Path | None) -> bytes | None:
    path = file if file is not None else None if keys is None else keys / "ca.pem"
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror}); give the authority's certificate") from None


def _fields(verdict: "Verdict", model: Path | None) -> dict[str, Any]:
    return {
        "schema": "copriv.run-verified/1",
        "ok": verdict.ok,
        "run": verdict.run,
        "agreement": verdict.agreement.agreement.name,
        "fingerprint": verdict.agreement.fingerprint,
        "authority": verdict.authority,
        "lines": verdict.lines,
        "head": verdict.head,
        "outcome": verdict.outcome,
        "queries": verdict.stepped,
        "answers": verdict.answers,
        "missing": verdict.missing,
        "not_closed": list(verdict.not_closed),
        "rounding": verdict.rounding,
        "theta": None if verdict.model is None else verdict.model.tolist(),
        "model": None if model is None else str(model),
        "problems": [{"line": problem.line, "what": problem.what} for problem in verdict.problems],
    }


def _show_model(console: "Console", verdict: "Verdict", model: Path | None) -> None:
    if model is None:
        console.print("There is no model beside it.")
        return
    console.print(f"The model in {model} is theirs: every value in the file follows from the run or was signed in it.")
    if verdict.record["realised"]["public"] is not None or verdict.record["forecast"] is not None:
        console.print(
            "Its error and its forecast (record.realised.public, record.forecast) are from the learner's public rows, on the "
            "learner's word, which it signed."
        )


def _show(verdict: "Verdict", model: Path | None, trusted: dict[str, bool]) -> None:
    console = out()
    for problem in verdict.problems:
        console.print(printable(str(problem)))
    if not verdict.ok:
        many = len(verdict.problems)
        console.print(f"\nThis run is not what it says: {many} problem{'' if many == 1 else 's'}.")
        return
    table = plain_table("owner", "signed answers", "counted, not here")
    for name, answers in verdict.answers.items():
        table.add_row(printable(name), str(answers), str(verdict.missing.get(name, 0)))
    console.print(table)
    exactly = "to the bit" if verdict.rounding == 0 else f"up to rounding ({verdict.rounding:.1g})"
    console.print(
        f"{verdict.lines} lines, unbroken. The learner signed every query, and each owner every one of its answers. The "
        f"{verdict.stepped} steps follow from the agreement and the answers, {exactly}."
    )
    if verdict.stepped < verdict.agreement.queries:
        console.print(
            f"It did not go on to the {verdict.agreement.queries} steps that were agreed on at most; when a run ends is the "
            "learner's to choose, or owners were away."
        )
    _show_model(console, verdict, model)
    if verdict.missing:
        console.print(
            "Counted, not here: answers that the owner paid for and the run does not have: lost, or left out."
        )
    if verdict.not_closed:
        console.print(
            f"No signed count at the end from {printable(listed(verdict.not_closed), 300)}: whether the last answers are all "
            "here, only the owner's ledger says (copriv report)."
        )
    if not trusted["agreement"]:
        console.print("The agreement is the file's own: with --agreement it is held against yours.")
    if not trusted["authority"]:
        console.print(
            f"The authority is the file's own ({verdict.authority[:16]}…): with --keys or --authority it is held against "
            "yours."
        )
    unnamed = verdict.agreement.n_owners - len(verdict.agreement.owner_keys)
    if unnamed:
        console.print(
            f"The agreement does not name the keys of {unnamed:,} of its owners: whoever has the authority's key could have "
            "answered in their names."
        )
    console.print(f"Head {verdict.head}")
