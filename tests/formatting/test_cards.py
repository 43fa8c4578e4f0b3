"""Whatever is printed fits a screen; in a notebook it is well-formed HTML that nobody's name can break out of."""

import dataclasses
import importlib
import inspect
from xml.etree import ElementTree

import numpy as np
import pandas
import pytest

import copriv
from copriv.data import DataSpecification, PublicDictionary
from copriv.data.schema import Number, Schema
from copriv.forecast.what_if import reach, without
from copriv.formatting.cards import WIDTH, Card, Shown, Table, in_short
from copriv.network.model import Model
from copriv.network.run import Run
from copriv.network.store import RunStore
from copriv.network.verify import Verdict
from copriv.problem.personalization import Personalized
from copriv.schedules import Events
from copriv_papers import Report
from results_cases import HOSTILE, LONG, TERMS, WIDE, called, rows

LINES, COLUMNS = 40, 100


@pytest.fixture(scope="module")
def values(outlook, simulation, own_learners, agreement):
    """An instance of every kind of result."""
    problem = copriv.Problem.of(agreement, [rows(300, 1), rows(3000, 2)], rows(300))
    records = problem.owners[0]
    owner = copriv.Owner(agreement, "small", records, problem.loss)
    query = copriv.Query("q1", agreement.fingerprint, "small", np.zeros(3))
    X, _ = rows(50)
    dictionary = PublicDictionary.fit(X, 2)
    schema = Schema((Number("amount", 0, 1),), Number("rate", 0, 1))
    document = {"comparison": [{"what": "x" * 500}] * 80, "claim": "c" * 4000}
    replayed = Run(RunStore.create(":memory:", agreement, 3))
    wanted = agreement.replace(owner={"market": {"privacy_cost": {"linear": 10.0}, "worth": 10_000.0}})
    return [
        agreement, problem, records, owner, query, owner.answer(query), simulation, simulation.relative_fitness,
        simulation.owners[0], outlook, outlook.plan, outlook.plan.choice, outlook.plan.curve, outlook.agreed,
        outlook.agreed.relative_fitness, outlook.owners[0], outlook.consortium, outlook.heterogeneity, own_learners,
        own_learners.learners[0], reach(outlook, 0.5), without(outlook, ["small"]), dictionary, schema,
        DataSpecification("table", path="rows.csv", schema=schema, components=0),
        schema.encode(pandas.DataFrame({"amount": np.linspace(0, 1, 900), "rate": np.linspace(0, 1, 900)})),
        Report("async-fig1", "reproduced", 3.0, False, document),
        Personalized(np.zeros(3), np.array([0.0, np.inf]), np.array([0.5, 0.5]), 10),
        Model(agreement, np.zeros(3), dictionary, {"answers": {"small": 3}}),
        Verdict("r", agreement, 9, "h", 3, {}, {}, (), (), "a", "finished", np.zeros(3), 0.0, replayed, (), {}),
        Events(np.zeros(500, dtype=int), np.arange(500.0)), copriv.market(wanted, rows(300), runs=10),
    ]  # fmt: skip


def fits(text):
    lines = text.splitlines()
    assert 1 <= len(lines) <= LINES, text
    assert max(map(len, lines)) <= COLUMNS, text
    assert not any(ord(c) < 32 and c != "\n" for c in text), repr(text)


def test_everything_that_is_printed_fits_the_width_of_a_screen(values):
    for value in values:
        fits(repr(value))
        assert str(value) == repr(value)
        name = type(value).__name__
        assert name in repr(value).splitlines()[0], f"{name}: the first line says what it is"


def test_everything_is_well_formed_html(values):
    for value in values:
        root = ElementTree.fromstring(value._repr_html_())
        assert root.tag == "div"
        assert len("".join(root.itertext())) > 10


def test_every_public_value_shows_itself(values):
    """A new public dataclass is shown by its own fields only where they are few and small."""
    seen = {type(value) for value in values}
    small = {"Number", "TwoClasses", "Effort", "Category", "RandomFeatures"}
    for package in (
        "copriv",
        "copriv.forecast",
        "copriv.simulation",
        "copriv.data",
        "copriv.plan",
        "copriv_papers",
    ):
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and dataclasses.is_dataclass(value) and name not in small:
                assert issubclass(value, Shown), f"{package}.{name}: make it a Shown (copriv.formatting.cards)"
                assert value in seen or name == "Consortium", f"{package}.{name}: add one to `values` above"


@pytest.mark.parametrize("name", [HOSTILE, LONG, WIDE, "ユ" * 80, "\n" * 50])
def test_names_of_others_change_neither_the_screen_nor_the_page(outlook, simulation, own_learners, name):
    for result in (called(outlook, name), called(simulation, name), called(own_learners, name, "learners")):
        fits(repr(result))
        html = result._repr_html_()
        root = ElementTree.fromstring(html)
        assert {element.tag for element in root.iter()} <= {
            "div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td",
        }  # fmt: skip
        assert "<script" not in html
        assert "\x1b" not in html


def test_many_owners_are_few_lines_and_are_counted(outlook):
    many = dataclasses.replace(outlook, owners=outlook.owners * 500)
    fits(repr(many))
    assert "and 994 more owners" in repr(many)
    assert "and 994 more owners" in many._repr_html_()


def test_what_a_forecast_says_is_its_verdict_first(outlook):
    shown = " ".join(repr(outlook).split())
    assert " ".join(outlook.verdict.split()) in shown
    assert "small" in shown
    assert "the public rows alone" in shown


def test_records_are_told_by_their_shape_alone():
    """What a record holds stands on no screen by accident."""
    secret = 0.123456789
    records = copriv.Records.of(np.full((7, 2), secret), np.full(7, secret))
    problem = copriv.Problem.of(
        copriv.Agreement.of({**TERMS, "owner": [{"name": "a", "records": 7, "epsilon": 1.0}]}), [records]
    )
    for value in (records, problem):
        assert "0.123" not in repr(value)
        assert "0.123" not in value._repr_html_()
    assert "7 × 2" in repr(records)


def test_an_owner_says_what_it_has_spent(agreement):
    problem = copriv.Problem.of(agreement, [rows(300, 1), rows(3000, 2)])
    owner = copriv.Owner(agreement, "small", problem.owners[0], problem.loss)
    assert "0 of 3 answers given; epsilon 0 of 1 spent" in repr(owner)
    owner.answer(copriv.Query("q1", agreement.fingerprint, "small", np.zeros(3)))
    assert "1 of 3 answers given; epsilon 0.333333 of 1 spent" in repr(owner)


def test_a_card_has_every_sentence_in_lines_that_are_not_too_wide():
    card = Card("t", tuple(f"Sentence {i}. Another {i}." for i in range(90)))
    assert card.text().splitlines() == ["t", *card.parts]
    wide = Card("t", (Table(("a" * 80, "b" * 80, "c" * 80), (("x", "y", "z"),)),))
    assert max(map(len, wide.text().splitlines())) <= WIDTH


def test_values_in_a_few_words():
    said = [
        None,
        True,
        1_000_000,
        0.1 + 0.2,
        "a\x1b",
        np.zeros((2, 3)),
        {},
        (1, 2),
        [object()] * 3,
        {"a": 1},
        np.float64(2),
    ]
    assert [in_short(value) for value in said] == [
        "none", "yes", "1,000,000", "0.3", "a\\x1b", "array of 2 × 3", "none", "1, 2", "3 of object", "a: 1", "2",
    ]  # fmt: skip


def test_no_sentence_is_cut_in_its_middle():
    """A notebook once ended a caution with "Narrower ranges of columns…"."""
    sentences = [f"Sentence {i} says {'much of what is to be known ' * 2}here." for i in range(23)]
    card = Card(
        "What is said", (" ".join(sentences), Table(("name", "pays"), (("north", "yes"),)), "A last one. And more.")
    )
    assert all(sentence in card.html() for sentence in sentences)
    shown = card.text()
    fits(shown)
    assert "north" in shown
    assert "A last one. And more." in shown
    told = " ".join(shown.split())
    kept = [sentence for sentence in sentences if sentence in told]
    assert kept == sentences
