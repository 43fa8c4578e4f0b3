"""`copriv init`: an agreement to start from: asked for step by step on a terminal, else every key with its meaning.

Every question has a default, says what it is for, and is asked again where the answer cannot stand; nothing is written before
the end. What is hard to decide (rule, step, number of answers, bounds) is left to the plan. With `--network`, the files of
every party.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import packaged_text
from copriv.cli.show.console import log, tell
from copriv.cli.show.output import save
from copriv.errors import AgreementError, InvalidInput, UsageError
from copriv.losses import Logistic, Squared
from copriv.terms import can_be_told_apart

Ask = Callable[[str, str | None], str]
"""Shows a question with its default (None: there is none), and gives back what was typed."""

_T = TypeVar("_T")


def template() -> str:
    """The text of the file, which is a valid agreement as it stands."""
    return packaged_text("agreement.toml")


def command(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("agreement.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    network: Annotated[
        Path | None,
        typer.Option("--network", metavar="AGREEMENT", help="Write every party's keys and files for it, into PATH."),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="With --network: the coordinator's public rows."),
    ] = None,
    request: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="With --network: a party's signing request (copriv owner keys); can be repeated."
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--template", help="Write the plain template, and ask nothing; as without a terminal.")
    ] = False,
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="With --network: how long certificates are valid; 365.")
    ] = None,
) -> None:
    """Write an agreement, asked for step by step on a terminal; with --network, the files of every party of a consortium."""
    given = {"--public": public, "--days": days, "--request": request}
    alone = next((option for option, value in given.items() if value), None)
    if network is None and alone is not None:
        raise UsageError(f"{alone}: goes with --network AGREEMENT")
    if network is not None and (plain or force):
        raise UsageError(
            f"{'--template' if plain else '--force'}: does not go with --network, which makes a new folder"
        )
    if network is not None:
        _init_network(network, path, public, days or 365, request or [])
        return
    if path.exists() and not force:
        raise UsageError(f"{path}: is there already; name another file, or replace it with --force")
    if path.is_dir():
        raise UsageError(f"{path}: is a directory; name a file")
    if not plain and sys.stdin.isatty() and sys.stdout.isatty():
        agreement = asked(lambda question, default: typer.prompt(question, default=default, type=str), typer.echo)
        save(path.parent, {path.name: written(agreement).encode()})
        tell(
            f"\nWrote {path}. What it will cost, and for whom it pays: copriv forecast {path}\n\n"
            f"Once all agree, the parties need keys. Each owner makes its own and sends its request.pem:\n"
            f"    copriv owner keys {shlex.quote(agreement.owner_names[0])}\n"
            f"    copriv init --network {path} consortium --request request.pem --request …\n"
            "Or, to try it all out on one machine, make everybody's keys at once:\n"
            f"    copriv init --network {path} consortium"
        )
        return
    save(path.parent, {path.name: template().encode()})
    tell(f"Wrote {path}. Change it to what you agree on, then try it: copriv simulate {path}")


def _init_network(agreement: Path, folder: Path, public: Path | None, days: int, requests: Sequence[Path]) -> None:
    """Writes every party's files. Raises as `make_consortium` does."""
    from copriv.network.setup import make_consortium

    made = make_consortium(Agreement.load(agreement), folder, public, days, requests)
    for path in made.files:
        log(f"wrote {path}")
    tell(
        f"Give {folder}/agreement.toml{'' if made.dictionary is None else ' and dictionary.json'} to everybody, and "
        f"each folder to its own party over a safe way. Keep {folder}/authority."
    )
    keys, owners = len(made.agreement.owner_keys), made.agreement.n_owners
    if keys:
        tell(
            f"The agreement names the keys that {keys:,} of {owners:,} owners made. All parties compare its fingerprint, by "
            f"telephone or in one room: {made.agreement.fingerprint}"
        )
    if keys < owners:
        tell(
            f"The secret keys of {owners - keys:,} owners were made here, so whoever has this folder could answer in their "
            "names: for trying things out. Otherwise each owner makes its own (copriv owner keys), and sends its request.pem "
            "for --request."
        )


def asked(ask: Ask, say: Callable[[str], None]) -> Agreement:
    """The agreement that the answers make. Raises AgreementError where they contradict each other after all."""
    steps = _Steps(ask, say)
    say("Step by step to an agreement. Enter takes what stands in brackets; Ctrl-C leaves, and nothing is written.\n")
    say("1. What is it called?")
    name = ask("Name", "our consortium")
    say("\n2. Which data? Try it on 9,857 real loans (the example), or declare columns of your own.")
    own = steps.one_of("Data", ("example", "own"), "example") == "own"
    data: dict[str, Any] = {"dataset": "lending-embedded", "components": 10, "public_rows": 500}
    loss = Squared.name
    if own:
        data, loss = steps.table()
    say("\n3. Who takes part? A budget (epsilon) says how much an owner's answers may tell about any one record:")
    say("   1 is usual and careful, 0.1 very careful, 10 generous. It is spent once, over the whole run.")
    owners = steps.owners()
    if len(owners) > 1:
        say("\n4. Are the owners' records alike, as if dealt from one pile? If you don't know,")
        say("   say so: to call them alike is the worse guess.")
        alike = steps.one_of("Alike", ("unknown", "alike", "a little unlike", "very unlike"), "unknown")
        levels: dict[str, Any] = {"alike": 0.0, "a little unlike": (0.005, 0.05), "very unlike": (0.05, 1.0)}
        if alike in levels:
            data["heterogeneity"] = levels[alike]
    return Agreement.of(
        {
            "agreement": {"name": name, "rule": "auto", "communication": "any"},
            "model": {"loss": loss, "regularization": 1e-5, "intercept": own},
            "data": data,
            "owner": owners,
        }
    )


def written(agreement: Agreement) -> str:
    """The file, with what the numbers mean."""
    notes = {
        'rule = "auto"': "planned from public rows: copriv forecast says which is best",
        "horizon": "the most queries or rounds",
        "step": "how far the model moves; planned",
        "gradient_bound": "how far one record can move an answer; planned",
        "public_rows": "the learner's own sample, never among the owners' records",
        "heterogeneity": "how unlike the owners are; see docs/reference/agreement-file.md",
        "epsilon": "the owner's whole budget",
    }
    lines = [
        "# What all parties sign up to, before any private record is touched.",
        "# Every key: docs/reference/agreement-file.md",
        "",
    ]
    for line in agreement.to_toml().splitlines():
        note = next((said for key, said in notes.items() if line.startswith((key, f"{key} ="))), None)
        lines.append(line if note is None else f"{line:<40}  # {note}")
    return "\n".join(lines) + "\n"


class _Steps:
    """Questions, each asked again until its answer can stand."""

    def __init__(self, ask: Ask, say: Callable[[str], None]) -> None:
        self._ask, self._say = ask, say

    def _until(self, question: str, default: str | None, read: Callable[[str], _T]) -> _T:
        while True:
            answer = self._ask(question, default)
            try:
                return read(answer.strip())
            except (InvalidInput, AgreementError) as error:
                self._say(f"   {error}")
            except ValueError:
                self._say(f"   {answer!r} is not a number")

    def one_of(self, question: str, known: tuple[str, ...], default: str) -> str:
        """One of several words, or the beginning of one."""

        def read(text: str) -> str:
            found = [one for one in known if one.startswith(text.lower())]
            if text.lower() in known:
                return text.lower()
            if not text or len(found) != 1:
                raise InvalidInput(f"say one of: {', '.join(known)}")
            return found[0]

        return self._until(f"{question} ({' / '.join(known)})", default, read)

    def table(self) -> tuple[dict[str, Any], str]:
        """The columns of a table of one's own, and a loss that fits its target."""
        features = self._until("Columns that predict (names, with commas between)", None, _names)
        target = self._until("Column to predict", None, partial(_new, taken=features))
        data: dict[str, Any] = {"features": features, "target": target}
        self._say(
            "   For every column, what may stand in it: from the meaning of the column, never by looking at private records."
        )
        for column in features:
            self._declare(data, column, _range_or_levels)
        self._say(f"   {target}: a number with its bounds, or two classes.")
        self._declare(data, target, partial(_range_or_levels, two=True))
        data["public"] = self._ask(
            "A file of public rows with these columns, if there is one (.csv or .parquet; may come later)", "public.csv"
        )
        data["components"] = 0
        return data, Logistic.name if target in data.get("categories", {}) else Squared.name

    def _declare(self, data: dict[str, Any], column: str, read: Callable[[str], tuple[str, Any]]) -> None:
        kind, value = self._until(f"{column}: 0..120, or levels such as yes, no", None, read)
        data.setdefault(kind, {})[column] = value

    def owners(self) -> list[dict[str, Any]]:
        """Each with its name, records and budget; those of the one before are the defaults."""
        owners: list[dict[str, Any]] = []
        before: dict[str, Any] = {"records": 3000, "epsilon": 1.0}
        for i in range(self._until("How many owners", "3", partial(_whole, most=200))):
            taken = [owner["name"] for owner in owners]
            name = self._until(f"Owner {i + 1}: name", f"owner-{i + 1}", partial(_new, taken=taken))
            most = partial(_whole, most=10**12)
            records = self._until(f"{name}: how many records", str(before["records"]), most)
            epsilon = self._until(f"{name}: budget (epsilon)", f"{before['epsilon']:g}", _budget)
            before = {"name": name, "records": records, "epsilon": epsilon}
            owners.append(before)
        return owners


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise InvalidInput("name one column or more, each once")
    return names


def _range_or_levels(text: str, two: bool = False) -> tuple[str, Any]:
    """ "0..120" as bounds, "yes, no" as categories; `two`: of which there have to be two."""
    if ".." in text:
        low, high = (float(part) for part in text.split("..", 1))
        if not -1e30 <= low < high <= 1e30:  # as an agreement takes them
            raise InvalidInput("the lower bound comes first, and is below the upper one; both are plain numbers")
        return "bounds", (low, high)
    levels = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(set(levels)) < len(levels):
        raise InvalidInput("name each level once")
    if len(levels) < 2 or (two and len(levels) != 2):
        raise InvalidInput(f"write bounds as 0..120, or levels with commas between{' (two of them)' if two else ''}")
    return "categories", levels


def _new(text: str, taken: list[str]) -> str:
    if not text or text in taken:
        raise InvalidInput("it needs a name" if not text else f"{text} is there already; take another name")
    try:
        return can_be_told_apart(text)
    except ValueError as error:
        raise InvalidInput(f"this name {error}") from None


def _whole(text: str, most: int) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if not 1 <= number <= most:
        raise InvalidInput(f"give a whole number from 1 to {most:,}")
    return number


def _budget(text: str) -> float:
    number = float(text)
    if not 1e-12 <= number <= 1e12:
        raise InvalidInput("give a number above 0, such as 1")
    return number
