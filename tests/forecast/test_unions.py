"""Five credit unions with tables of their own: every verdict is the measured one, or open, wherever it is told."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import copriv
import unions
from copriv.agreement.data_terms import data_specification
from copriv.cli.commands import forecast as screen
from copriv.data import prepare_owner
from copriv.data.public import load_sample
from copriv.display.simulation import details
from copriv.forecast.what_if import without
from copriv.formatting.cards import Table
from copriv.formatting.numbers import json_ready
from copriv.problem.personalization import personalized
from copriv.types import Array
from copriv.ui import views
from copriv.ui.shell import LANGUAGES
from page_texts import numbers, rendered

pytestmark = pytest.mark.slow
NAMES = tuple(unions.SIZES)
FRESH, RUNS = 5_000, 12
SURE = 3.0
"""Standard errors between a measured gain and what is worthwhile, from which fresh rows tell the answer."""
Tables = list[tuple[Array, Array]]


class Truth:
    """The unions' tables and 5,000 fresh rows of each, as numbers, and what models of the simulated runs do on these."""

    def __init__(self, path: Path) -> None:
        self.agreement = copriv.Agreement.load(path)
        sample = load_sample(data_specification(self.agreement.replace(data={"feature_bound": 0.0})))

        def numbers(rows: pd.DataFrame) -> tuple[Array, Array]:
            made = prepare_owner(rows, sample.schema, sample.preparation.dictionary, None)
            return made.features, made.target

        self.public = sample.records.features, sample.records.target
        self.train = [numbers(union.rows(unions.SIZES[union.name], seed=0)) for union in unions.UNIONS]
        self.fresh = [numbers(union.rows(FRESH, seed=99)) for union in unions.UNIONS]

    def runs(self, terms: copriv.Agreement, owners: list[int]) -> Array:
        """Common models of simulated runs of these terms, by these owners."""
        mine = [self.train[i] for i in owners]
        return np.asarray(copriv.simulate(terms, mine, public=self.public, runs=RUNS, seed=1, alone=False).theta)

    def errors(self, i: int, models: list[Array] | Array) -> Array:
        """Squared error of each fresh row of owner i, averaged over models."""
        x, y = self.fresh[i]
        return np.asarray(np.mean([(x @ θ[:-1] + θ[-1] - y) ** 2 for θ in models], axis=0))

    def gain(self, i: int, terms: copriv.Agreement, common: Array) -> tuple[float, float]:
        """The relative fall of owner i's error by joining, and its standard error."""
        own, public = (fit(*rows) for rows in (self.train[i], self.public))
        *home, public_at_home = (
            personalized(terms, θ, self.train[i], public=self.public).theta for θ in (*common[:3], public)
        )
        without = [self.errors(i, [model]) for model in (own, public, public_at_home)]
        joined = [self.errors(i, models) for models in (common, home)]
        before, after = (min(each, key=np.mean) for each in (without, joined))
        saved = before - after
        return float(saved.mean() / before.mean()), float(saved.std() / np.sqrt(FRESH) / before.mean())


def fit(x: Array, y: Array) -> Array:
    return np.asarray(np.linalg.lstsq(np.column_stack([x, np.ones(len(y))]), y, rcond=None)[0])


@pytest.fixture(scope="module", params=[False, True], ids=["nothing known", "strata"])
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The agreement's path, what was measured, the forecast, and whether public rows name their owner."""
    folder, before = tmp_path_factory.mktemp("unions"), Path.cwd()
    path = unions.write(folder, request.param)
    os.chdir(folder)
    yield path, Truth(path), copriv.forecast(path), request.param
    os.chdir(before)


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_every_verdict_is_the_measured_one_or_open_in_all_places(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, truth, outlook, strata = ground
    terms = outlook.recommended.agreement
    common = truth.runs(terms, [*range(5)])
    measured = dict(zip(NAMES, (truth.gain(i, terms, common) for i in range(5)), strict=True))
    known = {name for name, (gain, error) in measured.items() if abs(gain - 0.005) > SURE * error}
    assert len(known) >= 4, measured
    right = {name: "yes" if gain >= 0.005 else "no" for name, (gain, _) in measured.items()}

    def holds(where: str, said: dict[str, str]) -> None:
        assert said.keys() == right.keys(), where
        assert all(said[name] in (right[name], "open") for name in known), (where, said, measured)

    said = {owner.name: owner.verdict for owner in outlook.owners}
    holds("Python", said)
    assert list(said.values()).count("open") <= 1, "open is no way out"

    def in_rows(text: str) -> dict[str, str]:
        rows = (re.match(rf"({'|'.join(NAMES)})\s\s.*\s(yes|no|open)\s", line) for line in text.splitlines())
        return {row[1]: row[2] for row in rows if row}

    shown = "\n".join(screen.lines(outlook))
    assert in_rows(shown) == said, "terminal"
    assert in_rows(repr(outlook)) == said, "notebook, as text"
    html = outlook._repr_html_()
    assert {n: re.search(rf"<tr><td>{n}</td>.*?<td>(yes|no|open)</td>", html)[1] for n in NAMES} == said, "notebook"  # type: ignore[index]
    document = json.loads(outlook.to_json())
    assert {owner["name"]: owner["verdict"] for owner in document["owners"]} == said, "JSON"
    assert document["joining_pays"] is outlook.joining_pays is {True: False, False: None}[strata]
    # The page, and its report, which is written from the same rows.
    whole = json.loads(json.dumps(truth.agreement.to_dict(), default=str))
    seats = [{"terms": one, "joined": True} for one in whole["owner"]]
    question = views.Question.of({**whole, "owners": seats, "target": 0.02})
    ready = views.Prepared.of(truth.agreement, outlook)
    view = json.loads(json.dumps(json_ready(views.exact(question, ready))))
    assert {row["name"]: row["verdict"] for row in view["owners"]} == said, "page and report"
    told = {language: " ".join(rendered(one, language) for one in view["said"]) for language in LANGUAGES}
    assert told["en"] == document["verdict"].replace("'", "’"), "page and report"
    assert numbers(told["de"]) == numbers(document["verdict"]), "page and report"
    assert all(name in told["de"] for name in NAMES if name in document["verdict"]), "page and report"
    # One sentence, which pictures have below them.
    drawn: list[str] = []
    write = Figure.text
    monkeypatch.setattr(Figure, "text", lambda f, x, y, s, **o: (drawn.append(s), write(f, x, y, s, **o))[1])
    outlook.plot("curves")
    sentence = "Joining does not pay for anybody" if strata else "Whether joining pays is open for Valley"
    for where, text in (
        ("terminal", shown),
        ("picture", " ".join(drawn)),
        ("notebook as text", repr(outlook)),
        ("notebook", html),
    ):
        assert sentence in one_line(text), where
    assert sentence in document["verdict"]
    # Runs on the unions' own records.
    tables = [union.rows(unions.SIZES[union.name], seed=0) for union in unions.UNIONS]
    pd.concat(tables).to_csv(path.parent / "all.csv", index=False)
    result = copriv.simulate(truth.agreement.replace(**terms_of(terms), data={"path": "all.csv"}), runs=RUNS)
    simulated = {owner["name"]: owner["verdict"] for owner in result.to_dict()["owners"]}
    holds("simulate", simulated)
    table = next(part for part in details(result) if isinstance(part, Table))
    assert {row[0]: row[-2].split(",")[0] for row in table.rows} == simulated


def terms_of(planned: copriv.Agreement) -> dict[str, Any]:
    """What was planned, without what it says of data."""
    document = planned.to_dict()
    return {"agreement": document["agreement"], "model": document["model"]}


def test_what_if_somebody_stays_away_is_as_measured(ground: Any) -> None:
    """It once said that the others lose without the largest, where they gain: on their own records, not on everybody's."""
    _, truth, outlook, strata = ground
    everybody = truth.runs(outlook.recommended.agreement, [*range(5)])
    told = []
    for gone in (0, 4):
        left = without(outlook, [NAMES[gone]])
        others = [i for i in range(5) if i != gone]
        fewer = truth.runs(left.others.recommended.agreement, others)
        sizes = np.array([unions.SIZES[NAMES[i]] for i in others], dtype=float)
        errors = np.array([[truth.errors(i, models).mean() for i in others] for models in (everybody, fewer)]) @ sizes
        rise = errors[1] / errors[0] - 1.0
        assert left.names == (NAMES[gone],)
        assert (
            left.loss == pytest.approx(left.together - left.together_with_all, abs=1e-9)
            or left.together_with_all == 0.0
        )
        if not 0.2 < left.probability < 0.8:
            told.append(gone)
            assert (left.probability > 0.5) == (rise > 0), (NAMES[gone], left.worse, left.probability, rise)
        assert {one.name: one.verdict for one in left.others.owners}.keys() == {NAMES[i] for i in others}
        common = truth.runs(left.others.recommended.agreement, others)
        for i, one in zip(others, left.others.owners, strict=True):
            gain, error = truth.gain(i, left.others.recommended.agreement, common)
            sure = abs(gain - 0.005) > SURE * error
            assert not sure or one.verdict in ("open", "yes" if gain >= 0.005 else "no"), (NAMES[gone], one.name, gain)
    assert not strata or told, "where public rows name their owner it can be told"
