"""An agreement's [data] made into records: a dictionary that is given, and what missing values count as."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from copriv.agreement import Agreement
from copriv.data.dictionary import PublicDictionary
from copriv.errors import AgreementError, DataError
from copriv.problem import Problem

LENDING = {
    "agreement": {"rule": "A2", "horizon": 4, "answers": 2, "step": 1.0},
    "model": {"loss": "squared", "gradient_bound": 2.0},
    "data": {"dataset": "lending-embedded", "components": 3, "public_rows": 500},
    "owner": [{"name": "bank", "records": 1000, "epsilon": 1.0}],
}


def test_a_dictionary_that_is_given_is_used_and_not_another(tmp_path: Path) -> None:
    fitted = Problem.load(Agreement.of(LENDING))
    from copriv.data.consortium import load_consortium

    made = load_consortium("lending-embedded", [10], components=3, public_rows=2000).dictionary
    assert made is not None
    path = tmp_path / "dictionary.json"
    path.write_text(made.to_json(), encoding="utf-8")
    given = Problem.load(Agreement.of(LENDING).replace(data={"dictionary": str(path)}))
    encoded = load_consortium("lending-embedded", [1000], components=0, feature_bound=0, public_rows=500)
    np.testing.assert_allclose(given.unbounded[0].features, made.apply(encoded.owners[0].features))
    assert not np.allclose(given.unbounded[0].features, fitted.unbounded[0].features)
    assert (
        Problem.load_public(given.terms).owners[0].n_parameters
        == PublicDictionary.from_json(path.read_text()).components
    )
    none = Problem.load(given.terms.replace(data={"components": 0}))
    assert none.n_parameters == encoded.owners[0].n_parameters


def test_a_dictionary_that_is_not_there_is_an_error_and_not_another_one() -> None:
    with pytest.raises(AgreementError, match=r"data\.dictionary: nowhere\.json cannot be read"):
        Problem.load(Agreement.of(LENDING).replace(data={"dictionary": "nowhere.json"}))


def table(**data: object) -> Agreement:
    return Agreement.of(
        {
            **LENDING,
            "data": {
                "components": 0,
                "public_rows": 2,
                "features": ["age", "home"],
                "target": "rate",
                "bounds": {"age": [0, 100], "rate": [0, 1]},
                "categories": {"home": ["RENT", "OWN"]},
                "ordered": ["home"],
                **data,
            },
            "owner": [{"name": "bank", "records": 3, "epsilon": 1.0}],
        }
    )


def test_missing_values_count_as_declared(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    columns = {
        "age": [50, None, 20, 30, 40],
        "home": ["OWN", "RENT", None, "OWN", "RENT"],
        "rate": [0.1, 0.2, 0.3, 0.4, 0.5],
    }
    pa.parquet.write_table(pa.table(columns), path)
    declared = {"path": str(path), "missing": {"age": 25, "home": "OWN"}}
    problem = Problem.load(table(**declared))
    np.testing.assert_allclose(problem.unbounded[0].features, [[0.5, 1.0], [0.25, 0.5], [0.2, 1.0]])
    with pytest.raises(DataError, match="age, row 2: is missing"):
        Problem.load(table(path=str(path)))


def test_missing_is_part_of_what_is_signed_and_is_written_back(tmp_path: Path) -> None:
    plain, declared = table(), table(missing={"age": 25, "home": "OWN"})
    assert plain.fingerprint != declared.fingerprint
    (tmp_path / "agreement.toml").write_text(declared.to_toml(), encoding="utf-8")
    assert Agreement.load(tmp_path / "agreement.toml").fingerprint == declared.fingerprint


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ({"income": 0}, r"data\.missing\.income: neither a feature nor the target"),
        ({"age": 200}, "outside its own bounds"),
        ({"home": "BARN"}, "BARN"),
        ({"age": True}, "missing"),
        (["age"], "missing"),
    ],
)
def test_a_missing_value_must_be_one_that_the_column_can_have(missing: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(pa.table({"age": [1.0] * 5, "home": ["OWN"] * 5, "rate": [0.5] * 5}), path)
    with pytest.raises((AgreementError, DataError), match=said):
        Problem.load(table(path=str(path), missing=missing))
