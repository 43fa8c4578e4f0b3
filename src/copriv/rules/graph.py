"""Every owner a learner, on a graph: each has a model of its own and exchanges vectors with its neighbours alone.

In round k owner i answers at its own model and with its own noise, h_i = N w_i Q̄_i(θ_i). With the steps a_k, the regulariser
and the feasible set of rule S1 or S2, and W the Metropolis weights of the graph, to the power of the number of exchanges,

    θ_i[k+1] = Π_Θ[Σ_j W_ij (θ_j[k] − a_k d_j[k])],     d_j = ∇g(θ_j) + h_j.

**Tracking** puts y_j = d_j + u_j in place of d_j, with corrections u_i[k+1] = Σ_j W_ij y_j[k] − d_i[k] that start at 0 and
have the sum 0. Each y_j then follows the mean of all d_i, so that owners with different records do not drift apart. Each
round two vectors go to each neighbour in place of one.

Everything that an owner says is a function of private answers, its own among them, so the ε of m answers is the same
(post-processing). On the complete graph, from equal starts, W_ij = 1/N and all models are those of the central learner.

With `mixing = "auto"` all of this is planned from the graph (`Graph.planned`).

Sources: the mixing before the projection, Chen and Sayed (2012), "Diffusion adaptation strategies"; Metropolis weights, Xiao,
Boyd and Lall (2005); the best constant weights, Xiao and Boyd (2004), "Fast linear iterations"; tracking, Nedić, Olshevsky
and Shi (2017), "Achieving geometric convergence".
"""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from copriv.errors import AgreementError
from copriv.rules.rule import Points, Who
from copriv.rules.synchronous import State, SyncDecay
from copriv.terms import AgreedTerms
from copriv.types import Array

MOST = 500
"""Most owners on a graph, each of which has a model in every run of a simulation."""
MOST_NOISE = 1.05
"""Noise of an answer on a graph whose mixing is planned, or E ψ on it, over that with a central learner, which is near enough:
about the accuracy of a forecast."""
Nodes = np.ndarray[Any, np.dtype[np.bool_]]
Models = Float[Array, "runs owners p"]


@dataclass(frozen=True, eq=False)
class Graph:
    """The owners that exchange vectors with each other, directly or over relays.

    >>> from copriv.rules.graph import Graph
    >>> ring = Graph.of(agreement.replace(agreement={"rule": "S1", "graph": "ring"}))
    >>> ring.adjacent.sum(axis=1), round(ring.spectral_gap, 12)
    (array([2, 2, 2]), 1.0)
    """

    adjacent: Bool[np.ndarray, "owners owners"]
    exchanges: int = 1
    """Number of exchanges between neighbours in each round."""
    edge_weight: float | None = None
    """Weight of every edge; None: Metropolis weights."""

    @classmethod
    def planned(cls, adjacent: Bool[np.ndarray, "owners owners"]) -> "Graph":
        """The graph with weights and a number of exchanges that its spectrum alone decides.

        Weights: Metropolis', or the best constant 2/(λ₂ + λ_N) of the Laplacian's eigenvalues where its spectral gap is larger.
        Exchanges: the fewest r at which the noise of no owner's answer counts more than MOST_NOISE times what it counts in a
        central learner's model, as variances and as a mean over the owners' models: N max_i (W²ʳ)_ii ≤ MOST_NOISE. Noise of
        earlier rounds has been mixed more often and counts less.
        """
        best = cls(adjacent)
        if len(adjacent) > 1:
            laplacian = np.linalg.eigvalsh(np.diag(adjacent.sum(axis=1)) - 1.0 * adjacent)
            constant = cls(adjacent, 1, float(2.0 / (laplacian[1] + laplacian[-1])))
            best = max(best, constant, key=lambda graph: round(graph.spectral_gap, 9))
        sizes, vectors = np.linalg.eigh(best.weights)

        def less_noise(exchanges: int) -> float:
            return -float((np.square(vectors) @ np.abs(sizes) ** (2 * exchanges)).max()) * len(adjacent)

        return replace(best, exchanges=1 + bisect_left(range(1, 10**9), -MOST_NOISE, key=less_noise))

    @classmethod
    def of(cls, agreed: AgreedTerms) -> "Graph":
        """The graph of an agreement. Raises AgreementError, naming the field, for one that owners cannot be on."""
        terms, relays = agreed.agreement, agreed.agreement.relays or ()
        if agreed.n_owners > MOST:
            raise AgreementError(f"agreement.graph: {agreed.n_owners:,} owners; a graph has {MOST} at most")
        nodes = [*relays, *agreed.owner_names]
        place = {name: i for i, name in enumerate(nodes)}
        if len(place) < len(nodes):
            twice = next(name for name in relays if nodes.count(name) > 1)
            raise AgreementError(f"agreement.relays: {twice!r} stands twice; give a relay a name that nobody else has")
        if not isinstance(terms.graph, str):
            links = []
            for one, other in terms.graph or ():
                if one == other:
                    raise AgreementError(f"agreement.graph: an edge from {one!r} to itself; leave it out")
                for name in (one, other):
                    if name not in place:
                        raise AgreementError(
                            f"agreement.graph: {name!r} is no owner; correct the name, or list it in relays where it has no "
                            "records"
                        )
                links.append((place[one], place[other]))
        elif relays and (terms.graph != "star" or len(relays) > 1):
            raise AgreementError(
                "agreement.relays: of the graphs with a name only a star has a relay, its hub; give the edges as pairs of names"
            )
        else:
            links = list(_named(terms.graph, len(nodes), terms.seed))
        adjacent = np.zeros((len(nodes), len(nodes)), dtype=bool)
        for i, j in links:
            adjacent[i, j] = adjacent[j, i] = i != j
        lost = np.flatnonzero(~_reached(adjacent, 0, np.full(len(nodes), True)))
        if len(lost):
            raise AgreementError(
                f"agreement.graph: not connected: no edges lead from {nodes[0]!r} to {nodes[lost[0]]!r}; add some that do"
            )
        between = adjacent[len(relays) :, len(relays) :]
        for relay in range(len(relays)):  # whom relays join are neighbours of each other
            joined = _reached(adjacent, relay, np.arange(len(nodes)) < len(relays))[len(relays) :]
            between = between | np.outer(joined, joined)
        between &= ~np.eye(agreed.n_owners, dtype=bool)
        if terms.mixing == "auto":
            return cls.planned(between)
        return cls(between, terms.mixing or 1)

    @cached_property
    def weights(self) -> Float[Array, "owners owners"]:
        """W to the power of the number of exchanges; Metropolis weights are 1/(1 + max(degree_i, degree_j))."""
        degree = self.adjacent.sum(axis=1)
        W = self.adjacent * (self.edge_weight or 1.0 / (1.0 + np.maximum(degree[:, None], degree)))
        return np.linalg.matrix_power(W + np.diag(1.0 - W.sum(axis=1)), self.exchanges)

    @property
    def spectral_gap(self) -> float:
        """1 − |λ₂(W)|, the least share of the owners' disagreement that the exchanges of a round remove."""
        sizes = np.sort(np.abs(np.linalg.eigvalsh(self.weights)))
        return float(1.0 - sizes[-2]) if len(sizes) > 1 else 1.0


def _named(name: str, nodes: int, seed: int) -> Iterator[tuple[int, int]]:
    """Edges of a graph by its name. A star's hub is the first node, and a random graph is two rings in random orders."""
    every = range(nodes)
    if name == "complete":
        yield from ((i, j) for i in every for j in range(i))
    elif name == "star":
        yield from ((0, j) for j in range(1, nodes))
    elif name == "grid":
        width = math.isqrt(nodes - 1) + 1
        yield from ((i, i + 1) for i in range(nodes - 1) if (i + 1) % width)
        yield from ((i, i + width) for i in range(nodes - width))
    elif name == "ring":
        yield from ((i, i - 1) for i in every)
    else:
        for ring in range(2):  # by a hash, so that the order is the same with every version of a generator
            order = sorted(every, key=lambda i: hashlib.sha256(f"{seed} {ring} {i}".encode()).digest())
            yield from ((order[i], order[i - 1]) for i in every)


def _reached(adjacent: Nodes, start: int, passes: Nodes) -> Nodes:
    """Nodes that edges lead to from `start` by way of nodes that pass messages on."""
    reached: Nodes = np.arange(len(adjacent)) == start
    new = reached
    while new.any():
        new = adjacent[new & passes].any(axis=0) & ~reached
        reached = reached | new
    return reached


@dataclass(eq=False)
class _State:
    central: State
    correction: Models | float


@dataclass(frozen=True, eq=False)
class OnGraph:
    """Decentralised descent by the steps of S1 or S2, with tracking where it is agreed.

    Queries and answers are those of all owners, one after the other: p numbers of each.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, SyncDecay
    >>> from copriv.rules.graph import Graph, OnGraph
    >>> pair = Graph(np.array([[False, True], [True, False]]))
    >>> rule = OnGraph(SyncDecay(PLAIN, 8.0, 4), pair, np.array([0.5, 0.5]))
    >>> state = rule.step(rule.start(np.zeros((1, 1))), np.array([0]), np.array([[1.0, 3.0]]))
    >>> rule.model(state)
    array([[-1.]])
    """

    central: SyncDecay
    """The rule of a learner in the centre, whose steps, regulariser, feasible set and average this one has."""
    graph: Graph
    shares: Float[Array, " owners"]
    """w_i, which add up to 1."""
    tracking: bool = False

    def start(self, theta: Points) -> Any:
        return _State(self.central.start(np.repeat(theta[:, None], len(self.shares), axis=1)), 0.0)

    def query(self, state: Any, participant: Who) -> Float[Array, "runs stacked"]:
        """Each owner's own θ, one after the other."""
        return np.asarray(state.central.theta.reshape(len(participant), -1))

    def step(self, state: Any, participant: Who, answer: Float[Array, "runs stacked"]) -> Any:
        at, u, W = state.central, state.correction, self.graph.weights
        gradient = len(self.shares) * self.shares[:, None] * answer.reshape(at.theta.shape)
        direction = self.central.descent.direction(at.theta, gradient)
        tracked = direction + u
        moved = self.central.descent.feasible_set.project(W @ (at.theta - self.central.size(at.k) * tracked))
        if self.tracking:
            u = W @ tracked - direction
        return _State(State(moved, self.central.average(at), at.k + 1), u)

    def model(self, state: Any) -> Points:
        """Mean of the owners' models."""
        return np.asarray(self.models(state).mean(axis=1))

    def models(self, state: Any) -> Models:
        """Each owner's model."""
        return self.central.model(state.central)
