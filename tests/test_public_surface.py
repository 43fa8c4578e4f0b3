"""The names that programs may import from `copriv`, pinned: adding one is a decision, removing one a break."""

import inspect
import subprocess
import sys

import copriv
import copriv.errors

NAMES = {
    "Agreement", "AgreementError", "Answer", "BudgetRefused", "CoprivError", "DataError", "Forecast", "InvalidInput",
    "NotCertified", "Owner", "OwnerOutcome", "Problem", "Query", "QueryRefused", "Records", "RelativeFitness",
    "Simulation", "Unreachable", "UsageError", "__version__", "personalize", "forecast", "own_learners",
    "market", "Market",
    "owner_verdict", "pilot", "simulate",
}  # fmt: skip


def test_exported_names():
    assert set(copriv.__all__) == NAMES
    assert len(copriv.__all__) == len(NAMES)


def test_every_exported_name_is_there_and_documented():
    for name in NAMES - {"__version__"}:
        assert inspect.getdoc(getattr(copriv, name)), name


def test_every_error_is_exported():
    errors = {
        name
        for name, value in vars(copriv.errors).items()
        if isinstance(value, type) and issubclass(value, copriv.CoprivError)
    }
    assert errors <= NAMES


def test_forecast_is_the_function_and_its_package_can_still_be_imported():
    from copriv.forecast import plan
    from copriv.forecast.coalition_value import Consortium

    assert callable(copriv.forecast)
    assert callable(plan)
    assert inspect.isclass(Consortium)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(copriv, "nothing")


def test_importing_copriv_does_not_load_the_noise_sampler():
    code = "import sys, copriv; assert 'opendp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
