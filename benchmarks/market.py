"""What a lie gains in each mechanism of a data market, and what each saves: over random consortia.

    python -m benchmarks.market [--consortia 200] [--figure docs/pictures/market.png] [--page docs/reference/market-lies.md]

It takes about three minutes of processor time. Each consortium has 3 to 5 owners of 1,000 to 20,000 records, with costs of
privacy of all four shapes. One owner at a time misstates one thing by a factor: its records (never below the 1,000 that
everybody is known to have), its most ε, its cost of privacy or what accuracy is worth to it; everybody else is truthful. What
it gains is found with its true numbers: of stated records that it does not have it answers from copies, which spends ε in
proportion, and stated records fewer than it has are all that it answers from. Its best lie is the best of all those factors,
as a share of what the efficient allocation saves all owners. Lots are of the 1,000 records that everybody is known to have;
"exchange, n known" is where everybody knows everybody's true number, which lots then are of.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from joblib import Parallel, delayed
from matplotlib.figure import Figure

from copriv.forecast.coalition_value import Consortium
from copriv.formatting.numbers import percent
from copriv.market.allocation import EXACT_OWNERS, Statements, _searched, coalition_values
from copriv.market.costs import PrivacyCosts
from copriv.market.mechanisms import (
    Outcome,
    Trade,
    better_by,
    common,
    equal,
    even_epsilon,
    exchange,
    falls,
    posted,
    shapley,
)
from copriv.pictures import style
from copriv.plan import NoiseCurve
from copriv.terms import PrivacyCost
from copriv.types import Array

LOT = 1000
FACTORS = (0.125, 0.5, 2.0, 8.0)
LIES = ("n", "ε", "cost", "worth")
KNOWN = "exchange, n known"


@dataclass(frozen=True)
class Consortia:
    """A consortium whose owners can be misstated: what is public of it, and what each owner states."""

    records: Array
    most: Array
    costs: tuple[PrivacyCost, ...]
    worth: Array
    information: float
    curve: NoiseCurve
    spread: float
    public: float
    """ψ of the public model, above the best of the population."""

    @classmethod
    def drawn(cls, rng: np.random.Generator, owners: int) -> "Consortia":
        """Records, budgets, costs and worths of several sizes; half of the consortia have owners that differ."""
        n = np.round(np.exp(rng.uniform(np.log(LOT), np.log(20 * LOT), owners)))
        κ, total = 5.0, n.sum()
        power, ratio = rng.uniform(0.5, 0.9), np.exp(rng.uniform(np.log(0.1), np.log(10.0)))
        # ψ = a·ν^power, as its tangents, with a cost of privacy at ε = 1 of `ratio` times κ/n.
        ν = np.geomspace(1e-4, 1e6, 18) * owners / total**2
        a = ratio * κ / total / (owners / total**2) ** power
        tangents = a * power * ν ** (power - 1.0)
        curve = NoiseCurve(np.append(a * ν**power - tangents * ν, 100.0 * κ / total), np.append(tangents, 0.0))
        alike = rng.random() < 0.5
        worth = np.exp(rng.normal(0.0, 1.0, owners)) * 1e3 / (κ / np.median(n))
        scale = 1e3 * np.exp(rng.normal(-1.5, 1.5, owners))
        shapes = [cls._cost(int(shape), float(c)) for shape, c in zip(rng.integers(4, size=owners), scale, strict=True)]
        return cls(
            n, np.exp(rng.uniform(np.log(0.5), np.log(4.0), owners)), tuple(shapes), worth, κ, curve,
            0.0 if alike else 0.3 * κ / float(np.median(n)), κ / 500.0 if alike else np.inf,
        )  # fmt: skip

    @staticmethod
    def _cost(shape: int, scale: float) -> PrivacyCost:
        return (
            PrivacyCost(linear=scale), PrivacyCost(quadratic=scale), PrivacyCost(threshold=0.5, above=scale),
            PrivacyCost(table=((0.5, 0.2 * scale), (1.0, scale), (2.0, 3.0 * scale))),
        )[shape]  # fmt: skip

    def stated(self, lie: str = "", owner: int = 0, factor: float = 1.0) -> Statements:
        """What all state, where one owner misstates one thing by a factor."""
        return self.stated_all(owner, {lie: factor})

    def stated_all(self, owner: int, lies: Mapping[str, float]) -> Statements:
        """The same with several things misstated at once."""
        one = np.arange(len(self.most)) == owner
        times = {lie: np.where(one, lies.get(lie, 1.0), 1.0) for lie in LIES}
        n = np.maximum(np.round(self.records * times["n"]), LOT)
        members = Consortium(n, self.most * times["ε"], np.ones(len(n)), self.information, self.curve, self.spread)
        # The public model's distance from the best of all records, of which there are as many as stated.
        public = self.public - self.information / n.sum() if np.isfinite(self.public) else np.inf
        members = replace(members, without=np.minimum(members.alone(), public))
        costs = PrivacyCosts.of(self.costs, members.epsilon.tolist())
        scaled = {key: getattr(costs, key) * times["cost"][costs.owner] for key in ("offset", "slope", "bend")}
        return Statements.of(members, replace(costs, **scaled), self.worth * times["worth"])


Found = tuple[Outcome, tuple[Trade, ...], Array]
"""An outcome, the trades of "posted", and the lots of "exchange"."""


def outcomes(stated: Statements, known: Array) -> dict[str, Found]:
    """Each mechanism's outcome; in the last one the lots are all records, which everybody knows."""
    first, few = shapley(stated), np.full(len(known), float(LOT))
    return {
        "shapley": (first, (), few), "equal": (equal(stated, first), (), few), "common": (common(stated), (), few),
        "posted": (*posted(stated, LOT), few), "exchange": exchanged(stated, few), KNOWN: exchanged(stated, known),
    }  # fmt: skip


def exchanged(stated: Statements, lots: Array) -> Found:
    """An exchange of these lots."""
    return exchange(stated, lots, even_epsilon(stated, lots)), (), lots


def better_off(truth: Statements, stated: Statements, found: Found, i: int) -> float:
    """What owner i is better off by, in truth, under what was found from statements."""
    outcome, trades, lots = found
    m, said = truth.members, stated.members
    ε, n, claimed = outcome.epsilon, m.records, said.records
    in_lots = outcome.mechanism in ("posted", "exchange")
    copies = 1.0 if in_lots else max(1.0, claimed[i] / n[i])  # a lot needs no more than the owner is known to have
    cost = float(truth.costs.at(np.where(np.arange(len(n)) == i, ε * copies, 0.0))[i])
    gain = 0.0
    if outcome.mechanism == "posted":
        for trade in trades:
            if i in trade.buyers:
                better = better_by(truth, np.array([i]), np.array([len(trade.sellers)]), trade.epsilon, LOT)
                gain = float(truth.worth[i] * better[0, 0])
    elif outcome.mechanism == "exchange":
        if ε[i] > 0:
            gain = float(truth.worth[i] * falls(truth, lots, ε > 0, float((ε / m.overlap).max()))[i])
    elif (ε > 0).any() and (ε[i] > 0 or outcome.uses[i]):
        w = np.where(ε > 0, claimed, 0.0)
        w, v = w / w.sum(), n / m.total
        with np.errstate(divide="ignore"):
            noise = float(np.sum(w**2 * np.where(ε > 0, 1.0 / (claimed * ε), 0.0) ** 2))
        known = m.information * (float(np.sum(w**2 / np.minimum(n, claimed))) - 1.0 / m.total)
        ψ = known + m.spread * float(np.sum((w - v) ** 2)) + float(m.curve.at(noise))
        gain = float(truth.worth[i] * max(m.without_joining[i] - ψ, 0.0))
    return gain - cost + float(outcome.payment[i])


def measured(consortium: Consortia) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Of each mechanism: what it saves as a share of the most, and the gain of the best lie of each kind, as the same share."""
    truth = consortium.stated()
    honest = outcomes(truth, consortium.records)
    best = honest["shapley"][0].surplus
    if best <= 0:
        return {}, {}
    N = len(consortium.most)
    before = {name: [better_off(truth, truth, found, i) for i in range(N)] for name, found in honest.items()}
    gains = {name: dict.fromkeys(LIES, 0.0) for name in honest}
    for lie, i, factor in ((lie, i, factor) for lie in LIES for i in range(N) for factor in FACTORS):
        stated = consortium.stated(lie, i, factor)
        for name, found in outcomes(stated, consortium.records).items():
            gain = (better_off(truth, stated, found, i) - before[name][i]) / best
            gains[name][lie] = max(gains[name][lie], gain)
    return {name: found[0].surplus / best for name, found in honest.items()}, gains


def consortia(number: int, seed: int = 30) -> Iterator[Consortia]:
    """So many random consortia of 3 to 5 owners."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        yield Consortia.drawn(rng, int(rng.integers(3, 6)))


SIZES = (3, 6, 9, 12, 18, 24, 36)
"""Numbers of owners for which efficiency is drawn."""
SIZED = ("common", "posted", "exchange", KNOWN)


def allocation(stated: Statements) -> Float[Array, " owners"]:
    """The efficient ε of each owner, 0 of those who do not answer; beyond EXACT_OWNERS, the best that is found."""
    if stated.number > EXACT_OWNERS:
        return _searched(stated, np.ones(stated.number, dtype=bool))[1]
    return coalition_values(stated)[1]


def efficiencies(owners: int, number: int, seed: int = 31) -> dict[str, float]:
    """Mean share of the most that can be saved, of SIZED; for more than 8 owners, of the most that is found."""
    rng, found = np.random.default_rng([seed, owners]), []
    while len(found) < number:
        consortium = Consortia.drawn(rng, owners)
        stated, few = consortium.stated(), np.full(owners, float(LOT))
        best = float(stated.saved(allocation(stated)))
        if best > 0:
            made = common(stated), posted(stated, LOT)[0]
            made += exchanged(stated, few)[0], exchanged(stated, consortium.records)[0]
            found.append([one.surplus / best for one in made])
    return dict(zip(SIZED, np.mean(found, axis=0).tolist(), strict=True))


@style.drawn
def drawn(lies: dict[str, Array], by_size: dict[int, dict[str, float]]) -> Figure:
    """Left: each consortium's best lie of any kind, in order; right: what is saved against the number of owners."""
    figure = style.sheet(12.2, 4.6)
    colours = {
        "shapley": style.TOGETHER, "equal": style.ALONE[0], "common": style.ALONE[1], "posted": style.INK,
        "exchange": style.FAINT, KNOWN: style.ALONE[3],
    }  # fmt: skip
    left = style.panel(figure, 0.85, 0.75, 3.6, 2.75)
    for name, gains in lies.items():
        best = np.sort(gains.max(axis=1))
        left.plot(np.linspace(0.0, 100.0, len(best)), 100.0 * best, color=colours[name], linewidth=2.0, label=name)
    left.set_xlabel("consortia, %")
    left.set_ylabel("gain of the best lie, % of the most saved")
    right = style.panel(figure, 5.6, 0.75, 3.6, 2.75)
    for name in ("equal", "shapley"):  # both all of it
        right.plot(list(by_size), [100.0] * len(by_size), color=colours[name], linewidth=2.0, label=name)
    for name in SIZED:
        saved = [100.0 * one[name] for one in by_size.values()]
        right.plot(list(by_size), saved, "o-", color=colours[name], linewidth=2.0, label=name)
    right.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    right.set_ylim(0.0, 105.0)
    right.set_xlabel("owners")
    right.set_ylabel("saved, % of the most")
    lead = "Random consortia; one owner at a time misstates records, ε, cost or worth by up to a factor of 8"
    style.head(figure, "Where lying does not pay, much of the market is lost", lead)
    return figure


def lies_in_lots(number: int, owners: int = 12, seed: int = 32) -> dict[str, tuple[int, float]]:
    """Of larger consortia, by mechanisms of lots: how many save anything, and the gain of the best lie over what is saved."""
    few, found = np.full(owners, float(LOT)), dict.fromkeys(SIZED[1:], (0, 0.0))
    for rng in np.random.default_rng(seed).spawn(number):
        consortium = Consortia.drawn(rng, owners)
        ways = {
            "posted": lambda stated: (*posted(stated, LOT), few), "exchange": lambda stated: exchanged(stated, few),
            KNOWN: lambda stated, n=consortium.records: exchanged(stated, n),
        }  # fmt: skip
        truth = consortium.stated()
        for name, way in ways.items():
            honest, (trading, most) = way(truth), found[name]
            for lie, i, factor in ((lie, i, factor) for lie in LIES for i in range(owners) for factor in FACTORS):
                stated = consortium.stated(lie, i, factor)
                gain = better_off(truth, stated, way(stated), i) - better_off(truth, truth, honest, i)
                most = max(most, gain / max(honest[0].surplus, 1.0))
            found[name] = trading + bool((honest[0].epsilon > 0).any()), most
    return found


def page(
    lies: dict[str, Array],
    saved: dict[str, Array],
    by_size: dict[int, dict[str, float]],
    number: int,
    larger: dict[str, tuple[int, float]],
) -> str:
    """The page of these numbers."""

    def share(value: float) -> str:
        return "0" if abs(value) <= 1e-9 else percent(value)

    lines = [
        "# What a lie gains in a data market", "",
        f"Made by `python -m benchmarks.market --consortia {number} --figure docs/pictures/market.png --page",
        "docs/reference/market-lies.md`, whose docstring says what a lie is. What the mechanisms are is in",
        "[data market](../explanation/data-market.md).", "",
        f"{number} random consortia of 3 to 5 owners; in {len(next(iter(lies.values())))} of them something can be saved.",
        "Each number is the gain of the best of these lies of any owner, each of one thing, stated at an eighth, half,",
        "twice or eight times its size: finer lies, or lies about several things at once, gain more. It is a share of the most",
        "that all can save: the median of",
        "consortia, the 90 % quantile, and the largest. 0 means at most 1e-9.", "",
        "| mechanism | about records | about the most ε | about the cost of privacy | about worth | any of these |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, gains in lies.items():
        both = np.column_stack([gains, gains.max(axis=1)])
        cells = [", ".join(share(float(np.quantile(column, q))) for q in (0.5, 0.9, 1.0)) for column in both.T]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "What is saved in the same consortia when nobody lies, as a share of the most:", ""]
    lines += ["| mechanism | mean | 10 % quantile | median | 90 % quantile |", "| --- | --- | --- | --- | --- |"]
    for name, one in saved.items():
        numbers = [float(one.mean()), *np.quantile(one, [0.1, 0.5, 0.9]).tolist()]
        lines.append(f"| {name} | {' | '.join(map(share, numbers))} |")
    lines += [
        "", "Means of 20 consortia for each number of owners. For more than 8, the most is what a local search finds.", "",
        f"| owners | {' | '.join(SIZED)} |", "| --- | --- | --- | --- | --- |",
        *(f"| {owners} | {' | '.join(share(one[name]) for name in SIZED)} |" for owners, one in by_size.items()),
        "", "In 10 consortia of 12 owners:", "",
        "| mechanism | how many save anything | gain of the best lie, of what is saved |",
        "| --- | --- | --- |", *(f"| {name} | {trading} | {share(most)} |" for name, (trading, most) in larger.items()),
        "", "![What lies gain, and what is saved](../pictures/market.png)", "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the page and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--consortia", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--figure", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE")
    given = parser.parse_args()
    work = [delayed(lies_in_lots)(10), *(delayed(efficiencies)(owners, 20) for owners in SIZES)]
    work += [delayed(measured)(one) for one in consortia(given.consortia)]
    larger, *done = Parallel(n_jobs=given.workers)(work)
    by_size = dict(zip(SIZES, done, strict=False))
    found = [one for one in done[len(SIZES) :] if one[0]]
    lies = {name: np.array([[gains[name][lie] for lie in LIES] for _, gains in found]) for name in found[0][0]}
    saved = {name: np.array([shares[name] for shares, _ in found]) for name in lies}
    text = page(lies, saved, by_size, given.consortia, larger)
    print(text)
    if given.page is not None:
        given.page.write_text(text, encoding="utf-8")
    if given.figure is not None:
        command = f"python -m benchmarks.market --consortia {given.consortia} --figure docs/pictures/market.png"
        given.figure.write_bytes(style.png(drawn(lies, by_size), command))


if __name__ == "__main__":
    main()
