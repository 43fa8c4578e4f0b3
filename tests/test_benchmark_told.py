"""Are promises to owners judged as the page says, and is what anybody could have said in hindsight a ceiling?"""

from typing import Any

from benchmarks.unlike import judged
from benchmarks.unlike.page import page, verdicts_alone
from hypothesis import given
from hypothesis import strategies as st

positive = st.floats(0.01, 10.0)
owner = st.fixed_dictionaries(
    {
        "records": st.integers(10, 1000),
        "alone": positive,
        "alone_measured": positive,
        "together_measured": positive,
        "says_all": st.booleans(),
        "says_own": st.booleans(),
        "own_common_loss": positive,
        "own_alone_loss": positive,
    }
)
row = st.fixed_dictionaries({"median": positive, "public_measured": positive, "owners": st.lists(owner, min_size=1)})


@given(row)
def test_hindsight_is_a_ceiling(row: dict[str, Any]) -> None:
    by_size = {o["records"]: o["says_own"] for o in row["owners"]}
    few, many = (n for n in (min(by_size), max(by_size)))
    for o in row["owners"]:  # what a rule by size may say: the same to all owners below one size
        o["says_own"] = o["says_all"] = o["records"] < (few + many) / 2
    for told in (judged.own(row, 0.02), judged.joining(row, 0.02), judged.alone(row)):
        assert 0 <= told.right <= told.at_best <= told.judged


def test_two_owners_by_hand() -> None:
    one = {"records": 100, "alone": 0.5, "alone_measured": 1.0, "together_measured": 0.2, "says_all": True}
    one |= {"says_own": True, "own_common_loss": 0.8, "own_alone_loss": 1.0}
    other = one | {"records": 200, "alone": 0.1, "own_common_loss": 1.5}
    row = {"median": 0.2, "public_measured": 0.1, "owners": [one, other]}
    assert judged.own(row, 0.1) == judged.Told(1, 2, 2)  # joining serves the first and not the second
    row["owners"][1]["own_gain_error"] = 1.0  # and of the second nothing is known
    assert judged.own(row, 0.1, 1.645).judged == 1
    row["owners"][0]["own_events"] = 4  # a fraud or two among the held-out rows
    assert judged.own(row, 0.1, 1.645).judged == 0
    assert judged.own(row, 0.1).judged == 2
    row["owners"][0]["own_events"] = 5
    assert judged.own(row, 0.1, 1.645).judged == 1
    assert judged.alone(row) == judged.Told(
        1, 2, 2
    )  # 0.5 is within three times of 1, 0.1 is not; five times as much is
    assert judged.everybody(row, 0.1) == judged.Told(1, 2, 2)  # 0.1 was said to beat 0.2
    assert judged.joining(row, 0.01) == judged.Told(0, 2, 2)  # the public model is better than both
    assert judged.Told.together([judged.own(row, 0.1), judged.Told(0, 0, 0)]).words == "50% of 2"


def test_bands_and_probabilities_are_judged_where_they_were_kept():
    kept = {
        "alone_low": 0.1,
        "alone_high": 0.2,
        "says_own_probability": 0.2,
        "own_common_loss": 2.0,
        "own_alone_loss": 1.0,
    }
    rows = [{"owners": [{**kept, "alone_measured": 0.15}, {**kept, "alone_measured": 0.3}, {"alone_measured": 1.0}]}]
    rows[0]["owners"][2] |= {"own_common_loss": 2.0, "own_alone_loss": 1.0}
    assert judged.alone_in_band(rows[0]) == judged.Told(1, 2, 2)
    assert judged.own_expected(rows, 0.1, 1.0) == 0.8
    assert judged.own_expected(rows, 3.0, 1.0) != judged.own_expected(rows, 3.0, 1.0)  # of none: not a number


def test_one_factor_for_all_is_the_best_there_is():
    said = {"alone": 1.0}
    rows = [{"owners": [{**said, "alone_measured": seen} for seen in (10.0, 20.0, 30.0, 1.0, 1000.0)]}]
    assert judged.alone(rows[0]).right == 1
    assert judged.alone_by_a_factor(rows) == 0.6
    assert judged.alone_by_a_factor([]) != judged.alone_by_a_factor([])  # of none: not a number


def test_the_page_says_what_is_missing_where_nothing_was_measured():
    assert "none measured" in page([])
    assert "failed | why" in page([{"cell": "a", "shuffled": False, "failed": "why"}])


def test_the_section_on_verdicts_is_written_once_where_it_is_and_where_it_is_not() -> None:
    """A page without it once ended with an empty heading."""
    said = {"said": "no", "probability": 0.1, "pays": False, "sure": True, "own_events": None}
    rows = [{"cell": "one", "known": "nothing", "owners": [said]}]
    without = "# Title\n\n## Personalized at home\n\nmuch\n"
    once = verdicts_alone(without, rows)
    assert once == verdicts_alone(once, rows)
    assert [line for line in once.splitlines() if line.startswith("#")] == [
        "# Title", "## Verdicts of owners on their own records", "## Personalized at home",
    ]  # fmt: skip
    assert once.endswith("much\n")
