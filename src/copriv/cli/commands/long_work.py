"""Long work of a party: Ctrl-C ends it between two messages and logs how to resume; with `--ui` a page shows it."""

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
    """Log `how` to resume where the block is interrupted; the interrupt is raised again."""
    try:
        yield
    except KeyboardInterrupt:
        log(how)
        raise


def run_stoppably(work: Awaitable[Any]) -> Any:
    """Run `work` and return its result. Ctrl-C and SIGTERM cancel it between two messages, so that files are closed.

    Raises KeyboardInterrupt then, outside the event loop, which would otherwise report the task as never retrieved.
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
                continue  # on Windows, or in another thread, Python raises KeyboardInterrupt itself
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
    """A function that runs work stoppably; where there is a watch, with a page that shows the snapshots of `look`."""
    if watch is None:
        yield run_stoppably
        return
    from copriv.ui.live import page_served, with_snapshots
    from copriv.ui.server import take_place

    with page_served(watch, take_place(port=port), log):
        yield lambda work: run_stoppably(with_snapshots(work, look))


def watched(
    conductor: "Conductor", public: "Records | None", strata: tuple[str, ...] | None, wanted: bool, port: int
) -> AbstractContextManager[Callable[[Awaitable[Any]], Any]]:
    """A function that runs the learner's work, with a page where one is `wanted`."""
    if not wanted:
        return page_beside(None, lambda: None, port)
    needed()
    from copriv.ui.live import RunWatch

    watch = RunWatch(conductor, public, strata)
    if public is not None:
        # In a process of its own, because a forecast's arithmetic would block the run.
        threading.Thread(target=_forecast, args=(conductor.agreement, public, strata, watch.watch), daemon=True).start()
    return page_beside(watch.watch, watch.look, port)


def _forecast(agreement: "Agreement", public: "Records", strata: tuple[str, ...] | None, watch: "Watch") -> None:
    """Compute the forecast's band in another process, and add it to the page."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    # A daemon process, which ends with the run.
    worker = context.Process(target=_send_band, args=(there, agreement, public, strata), daemon=True)
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


def _send_band(to: Any, agreement: "Agreement", public: "Records", strata: tuple[str, ...] | None) -> None:
    """Send the forecast's band, or the text of the error that prevents it, from this process."""
    from copriv.ui.views import expected_band

    try:
        to.send(expected_band(agreement, public, strata))
    except CoprivError as error:
        to.send(str(error))
