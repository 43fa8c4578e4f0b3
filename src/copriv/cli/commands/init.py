"""`copriv init`: an agreement to start from: asked for step by step on a terminal, else every key with its meaning."""

import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.show.console import log, out
from copriv.cli.show.output import save
from copriv.errors import UsageError

MOST_DAYS = 36_500
"""A century: nobody's keys are good for longer, and calendars end."""


def template() -> str:
    """The text of the file, which is a valid agreement as it stands."""
    return files("copriv.cli.commands").joinpath("agreement.toml").read_text(encoding="utf-8")


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
    plain: Annotated[
        bool, typer.Option("--template", help="Write the plain template, and ask nothing; as without a terminal.")
    ] = False,
    days: Annotated[
        int | None, typer.Option(min=1, max=MOST_DAYS, help="With --network: how long certificates are valid; 365.")
    ] = None,
) -> None:
    """Write an agreement, asked for step by step on a terminal; with --network, the files of every party of a consortium."""
    if network is None and (public is not None or days is not None):
        raise UsageError(f"{'--days' if public is None else '--public'}: goes with --network AGREEMENT")
    if network is not None and (plain or force):
        raise UsageError(
            f"{'--template' if plain else '--force'}: does not go with --network, which makes a new folder"
        )
    if network is not None:
        init_network(network, path, public, days or 365)
        return
    if path.exists() and not force:
        raise UsageError(f"{path}: is there already; name another file, or replace it with --force")
    if path.is_dir():
        raise UsageError(f"{path}: is a directory; name a file")
    if not plain and sys.stdin.isatty() and sys.stdout.isatty():
        from copriv.cli.commands.init_steps import asked, written

        agreement = asked(lambda question, default: typer.prompt(question, default=default, type=str), typer.echo)
        save(path.parent, {path.name: written(agreement).encode()})
        out().print(f"\nWrote {path}. What it will cost, and for whom it pays: copriv forecast {path}")
        return
    save(path.parent, {path.name: template().encode()})
    out().print(f"Wrote {path}. Change it to what you agree on, then try it: copriv simulate {path}")


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
