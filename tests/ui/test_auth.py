"""Who may ask: nobody without the token, from another page, or under another name; and what every answer forbids."""

import json

import pytest

from copriv.errors import UsageError
from copriv.terms import DataTerms
from copriv.ui.app import FILES
from copriv.ui.server import MOST_BYTES, take_place
from page_server import ask, in_thread


@pytest.fixture(scope="module")
def place():
    with in_thread() as place:
        yield place


def test_a_page_for_who_has_the_token(place):
    status, headers, text = ask(place)
    assert status == 200
    assert "Should we join?" in text
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/join", "/", "/api/start", "/static/style.css", "/texts/en.json", "/nothing"])
def test_nothing_without_the_token(place, path):
    status, headers, text = ask(place, path=path, token=False)
    assert status == 403
    assert "copriv showed" in text
    assert place.access.token not in text + str(headers)


def test_the_token_moves_from_the_address_into_a_cookie_that_scripts_cannot_read(place):
    status, headers, _ = ask(place, path=f"/agreement?token={place.access.token}", token=False)
    assert (status, headers["location"]) == (303, "/agreement")
    assert all(part in headers["set-cookie"] for part in ("HttpOnly", "SameSite=Strict", place.access.token))


def test_a_link_in_another_page_goes_on_from_a_page_of_this_server(place):
    way = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    status, headers, text = ask(place, path=f"/agreement?token={place.access.token}", token=False, **way)
    assert status == 200
    assert "SameSite=Strict" in headers["set-cookie"]
    assert place.access.token not in text
    assert '<script type="module" src="/static/enter.js">' in text
    assert ask(place, path="/agreement?token=wrong", token=False, **way)[0] == 403


@pytest.mark.parametrize(
    ("path", "leads"),
    [("//evil.example/x", "/evil.example/x"), ("/%E2%82%AC", "/%E2%82%AC"), ("/%0D%0Aa:%20b", "/%0D%0Aa%3A%20b")],
)
def test_the_token_leads_to_this_server_alone(place, path, leads):
    status, headers, _ = ask(place, path=f"{path}?token={place.access.token}", token=False)
    assert (status, headers["location"]) == (303, leads)


def test_what_the_browser_is_started_with_opens_once(place):
    """Others on this machine can read with what a program was started."""
    ticket = place.one_time_address().split("?token=")[1]
    assert ticket != place.access.token
    status, headers, _ = ask(place, path=f"/join?token={ticket}", token=False)
    assert status == 303
    assert place.access.token in headers["set-cookie"]
    assert ask(place, path=f"/join?token={ticket}", token=False)[0] == 403


@pytest.mark.parametrize("token", ["", "wrong", "x" * 32, "é"])
def test_a_wrong_token_opens_nothing(place, token):
    assert ask(place, token=False, cookie=f"{place.access.cookie}={token}".encode().decode("latin-1"))[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1:{port}.evil"]
)
def test_another_name_for_this_machine_is_refused(place, host):
    assert ask(place, host=host.format(port=place.access.port))[0] == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_page_is_refused(place, method, origin):
    assert ask(place, method, "/api/join/quick", "{}", origin=origin.format(port=place.access.port))[0] == 403


def test_a_change_must_say_from_which_page_it_comes(place):
    connection_without_origin = ask(place, "PUT", "/api/join/quick", "{}")
    assert connection_without_origin[0] == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_embeds_is_refused_and_a_link_is_not(place, site):
    assert ask(place, sec_fetch_site=site, sec_fetch_mode="no-cors", sec_fetch_dest="image")[0] == 403
    assert ask(place, sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="document")[0] == 200


@pytest.mark.parametrize("path", ["/join", "/api/start", "/static/join.js", "/nothing"])
def test_every_answer_forbids_what_pages_do_not_need(place, path):
    for token in (True, False):
        headers = ask(place, path=path, token=token)[1]
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_page_has_no_script_or_style_of_its_own(place):
    for page in ("/join", "/agreement"):
        text = ask(place, path=page)[2]
        assert text.count("<script") == text.count('<script type="module" src="/static/') == 1
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text


@pytest.mark.parametrize("body", ["", "[]", "{", "null", '{"owners": 3}', '{"owners": [null], "target": 1}', "[" * 50_000,
                                  '{"owners": [{"terms": {"name": 1}, "joined": true}], "target": 1e999}'])  # fmt: skip
def test_a_broken_question_is_answered_in_words(place, body):
    for path in ("/api/join/quick", "/api/join/exact", "/api/agreement"):
        status, _, text = ask(place, "POST", path, body)
        assert status in (200, 422), text
        assert "error" in json.loads(text) or json.loads(text)["errors"]


HUGE = ["1e400", "1" + "0" * 400, "1e308", "1e-320", "-1", "null", "true", "[]", "{}", '"\\ud800"', '"\\u0000"']


@pytest.mark.parametrize(
    "field",
    [("agreement", "horizon"), ("agreement", "answers"), ("agreement", "step"), ("model", "regularization"),
     ("data", "components"), ("data", "public_rows"), ("owner", "records"), ("owner", "epsilon"), ("owner", "delta"),
     ("owner", "overlap"), ("owner", "name"), ("owner", "unit")],
)  # fmt: skip
def test_numbers_and_names_that_make_no_sense_are_answered_in_words(place, field):
    table, key = field
    state = json.loads(ask(place, path="/api/start")[2])["state"]
    for i, seat in enumerate(state["owners"]):
        seat["terms"]["name"] = f"o{i}"
    (state["owners"][0]["terms"] if table == "owner" else state[table])[key] = "@"
    owners = [seat["terms"] for seat in state["owners"]]
    written = {**{name: state[name] for name in ("agreement", "model", "data")}, "owner": owners}
    for value in HUGE:
        for path, document in (("/api/join/quick", state), ("/api/agreement", written)):
            status, _, text = ask(place, "POST", path, json.dumps(document).replace('"@"', value))
            assert status in (200, 422), (path, value[:20], text)
            json.loads(text)


def test_what_is_too_large_is_refused(place):
    assert ask(place, "POST", "/api/join/quick", b" " * (MOST_BYTES + 1))[0] == 413


def test_files_of_this_machine_cannot_be_asked_for(place):
    state = json.loads(ask(place, path="/api/start")[2])["state"]
    for i, seat in enumerate(state["owners"]):
        seat["terms"]["name"] = f"o{i}"
    for key in FILES:
        data = {**state["data"], "dataset": "table", key: "/etc/passwd", "features": ["a"], "target": "b"}
        for path in ("/api/join/exact", "/api/join/quick"):
            status, _, text = ask(place, "POST", path, json.dumps({**state, "data": data}))
            assert status == 422
            assert "not at hand" in text
    assert ask(place, path="/static/../app.py")[0] == 404
    assert ask(place, path="/static/%2e%2e/app.py")[0] == 404


def test_every_key_that_could_name_a_file_is_known_here():
    texts = {key for key, field in DataTerms.model_fields.items() if field.annotation in (str, str | None)}
    assert texts == {*FILES, "dataset", "target", "strata"}  # the others name a data set, or columns


def test_other_machines_only_when_told():
    with pytest.raises(UsageError, match="--exposed"):
        take_place("0.0.0.0")
    take_place("0.0.0.0", exposed=True).socket.close()
