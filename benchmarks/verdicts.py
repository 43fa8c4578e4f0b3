"""How often verdicts are right: `python -m benchmarks.verdicts [--consortia 20] [--seed 1]`.

Random consortia whose populations are known (simulated): owners alike, of unlike level, of unlike slopes, of unlike sizes.
Each is forecast from 60 public rows an owner, once as they come and once with their owner named, and every owner's verdict on
its own records is held against what 5,000 fresh rows of its population say of the models that it would have: its own and the
public one, the common one of simulated runs and that one personalized.
"""

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

import copriv
from copriv.errors import CoprivError
from copriv.problem.personalization import personalized
from copriv.types import Array

FRESH = 5_000
RUNS = 8
WORTHWHILE = 0.005
SURE = 1.645
"""Standard errors by which a measured gain differs from what is worthwhile, to count as known."""
KINDS = ("alike", "unlike levels", "unlike slopes", "unlike levels and slopes", "unlike sizes")


@dataclass(frozen=True)
class Consortium:
    """Owners' rows and fresh ones of their populations, public rows, and whose these are."""

    kind: str
    epsilon: float
    train: list[tuple[Array, Array]]
    fresh: list[tuple[Array, Array]]
    public: tuple[Array, Array]
    strata: list[str]

    @classmethod
    def drawn(cls, seed: int) -> "Consortium":
        """The consortium of a seed."""
        rng = np.random.default_rng([seed, 26])
        kind, p, N = KINDS[seed % len(KINDS)], int(rng.integers(3, 11)), int(rng.integers(3, 9))
        most = np.full(N, 10 ** rng.uniform(2.5, 4))
        records = (most * (10 ** rng.uniform(-1.3, 0, N) if kind == "unlike sizes" else 1.0)).astype(int) + 100
        common, spread = rng.normal(size=p) / np.sqrt(p), 10 ** rng.uniform(-1.0, 0.3)
        level = spread * rng.normal(size=N) * ("levels" in kind or "sizes" in kind)
        slopes = spread * rng.normal(size=(N, p)) / np.sqrt(p) * ("slopes" in kind)
        noise = 10 ** rng.uniform(-0.5, 0.2)

        def rows(i: int, n: int) -> tuple[Array, Array]:
            x = rng.uniform(-1, 1, (n, p))
            return x, level[i] + x @ (common + slopes[i]) + noise * rng.normal(size=n)

        train, fresh, public = ([rows(i, n) for i, n in enumerate(sizes)] for sizes in (records, [FRESH] * N, [60] * N))
        together = tuple(np.concatenate(part) for part in zip(*public, strict=True))
        strata = [f"owner {i}" for i in range(N) for _ in range(60)]
        return cls(kind, float(rng.choice([0.3, 1.0, 10.0])), train, fresh, together, strata)  # type: ignore[arg-type]

    @property
    def agreement(self) -> copriv.Agreement:
        """Sizes and budgets; everything else is planned."""
        return copriv.Agreement.of(
            {
                "agreement": {"rule": "auto", "horizon": 1000},
                "model": {"loss": "squared", "regularization": 1e-5, "intercept": True},
                "owner": [
                    {"name": f"owner {i}", "records": len(y), "epsilon": self.epsilon}
                    for i, (_, y) in enumerate(self.train)
                ],
            }
        )


def measured(one: Consortium, agreement: copriv.Agreement) -> Float[Array, "owners 2"]:
    """Each owner's gain on its own fresh rows, and its standard error."""
    common = copriv.simulate(agreement, one.train, public=one.public, runs=RUNS, seed=1, alone=False).theta
    public = _fit(*one.public)
    found = []
    for rows, (x, y) in zip(one.train, one.fresh, strict=True):
        x1 = np.column_stack([x, np.ones(len(y))])

        def errors(models: Any, x1: Array = x1, y: Array = y) -> Array:
            return np.asarray(np.mean([(x1 @ θ - y) ** 2 for θ in models], axis=0))

        home = [personalized(agreement, θ, rows, public=one.public).theta for θ in common[:3]]
        without = min((errors([model]) for model in (_fit(*rows), public)), key=np.mean)
        joined = min((errors(models) for models in (common, home)), key=np.mean)
        saved = without - joined
        found.append((saved.mean() / without.mean(), saved.std() / np.sqrt(len(y)) / without.mean()))
    return np.array(found)


def _fit(x: Array, y: Array) -> Array:
    return np.asarray(np.linalg.lstsq(np.column_stack([x, np.ones(len(y))]), y, rcond=None)[0])


def rows(seed: int) -> list[dict[str, Any]]:
    """One row an owner, with what was said with and without strata, and what was measured under each plan."""
    one, made = Consortium.drawn(seed), []
    for known in ("nothing", "strata"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                told = copriv.forecast(one.agreement, one.public, strata=one.strata if known == "strata" else None)
            except CoprivError as error:
                made.append({"seed": seed, "known": known, "refused": str(error)})
                continue
            gains = measured(one, told.recommended.agreement)
        for owner, (gain, error) in zip(told.owners, gains, strict=True):
            made.append(
                {
                    "seed": seed, "kind": one.kind, "epsilon": one.epsilon, "known": known, "records": owner.records,
                    "said": owner.on_own.answer, "probability": owner.on_own.probability, "forecast": owner.on_own.gain,
                    "gain": gain, "error": error, "pays": bool(gain >= WORTHWHILE),
                    "sure": bool(abs(gain - WORTHWHILE) > SURE * error),
                }
            )  # fmt: skip
    return made


def summary(all_rows: list[dict[str, Any]]) -> str:
    """A table: of all owners and of those whose fresh rows are sure, how often verdicts and forced choices are right."""
    lines = [
        "| known | owners | open | yes or no is right | of the sure ones | forced choice | said with 90 % or more | right |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for known in ("nothing", "strata"):
        of = [r for r in all_rows if r["known"] == known and "refused" not in r]
        said = [r for r in of if r["said"] != "open"]
        bold = [r for r in said if max(r["probability"], 1 - r["probability"]) >= 0.9]
        share = [
            _share([(r["said"] == "yes") == r["pays"] for r in said]),
            _share([(r["said"] == "yes") == r["pays"] for r in said if r["sure"]]),
            _share([(r["probability"] > 0.5) == r["pays"] for r in of]),
            str(len(bold)), _share([(r["said"] == "yes") == r["pays"] for r in bold]),
        ]  # fmt: skip
        lines.append(f"| {known} | {len(of)} | {_share([r['said'] == 'open' for r in of])} | {' | '.join(share)} |")
    return "\n".join(lines)


def _share(hits: list[bool]) -> str:
    return f"{100 * np.mean(hits):.0f} % of {len(hits)}" if hits else "none"


def main() -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consortia", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first consortium")
    given = parser.parse_args()
    found: list[dict[str, Any]] = []
    for seed in range(given.seed, given.seed + given.consortia):
        found += rows(seed)
        print(seed, summary(found).splitlines()[-2:], flush=True)
    for row in found:
        if "refused" not in row and row["said"] != "open" and (row["said"] == "yes") != row["pays"]:
            print(
                {
                    k: row[k]
                    for k in ("seed", "kind", "epsilon", "known", "records", "said", "probability", "gain", "error")
                }
            )
    print(summary(found))


if __name__ == "__main__":
    main()
