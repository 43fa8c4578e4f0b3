"""What the tests of results share: small terms and rows, and names that nobody should have."""

import dataclasses

import numpy as np

HOSTILE = '<script>alert("x")</script> & $\\frac{1}{2}$ _%\x1b[31m'
LONG = "Wholesale Mutual Bank of Greater Westmoreland and the Whole of the Western Isles, Incorporated"
WIDE = "W" * 96

TERMS = {
    "agreement": {
        "name": "two", "rule": "A2", "horizon": 60, "answers": 3, "step": 8.0, "seed": 7,
        "communication": "synchronous",
    },
    "model": {"loss": "squared", "regularization": 1e-3, "gradient_bound": 3.0},
    "data": {"heterogeneity": 0.0},
    "owner": [{"name": "small", "records": 300, "epsilon": 1.0}, {"name": "large", "records": 3000, "epsilon": 1.0}],
}  # fmt: skip


def rows(n, seed=0):
    """Made-up rows of three features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3)) / 3
    return X, X @ np.array([1.0, -0.5, 0.2]) + 0.1 * rng.normal(size=n)


def called(result, name, field="owners"):
    """The result, its owners being called something."""
    owners = [dataclasses.replace(owner, name=f"{name} {i}") for i, owner in enumerate(getattr(result, field))]
    return dataclasses.replace(result, **{field: tuple(owners)})
