"""Long work of a party: stopping and resuming it, its page (`--ui`), and its reports to systemd and to a monitor.

Figures are read in the event loop of the run, between two answers. They are counts, sums of the ledger, dates and the slot,
none of which depends on the records. The use of processor and memory depends on them and is not reported.
"""

import asyncio
import logging
import math
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from copriv.agreement import Agreement
from copriv.cli.commands.options import check_address, option
from copriv.cli.commands.ui import needed
from copriv.cli.console import log
from copriv.errors import CoprivError, UsageError

if TYPE_CHECKING:
    from copriv.model.records import Records
    from copriv.network.keys import Keys
    from copriv.network.run_state import Conductor
    from copriv.ui.live import Watch

BEAT = 1.0
"""Largest number of seconds between two readings of a process's figures."""

Ui = Annotated[bool, option("Show it in the browser of this machine.", "--ui", env="UI")]
UiPort = Annotated[int, option("With --ui; 0: any that is free.", env="UI_PORT", min=0, max=65535)]

COUNTS = ("answers", "refusals")
FIGURES = {
    "epsilon_spent": "epsilon of the ledger that is spent or paid for ahead",
    "epsilon_left": "epsilon of the ledger's lifetime that is left",
    "answers": "answers given by this process (owner), or in this run (learner)",
    "refusals": "queries refused by this process (owner), or in this run (learner)",
    "slot_seconds": "seconds after which an answer leaves, whatever the records",
    "lag_seconds": "seconds since the last answer",
    "connected": "owners that are connected to the learner",
    "certificate_days": "days until the first of this party's certificates ends",
}
"""Description of each figure, by its name without the prefix copriv_."""


@dataclass(frozen=True)
class Figures:
    """Figures of a process, for a monitor.

    ready: whether it can answer (owner) or be dialled (learner) now. started: whether its own initialisation is complete.
    """

    ready: bool
    values: dict[str, float]
    started: bool = True


def notify(*lines: str) -> None:
    """Send lines to systemd, as sd_notify(3) does, if it started this process and asked for them (NOTIFY_SOCKET)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # a name without a file
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.settimeout(1.0)
        to.sendto("\n".join(lines).encode(), address)


def watchdog_seconds() -> float:
    """Seconds without a sign of life after which systemd restarts this process (WatchdogSec=); 0 where it does not."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    return int(os.environ.get("WATCHDOG_USEC") or 0) / 1e6


@dataclass
class Service:
    """One party's process: `attended` runs its work and reports its state to systemd and to a monitor.

    slot: seconds that an answer takes, in which the loop cannot beat.
    """

    keys: "Keys"
    log: Callable[..., None]
    slot: float = 0.0
    figures: Figures = field(default_factory=lambda: Figures(False, {}))
    beaten: float = field(default_factory=time.monotonic)
    """The time of the last look at the figures."""
    _told_ready: bool = False
    _warned: float = -math.inf

    @property
    def alive(self) -> bool:
        """Whether the loop of the run has not been blocked for a minute longer than ten answers take."""
        return time.monotonic() - self.beaten < 60.0 + 10.0 * self.slot

    async def attended(self, work: Awaitable[Any], look: Callable[[], Figures]) -> Any:
        """Run the work to its result, calling `look` in its event loop meanwhile."""
        allowed = watchdog_seconds()
        if allowed:  # the loop does not beat during an answer
            allowed = max(allowed, 10.0 * self.slot)
            notify(f"WATCHDOG_USEC={allowed * 1e6:.0f}")

        def beat() -> None:
            self._look(look)
            if allowed:
                notify("WATCHDOG=1")

        try:
            return await _looked_at(work, beat, min(BEAT, allowed / 4 or BEAT))
        finally:
            self._look(look)
            if allowed:
                notify("WATCHDOG_USEC=0")  # after this, no event loop sends signs of life

    def _look(self, look: Callable[[], Figures]) -> None:
        """Update the figures; report once that the process is ready, and once a day that a certificate ends within 30 days."""
        figures, self.beaten = look(), time.monotonic()
        # The first to end of a party's two certificates, its own and its authority's.
        day = 86_400.0
        days = (self.keys.ends - datetime.now(UTC)).total_seconds() / day
        self.figures = Figures(figures.ready, {**figures.values, "certificate_days": days})
        if days < 30.0 and self.beaten - self._warned >= day:
            self._warned = self.beaten
            what = f"a certificate of {self.keys.name} ends in {days:.0f} days"
            self.log(f"{what}; ask the coordinator to renew it (copriv init --renew)", logging.WARNING)
        if figures.started and not self._told_ready:
            notify("READY=1")
            self._told_ready = True


async def _looked_at(work: Awaitable[Any], look: Callable[[], None], every: float) -> Any:
    """Run the work to its result, calling `look` in the same event loop at its beginning and then every `every` seconds."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            look()
            await asyncio.wait({task}, timeout=every)
        return await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


@contextmanager
def operated(service: Service, address: str | None) -> Iterator[None]:
    """Serve metrics during the block (`_monitored`), and tell systemd at its end that the process stops."""
    try:
        with _monitored(service, address):
            yield
    finally:
        notify("STOPPING=1")


@contextmanager
def _monitored(service: Service, address: str | None) -> Iterator[None]:
    """Serve /metrics (Prometheus's text), /health and /ready at `[HOST:]PORT` during the block; HOST is 127.0.0.1 if left out.

    Health: 200, or 503 where the process hangs; readiness: 200, or 503 where it cannot answer or be dialled now.
    Raises UsageError where the address cannot be listened at, or the extra is not installed.
    """
    if address is None:
        yield
        return
    host, _, port = (address if ":" in address else f"127.0.0.1:{address}").rpartition(":")
    check_address("--metrics", f"{host}:{port}", least_port=0)
    try:
        kind, metrics, stop = _exporter(service)
    except ImportError as error:
        raise UsageError(f"--metrics: needs {error.name}; install it with: pip install 'copriv[metrics]'") from None

    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            pages: dict[str, Callable[[], tuple[int, bytes]]] = {
                "/health": lambda: (200, b"alive\n") if service.alive else (503, b"hanging\n"),
                "/ready": lambda: (200, b"ready\n") if service.figures.ready else (503, b"not ready\n"),
                "/metrics": lambda: (200, metrics()),
            }
            code, body = pages.get(self.path, lambda: (404, b"there are /metrics, /health and /ready\n"))()
            self.send_response(code)
            self.send_header("Content-Type", kind if self.path == "/metrics" else "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: a request every few seconds would fill the log."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        server = Server((host.strip("[]"), int(port)), Handler)
    except OSError as error:
        raise UsageError(f"--metrics: cannot listen at {host}:{port} ({error.strerror}); give another port") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    service.log(f"metrics at http://{host}:{server.server_address[1]}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        stop()


def _exporter(service: Service) -> tuple[str, Callable[[], bytes], Callable[[], object]]:
    """OpenTelemetry's Prometheus exporter: its content type, a function that returns the figures, and one that ends it."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.metrics import Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

    provider = MeterProvider([PrometheusMetricReader(True)])
    meter = provider.get_meter("copriv")

    def of(name: str) -> Callable[[Any], list[Observation]]:
        return lambda _: [Observation(v) for key, v in service.figures.values.items() if key == name]

    for name, what in FIGURES.items():
        kind = meter.create_observable_counter if name in COUNTS else meter.create_observable_gauge
        kind(f"copriv_{name}", [of(name)], description=what)

    class Ours:
        """The registry without the metrics of the process itself, whose processor time depends on the records."""

        def collect(self) -> Any:
            return (family for family in REGISTRY.collect() if family.name.startswith("copriv_"))

    return CONTENT_TYPE_LATEST, lambda: generate_latest(cast(Any, Ours())), provider.shutdown


def agreements(first: Agreement, path: Path, stay: bool, service: Service) -> Iterator[Agreement]:
    """Yield the agreement that was read and, with `stay`, each other agreement that replaces it in its file."""
    yield first
    known = first.fingerprint
    while stay:
        service.log(f"waiting for the next agreement in {path}")
        waiting = service.attended(_next(path, known, service), lambda: Figures(False, service.figures.values))
        found = run_stoppably(waiting)
        known = found.fingerprint
        yield found


async def _next(path: Path, known: str, service: Service) -> Agreement:
    """Read a file every two seconds until it holds another agreement than the `known` one; log once why it is not valid."""
    said = ""
    while True:
        try:
            found = next_agreement(path, known)
            if found is not None:
                return found
        except CoprivError as error:
            if said != str(error):
                said = str(error)
                service.log(f"the agreement is not taken: {said}", logging.WARNING)
        await asyncio.sleep(2.0)


def next_agreement(path: Path, known: str) -> Agreement | None:
    """The agreement in a file; None where it has the `known` fingerprint."""
    found = Agreement.load(path)
    return None if found.fingerprint == known else found


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
    """Yield a function that runs work stoppably, with a page of the snapshots that `look` takes where there is a watch."""
    if watch is None:
        yield run_stoppably
        return
    from copriv.ui.live import page_served
    from copriv.ui.server import take_place

    with page_served(watch, take_place(port=port), log):
        try:
            yield lambda work: run_stoppably(_looked_at(work, look, BEAT / 4))
        finally:
            look()


def watched(
    conductor: "Conductor", public: "Records | None", strata: tuple[str, ...] | None, wanted: bool, port: int
) -> AbstractContextManager[Callable[[Awaitable[Any]], Any]]:
    """As `page_beside`, for the learner's work, with a page if one is `wanted`."""
    if not wanted:
        return page_beside(None, lambda: None, port)
    needed()
    from copriv.ui.live import RunWatch

    watch = RunWatch(conductor, public, strata)
    if (
        public is not None and not conductor.store.agreement.has_pilot
    ):  # with a pilot, the decision after it has the bands
        # In a process of its own, because a forecast's arithmetic would block the run.
        threading.Thread(target=_forecast, args=(conductor.agreement, public, strata, watch.watch), daemon=True).start()
    return page_beside(watch.watch, watch.look, port)


def _forecast(agreement: Agreement, public: "Records", strata: tuple[str, ...] | None, watch: "Watch") -> None:
    """Compute the forecast's band in another process, which ends with the run, and add it to the page."""
    from copriv.ui.views import expected_band

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            watch.band = pool.apply(expected_band, (agreement, public, strata))
        except CoprivError as error:
            log(f"no forecast to hold the run against: {error}")
