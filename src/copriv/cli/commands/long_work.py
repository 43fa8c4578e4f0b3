"""A party's long work: Ctrl-C ends it between two messages and says how to go on, and with `--ui` a page looks at it."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copriv.cli.commands.ui import needed
from copriv.cli.show.console import log
from copriv.errors import CoprivError

if TYPE_CHECKING:
    from copriv.agreement import Agreement
    from copriv.model.records import Records
    from copriv.network.run_state import Conductor
    from copriv.ui.live import Watch

Ui = Annotated[bool, typer.Option("--ui", help="Show it in the browser of this machine.", envvar="COPRIV_UI")]
UiPort = Annotated[int, typer.Option(min=0, max=65535, help="With --ui; 0: any that is free.", envvar="COPRIV_UI_PORT")]


@contextmanager
def going_on(how: str) -> Iterator[None]:
    """Says `how` where the work inside is interrupted, which ends the command as always."""
    try:
        yield
    except KeyboardInterrupt:
        log(how)
        raise


def run_stoppably(work: Awaitable[Any]) -> Any:
    """The outcome of `work`. Ctrl-C and SIGTERM end it between two messages, so that files are closed as they should be.

    Raises KeyboardInterrupt then, here and not within: a loop leaves such a task behind, and says so whenever it is collected.
    """

    async def stoppable() -> Any:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        handled = []
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, task.cancel)
                handled.append(number)
            except (NotImplementedError, RuntimeError):
                continue  # Windows, or not the main thread: Python's own KeyboardInterrupt does
        try:
            return await task
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@contextmanager
def page_beside(
    watch: "Watch | None", look: Callable[[], None], port: int
) -> Iterator[Callable[[Awaitable[Any]], Any]]:
    """How to do the work: stoppably, and where there is a watch, with a page that shows what `look` puts into it."""
    if watch is None:
        yield run_stoppably
        return
    from copriv.ui.live import beside, shown
    from copriv.ui.server import take_place

    with shown(watch, take_place(port=port), log):
        yield lambda work: run_stoppably(beside(work, look))


def watched(
    conductor: "Conductor", public: "Records | None", strata: tuple[str, ...] | None, wanted: bool, port: int
) -> AbstractContextManager[Callable[[Awaitable[Any]], Any]]:
    """How to do the learner's work: with a page that looks at it, where one is wanted."""
    if not wanted:
        return page_beside(None, lambda: None, port)
    needed()
    from copriv.ui.live import RunWatch

    watch = RunWatch(conductor, public)
    if public is not None:
        # In a process of its own: a forecast's arithmetic would hold up the run.
        threading.Thread(target=_expect, args=(conductor.agreement, public, strata, watch.watch), daemon=True).start()
    return page_beside(watch.watch, watch.look, port)


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
