"""Do the first calls of a function have their types checked in every test, and only those?"""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

import runtime_types
from copriv.mechanisms.objective_solver import counted_for


@pytest.mark.parametrize("a_test", ["one", "the next"])
def test_a_wrong_type_is_seen_in_every_test(a_test: str) -> None:
    with pytest.raises(TypeCheckError):
        counted_for(np.ones((2, 2)), 1.0)


def test_the_first_calls_are_checked_and_the_others_trusted_until_a_test_begins() -> None:
    for _ in range(runtime_types.CALLS):
        counted_for(np.ones(2), 1.0)
    for _ in range(2):
        assert counted_for(np.ones((2, 2)), 1.0).shape == (2, 2)
    runtime_types.again()
    with pytest.raises(TypeCheckError):
        counted_for(np.ones((2, 2)), 1.0)
