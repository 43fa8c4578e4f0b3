"""One cell: what was forecast, planned and promised, beside what came of it on the real owners."""

import time
import warnings
from typing import Any

import numpy as np

import copriv
from benchmarks.unlike.peer import Tuned, tuned
from benchmarks.unlike.tables import Owners
from benchmarks.verdicts import gain, judged
from copriv import losses
from copriv.model.records import Records
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import psi
from copriv.problem import Problem
from copriv.problem.personalization import Home, personalized

RUNS = 20
FINALISTS = 12
RESAMPLES = 9


def agreement(owners: Owners, loss: str, epsilon: float, heterogeneity: float | None) -> copriv.Agreement:
    """Nothing but sizes and budgets, and heterogeneity where it is stated."""
    stated = {} if heterogeneity is None else {"heterogeneity": heterogeneity}
    return copriv.Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 1000},
            "model": {"loss": loss, "regularization": 1e-5 if loss == "squared" else 1e-3, "intercept": True},
            "data": stated,
            "owner": [
                {"name": name, "records": len(y), "epsilon": epsilon}
                for name, (_, y) in zip(owners.names, owners.train, strict=True)
            ],
        }
    )


def measure(owners: Owners, loss: str, epsilon: float, known: str, only_verdicts: bool = False) -> dict[str, Any]:
    """known: "nothing", "strata" (public rows say whose they are like) or "alike" (heterogeneity = 0 stated).

    only_verdicts: what owners were told and what came of it, without the plan's finalists and the peer.
    """
    begun = time.perf_counter()
    terms = agreement(owners, loss, epsilon, 0.0 if known == "alike" else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = copriv.forecast(terms, public=owners.public, strata=owners.strata if known == "strata" else None)
    seconds = time.perf_counter() - begun
    ψ, plan = told.recommended.relative_fitness, told.plan
    measured = simulated(plan.agreement, owners, RUNS, alone=True)
    if only_verdicts:
        return {"owners": verdicts(told, measured, owners, loss), "seconds": time.perf_counter() - begun}
    tried = {choice.describe(): choice for choice in plan.measured[:FINALISTS]}
    if plan.caution is not None:
        tried |= {choice.describe(): choice for choice in plan.caution.choices}
    best = min(
        float(simulated(choice.agreement, owners, RUNS, False).relative_fitness.final["median"])
        for choice in tried.values()
    )
    found = float(measured.relative_fitness.final["median"])
    peer = _peer(owners, terms, epsilon)
    return {
        "records": [len(y) for _, y in owners.train],
        "low": float(ψ.low[-1]),
        "median": float(ψ.median[-1]),
        "high": float(ψ.high[-1]),
        "measured": found,
        "in_band": bool(ψ.low[-1] <= found <= ψ.high[-1]),
        "plan": plan.choice.describe(),
        "plan_over_best": found / min(best, found),
        "heterogeneity": told.heterogeneity.value,
        "public_measured": public_only(terms, owners),
        "owners": [
            {**row, "own_peer_loss": float(lost), "own_peer_tuned_loss": float(by_others)}
            for row, lost, by_others in zip(
                verdicts(told, measured, owners, loss), peer.in_hindsight, peer.by_other_rows, strict=True
            )
        ],
        "peer": peer.words,
        "seconds": seconds,
        "seconds_in_all": time.perf_counter() - begun,
    }


def simulated(terms: copriv.Agreement, owners: Owners, runs: int, alone: bool) -> copriv.Simulation:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copriv.simulate(terms, data=owners.train, public=owners.public, runs=runs, seed=1, alone=alone)


def public_only(terms: copriv.Agreement, owners: Owners) -> float:
    """ψ on everybody's records of the model that the public rows give: what needs no other organisation either."""
    return psi(Problem.of(terms, owners.train, owners.public), public_model(terms, owners))


def public_model(terms: copriv.Agreement, owners: Owners) -> Any:
    """The model that the public rows give."""
    told = Problem.forecasting(terms, owners.public)
    return told.feasible_set.project(PublicSample.of(told).optimum.theta)


def _peer(owners: Owners, terms: copriv.Agreement, epsilon: float) -> Tuned:
    """Each owner's loss on its held-out rows under the peer's settings, at the same ε."""
    loss, strength = losses.named(terms.model.loss), terms.model.regularization
    train, test = ([_with_one(*rows) for rows in each] for each in (owners.train, owners.test))
    public = _with_one(*owners.public)
    zero = np.zeros(public.n_parameters)
    start = Home(loss, strength, zero, np.eye(len(zero))).fitted(public, 0.0, zero)
    return tuned(loss, strength, train, test, public, start, epsilon)  # type: ignore[arg-type]


def events(target: Any, loss: str) -> int | None:
    """Of held-out rows of two classes, how many are of the rarer one; None of numbers."""
    return None if loss == "squared" else int(min((target > 0).sum(), (target <= 0).sum()))


def _excess(home: Home, trained: Records, tested: Records, i: int) -> float | None:
    """ψ of models like the owner's own on its own population, were that all rows of its own: the median of resamples.

    None where they are too few for the parameters to stand for a population.
    """
    every = Records.concatenate([trained, tested])
    if len(trained) < 10 * trained.n_parameters:
        return None
    best = home.fitted(every, 0.0, home.centre)
    rng, found = np.random.default_rng([i, 13]), []

    def at(theta: Any) -> float:
        penalty = 0.5 * home.strength * float(theta @ theta)
        return float(home.loss.values(theta, every.features, every.target).mean()) + penalty

    for _ in range(RESAMPLES):
        drawn = rng.integers(len(every), size=len(trained))
        made = home.fitted(Records.of(every.features[drawn], every.target[drawn]), 0.0, best)
        found.append(at(made) / at(best) - 1.0)
    return float(np.median(found))


def _with_one(x: Any, y: Any) -> Records:
    return Records.of(np.column_stack([x, np.ones(len(y))]), y)


def verdicts(told: copriv.Forecast, measured: copriv.Simulation, owners: Owners, loss: str) -> list[dict[str, Any]]:
    """For each owner: both verdicts, and what they are about, on its own held-out rows and on everybody's."""
    lost, terms = losses.named(loss), told.recommended.agreement
    models, public = measured.theta[: min(10, len(measured.theta))], public_model(terms, owners)
    rows = []
    for i, ((x, y), (tx, ty)) in enumerate(zip(owners.train, owners.test, strict=True)):
        said, own = told.owners[i], _with_one(x, y)
        one = np.column_stack([tx, np.ones(len(ty))])
        home = Home(lost, terms.model.regularization, models[0], np.eye(own.n_parameters))
        alone = home.fitted(own, 0.0, models[0])
        with_common = np.mean([lost.values(θ, one, ty) for θ in models], axis=0)
        with_own = lost.values(alone, one, ty)
        common, mine = float(with_common.mean()), float(with_own.mean())
        made = [personalized(terms, θ, (x, y), public=owners.public).theta for θ in models[:3]]
        each = [lost.values(θ, one, ty) for θ in (made[0], alone, models[0])]
        at_home = np.mean([lost.values(θ, one, ty) for θ in made], axis=0)
        finished = personalized(terms, public, (x, y), public=owners.public).theta  # for which nobody has to join
        without = [with_own, lost.values(public, one, ty), lost.values(finished, one, ty)]
        above = each[0] - 1.05 * min(each[1:], key=np.mean)
        rows.append(
            {
                **judged(said, gain(without, [with_common, at_home])),
                "alone": said.alone,
                "alone_low": said.alone_low,
                "alone_high": said.alone_high,
                "alone_measured": float(measured.owners[i].alone),
                "together_measured": float(measured.relative_fitness.final["mean"]),
                "says_all": said.on_all.probability > 0.5,
                "own_alone": said.own.alone,
                "own_alone_measured": _excess(home, own, _with_one(tx, ty), i),
                "own_together": said.own.together,
                "says_own": said.own.joining_pays,
                "says_own_probability": said.own.joining_pays_probability,
                "says_personalize": said.own.personalizing_pays,
                "own_common_loss": common,
                "own_alone_loss": mine,
                "own_events": events(ty, loss),
                # Of 1 − common/alone, from as many held-out rows as there are.
                "own_gain_error": float((with_common - with_own).std() / np.sqrt(len(ty)) / mine),
                "own_personalized_loss": float(each[0].mean()),
                "own_common_first_loss": float(each[2].mean()),
                # Held-out rows are few: by how many standard errors it is above 1.05 of the lower of the two.
                "own_personalized_above": float(above.mean() / max(above.std() / np.sqrt(len(ty)), 1e-300)),
            }
        )
    return rows
