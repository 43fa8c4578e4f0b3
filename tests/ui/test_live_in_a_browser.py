"""A run as its people watch it: owners as processes of their own, one killed, one with hostile names, a reload, a stop."""

import contextlib
import re
import subprocess
import sys
import time

import pyarrow.parquet
import pytest

from copriv.agreement import Agreement
from page_server import address_in, as_process, until

pytestmark = [pytest.mark.browser, pytest.mark.network]

HORIZON = 400
NAMES = ("bank-1", "<img src=x onerror=alert(1)>", "bank-3")


def terms(horizon=HORIZON, names=NAMES, name="<b>three</b> banks", epsilon=1.0):
    return Agreement.of(
        {
            "agreement": {"name": name, "rule": "A1", "horizon": horizon, "answers": horizon, "step": 1e3,
                          "schedule": "uniform"},
            "model": {"loss": "squared", "regularization": 1e-5, "gradient_bound": 2.0, "theta_max": 1e5},
            "data": {"dataset": "lending-embedded", "components": 4, "public_rows": 300},
            "owner": [{"name": name, "records": 500, "epsilon": epsilon} for name in names],
        }
    )  # fmt: skip


class Consortium:
    """The files of every party, and owners' processes."""

    def __init__(self, folder, agreement):
        from copriv.network.setup import make_consortium, share_out

        self.folder, self.file = folder, folder / "agreement.toml"
        make_consortium(agreement, folder)
        self.tables = share_out(agreement, folder)
        self.processes = []

    def learner(self, *more):
        return as_process(
            "learner", self.file, "--store", self.folder / "run.db", "--keys", self.folder / "learner", "--listen",
            "127.0.0.1:0", "--patience", "60", "--deadline", "2", "--ui", *more, log=self.folder / "learner.log",
        )  # fmt: skip

    def listening(self):
        until_text = time.monotonic() + 60
        while time.monotonic() < until_text:
            found = re.search(r"listening at (\S+);", (self.folder / "learner.log").read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError((self.folder / "learner.log").read_text(errors="replace"))

    def owner(self, i, at, *more):
        table = self.tables[i]
        command = ["owner", "serve", "--agreement", self.file, "--data", table, "--keys", table.parent, "--ledger",
                   table.parent / "data.ledger", "--new-ledger", "--learner", at, *more]  # fmt: skip
        with (table.parent / "log").open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", "from copriv.cli import main; main()", *map(str, command)],
                stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def log(self, i):
        return self.tables[i].parent / "log"


@contextlib.contextmanager
def consortium(folder, agreement):
    made = Consortium(folder / "consortium", agreement)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait()


def enter(visitor):
    visitor.page.goto(f"{visitor.root}/?token={visitor.token}")
    visitor.page.wait_for_selector("html[data-ready]")
    return visitor.page


def stepped(page):
    return int(page.locator("#progress-text").inner_text().split(" of ")[0].replace(",", "") or 0)


def test_a_run_is_watched_to_its_end_though_an_owner_is_killed(visitors, tmp_path):
    with consortium(tmp_path, terms()) as made, made.learner("--pace", "0.01") as (address, learner):
        visitor = visitors(address)
        page = enter(visitor)
        page.get_by_text("3 in all: 0 asked just now, 0 there, 3 away, 0 out.").wait_for()
        at = made.listening()
        made.owner(0, at)
        made.owner(2, at)
        hostile = made.owner(1, at)
        until(page, "document.querySelector('#progress').value > 0", 60)
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("Paused: nothing new is asked.").wait_for()
        time.sleep(0.5)
        held = stepped(page)
        hostile.kill()
        time.sleep(1.0)
        assert stepped(page) <= held + 1  # one answer may have been on its way
        page.get_by_role("button", name="Go on").click()
        page.get_by_text("The run goes on.").wait_for()
        page.reload()
        page.wait_for_selector("html[data-ready]")
        page.get_by_text("1 away").wait_for(timeout=20_000)
        made.owner(1, at)
        until(page, "document.querySelector('#state').textContent.startsWith('Finished')", 120)
        assert stepped(page) == HORIZON
        assert page.locator("main img").count() == 0
        assert page.locator("main b").count() == 0
        assert "<img src=x" in page.locator("#owners").inner_text()
        page.locator("#psi path.expected").wait_for(state="attached", timeout=60_000)
        assert page.locator("#psi path.edge").count() == 1
        assert visitor.axe() == []
        visitor.context.close()
        assert learner.wait(60) == 0


def test_a_run_is_stopped_from_its_page(visitors, tmp_path):
    with consortium(tmp_path, terms(names=("a", "b", "c"))) as made, made.learner() as (address, learner):
        visitor = visitors(address)
        page = enter(visitor)
        page.get_by_role("button", name="Stop the run").click()
        page.get_by_role("button", name="No, go on").click()
        assert learner.poll() is None
        page.get_by_role("button", name="Stop the run").click()
        page.get_by_role("button", name="Yes, stop").click()
        page.close()  # at once: what was wished for is on its way. (With its whole browser, all that is on its way ends.)
        assert learner.wait(60) == 130


def test_an_owner_sees_its_own_budget_and_stops(visitors, tmp_path):
    with consortium(tmp_path, terms(6000, names=("a", "b", "c"))) as made, made.learner() as (_, learner):
        at = made.listening()
        for i in (1, 2):
            made.owner(i, at)
        process = made.owner(0, at, "--ui")
        visitor = visitors(address_in(made.log(0), process))
        page = enter(visitor)
        page.get_by_text("Questions are answered as agreed.").wait_for()
        until(page, "Number(document.querySelector('#gauge').ariaValueNow) > 0", 60)
        assert re.search(r"ε \S+ of 1 is spent", page.locator("#left").inner_text())
        text = page.locator("main").inner_text()
        assert not re.search(r"\bb\b", text)  # of other owners it shows nothing
        # And of no record: not one number of its table is in the page, in its lines, or in what it is sent.
        sent = page.content() + page.evaluate("fetch('/api/lines/0').then(answer => answer.text())")
        rows = pyarrow.parquet.read_table(made.tables[0]).to_pylist()
        kept = {str(cell) for row in rows for cell in row.values() if len(str(cell)) >= 6}
        assert len(kept) > 100
        assert not [cell for cell in kept if cell in sent]
        assert visitor.axe() == []
        # Nothing that this page can be asked makes an answer: only a stop is taken.
        status = page.evaluate("fetch('/api/hold/pause', {method: 'POST'}).then(answer => answer.status)")
        assert status == 404
        visitor.complaints.clear()
        page.get_by_role("button", name="Stop answering").click()
        page.get_by_role("button", name="Yes, stop").click()
        page.get_by_text("The line is broken").wait_for(timeout=20_000) if process.poll() is None else None
        visitor.context.close()
        visitor.complaints.clear()
        assert process.wait(60) == 130
        assert learner.poll() is None
