"""A real browser for the pages: the system's chromium, driven by Playwright; what it complains of fails the test."""

import os
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from page_server import as_process

FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync""".split()  # noqa: SIM905
AXE = Path(__file__).parent / "vendor" / "axe.min.js"


def chromium():
    """Where the browser is; None where there is none."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright: make test-ui")
    path = chromium()
    if path is None:
        pytest.skip("no chromium here: apt-get install chromium, or CHROMIUM=/path/to/it")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """`copriv ui` as a person starts it; the address that it shows, with the token."""
    with as_process("ui", "--no-browser", log=tmp_path_factory.mktemp("ui") / "log") as (address, _):
        yield address


class Visitor:
    """One person with one browser window: opens pages, and hears every complaint that the browser makes."""

    def __init__(self, browser, address, **settings):
        self.settings = {
            "locale": "en-GB",
            "color_scheme": "light",
            "viewport": {"width": 1280, "height": 900},
            **settings,
        }
        self.context = browser.new_context(**self.settings)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.elsewhere(request.url))
        self.root, self.token = address.split("/?token=")

    def elsewhere(self, url):
        """Nothing may be asked of another machine."""
        if not url.startswith((self.root, "data:", "blob:")):
            self.complaints.append(f"asked elsewhere: {url}")

    def enter(self, page="join", fragment=""):
        """Open the address that copriv showed, then a page."""
        self.page.goto(f"{self.root}/{page}?token={self.token}{fragment}")
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def exactly(self, wait=90):
        """Wait for the full forecast."""
        self.page.wait_for_selector("#status[data-kind=exact]", timeout=1000 * wait)

    def keep(self, name):
        """A picture of the screen as it is, in out/ui, for people to look at."""
        folder = Path(os.environ.get("COPRIV_PICTURES", "out/ui"))
        folder.mkdir(parents=True, exist_ok=True)
        size, scheme = self.settings["viewport"]["width"], self.settings["color_scheme"]
        self.page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", full_page=True)

    def axe(self):
        """What axe finds that is serious, in words."""
        # A page's own policy lets no foreign script in: it is put in by the driver, past the policy.
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = self.page.evaluate("rules => axe.run(document, {runOnly: rules})", rules)
        return [
            f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:4]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical") or "wcag2aa" in one["tags"]
        ]


@pytest.fixture
def visitors(browser):
    """Makes visitors; at the end none of them may have a complaint."""
    made = []

    def visit(address, **settings):
        made.append(Visitor(browser, address, **settings))
        return made[-1]

    yield visit
    for one in made:
        if not one.page.is_closed():
            one.page.unroute_all(behavior="ignoreErrors")  # of a question that a busy machine has not answered yet
        one.context.close()
    assert [complaint for one in made for complaint in one.complaints] == []


@pytest.fixture
def visitor(visitors, address):
    return visitors(address)


@pytest.fixture
def ledger(tmp_path):
    """The bytes of a ledger with three answers, at ε = 1/4 each."""
    path, owner = tmp_path / "data.ledger", "<b>bank</b>"
    create_ledger(path, owner)
    with LedgerFile.open(path, owner, Fraction(2)) as file:
        run = file.run("f" * 64, "r" * 32, Fraction(1), answers=4)
        for i in range(3):
            run.charge(f"{i:064x}", np.zeros(2), Fraction(1, 4))
            run.record(f"{i:064x}", np.zeros(2))
    return path.read_bytes()
