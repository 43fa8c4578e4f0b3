"""How soon pages are painted and changes answered, as ratios to a bare page of the same server.

    python -m benchmarks.ui

Needs `copriv[ui]`, playwright and chromium, as `make test-ui` does. Ratios compare across machines, milliseconds do not.
"""

import os
import shutil
import statistics
import sys
import threading
import time
from typing import Any

from playwright.sync_api import Page, sync_playwright
from starlette.responses import HTMLResponse
from starlette.routing import Route

from copriv.ui.app import PAGES, Pages
from copriv.ui.server import server, take_place

TIMES = 7
BARE = "<!doctype html><html lang=en><title>bare</title><p>bare</p>"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]


async def bare(request: Any) -> HTMLResponse:
    """The page that all others are held against."""
    return HTMLResponse(BARE)


def painted(page: Page, address: str) -> float:
    """Milliseconds to the first paint, the median of TIMES."""
    found = []
    for _ in range(TIMES):
        page.goto(address)
        while (at := page.evaluate(PAINTED)) is None:
            time.sleep(0.01)
        found.append(float(at))
    return statistics.median(found)


def asked(page: Page) -> float:
    """Milliseconds that the browser takes to ask the same server for the bare page."""
    once = (
        "async () => { const t = performance.now(); await (await fetch('/bare')).text(); return performance.now() - t }"
    )
    return statistics.median(float(page.evaluate(once)) for _ in range(TIMES))


def answered(page: Page) -> float:
    """Milliseconds from a change of ε to the new verdicts on the screen, from prepared curves."""
    page.wait_for_selector("#status[data-kind=exact]", timeout=180_000)
    found = []
    for i in range(TIMES):
        page.evaluate("performance.clearMarks()")
        page.locator("#same").fill(str(1.01 + 0.01 * i))
        while not page.evaluate("performance.getEntriesByName('shown').length"):
            time.sleep(0.005)
        first = "name => performance.getEntriesByName(name)[0].startTime"
        found.append(float(page.evaluate(first, "shown")) - float(page.evaluate(first, "changed")))
    return statistics.median(found)


def main() -> None:
    """Print a table."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        sys.exit("no chromium here: apt-get install chromium, or CHROMIUM=/path/to/it")
    pages, place = Pages(), take_place()
    pages.app.router.routes.insert(0, Route("/bare", bare))
    running = server(pages.app, place)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [place.socket]})
    thread.start()
    root = f"http://127.0.0.1:{place.access.port}"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            page = browser.new_page()
            page.goto(place.address)
            base = painted(page, f"{root}/bare")
            print(f"| page | first paint over the bare page's ({base:.0f} ms) |\n| --- | --- |")
            for name in PAGES:
                print(f"| {name} | {painted(page, f'{root}/{name}') / base:.2f} |")
            page.goto(f"{root}/join")
            change, fetch = answered(page), asked(page)
            print(
                f"\na change is answered in {change:.0f} ms, {change / fetch:.1f} times one request for the bare page"
            )
            browser.close()
    finally:
        running.should_exit = True
        thread.join(10)


if __name__ == "__main__":
    main()
