"""A thousand owners, and a hundred thousand events, of a run that goes on: the page stays smooth, and comes back."""

import time

import pytest

from copriv.ui.live import Watch, application
from page_server import again, as_process, in_thread, until

pytestmark = pytest.mark.browser

OWNERS, EVENTS = 1000, 100_000
FRAMES = """([n, scroll]) => new Promise(done => {
  const lists = scroll ? [...document.querySelectorAll('.scroller')] : [];
  const times = [];
  const frame = now => {
    times.push(now);
    for (const list of lists) list.scrollTop = (list.scrollHeight * ((times.length * 37) % 100)) / 100;
    if (times.length <= n) requestAnimationFrame(frame);
    else done(times.slice(1).map((t, i) => t - times[i]));
  };
  requestAnimationFrame(frame);
})"""
"""Milliseconds between n frames that the browser draws; with `scroll`, while every list is thrown about."""


def rows(turn):
    """Every owner's row; a tenth of them changes each time."""
    return [
        {"name": f"owner {i:04d}", "state": "asked" if i % 10 == turn % 10 else "here", "answers": (turn + i) // 10,
         "most": 1000, "spent": 0.001 * ((turn + i) // 10), "epsilon": 1.0, "out": ""}
        for i in range(OWNERS)
    ]  # fmt: skip


def head(turn):
    return {"name": "many", "fingerprint": "f" * 64, "run": "r" * 32, "stepped": turn, "queries": 1000, "held": False,
            "status": None, "reason": "", "public": 300, "seen": True}  # fmt: skip


def step(watch, turn):
    """What a snapshot of a busy run brings."""
    watch.update(head(turn), rows(turn))
    watch.points.append([float(turn), 1.0 / (1 + turn)])
    for i in range(100):
        watch.say("query", owner=f"owner {i:04d}", turn=turn, sequence=turn)


@pytest.fixture
def watch():
    watch = Watch("run")
    step(watch, 1)
    while len(watch.lines) < EVENTS:
        watch.say("joined", owner=f"owner {len(watch.lines) % OWNERS:04d}")
    return watch


def median(values):
    return sorted(values)[len(values) // 2]


def test_many_owners_and_events_stay_smooth(visitors, watch):
    with in_thread(application(watch)) as place:
        visitor = visitors(place.address)
        page = visitor.enter("run")
        page.get_by_text("100,000 events, the newest last.").wait_for()
        assert page.locator("#owners [role=listitem]").count() < 50
        assert page.locator("#lines [role=listitem]").count() < 50
        assert page.locator("#owners [role=listitem]").first.get_attribute("aria-setsize") == "1000"
        nodes = page.evaluate("document.querySelectorAll('*').length")
        assert nodes < 1200
        bare = visitor.context.new_page()  # a page of the same server without any list, for the same machine's measure
        bare.goto(f"{visitor.root}/static/mark.svg")
        still = median(bare.evaluate(FRAMES, [60, False]))
        bare.close()
        tries = []
        for turn in range(2, 6):
            step(watch, turn)
            tries.append(median(page.evaluate(FRAMES, [60, True])))
        assert min(tries) < 3 * still + 17, (tries, still)  # 17 ms: one frame of a screen
        assert page.evaluate("document.querySelectorAll('*').length") < nodes + 200
        # Every line of all of them is reached, with its text, where it is looked at.
        page.evaluate("document.querySelector('#lines .scroller').scrollTop = 50_000 * 36")
        page.locator("#lines [aria-posinset='50010']", has_text="is there").wait_for()
        visitor.page.close()


def test_a_page_comes_back_when_the_line_breaks_and_after_a_reload(visitors, watch):
    with in_thread(application(watch)) as place:
        visitor = visitors(place.address)
        page = visitor.enter("run")
        page.get_by_text("1 of 1,000 questions answered").wait_for()
        page.reload()
        page.get_by_text("100,000 events, the newest last.").wait_for()
        step(watch, 7)
        page.get_by_text("7 of 1,000 questions answered").wait_for()
    page.get_by_text("The line is broken; trying again.").wait_for()
    step(watch, 9)
    with in_thread(application(watch), again(place)):
        page.get_by_text("9 of 1,000 questions answered").wait_for()
        page.get_by_text("The run goes on.").wait_for()
        page.locator("#owners [aria-posinset='1']", has_text="0 of 1,000 answers").wait_for()
        assert page.evaluate("document.querySelectorAll('#psi circle').length") == 1
        visitor.page.close()
        time.sleep(0.1)
    visitor.complaints = [
        one for one in visitor.complaints if "ERR_" not in one
    ]  # the browser's own lines on a broken one


def test_lines_that_cannot_be_had_are_not_asked_for_without_end(visitors, watch):
    with in_thread(application(watch)) as place:
        visitor = visitors(place.address)
        page = visitor.page
        asked = []
        page.route("**/api/lines/*", lambda route: (asked.append(route.request.url), route.abort()))
        visitor.enter("run")
        page.get_by_text("100,000 events, the newest last.").wait_for()
        page.wait_for_timeout(1500)
        assert 0 < len(asked) <= 8
        page.unroute("**/api/lines/*")
        page.locator("#lines time").first.wait_for()  # and they come once they can be had
    visitor.complaints.clear()


def test_a_thousand_organisations_at_the_table_are_answered_at_once(visitors, tmp_path):
    # Their full forecast takes minutes: in a server of its own, whose end ends it.
    with as_process("ui", "--no-browser", log=tmp_path / "log") as (address, _):
        visitor = visitors(address)
        page = visitor.enter()
        visitor.exactly()
        lines = "\n".join(f"Clinic {i}\t{100 + i}\t1" for i in range(OWNERS))
        page.evaluate("lines => navigator.clipboard.writeText(lines)", lines)
        page.locator("#owners input[type=text]").first.focus()
        page.keyboard.press("Control+V")
        until(page, f"document.querySelectorAll('#owners > li').length === {OWNERS}")
        page.wait_for_selector("#status[data-kind=quick]")
        assert "Joining" in page.locator("#verdict").inner_text()
        for epsilon in (0.5, 2, 4):  # while the full forecast of all of them takes a core
            page.evaluate("performance.clearMarks()")
            page.locator("#same").fill(str(epsilon))
            until(page, "performance.getEntriesByName('shown').length > 0")
        visitor.page.close()
