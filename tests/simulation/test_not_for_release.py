"""A simulation is made of records: everything that it leaves behind says that it is not private."""

import csv
import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import copriv
from copriv.cli.console import tell
from copriv.cli.output import simulation_files
from copriv.display.simulation import details
from copriv.simulation import Simulation

TERMS = copriv.Agreement.of(
    {
        "agreement": {"rule": "A2", "horizon": 8, "answers": 4, "step": 0.5},
        "model": {"loss": "squared", "gradient_bound": 2.0, "theta_max": 10.0, "regularization": 1e-3},
        "owner": [{"name": name, "records": 200, "epsilon": 1.0} for name in ("bank-1", "bank-2")],
    }
)


def simulated(target: float) -> Simulation:
    """Two owners' records; the first owner's first record has this target."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 2))
    y = x @ [1.0, -1.0] + 0.1 * rng.normal(size=400)
    y[0] = target
    return copriv.simulate(TERMS, data=[(x[:200], y[:200]), (x[200:], y[200:])], runs=4, seed=0)


def test_one_record_replaced_shows_so_none_of_it_is_private() -> None:
    """The finding: `"private": true` stood beside numbers that one record moves as no private number may."""
    before, after = simulated(0.0), simulated(9.0)
    assert before.owners[0].alone is not None
    assert after.owners[0].alone is not None
    assert abs(after.owners[0].alone - before.owners[0].alone) > 1e-3, "exact, with no noise over it"
    assert not np.array_equal(before.relative_fitness.runs, after.relative_fitness.runs), "under the same noise"
    said = json.loads(before.to_json())
    assert (said["private"], said["simulated"], said["for_release"], said["bound_enforced"]) == (
        False,
        True,
        False,
        True,
    )
    assert "computed from the records themselves" in said["warning"]


def test_every_file_and_the_screen_say_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drawn: list[str] = []
    text: Callable[..., Any] = Figure.text

    def remembered(figure: Figure, x: float, y: float, said: str, **options: Any) -> Any:
        drawn.append(said)
        return text(figure, x, y, said, **options)

    monkeypatch.setattr(Figure, "text", remembered)
    result = simulated(0.0)
    files = simulation_files(result, result.to_json(), "copriv simulate x.toml")
    for line in csv.DictReader(StringIO(files["simulation.csv"].decode())):
        assert "not for release" in line["release"]
    assert json.loads(files["simulation.json"])["for_release"] is False
    assert any("not for release" in said for said in drawn)
    tell(*details(result))
    assert "not for release" in " ".join(capsys.readouterr().out.split())
