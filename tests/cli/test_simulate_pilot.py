"""`copriv simulate` of an agreement with a pilot: pilot, plan and the rest, in each run."""

import json

import pytest

AGREEMENT = """
[agreement]
rule = "auto"
horizon = 20
communication = "synchronous"
pilot = 0.25
[model]
loss = "squared"
regularization = 1e-4
[data]
dataset = "lending"
components = 4
public_rows = 200
[[owner]]
name = "bank"
records = 1000
epsilon = 1.0
count = 2
"""


@pytest.fixture
def agreement(tmp_path):
    path = tmp_path / "agreement.toml"
    path.write_text(AGREEMENT)
    return path


def test_each_pilot_has_a_plan_after_it_and_a_part_of_the_runs(copriv, agreement):
    done = copriv("simulate", agreement, "--runs", 3, "--seed", 2, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert (document["runs"], len(document["pilots"]), document["planned"]) == (3, 3, document["pilots"][0])
    assert [owner["epsilon"] for owner in document["owners"]] == [0.75, 0.75]
    assert len({words.split(", step")[0] for words in document["pilots"]}) == 1  # the rule and the number of answers
    assert len(set(document["pilots"])) > 1  # step and bounds follow from each pilot


@pytest.mark.parametrize(("worthwhile", "stopping"), [(0.9, 2), (1e-9, 0)])
def test_it_says_after_how_many_pilots_the_run_would_stop(copriv, agreement, worthwhile, stopping):
    """Nobody's error can fall by 90 %, so that no pilot's answers say that joining pays."""
    agreement.write_text(AGREEMENT.replace("pilot =", f"worthwhile = {worthwhile}\npilot ="))
    done = copriv("simulate", agreement, "--runs", 2, "--json")
    assert (json.loads(done.out)["pilots_that_stop"], done.code) == (stopping, 0), done.err
    said = " ".join(copriv("simulate", agreement, "--runs", 2).out.split())
    assert ("After 2 of 2 simulated pilots the run would stop" in said) == bool(stopping)
    assert ("After none of the 2 simulated pilots the run would stop: by the answers" in said) == (not stopping)
    assert ("joining pays for nobody" in said) == bool(stopping)
