"""A page server for tests: in a thread of this process, or `copriv ui` as a process of its own."""

import http.client
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

from copriv.ui.app import Pages
from copriv.ui.server import Place, server, take_place


@contextmanager
def in_thread(app=None, place=None):
    """The place where the application is served behind its guard, as `copriv ui` serves it."""
    place = place or take_place()
    running = server(app or Pages().app, place)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [place.socket]}, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield place
    finally:
        running.should_exit = True
        thread.join(10)


def ask(place, method="GET", path="/join", body=None, *, token=True, **headers):
    """(status, headers, text) of one request; a name such as sec_fetch_site stands for Sec-Fetch-Site."""
    connection = http.client.HTTPConnection("127.0.0.1", place.access.port, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        sent["cookie"] = f"{place.access.cookie}={place.access.token}"
    if method == "POST":
        sent.setdefault("origin", f"http://127.0.0.1:{place.access.port}")
    connection.request(method, path, body, sent)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


def again(place):
    """The same place once more, with its token, after its server has ended."""
    return Place(take_place(port=place.access.port).socket, place.access)


@contextmanager
def as_process(*arguments, log):
    """The address that a `copriv` command with pages shows; its standard error goes to the file `log`."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", "from copriv.cli import main; main()", *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        yield address_in(log, process), process
    finally:
        process.terminate()
        process.wait(20)


def address_in(log, process, wait=60):
    """The address with its token, once it stands in the log."""
    until = time.monotonic() + wait
    while time.monotonic() < until and process.poll() is None:
        found = re.search(r"open (http://\S+)", log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"no page: {log.read_text(errors='replace')}")


def until(page, condition, wait=30):
    """Wait for a condition in the browser; Playwright's own way needs eval, which the pages forbid."""
    end = time.monotonic() + wait
    while time.monotonic() < end:
        if page.evaluate(condition):
            return
        time.sleep(0.02)
    raise AssertionError(f"never true: {condition}; the page says: {page.locator('main').inner_text()[:1500]}")
