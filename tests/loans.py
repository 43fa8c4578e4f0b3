"""Agreements on the loans inside the package, as their files say them."""

_TERMS = """
[agreement]
name = "test"
rule = "A2"
horizon = 100
answers = 3
step = 4000.0
seed = 7

[model]
loss = "squared"
regularization = 1e-5
gradient_bound = 3.0

[data]
dataset = "lending-embedded"
components = 5
public_rows = 500
"""


def _owner(name: str, records: int, epsilon: float) -> str:
    return f'\n[[owner]]\nname = "{name}"\nrecords = {records}\nepsilon = {epsilon}\n'


LOANS = _TERMS + _owner("a", 1000, 1.0) + _owner("b", 2000, 2.0)
"""A small agreement on real loans."""

ALIKE = _TERMS.replace("= 3.0\n", "= 3.0\ntheta_max = 1e5\n") + _owner("Alpha", 2000, 1.0) + _owner("Beta", 2000, 1.0)
"""Two owners alike, with every key that a table of bad inputs changes."""
