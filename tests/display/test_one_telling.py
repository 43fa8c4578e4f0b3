"""One forecast, told everywhere: terminal, page, JSON, notebook, report, pictures and a run's table say the same."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from copriv import report
from copriv.agreement import Agreement
from copriv.cli.commands import forecast as screen
from copriv.cli.console import tell
from copriv.display import forecast as told
from copriv.display.run import compared
from copriv.forecast import Forecast, forecast
from copriv.forecast.pilot_outlook import PilotAt, PilotOutlook
from copriv.formatting.numbers import json_ready, percent
from copriv.pictures import forecast as forecast_pictures
from copriv.plan import candidates, planner
from copriv.privacy.ledger.create import create_ledger
from copriv.problem.verdict import Answer, Verdict
from copriv.ui import views
from page_texts import numbers, rendered

TERMS: dict[str, Any] = {
    "agreement": {
        "name": "some",
        "rule": "S2",
        "communication": "synchronous",
        "horizon": 5,
        "answers": 4,
        "step": 0.3,
    },
    "model": {"loss": "squared", "regularization": 0.05, "gradient_bound": 4.0},
    "data": {"feature_bound": 0.0},
    "owner": [{"name": f"owner {i}", "records": n, "epsilon": 1.0} for i, n in enumerate((4000, 600, 300))],
}


@pytest.fixture(scope="module")
def outlook() -> Forecast:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) * [1.0, 0.4]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "ANSWERS", (1, 2, 4))
        patch.setattr(candidates, "GRADIENT_BOUNDS", 6)
        patch.setattr(planner, "FINALISTS", 2)
        patch.setattr(planner, "FINALIST_WORLDS", 2)
        return forecast(Agreement.of(TERMS), (X, X @ [1.0, -2.0] + 0.7 * rng.normal(size=300)), runs=32)


def three_ways(outlook: Forecast) -> Forecast:
    """The same, were the first owner to gain, the second not, and the third's verdict open."""
    answers: tuple[tuple[Answer, float], ...] = (("yes", 0.93), ("no", 0.1), ("open", 0.55))
    owners = (
        replace(
            owner, verdict=answer, probability=probability, joining_pays_probability=probability,
            joining_pays={"yes": True, "no": False, "open": None}[answer], close_call=answer == "open",
            on_own=replace(owner.on_own, answer=answer, probability=probability),
        )
        for owner, (answer, probability) in zip(outlook.owners, answers, strict=True)
    )  # fmt: skip
    return replace(outlook, owners=tuple(owners))


@pytest.fixture(params=["as it is", "three ways"])
def said(request: pytest.FixtureRequest, outlook: Forecast) -> Forecast:
    return outlook if request.param == "as it is" else three_ways(outlook)


def one_line(text: str) -> str:
    return " ".join(text.split())


def rows_of(text: str, owner: str) -> list[str]:
    """The lines of tables that begin with an owner's name."""
    return [line for line in text.splitlines() if re.match(rf"{owner}\s\s", line)]


def view_of(outlook: Forecast) -> dict[str, Any]:
    """What the page gets of this forecast, through JSON."""
    document = {**TERMS, "owners": [{"terms": one, "joined": True} for one in TERMS["owner"]], "target": 0.01}
    made = views.Prepared.of(Agreement.of(TERMS), outlook)
    view: dict[str, Any] = json.loads(json.dumps(json_ready(views.exact(views.Question.of(document), made))))
    return view


def test_the_verdict_is_one_value(said: Forecast) -> None:
    verdict = said.joining
    owners, cost_others = {one.name: one.on_own for one in said.owners}, tuple(one.name for one in said.left_out)
    assert verdict == Verdict("own", owners, cost_others, said.agreed.relative_fitness.end["median"] > said.public_only)
    assert {name: one.answer for name, one in owners.items()} == {one.name: one.verdict for one in said.owners}
    named = [*verdict.names("yes"), *verdict.names("no"), *verdict.names("open")]
    assert sorted(named) == [owner.name for owner in said.owners]


def test_every_screen_says_the_verdict_of_every_owner(said: Forecast, capsys: pytest.CaptureFixture[str]) -> None:
    tell(*told.details(said))
    details, short, card = capsys.readouterr().out, "\n".join(screen.lines(said)), repr(said)
    page = {row["name"]: row for row in view_of(said)["owners"]}
    document = {owner["name"]: owner for owner in json.loads(said.to_json())["owners"]}
    for owner in said.owners:
        own = owner.own
        costs = [percent(ψ) for ψ in (own.alone, own.public_personalized, own.together, own.personalized)]
        gain = percent(round(owner.on_own.gain, 4))
        for text in (details, short, card):
            rows = [re.split(r"\s{2,}", line.strip())[1:] for line in rows_of(text, owner.name)]
            row = next(row for row in rows if row[:4] == costs)
            assert {owner.verdict, gain} <= set(row) or (text is details and f"{owner.verdict}, " in row[5]), row
        row, kept = page[owner.name], document[owner.name]
        assert row["verdict"] == owner.verdict
        assert (row["alone"], row["together"]) == (kept["alone"], kept["together"]) == (owner.alone, owner.together)
        assert row["probability"] == (1.0 - owner.probability if owner.verdict == "no" else owner.probability)
        assert row["sure"] == (row["probability"] >= views.SURE)
        row_of_html = re.search(rf"<tr><td>{owner.name}</td>(.*?)</tr>", said._repr_html_())
        assert row_of_html is not None
        assert re.findall(r"<td>(.*?)</td>", row_of_html[1])[:6] == [*costs, owner.verdict, gain]


def test_every_screen_says_the_same_sentence(said: Forecast, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = said.verdict
    tell(*told.details(said))
    assert verdict in capsys.readouterr().out
    assert json.loads(said.to_json())["verdict"] == verdict
    assert one_line(verdict) in one_line(repr(said))
    assert one_line(verdict) in one_line(" ".join(screen.lines(said)))
    on_page = view_of(said)["said"]
    assert " ".join(rendered(one, "en") for one in on_page) == verdict.replace("'", "’")
    german = " ".join(rendered(one, "de") for one in on_page)
    assert numbers(german) == numbers(verdict)
    assert all(owner.name in german for owner in said.owners if owner.name in verdict)
    gain, even, lose = (said.joining.names(answer) for answer in ("yes", "open", "no"))  # type: ignore[arg-type]
    assert verdict.startswith("Joining pays for " if gain else "Open for " if even else "Joining does not pay")
    named = (*gain, *even, *(lose if len(lose) <= 2 and (gain or even) else ()))
    assert len(gain) == len(said.owners) or all(name in verdict for name in named)


def test_every_screen_says_what_the_sum_would_give(outlook: Forecast, capsys: pytest.CaptureFixture[str]) -> None:
    found, sentence = outlook.with_sum, outlook.with_sum_in_words
    assert found is not None
    assert sentence is not None
    assert percent(found.together) in sentence
    assert "Noise is" not in sentence, "one run in each world does not tell"
    quarter = replace(found.assessment, from_noise=0.25 * found.assessment.relative_fitness.end["mean"])
    said = str(replace(outlook, with_sum=replace(found, assessment=quarter)).with_sum_in_words)
    assert "Noise is 25 % of that on average; bounds on gradients, the step and the number of answers leave" in said
    tell(*told.details(outlook))
    for text in (capsys.readouterr().out, " ".join(screen.lines(outlook)), repr(outlook)):
        assert sentence in one_line(text)
    assert html.escape(sentence) in one_line(outlook._repr_html_())
    document = json.loads(outlook.to_json())["with_sum"]
    assert document["in_words"] == sentence
    view = view_of(outlook)
    assert view["with_sum"] == document
    assert " ".join(rendered(one, "en") for one in view["said_of_sum"]) == sentence.replace("'", "’")
    assert numbers(" ".join(rendered(one, "de") for one in view["said_of_sum"])) == numbers(sentence)
    for hidden, each, words in (
        (0.5, 2.0, "pays for somebody from budgets of 0.5 with it, and from budgets of 2 without."),
        (1e-4, None, "typically pays for somebody at any budget with it, and at no budget without."),
        (None, None, "typically pays for nobody, with or without it."),
    ):
        changed = replace(found, break_even_epsilon=hidden, break_even_epsilon_each=each)
        assert words in str(replace(outlook, with_sum=changed).with_sum_in_words)
    assert not any("aggregation" in line for line in told.notes(replace(outlook, with_sum=None)))
    summed = replace(outlook, with_sum=None, recommended=quarter)
    assert any("of what the best terms found cost on average; bounds" in line for line in told.notes(summed))


@pytest.fixture
def with_pilot(outlook: Forecast) -> Forecast:
    found = PilotOutlook(
        share=0.1, recommended=0.05, open=2,
        shares=(
            PilotAt(0.05, 1.1, (0.35,) * 3, (0.05,) * 3, 0.7), PilotAt(0.1, 1.3, (0.7,) * 3, (0.1,) * 3, 1.4),
        ),
    )  # fmt: skip
    return replace(outlook, pilot=found)


def test_every_screen_says_what_a_pilot_would_tell(with_pilot: Forecast, capsys: pytest.CaptureFixture[str]) -> None:
    said, sentence = with_pilot, with_pilot.pilot_in_words
    assert sentence is not None
    assert "settles about 1.4 of 2 open verdicts and costs the model 1.3 times" in sentence
    assert "Recommended: pilot = 0.05, which settles about 0.7 of 2 open verdicts" in sentence
    tell(*told.details(said))
    for text in (capsys.readouterr().out, " ".join(screen.lines(said)), repr(said)):
        assert sentence in one_line(text)
    assert html.escape(sentence) in one_line(said._repr_html_())
    for picture in (forecast_pictures.curves, forecast_pictures.break_even, forecast_pictures.on_own_records):
        figure = picture(said)
        assert sentence in one_line(" ".join(text.get_text() for text in figure.findobj(Text)))
    document = json.loads(said.to_json())["pilot_outlook"]
    assert document["in_words"] == sentence
    view = view_of(said)
    assert view["pilot_outlook"] == document
    assert " ".join(rendered(one, "en") for one in view["said_of_pilot"]) == sentence.replace("'", "’")
    assert numbers(" ".join(rendered(one, "de") for one in view["said_of_pilot"])) == numbers(sentence)


def test_a_yes_after_a_pilot_says_where_to_check_it(outlook: Forecast) -> None:
    def said(kind: str, answer: str) -> str:
        owners = (replace(one, on_own=replace(one.on_own, answer=answer)) for one in outlook.owners)
        return one_line(" ".join(told.notes(replace(outlook, kind=kind, owners=tuple(owners)))))

    assert "An owner can check it at home, on its own records, before it joins" in said("after the pilot", "yes")
    for kind, answer in (("after the pilot", "no"), (outlook.kind, "yes")):
        assert "check it at home" not in said(kind, answer)


def test_the_report_repeats_the_verdict_for_everybody_and_for_its_owner(said: Forecast, tmp_path: Path) -> None:
    forecast, agreement = json.loads(said.to_json()), Agreement.of(TERMS)
    for owner in said.owners:
        (folder := tmp_path / owner.name).mkdir()
        create_ledger(folder / "own.ledger", owner.name)
        made = report.document(folder / "own.ledger", agreements=[agreement], forecast=forecast)
        verdict = {"verdict": owner.verdict, "probability": owner.probability}
        assert made["joining"] == {"goal": said.goal, "verdict": said.verdict, "owner": verdict}
        shown = one_line(html.unescape(re.sub(r"<[^>]+>", " ", report.page(made))))
        assert one_line(said.verdict) in shown
        pays = f"{owner.verdict}; joining pays with a probability of {percent(owner.probability)}."
        assert f"For {owner.name}: {pays}" in shown


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All words that are written on a figure."""
    words_drawn: list[str] = []
    write = Figure.text

    def remembered(figure: Figure, x: float, y: float, words: str, **options: Any) -> Any:
        words_drawn.append(words)
        return write(figure, x, y, words, **options)

    monkeypatch.setattr(Figure, "text", remembered)
    return words_drawn


def test_pictures_say_it_too(said: Forecast, drawn: list[str]) -> None:
    for picture in ("curves", "break-even"):
        drawn.clear()
        said.plot(picture)
        assert one_line(said.verdict) in one_line(" ".join(drawn)), picture
    assert "At which epsilon the common model is better, on everybody's records" in drawn


def test_pictures_say_what_a_pilot_would_tell(with_pilot: Forecast, drawn: list[str]) -> None:
    sentence = with_pilot.pilot_in_words
    assert sentence is not None
    for picture in ("curves", "break-even", "own-records"):
        drawn.clear()
        with_pilot.plot(picture)
        assert sentence in one_line(" ".join(drawn)), picture


def test_the_models_cost_the_same_everywhere(said: Forecast, capsys: pytest.CaptureFixture[str]) -> None:
    tell(*told.details(said))
    details, short, card = capsys.readouterr().out, "\n".join(screen.lines(said)), repr(said)
    view, document = view_of(said), json.loads(said.to_json())
    assert view["together"]["median"] == document["recommended"]["relative_fitness"]["median"] == said.together
    assert view["agreed"] == document["agreed"]
    assert document["public_only"] == said.public_only == pytest.approx(view["public_only"])
    for text in (details, short, card, said.verdict):
        assert percent(said.together) in text
        assert percent(said.public_only) in text
    band = said.agreed.relative_fitness.end
    expected = {"queries": 5, "answers": {}, "epsilon": {}, "relative_fitness": band, "kind": said.agreed.kind}
    public = {"rows": 9, "low": 0.0, "high": 1.0, "fitness": 1.0, "least_fitness": 1.0, "heterogeneity_diagnosis": None}
    of_run = compared(
        {"realised": {"queries": 5, "answers": {}, "epsilon": {}, "delta": {}, "public": public}, "forecast": expected},
        "mean squared error",
    )
    assert any(percent(band["median"]) in cell for row in of_run.rows for cell in row), "beside what came of a run"


def test_terms_that_are_worse_than_none_are_praised_nowhere(outlook: Forecast) -> None:
    """Joining may pay under the best terms found, and not as it is agreed: who reads the one reads the other."""
    ψ = outlook.agreed.relative_fitness
    bad = replace(outlook.agreed, relative_fitness=replace(ψ, median=np.full_like(ψ.median, 9.0)))
    for public_only in (0.5, 10.0):
        worse = replace(three_ways(outlook), agreed=bad, public_only=public_only)
        said = "Not as it is agreed: those terms reach 900 %" in worse.verdict
        assert said is (public_only < 9.0)
        assert ("agreed" in [one["key"] for one in view_of(worse)["said"]]) is said


def test_a_fair_share_is_of_the_gain_everywhere(outlook: Forecast, capsys: pytest.CaptureFixture[str]) -> None:
    tell(*told.details(outlook))
    saved = sum(owner.shapley for owner in outlook.owners)
    last = capsys.readouterr().out.split("best weight")[1]
    for row in view_of(outlook)["owners"]:
        assert f"{100 * row['share']:.1f} %" in rows_of(last, row["name"])[0]
        assert row["share"] == pytest.approx(row["worth"] / saved)


def test_a_budget_is_recommended_only_where_the_forecast_shows_that_it_helps(outlook: Forecast) -> None:
    def nobody(least: float | None) -> Forecast:
        owners = (
            replace(
                owner, verdict="no", pays_epsilon=least,
                on_own=replace(owner.on_own, answer="no", probability=0.1),
            )
            for owner in outlook.owners
        )  # fmt: skip
        return replace(outlook, owners=tuple(owners))

    assert "Raise the budgets" not in nobody(7.0).verdict + nobody(None).verdict
    assert "as it is: it would typically pay for owner 0 with a budget of 7 or more." in nobody(7.0).verdict
    for least in (None, 0.5):  # less than it has, and it does not pay
        assert "serves each owner as well." in nobody(least).verdict, (
            "it once promised that no larger budget would help"
        )
        assert "it would typically pay" not in nobody(least).verdict


def test_every_number_says_of_which_terms_and_every_table_which_question_it_answers(outlook: Forecast) -> None:
    """A cost of the recommended terms stood beside the name of the planned ones."""
    better = replace(outlook, comparison=replace(outlook.comparison, same=False))
    agreed = replace(better.agreed, words="planned")
    shown = one_line(" ".join(screen.lines(replace(better, agreed=agreed), width=120)))
    assert "above the best possible together by the recommended terms, " in shown
    ends = percent(agreed.relative_fitness.end["median"])
    assert f"of each owner. It reaches {ends}; what stands above is of the recommended terms." in shown
    all_of_it = [*told.details(outlook)]
    for place, part in enumerate(all_of_it):
        before = [line for line in all_of_it[:place] if isinstance(line, str) and re.match(r"\d\. .*\?", line)]
        assert isinstance(part, str) or before, "a table stands under its question"
    questions = [line for line in all_of_it if isinstance(line, str) and line.endswith("This is the verdict.")]
    assert [question[:2] for question in questions] == ["2."]


@pytest.mark.parametrize(("called", "said"), [
    (("east", "west"), "The groups of region (data.strata) are not the owners"),
    (("owner 0", "owner 1"), "No public row is known to be like those of owner 2 (data.strata, owner.stratum)"),
])  # fmt: skip
def test_strata_that_are_not_the_owners_are_said_to_be_no_evidence_of_them(
    outlook: Forecast, called: tuple[str, ...], said: str
) -> None:
    problem = replace(
        outlook.problem, terms=outlook.problem.terms.replace(data={"strata": "region"}), strata=np.arange(300) % 2,
        strata_names=called,
    )  # fmt: skip
    told_of = replace(outlook, problem=problem)
    assert said not in outlook.assumption
    assert said in one_line(" ".join(screen.lines(told_of)))
    assert said in one_line(" ".join(line for line in told.details(told_of) if isinstance(line, str)))
    assert said in told_of.to_dict()["assumption"]
    view, unused = view_of(told_of), called[0] == "east"
    assert (view["strata_unused"], view["without_stratum"]) == (("region", []) if unused else (None, ["owner 2"]))


def test_better_weights_are_spoken_of_by_one_rule(outlook: Forecast) -> None:
    for weights in (0.99, 0.97, 0.9, 0.5):
        better = replace(outlook, best_weights=weights * min(outlook.together, outlook.best_subset))
        in_words = any("Weights other than" in line for line in told.about_coalitions(better))
        assert view_of(better)["weights_help"] is in_words
