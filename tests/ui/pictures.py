"""Pictures of every screen for the documentation: `make pictures-ui`, or python tests/ui/pictures.py FOLDER [--all].

Without --all: what docs/ui shows, 1280 px wide, in light and in dark. With it, three widths, to be looked at.
"""

import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from page_server import address_in, as_process

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FIVE = [
    ("Northern", 400, 1.0),
    ("Southern", 900, 1.0),
    ("Eastern", 1500, 3.0),
    ("Western", 2500, 1.0),
    ("Islands", 150, 0.5),
]


def ready(page, name):
    """Wait until the screen shows what it is for."""
    page.wait_for_selector("html[data-ready]")
    if name == "join":
        lines = "\n".join("\t".join(map(str, line)) for line in FIVE)
        page.evaluate("lines => navigator.clipboard.writeText(lines)", lines)
        page.locator("#owners input[type=text]").first.focus()
        page.keyboard.press("Control+V")
        page.wait_for_selector("#status[data-kind=exact]", timeout=180_000)
    if name == "gallery":
        page.locator("#curve svg").wait_for(timeout=120_000)
    if name == "agreement":
        time.sleep(0.5)


def screens(browser, address, names, folder, widths, schemes, before=lambda page, name: None):
    """One picture a screen, width and colour scheme."""
    root, token = address.split("/?token=")
    for scheme in schemes:
        for width in widths:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, locale="en-GB")
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            page = context.new_page()
            for name in names:
                page.goto(f"{root}/{name}?token={token}")
                ready(page, name)
                before(page, name)
                size = "" if len(widths) == 1 else f"-{width}"
                if name == "gallery":  # the first figures of a long page
                    page.set_viewport_size({"width": width, "height": 1900})
                    page.wait_for_load_state("networkidle")
                page.screenshot(path=folder / f"{name}{size}-{scheme}.png", full_page=name != "gallery")
            context.close()


def pause(browser, address):
    """Let the run get somewhere, and hold it there for its pictures."""
    page = browser.new_page(locale="en-GB")
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    while page.evaluate("document.querySelector('#progress').value") < 0.15:
        time.sleep(0.05)
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("Paused: nothing new is asked.").wait_for()
    page.locator("#psi path.expected").wait_for(state="attached", timeout=120_000)
    page.close()


def a_run(folder):
    """Parties' files, and the commands of learner and owners, as in tests/ui/test_live_in_a_browser.py."""
    sys.path.insert(0, str(Path(__file__).parent))
    from test_live_in_a_browser import consortium, terms

    return consortium(folder, terms(2000, ("Northern", "Southern", "Eastern"), "three banks", 300.0))


def main():
    """Make them."""
    folder, everything = Path(sys.argv[1]), "--all" in sys.argv
    folder.mkdir(parents=True, exist_ok=True)
    widths, schemes = ([360, 1280, 2560] if everything else [1280]), ["light", "dark"]
    browser_path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        with a_run(Path(work)) as made:
            with made.learner() as (address, _):
                at = made.listening()
                made.owner(1, at)
                made.owner(2, at)
                owner = made.owner(0, at, "--ui")
                own = address_in(made.log(0), owner)
                pause(browser, address)
                screens(browser, address, ["run"], folder, widths, schemes, lambda page, name: time.sleep(2))
                screens(browser, own, ["owner"], folder, widths, schemes, lambda page, name: time.sleep(2))
            for process in made.processes:
                process.terminate()
                process.wait(30)
            ledger = made.tables[0].parent / "data.ledger"

            def opened(page, name):
                if name == "ledger":
                    page.locator("#open").set_input_files(ledger)
                    page.locator("#found").wait_for()
                    time.sleep(0.5)

            with as_process("ui", "--no-browser", log=Path(work) / "log") as (address, _):
                screens(browser, address, ["join", "agreement", "ledger", "gallery"], folder, widths, schemes, opened)
        browser.close()
    print(f"{len(re.findall('png', ' '.join(map(str, folder.iterdir()))))} pictures in {folder}")


if __name__ == "__main__":
    main()
