"""`copriv init`: an agreement to start from, by questions on a terminal (`wizard`) or as a template with all keys.

With `--network`, the files of all parties.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.commands.options import argument, option, packaged_text
from copriv.cli.console import log, tell
from copriv.cli.output import save
from copriv.cli.wizard import asked, taken, written
from copriv.errors import UsageError
from copriv.formatting.sanitize import printable, without_user


def command(
    path: Annotated[Path, argument("Where to write it.")] = Path("agreement.toml"),
    force: Annotated[bool, option("Replace a file that is there.", "--force")] = False,
    network: Annotated[
        Path | None, option("Write every party's keys and files for it, into PATH.", "--network", metavar="AGREEMENT")
    ] = None,
    public: Annotated[Path | None, option("With --network: the coordinator's public rows.", metavar="TABLE")] = None,
    request: Annotated[
        list[Path] | None,
        option("With --network: a party's signing request (copriv owner keys); can be repeated.", metavar="FILE"),
    ] = None,
    plain: Annotated[
        bool, option("Write the plain template, and ask nothing; as without a terminal.", "--template")
    ] = False,
    columns: Annotated[
        Path | None, option("Propose the columns of this table (.csv or .parquet).", "--columns", metavar="TABLE")
    ] = None,
    public_columns: Annotated[bool, option("With --columns: anybody may read its every row.", "--is-public")] = False,
    private_columns: Annotated[
        bool, option("With --columns: not everybody may; only the names of its columns are read.", "--is-private")
    ] = False,
    strata: Annotated[
        str | None,
        option("With --columns: the one that says which owner's each row is like.", "--strata", metavar="COLUMN"),
    ] = None,
    days: Annotated[
        int | None, option("With --network or --renew: how long certificates are valid; 365.", min=1, max=36_500)
    ] = None,
    renew: Annotated[
        bool, option("Certify the parties of the consortium in PATH anew, with the keys they have.", "--renew")
    ] = False,
) -> None:
    """Write an agreement, asked for step by step on a terminal; with --network, the files of every party of a consortium."""
    if renew:
        others = {
            "--network": network,
            "--request": request,
            "--public": public,
            "--columns": columns,
            "--template": plain,
        }
        alone = next((option for option, value in others.items() if value), None)
        if alone is not None:
            raise UsageError(f"{alone}: does not go with --renew")
        from copriv.network.setup import renew_certificates

        for name, fingerprint in renew_certificates(path, days or 365).items():
            typer.echo(f"{name}: {fingerprint}")
        log(
            f"give each party certificate.pem and ca.pem of its folder in {path}; the numbers are the certificates' SHA-256. "
            "Owners whose policy.toml names certificates add the learner's to them before it begins to use its own"
        )
        return
    if public_columns and private_columns:
        raise UsageError("--is-public: does not go with --is-private; say which of them the table is")
    is_public = public_columns if public_columns or private_columns else None
    given = {"--public": public, "--days": days, "--request": request}
    alone = next((option for option, value in given.items() if value), None)
    if network is None and alone is not None:
        raise UsageError(f"{alone}: goes with --network AGREEMENT")
    if network is not None and (plain or force):
        raise UsageError(
            f"{'--template' if plain else '--force'}: does not go with --network, which makes a new folder"
        )
    if columns is not None and (plain or network is not None):
        other = "--template" if plain else "--network"
        raise UsageError(f"--columns: does not go with {other}; leave one of them out")
    if network is not None:
        _init_network(network, path, public, days or 365, request or [])
        return
    if (is_public is not None or strata is not None) and columns is None:
        option = "--strata: goes" if is_public is None else "--is-public and --is-private: go"
        raise UsageError(f"{option} with --columns TABLE")
    if strata is not None and is_public is False:
        raise UsageError("--strata: is a column of public rows; does not go with --is-private")
    if (shown := without_user(str(path))) != str(path):
        raise UsageError(f"{shown}: is an address; name a file")
    if path.exists() and not force:
        raise UsageError(f"{path}: is there already; name another file, or replace it with --force")
    if path.is_dir():
        raise UsageError(f"{path}: is a directory; name a file")
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if columns is not None and not terminal and not is_public:
        raise UsageError(
            "--columns: without a terminal nobody can be asked; say --is-public if anybody may read the table's every row, or "
            "declare the columns of a private one in the agreement"
        )
    if columns is not None or (not plain and terminal):

        def say(text: str) -> None:
            if terminal:
                typer.echo(_shown(text))

        def ask(question: str, default: str | None) -> str:
            if not terminal:
                return taken(question, default)
            text = _shown(question)
            if default is not None:
                text += f" [{_shown(default)}]"
            # With a default of its own a prompt would ask again without a word.
            return str(typer.prompt(text, default=default or "", show_default=False, type=str))

        found = say if terminal else log
        agreement = asked(ask, say, columns, is_public, found=found, strata=strata or "none")
        if not terminal:
            log("records and budgets of the owners are examples: correct them, and their names, in the file")
        if not terminal and strata is None:
            log("no column was taken to say which owner's a row is like; if one does, name it: --strata COLUMN")
        save(path.parent, {path.name: written(agreement).encode()})
        needed = agreement.data.public
        if needed is not None and not Path(needed).is_file():
            tell(f"\nForecasts need {needed}: put a file of public rows there first.")
        final = Path("planned/recommended.toml") if agreement.agreement.rule == "auto" else path
        tell(
            f"\nWrote {path}. What it will cost, and for whom it pays: copriv forecast {path} --out planned\n\n"
            f"Once all agree, the parties need keys. Each owner makes its own and sends its request.pem:\n"
            f"    copriv owner keys {shlex.quote(agreement.owner_names[0])}\n"
            f"    copriv init --network {final} consortium --request request.pem --request …\n"
            "Or, to try it all out on one machine, make everybody's keys at once:\n"
            f"    copriv init --network {final} consortium"
        )
        return
    save(path.parent, {path.name: packaged_text("agreement.toml").encode()})
    tell(f"Wrote {path}. Change it to what you agree on, then try it: copriv simulate {path}")


def _shown(text: str) -> str:
    """The text without control characters, which names in a table can hold; line ends around it are kept."""
    said = text.strip("\n")
    return text.replace(said, printable(said, 2000))  # longer than any question


def _init_network(agreement: Path, folder: Path, public: Path | None, days: int, requests: Sequence[Path]) -> None:
    """Write all parties' files. Raises as `make_consortium` does."""
    from copriv.network.setup import make_consortium

    made = make_consortium(Agreement.load(agreement), folder, public, days, requests)
    for path in made.files:
        log(f"wrote {path}")
    public_files = f"{folder}/agreement.toml"
    if made.dictionary is not None:
        public_files += " and dictionary.json"
    tell(
        f"Give {public_files} to everybody, and each folder to its own party over a safe way. Keep {folder}/authority."
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
