"""`copriv ui [AGREEMENT]`: the pages for people who decide, on this machine alone."""

from pathlib import Path
from typing import Annotated

from copriv.agreement import Agreement
from copriv.cli.commands.options import argument, option
from copriv.cli.console import log
from copriv.errors import UsageError

Host = Annotated[str, option("Where the page answers: this machine alone.", env="UI_HOST")]
Port = Annotated[int, option("0: any that is free.", env="UI_PORT", min=0, max=65535)]
Exposed = Annotated[bool, option("Let --host be an address that other machines reach, unencrypted.", "--exposed")]


def command(
    agreement: Annotated[
        Path | None, argument("An agreement to begin with.", env="AGREEMENT", metavar="[AGREEMENT]")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 0,
    exposed: Exposed = False,
    figures: Annotated[
        Path | None,
        option(
            "For the gallery: where copriv reproduce left its figures.", metavar="DIR", exists=True, file_okay=False
        ),
    ] = None,
    browser: Annotated[bool, option("Open it in the browser.", "--browser/--no-browser")] = True,
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
