"""What a run over the network did, as a schedule and noise for a simulation: the answers minus the clean gradients."""

from pathlib import Path
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.losses import Squared
from copriv.network.store import RunStore
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.schedules import Replay
from network_parties import records


def replayed(agreed: Agreement, path: Path, held: Any = None) -> tuple[Any, Replay, Any]:
    """(data, schedule, noise) for `simulate`.

    Where several owners were at work at once (A2), an answer may be at an older θ than the rule's own. No simulation
    does that; how the gradient differs between the two points goes into the noise with which it is fed.
    """
    held = held or [records(i) for i in range(agreed.n_owners)]
    store = RunStore.resume(path, agreed)
    try:
        turns = {line.data["turn"]: line.numbers for line in store.events("asked")}
        turn_of = {line.data["identity"]: line.data["turn"] for line in store.events("query")}
        given = {(turn_of[a.data["identity"]], a.data["owner"]): a.numbers for a in store.events("answer")}
        steps = [event.data for event in store.events("stepped")]
    finally:
        store.close()
    names, bound = agreed.owner_names, agreed.gradient_bound
    asked_at = [turns[step["turn"]] for step in steps]
    # In rounds (a window of everybody) an answer is always at the rule's own θ.
    in_flight = agreed.agreement.rule == "A2" and agreed.agreement.window == 1
    current = _points(agreed, steps, given) if in_flight else asked_at

    draws = []
    for step, θ in zip(steps, current, strict=True):
        w = []
        for name in step["owners"]:
            i = names.index(name)
            terms = agreed.owner[i]
            b = agreed.mechanism.scale(agreed, terms)
            clean = clipped_mean_gradient(Squared(), held[i], θ, bound, agreed.mechanism.order(agreed))
            w.append((given[step["turn"], name] - clean) / b)
        draws.append(np.array(w)[None])
    schedule = Replay([(float(k), step["participant"]) for k, step in enumerate(steps)])
    return [(r.features, r.target) for r in held], schedule, lambda k: draws[k]


def assert_same_model(model: Any, expected: Any, within: float = 1e-11) -> None:
    """Two models differ by at most a share `within` of the length of `expected`.

    Noise is unseeded here, so that a coefficient may be near 0 by chance; alone, it would be compared with nothing.
    """
    θ, other = np.asarray(model, dtype=float), np.asarray(expected, dtype=float)
    assert θ.shape == other.shape
    assert np.linalg.norm(θ - other) <= within * np.linalg.norm(other), f"{θ} is not {other}"


def _points(agreed: Agreement, steps: list[dict[str, Any]], given: dict[tuple[int, str], Any]) -> list[Any]:
    """Where A2 itself stood when each answer came: a second writing of the rule, by its formula."""
    p = next(iter(given.values())).shape[0]
    θ, memory, points = np.zeros(p), dict[str, Any](), []
    weights = dict(zip(agreed.owner_names, agreed.weights, strict=True))
    for k, step in enumerate(steps, start=1):
        points.append(θ)
        (name,) = step["owners"]
        memory[name] = given[step["turn"], name]
        total = sum(weights[j] for j in memory)
        G = sum(weights[j] / total * a for j, a in memory.items())
        α = agreed.step / (1 + k / agreed.n_owners)
        θ = np.clip(θ - α * (agreed.model.regularization * θ + G), -agreed.model.theta_max, agreed.model.theta_max)
    return points
