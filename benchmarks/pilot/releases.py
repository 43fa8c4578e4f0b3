"""Own verdicts by a pilot's releases alone, without a plan: the posterior of each owner's deviation,
against what its own records can tell.

An owner's own model costs κ/n_i on its own population, the common one u_i. The forced choice is the common model where u_i is
below κ/n_i in more than half of the draws of the posterior. It is judged on held-out rows, with the best common model in the
place of a run's.
"""

import warnings
from typing import Any

import numpy as np

from benchmarks.unlike.cells import agreement, events
from benchmarks.unlike.judged import EVENTS, TIMES
from benchmarks.unlike.tables import Owners
from copriv import losses
from copriv.forecast.pilot_answers import pilot_terms, told_by
from copriv.populations.owner_posterior import posterior
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation.runs import one_answers

LEAST, SURE = 0.1, 1.645


def measure(cut: Owners, loss: str, epsilon: float, share: float, seed: int) -> dict[str, Any]:
    """Of each owner that is judged: whether the choice was right, its probability, and whether held-out rows are sure."""
    warnings.simplefilter("ignore")
    terms = agreement(cut, loss, epsilon, None).replace(agreement={"pilot": share, "rule": "S1", "answers": 1})
    problem = Problem.of(terms, cut.train, cut.public)
    sample = PublicSample(problem.on_public().under(terms.phases[-1]))
    asked = pilot_terms(sample, terms.phases[0])
    answers = one_answers(problem.under(asked), [np.random.SeedSequence(seed)], asked.noise_scales())
    told = PublicSample(sample.problem, told_by(sample, asked, np.concatenate(answers)))
    deviations = posterior(told, [()] * len(cut.train))[1][:, :-1]
    u = 0.5 * np.sum((deviations @ told.metric) * deviations, axis=2) / told.optimum.value
    own = told.information / np.array(terms.records) / told.optimum.value
    rows = []
    for i, records in enumerate(problem.unbounded):
        found = problem.optimum_of(records, problem.optimum.theta)
        if found is None:
            continue
        gain, error, counted = _gain(problem.optimum.theta, found.theta, cut.test[i], loss)
        chance = float(np.mean(u[:, i] < own[i]))
        alone = float(problem.fitness.value(found.theta)) / problem.optimum.value - 1.0
        said = float(np.median(u[:, i])) + own[i]
        rows.append({
            "judged": abs(gain) > LEAST, "sure": counted and abs(gain) > max(SURE * error, LEAST),
            "right": (chance > 0.5) == (gain > 0), "probability": max(chance, 1.0 - chance),
            "alone": abs(np.log(max(said, 1e-12) / max(alone, 1e-12))) <= np.log(TIMES),
        })  # fmt: skip
    return {"owners": [{key: float(value) for key, value in row.items()} for row in rows]}


def _gain(common: Any, own: Any, held_out: tuple[Any, Any], loss: str) -> tuple[float, float, bool]:
    """1 − common/own by loss on held-out rows, its standard error, and whether there are events enough to count."""
    x, y = held_out
    x, lost = np.column_stack([x, np.ones(len(y))]), losses.named(loss)
    by_common, by_own = lost.value(x @ common, y), lost.value(x @ own, y)
    error = (by_common - by_own).std() / np.sqrt(len(y)) / by_own.mean()
    seen = events(y, loss)
    return float(1.0 - by_common.mean() / by_own.mean()), float(error), seen is None or seen >= EVENTS


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One row for each number of owners, ε and share."""
    out = [
        "| owners | ε | share | sure: right | said | above 10 %: right | alone within 3 times |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    kinds = sorted({(row["owners_asked"], row["epsilon"], row["share"]) for row in rows})
    for kind in kinds:
        some = [o for r in rows if (r["owners_asked"], r["epsilon"], r["share"]) == kind for o in r["owners"]]
        sure, every = ([o for o in some if o[key]] for key in ("sure", "judged"))
        shares = [_share(sure, "right"), f"{np.mean([o['probability'] for o in sure]):.0%}" if sure else ""]
        cells = (f"{kind[0]}", f"{kind[1]:g}", f"{kind[2]:g}", *shares, _share(every, "right"), _share(some, "alone"))
        out.append(f"| {' | '.join(cells)} |")
    return out


def _share(owners: list[dict[str, Any]], key: str) -> str:
    return f"{np.mean([o[key] for o in owners]):.0%} of {len(owners)}" if owners else "none"
