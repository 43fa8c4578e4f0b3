"""`copriv ui [AGREEMENT]`: the pages for people who decide, on this machine alone."""

from pathlib import Path
from typing import Annotated

import typer

from copriv.agreement import Agreement
from copriv.cli.console import log
from copriv.errors import UsageError

Host = Annotated[str, typer.Option(help="Where the page answers: this machine alone.", envvar="COPRIV_UI_HOST")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.", envvar="COPRIV_UI_PORT")]
Exposed = Annotated[
    bool, typer.Option("--exposed", help="Let --host be an address that other machines reach, unencrypted.")
]


def command(
    agreement: Annotated[
        Path | None,
        typer.Argument(metavar="[AGREEMENT]", help="An agreement to begin with.", envvar="COPRIV_AGREEMENT"),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 0,
    exposed: Exposed = False,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="For the gallery: where copriv reproduce left its figures.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in the browser.")] = True,
) -> None:
    """Should we join? Write the agreement, read ledgers: pages on this machine, offline, for people who decide."""
    terms = None
    if agreement is not None:
        terms = Agreement.load(agreement)
    needed()
    from copriv.ui.app import Pages
    from copriv.ui.server import serve, take_place

    place = take_place(host, port, exposed=exposed)
    serve(Pages(terms, figures).app, place, browse=browser, log=log)


def needed() -> None:
    """Raise UsageError where the extra that pages need is not installed."""
    try:
        import starlette
        import uvicorn
    except ImportError as error:
        raise UsageError(f"the pages need {error.name}; install them with: pip install 'copriv[ui]'") from None
    del starlette, uvicorn
