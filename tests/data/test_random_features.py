"""Random waves: near a Gaussian kernel, never longer than they are proved to be, and the same for every party."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import copriv
from copriv import Agreement, Problem
from copriv.data import PublicDictionary, RandomFeatures, load_consortium
from copriv.errors import AgreementError, DataError, InvalidInput
from copriv.network.setup import load_dictionary, make_consortium, n_parameters


def rows(n=200, columns=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


def test_inner_products_are_a_gaussian_kernel():
    X, width = rows(30), 1.5
    φ = RandomFeatures.draw(X, 40_000, width).apply(X)
    apart = np.square(X[:, None] - X[None]).sum(axis=2)
    # Each entry is a mean of 40,000 numbers in [−2, 2]: five standard errors are 0.05 at most.
    np.testing.assert_allclose(φ @ φ.T, np.exp(-apart / (2 * width**2)), atol=0.05)


@given(
    arrays(np.float64, (5, 3), elements=st.floats(-1e9, 1e9)),
    st.integers(1, 300),
    st.floats(1e-3, 1e3),
    st.integers(0, 9),
)
def test_no_row_is_longer_than_proved_in_either_norm(X, features, width, seed):
    made = RandomFeatures.draw(X, features, width, seed)
    φ = made.apply(X)
    assert np.abs(φ).sum(axis=1).max() <= np.sqrt(2 * features) * (1 + 1e-12)
    assert np.linalg.norm(φ, axis=1).max() <= np.sqrt(2) * (1 + 1e-12)
    assert made.longest == pytest.approx(np.sqrt(2 * features))


def test_the_bound_is_reached_so_no_smaller_one_is_proved():
    made = RandomFeatures(np.zeros((1, 8)), np.zeros(8))
    assert np.abs(made.apply(np.ones((1, 1)))).sum() == pytest.approx(made.longest)


def test_a_row_is_mapped_from_itself_alone_and_a_file_gives_the_same_bits():
    X = rows()
    made = PublicDictionary.fit(X, 2).with_waves(X, 25, seed=3)
    again = PublicDictionary.from_json(made.to_json())
    np.testing.assert_array_equal(made.apply(X)[7], again.apply(X[7:8])[0])
    assert made.fingerprint == again.fingerprint
    assert made.components == 25
    assert made.names[-1] == "wave25"


def test_an_older_reader_does_not_take_a_file_with_waves_for_one_without():
    X = rows()
    document = json.loads(PublicDictionary.fit(X, 2).with_waves(X, 5).to_json())
    assert document["schema"] == "copriv.dictionary/2"
    assert json.loads(PublicDictionary.fit(X, 2).to_json())["schema"] == "copriv.dictionary/1"
    del document["fourier"]["phases"][0]
    with pytest.raises(DataError, match="damaged"):
        PublicDictionary.from_json(json.dumps(document))


def test_the_width_is_the_median_distance_of_public_rows():
    X = rows(40)
    apart = [np.linalg.norm(a - b) for i, a in enumerate(X) for b in X[:i]]
    free, set_ = RandomFeatures.draw(X, 6), RandomFeatures.draw(X, 6, float(np.median(apart)))
    np.testing.assert_allclose(free.frequencies, set_.frequencies, rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "options", "error"),
    [
        (np.ones((5, 2)), {}, DataError),
        (rows(), {"width": 0.0}, InvalidInput),
        (rows(), {"width": float("nan")}, InvalidInput),
        (np.array([[np.nan]]), {}, InvalidInput),
    ],
)
def test_rows_and_widths_that_make_no_map_are_refused(X, options, error):
    with pytest.raises(error):
        RandomFeatures.draw(X, 4, **options)
    with pytest.raises(DataError, match="columns"):
        RandomFeatures.draw(rows(), 4).apply(np.ones((1, 9)))


def circle(n, seed):
    """Inside or outside of a circle: no line parts them."""
    X = np.random.default_rng(seed).uniform(-1.5, 1.5, (n, 2))
    return X, np.where(np.square(X).sum(axis=1) < 1.0, 1.0, -1.0)


def test_what_no_line_parts_a_consortium_learns_with_waves():
    N, n, D = 3, 4_000, 40
    waves = RandomFeatures.draw(circle(500, 0)[0], D, seed=1)
    agreed = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": N, "answers": 1, "step": 1.0, "mechanism": "objective"},
            "model": {"loss": "logistic", "regularization": 1e-3, "theta_max": 1e3, "gradient_bound": waves.longest},
            "data": {"feature_bound": waves.longest},
            "owner": [{"name": f"O{i}", "records": n, "epsilon": 5.0} for i in range(N)],
        }
    )

    def errs(mapped):
        own = [(mapped(X), y) for X, y in (circle(n, 10 + i) for i in range(N))]
        θ = copriv.simulate(Problem.of(agreed, own), runs=5, alone=False).theta
        X, y = circle(4_000, 99)
        return float(np.mean(np.sign(mapped(X) @ θ.T) != y[:, None]))

    assert errs(lambda X: np.column_stack([X, np.ones(len(X))])) > 0.25  # a line, with an intercept
    assert errs(waves.apply) < 0.12


TERMS = {
    "agreement": {"rule": "A2", "horizon": 50, "step": 0.1},
    "model": {"loss": "squared", "regularization": 1e-4, "gradient_bound": "proved"},
    "data": {"dataset": "lending-embedded", "components": 4, "fourier_features": 16, "public_rows": 500},
    "owner": [{"name": "Alpha", "records": 300, "epsilon": 1.0}, {"name": "Beta", "records": 200, "epsilon": 1.0}],
}


def test_an_agreement_makes_waves_of_its_data_and_the_proved_bound_follows():
    problem = Problem.load(Agreement.of(TERMS))
    assert problem.n_parameters == 16
    assert problem.feature_bound <= np.sqrt(32) * (1 + 1e-12)
    longest = max(np.abs(records.features).sum(axis=1).max() for records in problem.owners)
    assert longest <= np.sqrt(32) * (1 + 1e-12)
    public = Problem.load_public(Agreement.of(TERMS))
    np.testing.assert_array_equal(public.owners[0].features, problem.public.features)


def test_waves_of_the_columns_themselves_need_no_components():
    agreed = Agreement.of({**TERMS, "data": {**TERMS["data"], "components": 0}})
    assert Problem.load(agreed).n_parameters == 16
    assert "fourier_features = 16" in agreed.to_toml()


def test_without_waves_no_fingerprint_changes():
    plain = Agreement.of({**TERMS, "data": {"dataset": "lending-embedded"}})
    assert not [key for key in plain.to_dict()["data"] if key.startswith("fourier")]


def test_arrays_are_taken_as_they_are_and_said_so():
    own = [(rows(300), rows(300)[:, 0]), (rows(200), rows(200)[:, 0])]
    given_ = Agreement.of({**TERMS, "data": {"fourier_features": 16}})
    with pytest.raises(DataError, match="map them first"):
        Problem.of(given_, own, own[0])
    with pytest.raises(AgreementError, match="width without waves"):
        Agreement.of({**TERMS, "data": {"fourier_width": 1.0}})


def test_over_the_network_waves_travel_in_the_dictionary(tmp_path):
    agreed = make_consortium(Agreement.of(TERMS), tmp_path).agreement
    dictionary = load_dictionary(agreed, tmp_path / "agreement.toml")
    assert n_parameters(agreed, dictionary) == 16
    assert agreed.data.feature_bound <= np.sqrt(32) * (1 + 1e-12)
    without = agreed.replace(data={"fourier_features": 5})
    with pytest.raises(AgreementError, match="5 agreed, the dictionary has 16"):
        load_dictionary(without, tmp_path / "agreement.toml")


def test_load_consortium_takes_waves():
    made = load_consortium("lending-embedded", [50], components=3, public_rows=200, fourier_features=7)
    assert made.feature_names == tuple(f"wave{k}" for k in range(1, 8))
