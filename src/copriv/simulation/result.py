"""Results of a simulation: ψ of every run at the recorded iterations, and each owner's answers and own model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement.agreement import WORTHWHILE
from copriv.errors import InvalidInput
from copriv.formatting.cards import Columns, Drawn, Framed, Shown, Written, columns_of, in_words
from copriv.formatting.numbers import mapping
from copriv.problem.verdict import Asked, Goal, OwnerVerdict, Verdict, verdict_of
from copriv.simulation.own_records import OwnOutcome
from copriv.types import Array

NOT_PRIVATE = (
    "not private: the gradient bound is assumed and nothing enforces it (gradient_bound_assumed = true); "
    "for reproducing published figures only"
)

NOT_FOR_RELEASE = (
    "simulated: these numbers are computed from the records themselves, with noise from a seed that can be drawn again. "
    "They are not private, and not for release outside those who may see the records"
)
"""Warning of every simulation: ψ, `alone` and `clipped` are exact statistics of the records."""


@dataclass(frozen=True)
class OwnerOutcome(Shown):
    """One owner: the most answers in any run, its noise scale, and ψ of its own non-private model (`alone`).

    >>> north = result.owners[0]
    >>> north.name, north.records, north.answers
    ('north', 1000, 3)
    """

    name: str
    records: int
    epsilon: float
    answers: int
    noise_scale: float
    alone: float | None
    own: OwnOutcome | None = None
    """Each model on the owner's own held-out records; None where these were not judged."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON contract, without the verdict."""
        document = dict(vars(self))
        if self.own is None:
            del document["own"]
        else:
            document["own"] = {key: value for key, value in vars(self.own).items() if key != "verdict"}
        return document


@dataclass(frozen=True, eq=False)
class RelativeFitness(Shown, Framed):
    """ψ of the model after k queries (A1, A2) or in round k (S1, S2: k = 1 is the start), over runs.

    >>> ψ = result.relative_fitness
    >>> ψ.k.tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> ψ.runs.shape
    (5, 10)
    >>> ψ.final["p25"] <= ψ.final["median"] <= ψ.final["p75"]
    True
    """

    _teller: ClassVar[str] = "copriv.display.simulation:fitness_card"

    k: Int[np.ndarray, " recorded"]
    runs: Float[Array, "runs recorded"]

    @property
    def mean(self) -> Float[Array, " recorded"]:
        """Mean over runs."""
        return np.asarray(self.runs.mean(axis=0))

    @property
    def median(self) -> Float[Array, " recorded"]:
        """Median over runs."""
        return self.quantile(0.5)

    @property
    def final(self) -> dict[str, float]:
        """25 %, 50 % and 75 % of runs at the end, and the mean."""
        return _summary(self.runs[:, -1])

    def quantile(self, probability: float) -> Float[Array, " recorded"]:
        """Quantile over runs."""
        return np.asarray(np.quantile(self.runs, probability, axis=0))

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return {"series": self._series}

    def _series(self) -> Columns:
        p25, median, p75 = (self.quantile(q) for q in (0.25, 0.5, 0.75))
        return {"k": self.k, "p25": p25, "median": median, "p75": p75, "mean": self.mean}


@dataclass(frozen=True, eq=False)
class GraphOutcome:
    """Models of the owners of a graph at the end of every run."""

    models: Float[Array, "runs owners p"]
    relative_fitness: Float[Array, "runs owners"]
    """ψ of each owner's model."""
    of_mean: Float[Array, " runs"]
    """ψ of the mean of the owners' models, which nobody has."""
    spectral_gap: float
    """The least share of the owners' disagreement that the exchanges of a round remove."""

    def merge(self, others: "Sequence[GraphOutcome]") -> "GraphOutcome":
        """These runs followed by those of `others`."""
        every = (self, *others)
        models, psi, of_mean = (
            np.concatenate([getattr(one, name) for one in every]) for name in ("models", "relative_fitness", "of_mean")
        )
        return GraphOutcome(models, psi, of_mean, self.spectral_gap)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON contract."""
        return {"spectral_gap": self.spectral_gap, "mean_model": _summary(self.of_mean)}


def from_noise(ψ: Float[Array, "*worlds runs"], of_mean: Float[Array, "*worlds"]) -> float | None:
    """The part of E ψ by which runs on the same records differ: noise, and whose turn it is. None for a single run.

    ψ: at the end of every run, by world. of_mean: ψ of the mean of the runs' models, by world.

    For the squared loss f(θ) − f(mean) has a mean of ½ tr(A Cov θ), and the mean of R runs takes 1/R of it away; for others
    this is its first term. The rest of E ψ is of the bounds, the step and the number of answers, at any noise that leaves
    the mean model where it is.
    """
    runs = ψ.shape[-1]
    if runs < 2:
        return None
    return max(float(np.mean(ψ.mean(axis=-1) - of_mean) * runs / (runs - 1)), 0.0)


def share_of(noise: float | None, cost: float) -> float | None:
    """Share of a cost that is due to noise, at most 1: both are estimates."""
    return None if noise is None else min(noise / max(cost, 1e-300), 1.0)


def _summary(psi: Float[Array, " runs"]) -> dict[str, float]:
    p25, median, p75 = np.quantile(psi, (0.25, 0.5, 0.75)).tolist()
    return {"p25": p25, "median": median, "p75": p75, "mean": float(psi.mean())}


@dataclass(frozen=True, eq=False)
class Simulation(Shown, Framed, Drawn, Written):
    """Result of `simulate`: ψ and θ of every run, each owner's results, and the description of the records.

    >>> result.runs, result.private
    (5, False)
    >>> tuple(owner.name for owner in result.owners)
    ('north', 'south', 'west')
    >>> list(result.to_frame().columns)
    ['k', 'p25', 'median', 'p75', 'mean']
    >>> figure = result.plot()  # figure.savefig("psi.png") keeps it
    """

    _teller: ClassVar[str] = "copriv.display.simulation:card"
    _pictures: ClassVar[Mapping[str, str]] = {"psi": "copriv.pictures.simulation:psi_against_k"}

    rule: str
    horizon: int
    seed: int
    dataset: str
    source: str
    description: str
    seconds: float
    relative_fitness: RelativeFitness
    theta: Float[Array, "runs p"]
    owners: tuple[OwnerOutcome, ...]
    bound_enforced: bool
    """Whether owners would answer under these terms: the gradient bound is enforced, not assumed."""
    clipped: float
    """Share of the records asked that were clipped, over all queries and runs."""
    schedule: Sequence[Any] = ()
    """The events of the first run: (time, owner index)."""
    durations: Float[Array, " runs"] | None = None
    """Time of each run's last answer, in ticks of a clock of rate 1; None where owners do not answer by clocks."""
    held_out: Float[Array, " runs"] | None = None
    """ψ of the last θ on records that no owner trained on, where some were held out."""
    goal: Goal = "own"
    """Records that the verdict is about, as agreed: each owner's own, or everybody's."""
    worthwhile: float = WORTHWHILE
    """The least relative fall of the prediction error for which joining pays, as agreed."""
    measured_in: str = "mean loss"
    """Name of the error on owners' own records, with its unit."""
    public_only: float | None = None
    """ψ of the public rows' own model; None where there is none."""
    from_noise: float | None = None
    """Part of the mean ψ at the end that is due to noise; the rest is left by bounds, step and answers. None for one run, and
    where owners on a graph have models of their own."""
    graph: "GraphOutcome | None" = None
    """Owners' models, where each has its own (`agreement.graph`): ψ is then the mean of theirs, and θ their mean."""

    @property
    def private(self) -> bool:
        """False: what a simulation says is computed from the records themselves. See NOT_FOR_RELEASE."""
        return False

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that every output must show."""
        return (NOT_FOR_RELEASE, NOT_PRIVATE)[: 2 - self.bound_enforced]

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.theta)

    @property
    def noise_share(self) -> float | None:
        """Share of the mean ψ at the end that is due to noise; None where that is not known."""
        return share_of(self.from_noise, self.relative_fitness.final["mean"])

    @property
    def better_together(self) -> list[str]:
        """The owners whose own model is worse than the median model trained together."""
        together = self.relative_fitness.final["median"]
        return [owner.name for owner in self.owners if owner.alone is not None and owner.alone > together]

    @property
    def joining(self) -> Verdict:
        """For whom joining pays, of the owners that were judged."""
        verdict = {"own": self.on_own, "common": self.on_all}[self.goal]
        found = {owner.name: verdict(owner) for owner in self.owners}
        return Verdict(self.goal, {name: one for name, one in found.items() if one is not None})

    def on_own(self, owner: OwnerOutcome) -> OwnerVerdict | None:
        """Whether joining pays on the owner's own held-out records; None where they were not judged."""
        return None if owner.own is None else owner.own.verdict

    def on_all(self, owner: OwnerOutcome) -> OwnerVerdict | None:
        """Whether joining pays on everybody's records; None where the owner's own model was not fitted."""
        if owner.alone is None:
            return None
        without = min(psi for psi in (owner.alone, self.public_only) if psi is not None)
        ψ = self.relative_fitness.runs[:, -1]
        if self.graph is not None:
            ψ = self.graph.relative_fitness[:, [one.name for one in self.owners].index(owner.name)]
        return verdict_of(np.full_like(ψ, without), {"common": ψ}, Asked.of("common", self.worthwhile))

    verdict = in_words(
        "copriv.display.verdict:of_simulation",
        "A few sentences: for whom joining pays on the records that the agreement's goal names, and by how much.",
    )

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        names = ("name", "records", "epsilon", "answers", "noise_scale", "alone")
        return {"series": self.relative_fitness._series, "owners": lambda: columns_of(self.owners, names)}

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract `copriv.simulation/1`, with additions."""
        ψ = self.relative_fitness
        document: dict[str, Any] = {
            "schema": "copriv.simulation/1",
            "rule": self.rule,
            "horizon": self.horizon,
            "runs": self.runs,
            "seed": self.seed,
            "dataset": self.dataset,
            "records": sum(owner.records for owner in self.owners),
            "seconds": round(self.seconds, 3),
            "relative_fitness": {
                **{name: np.asarray(values).tolist() for name, values in ψ._series().items()},
                "final": ψ.final,
            },
            "owners": self._owners(),
            "source": self.source,
            "description": self.description,
            "private": self.private,
            "simulated": True,
            "for_release": False,
            "bound_enforced": self.bound_enforced,
            "warning": "; ".join(self.warnings),
            "clipped": self.clipped,
            "from_noise": self.from_noise,
            "goal": self.goal,
            "worthwhile": self.worthwhile,
            "verdict": self.verdict,
            "public_only": self.public_only,
        }
        if self.graph is not None:
            document["graph"] = self.graph.to_dict()
        if self.held_out is not None:
            document["held_out"] = {
                "median": float(np.median(self.held_out)),
                "mean": float(self.held_out.mean()),
            }
        if self.durations is not None:
            document["duration"] = float(self.durations.mean())
        return document

    def _owners(self) -> list[dict[str, Any]]:
        """Return the fields of each owner in the JSON contract."""
        made = []
        for owner in self.owners:
            verdicts = {"own": self.on_own(owner), "common": self.on_all(owner)}
            found = mapping(verdicts[self.goal]) or {}
            verdict = {"verdict": found.get("answer"), "probability": found.get("probability")}
            by_records = {"on_own": mapping(verdicts["own"]), "on_all": mapping(verdicts["common"])}
            made.append(owner.to_dict() | verdict | by_records)
        if self.graph is not None:
            for owner_document, psi in zip(made, self.graph.relative_fitness.T, strict=True):
                owner_document["model"] = _summary(psi)
        return made

    def merge(self, others: "Sequence[Simulation]") -> "Simulation":
        """This simulation's runs followed by those of `others`, of the same agreement: batches made whole again."""
        every = [self, *others]
        if any(not np.array_equal(one.relative_fitness.k, self.relative_fitness.k) for one in others):
            raise InvalidInput("merge: the simulations recorded different iterations")
        held = [one.held_out for one in every if one.held_out is not None]
        owners = tuple(
            replace(mine, answers=max(o.answers for o in same))
            for mine, same in zip(self.owners, zip(*(one.owners for one in every), strict=True), strict=True)
        )
        ψ = np.concatenate([one.relative_fitness.runs for one in every])
        graphs = [one.graph for one in every if one.graph is not None]
        from_noise, noisy = None, [(one.from_noise, one.runs - 1) for one in every if one.from_noise is not None]
        if noisy:
            from_noise = sum(one * degrees for one, degrees in noisy) / sum(degrees for _, degrees in noisy)
        return replace(
            self,
            seconds=sum(one.seconds for one in every),
            relative_fitness=RelativeFitness(self.relative_fitness.k, ψ),
            theta=np.concatenate([one.theta for one in every]),
            clipped=float(np.average([one.clipped for one in every], weights=[one.runs for one in every])),
            owners=owners,
            from_noise=from_noise,
            graph=graphs[0].merge(graphs[1:]) if graphs else None,
            held_out=np.concatenate(held) if held else None,
            durations=None if self.durations is None else np.concatenate([one.durations for one in every]),
        )
