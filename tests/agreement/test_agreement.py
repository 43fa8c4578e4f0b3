"""The agreement: what it derives, what it refuses, and how it says so."""

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.errors import AgreementError

GOOD = {
    "agreement": {"name": "three banks", "rule": "A2", "horizon": 1000, "answers": 8, "step": 3000.0, "seed": 0},
    "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 1e5, "gradient_bound": 5.0},
    "data": {"dataset": "lending", "components": 10, "feature_bound": "auto", "public_rows": 2000},
    "owner": [{"name": f"bank-{i}", "records": 10000, "epsilon": 1.0} for i in (1, 2, 3)],
}


def changed(path: str, value: object) -> dict:
    table, key = path.split(".")
    document = {k: (dict(v) if isinstance(v, dict) else [dict(o) for o in v]) for k, v in GOOD.items()}
    (document["owner"][0] if table == "owner" else document[table])[key] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("owner.epsilon", 0.0, "greater than 0"),
        ("owner.epsilon", -1.0, "greater than 0"),
        ("owner.epsilon", float("nan"), "epsilon"),
        ("owner.epsilon", float("inf"), "finite"),
        ("owner.epsilon", True, "epsilon"),
        ("owner.epsilon", "1", "epsilon"),
        ("owner.records", 0, "at least 1"),
        ("owner.records", 1.5, "whole number"),
        ("owner.name", "bank-2", "stands twice"),
        ("owner.nmae", "x", "not a key of the agreement"),
        ("agreement.horizon", 0, "at least 1"),
        ("agreement.answers", 0, "at least 1"),
        ("agreement.rule", "A3", "A2"),
        ("agreement.step", 0.0, "greater than 0"),
        ("model.gradient_bound", 0.0, "greater than 0"),
        ("model.gradient_bound", -2.0, "greater than 0"),
        ("model.gradient_bound", "guess", "gradient_bound"),
        ("model.loss", "absolute", "squared"),
        ("model.theta_max", 0.0, "greater than 0"),
        ("model.regularization", -1.0, "at least 0"),
        ("data.public_rows", -1, "at least 0"),
        ("owner.delta", 1.0, "less than 1"),
        ("owner.overlap", 0, "at least 1"),
        ("owner.overlap", 40, "40 owners may hold one record"),
    ],
)
def test_bad_terms_are_refused_on_one_line_with_the_path(path, value, said):
    with pytest.raises(AgreementError) as caught:
        Agreement.of(changed(path, value))
    message = str(caught.value)
    assert path.split(".")[1] in message
    assert said in message
    assert "\n" not in message
    assert caught.value.exit_code == 3


def test_missing_table_is_named():
    with pytest.raises(AgreementError, match="model: missing"):
        Agreement.of({k: v for k, v in GOOD.items() if k != "model"})


def test_unreadable_files(tmp_path):
    with pytest.raises(AgreementError, match="cannot read"):
        Agreement.load(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("[agreement\n")
    with pytest.raises(AgreementError, match="not valid TOML"):
        Agreement.load(tmp_path / "bad.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(AgreementError, match="is no text, so no agreement"):
        Agreement.load(tmp_path / "bytes.toml")


def test_whole_numbers_pass_for_real_ones(tmp_path):
    (tmp_path / "a.toml").write_text(
        '[agreement]\nrule = "A2"\nhorizon = 10\nstep = 3\n[model]\nloss = "squared"\ngradient_bound = 5\ntheta_max = 10\n'
        '[data]\nfeature_bound = 1\nbounds = { age = [0, 120] }\n[[owner]]\nname = "a"\nrecords = 5\nepsilon = 1\n'
    )
    agreement = Agreement.load(tmp_path / "a.toml")
    assert (agreement.step, agreement.gradient_bound, agreement.data.feature_bound) == (3.0, 5.0, 1.0)


def test_what_follows():
    agreement = Agreement.of(GOOD)
    assert agreement.answers == 8
    assert agreement.queries == 24
    np.testing.assert_allclose(agreement.weights, 1 / 3)
    assert agreement.replace(agreement={"rule": "S2", "answers": None}).queries == 999
    assert agreement.replace(agreement={"answers": None}).answers == 1000
    weighted = agreement.replace(
        owner=[{**o, "weight": w} for o, w in zip(GOOD["owner"], (1.0, 3.0, 0.0), strict=True)]
    )
    np.testing.assert_allclose(weighted.weights, [0.25, 0.75, 0.0])
    with pytest.raises(AgreementError, match="weight"):
        agreement.replace(owner=[{**GOOD["owner"][0], "weight": 1.0}, *GOOD["owner"][1:]])
    with pytest.raises(AgreementError, match='still "auto"'):
        _ = agreement.replace(agreement={"step": "auto"}).step


@given(st.sampled_from(["name", "horizon", "answers", "step", "seed"]), st.integers(2, 900))
def test_the_fingerprint_changes_with_every_term_and_with_nothing_else(key, value):
    agreement = Agreement.of(GOOD)
    assert Agreement.of(agreement.to_dict()).fingerprint == agreement.fingerprint
    given_value = str(value) if key == "name" else float(value) if key == "step" else value
    other = agreement.replace(agreement={key: given_value})
    same = other.to_dict()["agreement"] == agreement.to_dict()["agreement"]
    assert (other.fingerprint == agreement.fingerprint) == same


def test_agreements_are_equal_by_their_terms_whatever_was_read_of_them():
    one, other = Agreement.of(GOOD), Agreement.of(GOOD)
    assert len(one.weights) == len(one.records) == one.n_owners
    assert one == other
    assert other == one
    assert hash(one) == hash(other)
    assert len(other.weights) == one.n_owners
    assert one == other
    assert one != Agreement.of(changed("agreement.horizon", 999))
    assert one != 1


def test_owners_that_a_change_does_not_name_are_not_checked_again():
    agreement = Agreement.of(GOOD)
    changed = agreement.replace(agreement={"step": 1.0})
    assert all(one is other for one, other in zip(changed.owner_tables, agreement.owner_tables, strict=True))
    assert changed == Agreement.of({**GOOD, "agreement": {**GOOD["agreement"], "step": 1.0}})
    assert Agreement.of(agreement.with_owners()).fingerprint == agreement.fingerprint


def test_the_agreement_is_frozen():
    with pytest.raises(Exception, match="frozen"):
        Agreement.of(GOOD).agreement = None


def test_a_written_file_is_read_back_with_the_same_fingerprint(tmp_path):
    document = {
        "agreement": {"rule": "A2", "horizon": 3, "step": 0.1, "name": 'a "name"\x7f\n', "start": [1e-9, -2.0]},
        "model": {"loss": "squared", "gradient_bound": 1.0},
        "data": {"features": ["x", "level"], "target": "y", "bounds": {"x": [0.0, 1.0], "y": [-1.0, 1.0]},
                 "categories": {"level": ["a.b", "é", "🏥", "\\ud83c\\udfe5"]}, "missing": {"x": 0.5}},
        "owner": [{"name": "ä𐀀", "records": 3, "epsilon": 1.0}, {"name": "b", "records": 4, "epsilon": 0.1, "group": "g"}],
    }  # fmt: skip
    agreement = Agreement.of(document)
    (tmp_path / "written.toml").write_text(agreement.to_toml(), encoding="utf-8")
    assert Agreement.load(tmp_path / "written.toml").fingerprint == agreement.fingerprint


@pytest.mark.parametrize("path", ["owner.epsilon", "agreement.step", "agreement.horizon", "owner.records"])
def test_a_number_that_no_computer_holds_is_refused_in_words(path, tmp_path):
    with pytest.raises(AgreementError, match=path.split(".")[1]):
        Agreement.of(changed(path, 10**400))
    file = tmp_path / "agreement.toml"
    file.write_text(f"[agreement]\nhorizon = 1{'0' * 5000}\n")
    with pytest.raises(AgreementError):
        Agreement.load(file)


BRANCHES = {**GOOD, "owner": [{"name": "bank", "records": 10000, "epsilon": 1.0, "count": 3},
                              {"name": "fund", "records": 500, "epsilon": 0.5}]}  # fmt: skip


def test_owners_that_are_alike_are_one_table_with_their_number():
    """Everything but the text is that of the same owners written out."""
    short = Agreement.of(BRANCHES)
    bank = {"records": 10000, "epsilon": 1.0}
    names = ("bank 1", "bank 2", "bank 3")
    long = Agreement.of({**BRANCHES, "owner": [*({"name": name, **bank} for name in names), BRANCHES["owner"][1]]})
    assert short.owner == long.owner
    assert short.owner_names == (*names, "fund")
    assert short.n_owners == short.n_participants == 4
    assert short.queries == long.queries
    for key in ("records", "epsilons", "overlaps", "weights"):
        assert getattr(short, key).tolist() == getattr(long, key).tolist()
    assert short.fingerprint != long.fingerprint  # it is the text that is signed


def test_a_shared_record_loses_what_all_of_its_owners_spend():
    """Erratum 17: ε_i/κ of one owner says nothing of what the others spend on the same record."""
    budgets = (0.1, 10.0, 2.0)
    owners = [
        {"name": f"bank {i}", "records": 100, "epsilon": ε, "delta": 1e-6 * ε, "overlap": 2}
        for i, ε in enumerate(budgets)
    ]
    agreed = Agreement.of({**GOOD, "owner": owners})
    for i, owner in enumerate(agreed.owner_tables):
        largest = max(ε for j, ε in enumerate(budgets) if j != i)
        assert agreed.shared_budget(owner) == pytest.approx(
            ((budgets[i] + largest) / 2, 1e-6 * (budgets[i] + largest) / 2)
        )
    alike = Agreement.of({**BRANCHES, "owner": [{**BRANCHES["owner"][0], "overlap": 3}]})
    assert alike.shared_budget(alike.owner_tables[0]) == pytest.approx((alike.owner_tables[0].epsilon, 0.0))
    alone = Agreement.of(GOOD)
    assert alone.shared_budget(alone.owner_tables[1]) == (alone.owner_tables[1].epsilon, alone.owner_tables[1].delta)


def test_a_number_of_owners_is_read_back_and_one_is_no_number():
    short = Agreement.of(BRANCHES)
    assert Agreement.of(tomllib.loads(short.to_toml())).fingerprint == short.fingerprint
    alone = {**GOOD, "owner": [{**owner, "count": 1} for owner in GOOD["owner"]]}
    assert Agreement.of(alone).fingerprint == Agreement.of(GOOD).fingerprint
    assert Agreement.of(alone).owner_names == ("bank-1", "bank-2", "bank-3")


@pytest.mark.parametrize("other", ["bank", "bank 1", "bank 3"])
def test_no_owner_may_have_the_name_of_one_of_several(other):
    with pytest.raises(AgreementError, match=f"{other!r} stands twice"):
        Agreement.of({**BRANCHES, "owner": [BRANCHES["owner"][0], {"name": other, "records": 5, "epsilon": 1.0}]})


@pytest.mark.parametrize("other", ["bank 0", "bank 4", "bank 01", "bank 1 1", "bank1"])
def test_other_names_are_free(other):
    made = Agreement.of({**BRANCHES, "owner": [BRANCHES["owner"][0], {"name": other, "records": 5, "epsilon": 1.0}]})
    assert len(set(made.owner_names)) == 4


@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=4), grouped=st.integers(0, 4))
def test_participants_are_counted_as_they_talk(counts, grouped):
    owners = [{"name": f"o{i}", "records": 9, "epsilon": 1.0, "count": c} for i, c in enumerate(counts)]
    for owner in owners[:grouped]:
        owner["group"] = "all of one house"
    agreement = Agreement.of({**GOOD, "owner": owners})
    assert agreement.n_participants == len(Participants.of(agreement).members)
    assert agreement.n_owners == len(agreement.owner) == sum(counts)


def test_all_that_is_wrong_is_told_at_once_with_the_owners_name_and_a_remedy():
    document = changed("owner.epsilon", -1.0)
    document["owner"][1]["records"] = "many"
    document["agreement"]["rule"] = "A9"
    document["modle"] = {}
    del document["model"]["loss"]
    with pytest.raises(AgreementError) as caught:
        Agreement.of(document)
    problems = caught.value.problems
    assert len(problems) == 5
    for said in (
        'owner.0.epsilon of "bank-1": must be greater than 0, not -1.0; it is the owner\'s whole privacy budget',
        "owner.1.records of \"bank-2\": must be a whole number, not 'many'",
        'there is no rule "A9"',
        "modle: not a key of the agreement; did you mean model?",
        "model.loss: missing",
    ):
        assert any(said in problem for problem in problems), said
    assert "; ".join(problems) == str(caught.value)
    assert "Input should" not in str(caught.value)


@pytest.mark.parametrize("document", [{}, {"owner": {"a": 1}}, {**GOOD, "owner": ["x"]}, {**GOOD, "model": 3}])
def test_what_is_no_agreement_at_all_is_told_so_in_words(document):
    with pytest.raises(AgreementError) as caught:
        Agreement.of(document)
    assert "Input should" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_list_in_which_every_owner_is_at_fault_is_not_called_empty():
    with pytest.raises(AgreementError) as caught:
        Agreement.of({**GOOD, "owner": [{"name": "bank", "records": 0, "epsilon": 1.0}]})
    assert [problem.split(" of ")[0] for problem in caught.value.problems] == ["owner.0.records"]
    with pytest.raises(AgreementError, match="owner: must have at least one"):
        Agreement.of({**GOOD, "owner": []})


def test_no_more_problems_are_told_than_fit_on_a_screen():
    document = {**GOOD, "owner": [{"name": f"o{i}", "records": 0, "epsilon": 10**400} for i in range(50)]}
    with pytest.raises(AgreementError, match="and 88 more"):
        Agreement.of(document)


def test_an_agreement_with_bounds_has_a_hash() -> None:
    data = {"dataset": "table", "features": ["a"], "target": "y", "bounds": {"a": [-1, 1], "y": [0, 1]}}
    document = {
        "agreement": {"rule": "A2", "horizon": 4, "answers": 4, "step": 0.1},
        "model": {"loss": "squared", "gradient_bound": 1.0, "theta_max": 1.0},
        "data": data,
        "owner": [{"name": "bank", "records": 10, "epsilon": 1.0}],
    }
    agreed = Agreement.of(document)
    assert hash(agreed) == hash(Agreement.of(document))
    assert len({agreed, Agreement.of(document), agreed.replace(model={"theta_max": 2.0})}) == 2


def test_numbers_that_numpy_counted_are_numbers() -> None:
    """Sizes of frames and arrays come as numpy's integers in a document that Python makes."""
    owner = {"name": "a", "records": np.int64(200), "epsilon": np.float64(1.0)}
    document = {"agreement": {"rule": "auto"}, "model": {"loss": "squared"}, "owner": [owner]}
    assert Agreement.of(document).owner[0].records == 200
    with pytest.raises(AgreementError, match="must be a whole number"):
        Agreement.of({**document, "owner": [{**owner, "records": np.float64(200.5)}]})
