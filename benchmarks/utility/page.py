"""The table as a page: targets, the plan against the peers, then every cell.

A peer counts against "plan" where its guarantee is pure ε too, and against "plan, δ = 1e-6" whatever it is: nobody's
guarantee may be stronger than that of the row it is held against. A record added or removed (Opacus) is the weaker
relation, and counts as (ε, δ).
"""

from collections.abc import Mapping, Sequence

from benchmarks.utility.methods import PLAN, PLAN_WITH_DELTA

Row = Mapping[str, str]
PURE_PEERS = ("output perturbation", "diffprivlib")
PEERS_WITH_DELTA = ("DP-SGD, each owner, δ = 1e-6", "Opacus DP-SGD, each owner, δ = 1e-6")
BETTER = 1.2
"""A peer is better where it costs less than this part of the plan's ψ."""
REASONS: dict[tuple[str, str], str] = {}
"""Why a peer is better, by (cell, peer)."""

MISSED = (
    "What is missed asks more of (ε, δ) than of pure ε. In one answer of thirty numbers δ gains nothing "
    "([why](../explanation/mechanisms.md#what-to-choose)), and answers in rounds, where it does, are no better than one: an "
    "intercept, from zero, has a long way to go, and the public model is near already."
)

_LENDING = "lending-squared-N{}-n10000-eps1"
_CARDS = "creditcard-logistic{}-N3-n30000-eps{}"
TARGETS: list[tuple[str, str, str, float]] = [
    *(
        (f"lending, N = {N}, asynchronous, pure ε, no public start", _LENDING.format(N), "plan, asynchronous", most)
        for N, most in ((86, 3e-4), (10, 1.5e-3), (3, 3.5e-3))
    ),
    *(
        (f"cards, {words}, ε = {ε}, {promise}, {start}", _CARDS.format(extra, ε), method, most)
        for extra, words in (
            ("", "no intercept"), ("-intercept-inside", "intercept inside the 4"), ("-intercept", "intercept on top")
        )
        for ε, pure, approximate in ((1, 0.6, 0.3), (10, 0.09, 0.031))
        for promise, start, method, most in (
            ("pure ε", "from zero", "objective", pure), ("pure ε", "any start", PLAN, pure),
            ("δ = 1e-6", "from zero", "objective, δ = 1e-6", approximate),
            ("δ = 1e-6", "any start", PLAN_WITH_DELTA, approximate),
        )
    ),
]  # fmt: skip
"""(promise, cell, row, the most that ψ may be)."""


def page(rows: Sequence[Row], made_by: str, note: str = "") -> str:
    """Markdown. note: what a reader must know of these measurements, before all else."""
    cells: dict[str, dict[str, Row]] = {}
    for row in rows:
        cells.setdefault(row["cell"], {})[row["method"]] = row
    lines = [
        "# Utility at the same privacy",
        "",
        *([note.strip(), ""] if note else []),
        f"Made by `{made_by}`. Relative fitness ψ on all owners' records, median (25 % to 75 %)",
        "over runs; lower is better. Every method sees the same bounded records, every owner adds its own noise, and settings",
        "are chosen on public rows alone, the peers' by the same kind of search over theirs. A row without δ is pure ε.",
        "Owners' rows are resampled from one table, and that they are alike is stated (`heterogeneity = 0`); stays are cut by",
        "payer and specialty first, so that hospitals differ, and nothing is stated of them.",
        "",
        '"plan" is what a plan chooses among all there is, and may begin at the public model; so may rows that say so. Peers',
        "begin at zero, as they come: each owner fits by itself, and models are averaged. DP-SGD takes 10 to 160 steps",
        "with full batches, Opacus 60 to 200 with Poisson batches (not at ε = 0.1: its accountants give up).",
        "Opacus accounts for a record added",
        "or removed, a weaker promise than ours, for a record replaced; diffprivlib has no setting to search for, and does",
        "nothing about second moments that noise makes indefinite.",
        "",
        *_targets(cells),
        *_against_peers(cells),
    ]
    for cell, methods in cells.items():
        lines += [f"## {cell}", "", "| method | ψ | runs | settings |", "| --- | --- | --- | --- |"]
        for method, row in methods.items():
            value = f"{row['median']} ({row['p25']} to {row['p75']})" if row["median"] else "—"
            lines.append(f"| {method} | {value} | {row['runs']} | {row['settings']} |")
        lines.append("")
    return "\n".join(lines)


def _median(methods: Mapping[str, Row], method: str) -> float | None:
    row = methods.get(method)
    return float(row["median"]) if row is not None and row["median"] else None


def _targets(cells: Mapping[str, Mapping[str, Row]]) -> list[str]:
    known = [(*target, _median(cells.get(target[1], {}), target[2])) for target in TARGETS]
    lines = ["| target | row | at most | reached | |", "| --- | --- | --- | --- | --- |"]
    for words, _, method, most, ψ in known:
        if ψ is not None:
            lines.append(f"| {words} | {method} | {most:g} | {ψ:.3g} | {'' if ψ <= most else 'missed'} |")
    if any(ψ is not None and ψ > most for *_, most, ψ in known):
        lines += ["", MISSED]
    return ["## Targets", "", *lines, ""] if len(lines) > 2 else []


def _against_peers(cells: Mapping[str, Mapping[str, Row]]) -> list[str]:
    lines = [
        "## The plan against the peers",
        "",
        "| cell | plan | best peer, pure ε | plan, δ = 1e-6 | best peer, any guarantee |",
        "| --- | --- | --- | --- | --- |",
    ]
    better, weaker = [], []
    for cell, methods in cells.items():
        pure, best_pure = _median(methods, PLAN), _best(methods, PURE_PEERS)
        approximate, best = _median(methods, PLAN_WITH_DELTA), _best(methods, (*PURE_PEERS, *PEERS_WITH_DELTA))
        if pure is None or approximate is None or best_pure is None or best is None:
            continue
        lines.append(
            f"| {cell} | {pure:.3g} | {best_pure[0]:.3g} ({best_pure[1]}) | {approximate:.3g} | {best[0]:.3g} ({best[1]}) |"
        )
        for ψ, (other, peer) in dict.fromkeys([(pure, best_pure), (approximate, best)]):
            if other * BETTER < ψ:
                better.append(
                    f"- {cell}: {peer}, {other:.3g} against {ψ:.3g}. {REASONS.get((cell, peer), '')}".rstrip()
                )
        if best[0] * BETTER < pure and best[1] in PEERS_WITH_DELTA:
            weaker.append(f"{cell} ({best[1]}, {best[0]:.3g} against {pure:.3g})")
    lines += ["", "Peers better than the plan by more than 20 %" + (":" if better else ": none."), *better, ""]
    if weaker:
        lines += [
            "Where the plan keeps to pure ε and a peer of the weaker guarantee (ε, δ) is better than that by more than 20 %: "
            + "; ".join(weaker) + ".",
            "",
        ]  # fmt: skip
    return lines


def _best(methods: Mapping[str, Row], names: Sequence[str]) -> tuple[float, str] | None:
    found = [(ψ, name) for name in names if (ψ := _median(methods, name)) is not None]
    return min(found, default=None)
