"""No result changes by moving code: simulations, forecasts, plans and figures against digits that were frozen.

This freezes digits; it says nothing about whether they are right, which the other tests do by oracles. So it may be
made again, by `python -m tests.golden` (or `python -m tests.golden NAME...`), only in a commit that means to change a
result, whose message says which and why, and in which an independent test shows that the new one is right. A change
that only moves code must pass as it is. Digits were first frozen at commit d9c8a9b, before the house was rebuilt.

Digits agree to 1e-9 of their size: linear algebra may sum in another order on another machine. Only where an
interior-point solver's last digits enter is the tolerance wider (`digits.BY_INTERIOR_POINT`).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from copriv_papers.consortia import SHARED as SHARED_DATA
from golden import cases, digits

FROZEN = Path(__file__).parent / "frozen"


def frozen(kind: str, name: str) -> Any:
    return json.loads((FROZEN / f"{kind}.json").read_text(encoding="utf-8"))[name]


def agree(kind: str, name: str, now: Any) -> None:
    found = digits.differences(frozen(kind, name), now)
    assert not found, f"{kind} {name}: {len(found)} results differ:\n" + "\n".join(found[:10])


def some_slow(names: Any, default: Any) -> list[Any]:
    return [name if name in default else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", cases.SIMULATED)
def test_simulations(name: str, tmp_path: Path) -> None:
    agree("simulate", name, digits.of_simulation(cases.SIMULATED[name](tmp_path)))


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.SHARED)
@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the data sets beside the repository are not there")
def test_simulations_on_the_data_beside_the_repository(name: str) -> None:
    agree("simulate", name, digits.of_simulation(cases.loaded(cases.SHARED[name])))


@pytest.mark.parametrize("name", some_slow(cases.FORECAST, cases.DEFAULT_FORECASTS))
def test_forecasts_and_plans(name: str) -> None:
    agree("forecast", name, digits.of_forecast(cases.arrays(cases.FORECAST[name])))


@pytest.mark.parametrize("name", some_slow(cases.FIGURES, cases.DEFAULT_FIGURES))
def test_figures(name: str, tmp_path: Path) -> None:
    from golden.__main__ import figure

    if name not in cases.DEFAULT_FIGURES and not SHARED_DATA.is_dir():
        pytest.skip("its digits are of the data sets beside the repository, which are not there")
    agree("reproduce", name, digits.of_figure(figure(name, tmp_path)))


def test_a_changed_digit_is_seen() -> None:
    was = frozen("simulate", "S1")
    now = json.loads(json.dumps(was))
    assert digits.differences(was, now) == []
    now["theta"][1][0] *= 1 + 1e-8
    now["description"] += "."
    now["added"] = "keys may be added"
    assert len(digits.differences(was, now)) == 2
    del now["owners"][0]["alone"]
    assert len(digits.differences(was, now)) == 3
