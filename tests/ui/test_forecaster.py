"""Forecasts beside the server: the newest question is answered, and one that nobody waits for makes room."""

import asyncio
import time

import pytest

import slow_forecast
from copriv.agreement import Agreement
from copriv.ui import agreement_form, views
from copriv.ui.views import Forecaster, Superseded


def asked(seconds, loss="squared"):
    document = agreement_form.first(None)
    document.pop("owners"), document.pop("target"), document.pop("start")
    document["agreement"]["name"], document["model"]["loss"] = str(seconds), loss
    owners = [{"name": f"o{i}", "records": 100, "epsilon": 1.0} for i in range(2)]
    return Agreement.of({**document, "owner": owners})


async def gone():
    return True


async def here():
    return False


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(views, "prepare", slow_forecast.prepare)
    monkeypatch.setattr(views, "LONG", 0.3)
    made = Forecaster()
    monkeypatch.setattr(made, "near", lambda agreement: None)
    yield made
    made.close()


def test_who_turned_away_makes_room_and_the_next_is_answered(made):
    async def both():
        first = asyncio.ensure_future(made.forecast(asked(600), gone))
        await asyncio.sleep(1.0)
        second = await made.forecast(asked(0, "hinge"), here)  # of other data: the first one's curves are no use
        return first, second

    begun = time.monotonic()
    first, second = asyncio.run(both())
    assert second == asked(0, "hinge").fingerprint
    assert "ended" in str(first.exception())
    assert time.monotonic() - begun < 60


@pytest.mark.slow
def test_who_waits_is_not_sent_away_and_neither_are_the_first_curves_of_the_data(made):
    async def asks(first, second):
        one = asyncio.ensure_future(made.forecast(*first))
        await asyncio.sleep(0.1)
        return await asyncio.gather(one, made.forecast(*second))

    for waiting, loss in ((here, "hinge"), (gone, "squared")):
        first, second = asked(1.5), asked(0, loss)
        assert asyncio.run(asks((first, waiting), (second, here))) == [first.fingerprint, second.fingerprint]
        made._made.clear()


def test_only_the_newest_of_those_that_wait_is_answered(made):
    async def three():
        tasks = []
        for seconds in (1.0, 0.1, 0):
            tasks.append(asyncio.ensure_future(made.forecast(asked(seconds), here)))
            await asyncio.sleep(0.1)
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third = asyncio.run(three())
    assert (first, third) == (asked(1.0).fingerprint, asked(0).fingerprint)
    assert isinstance(second, Superseded)
