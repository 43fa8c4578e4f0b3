"""`--ui` of `copriv learner` and `copriv owner serve`: a page beside the process, which only looks, pauses and stops."""

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copriv.cli.commands.party_options import run_stoppably
from copriv.cli.commands.ui import needed
from copriv.cli.show.console import log
from copriv.errors import CoprivError

if TYPE_CHECKING:
    from copriv.agreement import Agreement
    from copriv.model.records import Records
    from copriv.network.run_state import Conductor
    from copriv.privacy.ledger.file import LedgerFile
    from copriv.ui.live import OwnerWatch, Watch

Ui = Annotated[bool, typer.Option("--ui", help="Show it in the browser of this machine.", envvar="COPRIV_UI")]
UiPort = Annotated[int, typer.Option(min=0, max=65535, help="With --ui; 0: any that is free.", envvar="COPRIV_UI_PORT")]


@contextmanager
def watched(
    conductor: "Conductor", public: "Records | None", strata: tuple[str, ...] | None, wanted: bool, port: int
) -> Iterator[Callable[[Awaitable[Any]], Awaitable[Any]]]:
    """What to put around the learner's work: nothing, or a page that looks at it."""
    if not wanted:
        yield lambda work: work
        return
    needed()
    from copriv.ui.live import RunWatch, beside, shown
    from copriv.ui.server import take_place

    watch = RunWatch(conductor, public)
    if public is not None:
        # In a process of its own: a forecast's arithmetic would hold up the run.
        threading.Thread(target=_expect, args=(conductor.agreement, public, strata, watch.watch), daemon=True).start()
    with shown(watch.watch, take_place(port=port), log):
        yield lambda work: beside(work, watch.look)


def _expect(agreement: "Agreement", public: "Records", strata: tuple[str, ...] | None, watch: "Watch") -> None:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    # A daemon: it ends with the run, however far it is.
    worker = context.Process(target=_worked_out, args=(there, agreement, public, strata), daemon=True)
    worker.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        return
    if isinstance(found, str):
        log(f"no forecast to hold the run against: {found}")
    else:
        watch.band = found


def _worked_out(to: Any, agreement: "Agreement", public: "Records", strata: tuple[str, ...] | None) -> None:
    """In a process of its own: the forecast's band, or why there is none."""
    from copriv.ui.views import expected_band

    try:
        to.send(expected_band(agreement, public, strata))
    except CoprivError as error:
        to.send(str(error))


def owner_watch(name: str, fingerprint: str, learner: str, promise: str) -> "OwnerWatch":
    """What an owner's page looks at. Raises UsageError where the pages' extra is not installed."""
    needed()
    from copriv.ui.live import OwnerWatch

    return OwnerWatch(name, fingerprint, learner, promise)


def serving(serve: Callable[[], Awaitable[str]], file: "LedgerFile", watch: "OwnerWatch | None", port: int) -> str:
    """Answer to the end, with a page beside it where one is wanted; why it ended."""
    if watch is None:
        return str(run_stoppably(serve()))
    from copriv.ui.live import beside, shown
    from copriv.ui.server import take_place

    def look() -> None:
        watch.look(file.totals)

    look()
    with shown(watch.watch, take_place(port=port), log):
        reason = str(run_stoppably(beside(serve(), look)))
        watch.over = reason
        look()
    return reason
