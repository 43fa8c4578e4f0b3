"""How often verdicts are right: `python -m benchmarks.verdicts [--consortia 20] [--seed 101] [--few] [--page]`.

Rows are kept in build/verdicts.jsonl: a consortium that is there is not measured again, and `--page` writes them all to
docs/reference/verdicts.md. The method was made on the seeds 1 to 40, which are not for a page.

Random consortia whose populations are known (simulated): owners alike, of unlike level, of unlike slopes, of unlike sizes.
Each is forecast from 60 public rows an owner, once as they come and once with their owner named, and every owner's verdict on
its own records is held against what 5,000 fresh rows of its population say of the models that it would have: its own and the
public one, as it is and personalized, the common one of simulated runs and that one personalized.
"""

import argparse
import json
import warnings
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import copriv
from copriv.errors import CoprivError
from copriv.forecast.owner_forecast import OwnerForecast
from copriv.problem.personalization import personalized
from copriv.types import Array

FRESH = 5_000
RUNS = 8
WORTHWHILE = 0.005
SURE = 1.645
"""Standard errors by which a measured gain differs from what is worthwhile, to count as known."""
TABLES = (load_diabetes, load_breast_cancer, load_wine, load_digits)
PAGE, KEPT = Path("docs/reference/verdicts.md"), Path("build/verdicts.jsonl")
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

    @classmethod
    def of_a_table(cls, seed: int) -> "Consortium":
        """Two to four owners of a table of scikit-learn, in its order by a column or shuffled, and too few public rows.

        One column is predicted from the others, all scaled to [-1, 1] by their ranges. There are fewer public rows than
        parameters, and half of every owner's rows are held out.
        """
        rng = np.random.default_rng([seed, 27])
        table = TABLES[seed % len(TABLES)]().data
        table = table[:, table.max(axis=0) > table.min(axis=0)]
        low, high = table.min(axis=0), table.max(axis=0)
        table = rng.permutation(2 * (table - low) / (high - low) - 1)
        by, of = rng.choice(table.shape[1], 2, replace=False)
        kind = ("shuffled", "sorted")[int(rng.integers(2))]
        known = int(rng.integers(3, table.shape[1]))  # of so many parameters, one of them the intercept
        x, y = np.delete(table, of, axis=1), table[:, of]
        rest = np.arange(known, len(y))
        if kind == "sorted":
            rest = rest[np.argsort(table[rest, by], kind="stable")]
        train, fresh = [], []
        for mine in np.array_split(rest, int(rng.integers(2, 5))):
            mine = rng.permutation(mine)
            half = len(mine) // 2
            train.append((x[mine[:half]], y[mine[:half]]))
            fresh.append((x[mine[half:]], y[mine[half:]]))
        return cls(kind, float(rng.choice([0.3, 1.0, 10.0, 100.0])), train, fresh, (x[:known], y[:known]), [])

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
        finished = personalized(agreement, public, rows, public=one.public).theta  # for which nobody has to join
        without = [errors([model]) for model in (_fit(*rows), public, finished)]
        found.append(gain(without, [errors(m) for m in (common, home)]))
    return np.array(found)


def gain(without: list[Array], joined: list[Array]) -> tuple[float, float]:
    """Relative fall of the error from the best model that an owner has without joining to the best that it has with it.

    Each model is given by its errors on the same held-out rows. The second number is the standard error of the first.
    """
    best = min(without, key=np.mean)
    saved = best - min(joined, key=np.mean)
    return float(saved.mean() / best.mean()), float(saved.std() / np.sqrt(len(best)) / best.mean())


def judged(owner: OwnerForecast, measured: tuple[float, float]) -> dict[str, Any]:
    """What an owner was told of its own records, beside its measured gain and the standard error of that."""
    said, (found, error) = owner.on_own, measured
    return {
        "records": owner.records, "said": said.answer, "probability": said.probability, "forecast": said.gain,
        "gain": float(found), "error": float(error), "pays": bool(found >= WORTHWHILE),
        "sure": bool(abs(found - WORTHWHILE) > SURE * error),
    }  # fmt: skip


def _fit(x: Array, y: Array) -> Array:
    return np.asarray(np.linalg.lstsq(np.column_stack([x, np.ones(len(y))]), y, rcond=None)[0])


def rows(seed: int, few: bool = False) -> list[dict[str, Any]]:
    """One row an owner, with what was said with and without strata, and what was measured under each plan.

    few: of a real table with fewer public rows than parameters, which have no strata.
    """
    one, made = Consortium.of_a_table(seed) if few else Consortium.drawn(seed), []
    for known in ("nothing",) if few else ("nothing", "strata"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                told = copriv.forecast(one.agreement, one.public, strata=one.strata if known == "strata" else None)
            except CoprivError as error:
                made.append({"seed": seed, "few": few, "known": known, "refused": str(error)})
                continue
            gains = measured(one, told.recommended.agreement)
        for owner, found in zip(told.owners, gains, strict=True):
            made.append(
                {
                    "seed": seed,
                    "few": few,
                    "kind": one.kind,
                    "epsilon": one.epsilon,
                    "known": known,
                    **judged(owner, found),
                }
            )
    return made


def summary(all_rows: list[dict[str, Any]]) -> str:
    """A table: of all owners and of those whose fresh rows are sure, how often verdicts and forced choices are right."""
    lines = [
        "| known | owners | open | yes or no is right | of the sure ones | forced choice | said with 90 % or more | right |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for known in dict.fromkeys(r["known"] for r in all_rows):
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


def calibration(all_rows: list[dict[str, Any]]) -> str:
    """A table: with which probability joining was said to pay, in five classes, and for how many owners it did."""
    lines = [
        "| known | said to pay with | owners | of consortia | said, on average | it paid for |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for known in dict.fromkeys(r["known"] for r in all_rows):
        of = [r for r in all_rows if r["known"] == known and "refused" not in r]
        for low, high in pairwise((0.0, 0.1, 0.3, 0.7, 0.9, 1.0)):
            some = [r for r in of if low <= r["probability"] < high or r["probability"] == high == 1.0]
            said = f"{np.mean([r['probability'] for r in some]):.0%}" if some else ""
            cells = (len(some), len({r["seed"] for r in some}), said, _share([r["pays"] for r in some]))
            lines.append(f"| {known} | {low:.0%} to {high:.0%} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _share(hits: list[bool]) -> str:
    return f"{100 * np.mean(hits):.0f} % of {len(hits)}" if hits else "none"


def page(all_rows: list[dict[str, Any]]) -> str:
    """Markdown: what was aimed at, all verdicts, those of each kind of consortium, and each that was wrong."""
    drawn, few = ([r for r in all_rows if r["few"] is few] for few in (False, True))
    lines = [
        "# How often verdicts are right",
        "",
        "Written by a command, and not by hand:",
        "",
        "    python -m benchmarks.verdicts --page",
        "    python -m benchmarks.verdicts --few --consortia 6 --page",
        "",
        "Consortia whose populations are known (simulated), of seeds on which nothing was tuned: owners alike, unlike in "
        "level, in slopes, in both, or in sizes; three to eight owners of 100 to 10,000 records; ε of 0.3, 1 or 10. Each is "
        "forecast from 60 public rows an owner, once as they come (*nothing* known) and once with their owner named "
        "(*strata*). An owner's verdict on its own records is held against what 5,000 fresh rows of its population say of its "
        f"models: *right* where the measured gain is above or below {WORTHWHILE:.1%}, as it says. *Sure* are owners whose "
        f"gain differs from that by {SURE} standard errors of the fresh rows. Aimed at: of those said with 90 % or more 85 % "
        "right, and less than half open.",
        "",
        f"{len({r['seed'] for r in drawn})} consortia:",
        "",
        summary(drawn),
        "",
        "With which probability joining was said to pay, and how often it did. Where nothing is known all owners of one size "
        "in a consortium are told the same, so that few consortia say little, however many owners they have:",
        "",
        calibration(drawn),
        "",
        "By what the owners differ in:",
    ]
    for kind in KINDS:
        some = [r for r in drawn if r.get("kind") == kind]
        if some:
            lines += ["", f"{kind.capitalize()}:", "", summary(some)]
    if few:
        lines += [
            "",
            "## Fewer public rows than parameters",
            "",
            f"{len({r['seed'] for r in few})} consortia of two to four owners of a table of scikit-learn, half of whose rows "
            "are held out. Every verdict is open there, whatever is forecast; the forced choice is what the forecast alone "
            "would be worth.",
            "",
            summary(few),
        ]
    lines += ["", "## Every verdict that was wrong", ""]
    wrong = [r for r in all_rows if r.get("said", "open") != "open" and (r["said"] == "yes") != r["pays"]]
    lines += ["| seed | consortium | ε | known | records | said | probability | measured gain |", "| --- " * 8 + "|"]
    lines += [
        f"| {r['seed']} | {r['kind']} | {r['epsilon']:g} | {r['known']} | {r['records']:,} | {r['said']} | "
        f"{r['probability']:.0%} | {r['gain']:.2%} ± {r['error']:.2%} |"
        for r in wrong
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, keep it, print a table, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consortia", type=int, default=20)
    parser.add_argument("--seed", type=int, default=101, help="of the first consortium")
    parser.add_argument(
        "--few", action="store_true", help="scikit-learn's tables, with fewer public rows than parameters"
    )
    parser.add_argument("--page", action="store_true", help=f"write {PAGE}")
    given = parser.parse_args()
    found = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(given.seed, given.seed + given.consortia):
        if any((row["seed"], row["few"]) == (seed, given.few) for row in found):
            continue
        more = rows(seed, given.few)
        with KEPT.open("a") as kept:
            kept.writelines(json.dumps(row) + "\n" for row in more)
        found += more
        print(seed, summary(more).splitlines()[2:], flush=True)
    print(summary(found))
    if given.page:
        PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
