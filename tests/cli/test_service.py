"""What systemd, a monitor and a log are told of a party's process; next agreements are taken without a restart."""

import asyncio
import logging
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from copriv.cli.commands import service as services
from copriv.cli.commands.service import Figures, Service, operated
from copriv.errors import UsageError
from network_parties import keys

READY = Figures(True, {"answers": 3.0, "slot_seconds": 0.25})


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket at which systemd listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
        there.bind(str(tmp_path / "notify"))
        there.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield there


def told(there: socket.socket) -> list[str]:
    lines = []
    while True:
        try:
            lines += there.recv(4096).decode().splitlines()
        except BlockingIOError:
            return lines


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(keys(tmp_path)["bank-1"], lambda *_: None)


def attend(service: Service, looks: int, figures: Figures = READY) -> str:
    """The result of work that ends after so many looks at its figures."""

    async def work() -> str:
        await over.wait()
        return "done"

    def look() -> Figures:
        seen.append(figures)
        if len(seen) == looks:
            over.set()
        return figures

    over, seen = asyncio.Event(), list[Figures]()
    return str(asyncio.run(service.attended(work(), look)))


def test_systemd_is_told_that_the_process_is_ready_alive_and_stopping(
    systemd: socket.socket, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "40000")
    with operated(service, None):
        assert attend(service, 3) == "done"
        assert attend(service, 2) == "done"
    lines = told(systemd)
    assert [line for line in lines if line != "WATCHDOG=1"] == [
        "WATCHDOG_USEC=40000", "READY=1", "WATCHDOG_USEC=0", "WATCHDOG_USEC=40000", "WATCHDOG_USEC=0", "STOPPING=1",
    ]  # fmt: skip
    assert lines.count("WATCHDOG=1") == 5


def test_the_watchdog_waits_for_ten_of_the_answers_in_which_a_process_cannot_speak(
    systemd: socket.socket, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    service.slot = 100.0
    attend(service, 1)
    assert told(systemd)[0] == "WATCHDOG_USEC=1000000000"


def test_a_process_that_has_not_started_is_not_ready_and_one_that_systemd_did_not_start_says_nothing(
    systemd: socket.socket, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend(service, 1, Figures(False, {}, started=False))
    monkeypatch.setenv("NOTIFY_SOCKET", "/nobody/listens")
    attend(service, 1)
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert services.watchdog_seconds() == 0
    monkeypatch.delenv("NOTIFY_SOCKET")
    services.notify("READY=1")
    assert told(systemd) == []


def test_a_certificate_that_ends_within_thirty_days_is_a_warning_once_a_day(tmp_path: Path) -> None:
    from copriv.network.keys import Keys, issue, make_authority

    make_authority(tmp_path / "authority", "test")
    said = []
    for days in (29, 31):
        issue(tmp_path / "authority", tmp_path / str(days), f"bank-{days}", "owner", days)
        service = Service(Keys.load(tmp_path / str(days)), lambda *words: said.append(words))
        attend(service, 3)
        assert service.figures.values["certificate_days"] == pytest.approx(days, abs=0.1)
    assert [(words[0].split(";")[0], words[1]) for words in said] == [
        ("a certificate of bank-29 ends in 29 days", logging.WARNING)
    ]


def get(address: str, page: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address + page, timeout=20) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_monitor_is_told_counts_and_nothing_of_the_process_itself(tmp_path: Path) -> None:
    """Processor time depends on the records, so that Prometheus's usual figures of a process are left out."""
    pytest.importorskip("opentelemetry.exporter.prometheus", reason="the extra [metrics] is not installed")
    said: list[str] = []
    service = Service(keys(tmp_path)["bank-1"], said.append)
    for _ in range(2):  # a second one in the same process has figures of its own
        with operated(service, "0"):
            address = re.findall(r"(http://127\.0\.0\.1:\d+)/metrics", said[-1])[0]
            service.figures = Figures(False, {})
            assert get(address, "/ready")[0] == 503
            attend(service, 1)
            assert get(address, "/ready") == (200, "ready\n")
            assert get(address, "/health") == (200, "alive\n")
            code, page = get(address, "/metrics")
            assert get(address, "/records")[0] == 404
            service.beaten = time.monotonic() - 3600
            assert get(address, "/health")[0] == 503
        with pytest.raises(urllib.error.URLError):
            get(address, "/health")
        samples = [line.split("{")[0].split(" ")[0] for line in page.splitlines() if not line.startswith("#")]
        assert (code, sorted(samples)) == (
            200, ["copriv_answers_total", "copriv_certificate_days", "copriv_slot_seconds"]
        )  # fmt: skip
        assert re.search(r"^copriv_answers_total(\{.*\})? 3\.0$", page, re.M)


@pytest.mark.parametrize("address", ["localhost", "nowhere:", "127.0.0.1:99999", ":9464"])
def test_an_address_that_is_none_is_refused(service: Service, address: str) -> None:
    with pytest.raises(UsageError, match="--metrics: must be"), operated(service, address):
        pass


def test_a_port_that_is_taken_is_refused(service: Service) -> None:
    pytest.importorskip("opentelemetry.exporter.prometheus", reason="the extra [metrics] is not installed")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match="cannot listen"), operated(service, str(port)):
            pass
