"""Refusals name the parameters of the estimator, never the keys of the agreement that they become."""

import re

import numpy as np
import pytest

from copriv.estimators import PrivateClassifier, PrivateRegressor

X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
Y = X[:, 0]
NOT_THE_CALLERS = re.compile(r"owner\.|agreement|model\.|data\.|anchor|horizon|mechanism")


def refused(wrong, owners=None, public=None) -> str:
    model = PrivateRegressor(**{"bounds": (-1, 1), "target_bounds": (-1, 1), **wrong})
    with pytest.raises(ValueError) as error:  # noqa: PT011
        model.fit(X, Y, owners=owners, public=public)
    assert model.shared_ledger.spent == 0
    return str(error.value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("with_public", [False, True])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("epsilon", value) for value in (-1.0, 0, float("nan"), float("inf"), 1e300, 1e-300, {"owner": -1.0})],
        *[("delta", value) for value in (-1.0, 1.0, 0.5, 2.0, float("nan"), {"owner": -1.0})],
        *[("regularization", value) for value in (-1.0, float("nan"), float("inf"), 1e300)],
        *[("feature_bound", value) for value in (0, -1.0, float("nan"), 1e300, "x")],
        *[("bounds", value) for value in ((1, 0), (0, float("nan")), 3, "none", {0, 1})],
        *[("target_bounds", value) for value in ((1, 0), (1, 1), 3)],
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_called_as_the_caller_calls_it(name: str, value: object, with_public: bool) -> None:
    said = refused({name: value}, public=(X[:20], Y[:20]) if with_public else None)
    assert said.startswith(name)
    assert not NOT_THE_CALLERS.search(said)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "x", True, 1e300])
def test_a_wrong_row_norm_is_named(value: object) -> None:
    assert refused({"row_norm": value}).startswith("row_norm: must be")


@pytest.mark.parametrize("with_public", [False, True])
@pytest.mark.parametrize(
    "wrong", [{"threshold": 1e-300}, {"threshold": 1e300}, {"threshold": 1e10, "target_bounds": (0, 1e-25)}]
)
def test_a_threshold_out_of_all_proportion_to_the_target_is_told(wrong, with_public: bool) -> None:
    said = refused({"loss": "huber", **wrong}, public=(X[:20], Y[:20]) if with_public else None)
    assert said.startswith("threshold / half the width of target_bounds: must be from")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_plan_that_cannot_be_forecast_names_the_estimators_parameter() -> None:
    said = refused({"loss": "huber", "threshold": 1e-20}, public=(X[:20], Y[:20]))
    assert "set regularization above 0" in said
    assert not NOT_THE_CALLERS.search(said)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 1e-9}, {"loss": "huber", "threshold": 1e-20}, {"regularization": 1e30}],
)
def test_what_no_mechanism_can_do_is_told_with_what_to_change(wrong) -> None:
    said = refused({"fit_intercept": False, **wrong})
    assert "an owner of 50 rows" in said
    assert "raise epsilon" in said
    assert not NOT_THE_CALLERS.search(said)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("drowned", [{"epsilon": 1e-9}, {"regularization": 1e30}])
def test_with_an_intercept_a_constant_is_always_an_answer(drowned) -> None:
    model = PrivateRegressor(bounds=(-1, 1), target_bounds=(-1, 1), **drowned).fit(X, Y)
    assert model.scale_ == 0
    assert abs(model.intercept_) <= 1.0


def test_of_several_owners_the_one_is_named() -> None:
    owners = ["north"] * 25 + ["south"] * 25
    assert refused({"epsilon": {"north": 1.0, "south": -2.0}}, owners).startswith(
        "epsilon of owner 'south': must be from"
    )


def test_a_label_that_is_no_name_is_told_as_one_of_owners() -> None:
    said = refused({}, ["a" * 300] * 50)
    assert said.startswith("owners: ")
    assert not NOT_THE_CALLERS.search(said)


def test_the_classifier_speaks_likewise() -> None:
    for wrong in ({"epsilon": -1.0}, {"delta": 2.0}, {"regularization": -1.0}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: must be from"):
            PrivateClassifier(bounds=(-1, 1), classes=(0, 1), **wrong).fit(X, (Y > 0).astype(int))


@pytest.mark.parametrize("wrong", ["no", 0, None])
def test_an_intercept_is_fitted_or_not(wrong: object) -> None:
    """The text "no" was taken as true."""
    assert "fit_intercept: must be True or False" in refused({"fit_intercept": wrong})
