"""A finished run's model, without a run: for what is done with one afterwards."""

import numpy as np

from copriv.agreement import Agreement
from copriv.network.model import Model

ROWS = np.random.default_rng(0).uniform(-1, 1, (40, 2))
THETA = np.array([1.5, -0.75])


def model(loss="squared"):
    two_classes = loss in ("logistic", "hinge")
    target = {"classes": {"y": ["no", "yes"]}} if two_classes else {}
    bounds = {"a": [-1, 1], "b": [-1, 1]} | ({} if two_classes else {"y": [-4, 4]})
    agreed = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 4, "answers": 2, "step": 0.3},
            "model": {"loss": loss, "regularization": 0.1, "theta_max": 10.0, "gradient_bound": 2.0},
            "data": {"dataset": "table", "components": 0, "feature_bound": 2.0, "features": ["a", "b"], "target": "y"}
            | {"bounds": bounds}
            | ({"categories": target["classes"]} if two_classes else {}),
            "owner": [{"name": name, "records": 60, "epsilon": 1.0} for name in ("a", "b")],
        }
    )
    owner = {"name": "a", "records": 60, "answers": 2, "most_answers": 2, "lost": 0, "spent": 1.0, "spent_delta": 0.0}
    record = {
        "run": "0123456789",
        "status": "finished",
        "queries": 4,
        "seconds": 1.5,
        "owners": [owner | {"noise_scale": 0.1, "epsilon": 1.0, "delta": 0.0}] * 2,
        "realised": {"public": {"estimate": 0.02, "fitness": 0.3}},
        "forecast": {"relative_fitness": {"mean": 0.03, "low": 0.01, "high": 0.09}},
    }
    return Model(agreed, THETA, None, record)
