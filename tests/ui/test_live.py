"""What passes from a run to its page: snapshots and wishes; what did not change is not sent again."""

import http.client
from types import SimpleNamespace

import pytest
from starlette.routing import WebSocketRoute

from copriv.ui.live import POINTS, WINDOW, OwnerWatch, RunWatch, Watch, application
from page_server import in_thread
from phased_parties import TOLD, conducted, goes_on, keep, piloted


def rows(n, answers=0):
    return [{"name": f"o{i}", "state": "here", "answers": answers} for i in range(n)]


def test_a_listener_is_sent_what_it_has_not_had():
    watch, mine = Watch("run"), {}
    watch.update({"a": 1}, rows(1000))
    assert len(watch.changes(mine)["rows"]) == 1000
    assert watch.changes(mine) == {}
    changed = rows(1000)
    changed[7]["answers"] = 1
    watch.update({"a": 1}, changed)
    assert watch.changes(mine) == {"rows": {7: changed[7]}}
    watch.points += [[1.0, 0.5], [2.0, 0.4]]
    watch.say("asked", turn=1)
    assert watch.changes(mine) == {"lines": 1, "points": [[1.0, 0.5], [2.0, 0.4]]}
    assert watch.changes({}).keys() == {"head", "lines", "rows", "points"}  # who comes anew gets everything


def test_a_run_of_many_events_is_sent_as_a_number():
    watch = Watch("run")
    for turn in range(100_000):
        watch.say("asked", turn=turn)
    assert watch.changes({})["lines"] == 100_000
    assert len(watch.lines[500 : 500 + WINDOW]) == WINDOW


def test_an_owners_page_holds_nothing_that_could_answer():
    watch = OwnerWatch("a", "f" * 64, "learner", "promise")
    held = {type(value).__name__ for value in (*vars(watch).values(), *vars(watch.watch).values())}
    assert held <= {"Watch", "dict", "str", "list", "bool", "int", "NoneType"}


@pytest.mark.parametrize(("page", "wishes"), [("owner", {"/api/stop"}), ("run", {"/api/stop", "/api/hold/{what}"})])
def test_a_page_can_wish_for_an_end_or_a_pause_and_for_nothing_else(page, wishes):
    routes = application(Watch(page)).routes
    assert {
        route.path
        for route in routes
        if {"POST", "PUT", "DELETE", "PATCH"} & (getattr(route, "methods", None) or set())
    } == wishes
    assert not [route for route in routes if isinstance(route, WebSocketRoute)]


def watch_of(conductor):
    watch = RunWatch.__new__(RunWatch)
    watch.watch, watch._conductor = Watch("run"), conductor
    watch._public = SimpleNamespace(rows=1, estimate=lambda model: 0.5)
    return watch


def conductor_of(**agreed):
    terms = {"queries": 1_000_000, "summed": False} | agreed
    return SimpleNamespace(
        agreement=SimpleNamespace(owner=(), fingerprint="f", agreement=SimpleNamespace(name=""), **terms),
        store=SimpleNamespace(events=lambda: iter(()), run="r", on_event=None),
        run=SimpleNamespace(agreed=SimpleNamespace(has_pilot=False), awaits_decision=False, known={}, phases=[], phase=1),
        held=False, outcome=None, stepped=0, waiting_for=(), parties={}, model=None,
    )  # fmt: skip


@pytest.mark.parametrize(("agreed", "shown"), [({}, None), ({"summed": True, "colluding": 2}, 2)])
def test_the_page_of_a_run_knows_whether_only_sums_are_seen(agreed, shown):
    watch = watch_of(conductor_of(**agreed))
    watch.look()
    assert watch.watch.head["colluding"] == shown


def test_the_estimate_of_a_long_run_is_a_few_thousand_points():
    conductor = conductor_of()
    watch = watch_of(conductor)
    for step in range(0, 1_000_001, 50):
        conductor.stepped = step
        watch.look()
    assert POINTS <= len(watch.watch.points) <= POINTS + 2
    assert watch.watch.points[-1][0] == 1_000_000


def test_a_server_that_is_closed_while_somebody_listens_fills_no_log(caplog):
    with in_thread(application(Watch("run"))) as place:
        connection = http.client.HTTPConnection("127.0.0.1", place.access.port, timeout=30)
        connection.request("GET", "/api/live", headers={"cookie": f"{place.access.cookie}={place.access.token}"})
        answer = connection.getresponse()
        assert answer.read1(5)
    assert [record for record in caplog.records if record.exc_info] == []
    connection.close()


@pytest.mark.parametrize(("decide", "now"), [(goes_on(), "second"), (keep, "kept")])
def test_the_page_of_a_run_of_two_phases_shows_what_the_pilot_told(tmp_path, decide, now):
    conductor = conducted(tmp_path, piloted(), decide)
    conductor.store.event = lambda *_, **__: None
    watch = watch_of(conductor)
    watch.look()
    phase = watch.watch.head["phase"]
    assert (phase["now"], phase["told"]["yes"], phase["told"]["after_high"]) == (now, 1, 0.3)
    assert phase["gives_model"] is True
    assert watch.watch.band == {**TOLD["band"], "before": TOLD["band"]}
    assert [row["spent"] for row in watch.watch.rows] == [1.0 if now == "second" else 0.25] * 3
