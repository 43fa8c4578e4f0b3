"""Stand-in for a public sample where no rows are public: tables that the declared columns allow.

Worlds are drawn each from a table of its own (`copriv.data.declared_tables`), so that bands are as wide as what is not known.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.agreement.data_terms import schema_of
from copriv.data.declared_tables import DeclaredTables, NoisyShares
from copriv.errors import NotCertified
from copriv.mechanisms.lengths import BINS, EDGES, Histograms, Measured, noise_on_mean, target_range
from copriv.model.records import Records
from copriv.populations.public_sample import PublicSample, nothing_left
from copriv.populations.world import World, curvature_of, in_every_place
from copriv.privacy.noise import Law
from copriv.privacy.simulated_noise import draws
from copriv.problem import Problem
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class DeclaredSample(PublicSample):
    """A typical table in the public sample's place; the law of all tables for worlds."""

    share: float = 0.0
    """Share of every ε that a pilot of lengths (`copriv.mechanisms.lengths`) takes before the run."""
    measured: Measured | None = None
    """Result of that pilot; None before it."""

    @property
    def declared(self) -> bool:
        return True

    @property
    def awaits_pilot(self) -> bool:
        """Whether a pilot is agreed, and has not been asked yet."""
        return self.share > 0 and self.measured is None

    def for_nothing(self, world: World) -> float:
        """ψ of the best constant, or of a model of 0 where there is no intercept."""
        best, pool = np.zeros(self.problem.n_parameters), world.pool
        if pool.terms.model.intercept:
            r = pool.unbounded[0]
            constant = Records(np.ones((len(r), 1)), r.target, r.weight)
            with suppress(NotCertified):
                best[-1] = pool.fitness_of(constant).minimum(np.zeros(1), 1e-5).theta[0]
        return float(world.on_all(best))

    def hessian_in(self, world: World) -> Float[Array, "p p"]:
        return curvature_of(world.pool.fitness, world.pool.optimum.theta)

    def answered(self, world: World, rng: np.random.Generator) -> Measured:
        """Simulate the result of a pilot in a world."""
        terms, rows = self.problem.terms, world.pool.unbounded[0]
        asked = replace(Histograms.of_run(terms, rows.n_parameters), intercept=False)
        scale = noise_on_mean(terms, self.share / (1.0 - self.share))
        exact = asked.of(world.pool.loss, rows, np.zeros(0))
        # Of one owner's noise; that of many together is closer to normal.
        return Measured.of(exact + scale * draws(rng, Law.LAPLACE, len(exact)), scale, terms.model.intercept)

    @cached_property
    def tables(self) -> DeclaredTables:
        """The law of tables."""
        schema, known = schema_of(self.problem.terms, None), self.measured
        assert schema is not None
        if known is None:
            return DeclaredTables(schema)
        middle, half = target_range(self.problem.terms)
        found = known.noisy[:BINS], known.noisy[BINS:], middle + half * EDGES
        return DeclaredTables(schema, measured=NoisyShares(*found, np.sqrt(2.0) * known.noise))

    def _draw(self, seed: tuple[int, ...]) -> World | None:
        n, p = int(self.problem.terms.records.sum()), self.problem.n_parameters
        rows = min(max(2000, 10 * p), n)
        table = self.tables.draw(np.random.default_rng(seed), rows)
        pool = in_every_place(self.problem, replace(table, weight=np.full(rows, n / rows)))
        with suppress(NotCertified):
            if (optimum := pool.fitness.minimum(np.zeros(p))).value > nothing_left(pool):
                return World(replace(pool, known_optimum=optimum), seed)
        return None


def sample_of(problem: Problem, share: float = 0.0) -> PublicSample:
    """Public sample of a problem or, without public rows, its stand-in from declared columns.

    share: share of every ε that a pilot takes before the run.
    """
    if problem.terms.data.declared_only:
        return DeclaredSample(problem.on_public(), share=share)
    return PublicSample.of(problem)
