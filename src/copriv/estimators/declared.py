"""The agreement that an estimator's parameters declare. No private value is used.

The agreement is planned on public rows. Without them each owner answers once, from zero: with a model of its own, fitted to
a tilted fitness, or with noisy moments; of classes these are of the labels. Which of them, whether with δ, how firmly it is
tied to 0 and in which unit columns stand beside the intercept is chosen by the expected cost over tables such as there are
(`copriv.mechanisms.expected`). Where no model is expected to be better than a constant, the target's mean is asked for alone. Ξ
follows from the declared ranges: for classes no gradient is above it; for numbers none whose residual is within half of the
target's range, or within the part of that which leaves less noise than it adds bias.

Numbers that a caller gives are checked, and refused, by the names of the estimator's own parameters: the agreement would refuse
them too, by names of its own ("owner.0.epsilon") that whoever calls `fit` never wrote.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter

from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput
from copriv.estimators.inputs import LOUDEST, LogScale
from copriv.formatting.numbers import counted
from copriv.formatting.sanitize import printable
from copriv.losses import OfMargin, Squared, named
from copriv.mechanisms.expected import ROUNDED, SCALES, TIGHTER, WeightedMean, likely_mean
from copriv.mechanisms.histograms import Histograms
from copriv.mechanisms.lengths import SHARES, SHARES_OF_RANGES, Lengths, Measured
from copriv.mechanisms.objective_noise import LARGEST_DELTA
from copriv.model.records import Records
from copriv.plan import plan
from copriv.plan.without_public_rows import Candidate, candidates, in_one_answer, mechanisms_of_one_answer
from copriv.privacy.noise import Law
from copriv.problem import Problem
from copriv.terms.values import LARGEST_BUDGET, Budget, NonNegative, Positive
from copriv.types import Array
from copriv.validation import positive


def number(name: str, value: Any, owner: str | None = None) -> float:
    """Convert a parameter to a float; where a mapping by owner is allowed, that of `owner`. Raises InvalidInput."""
    if owner is not None and isinstance(value, dict):
        if owner not in value:
            raise InvalidInput(f"{name}: says nothing of owner {owner!r}; give every owner's, or one number for all")
        value = value[owner]
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidInput(f"{name}: must be a number, not {printable(repr(value), 60)}")
    return float(value)


def budget(epsilon: Any, delta: Any, owner: str) -> dict[str, float]:
    """ε and δ of one owner. Raises InvalidInput."""
    return {
        "epsilon": _within(Budget, "epsilon", epsilon, "it is the privacy budget of one fit, such as 1.0", owner),
        "delta": _between(
            (0.0, LARGEST_DELTA), "delta", delta, "give 0, or a number far below one over the rows, such as 1e-6", owner
        ),
    }


def of_one_kind(owners: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The owners' tables; where one has no δ, nobody's is used: pure ε is (ε, δ)."""
    found = list(owners)
    kept = all(owner["delta"] > 0 for owner in found)
    return [{**owner, "delta": owner["delta"] * kept} for owner in found]


def strength(regularization: Any) -> float:
    """c of (c/2)‖θ‖². Raises InvalidInput."""
    return _within(NonNegative, "regularization", regularization, "give 0, or a small number such as 1e-5")


def kink(threshold: Any, unit: float) -> float:
    """Where the Huber loss turns straight, in units of half the target's range. Raises InvalidInput."""
    scaled = positive("threshold", number("threshold", threshold)) / unit
    _within(Positive, "threshold / half the width of target_bounds", scaled, "measure the target in another unit")
    return scaled


def length(name: str, value: Any) -> float:
    """A bound on the length of rows. Raises InvalidInput."""
    return _within(Positive, name, value, "it bounds the length of rows whose columns are in [−1, 1]")


@contextmanager
def in_the_callers_words(rows: int) -> Iterator[None]:
    """Tell what the agreement refuses in words of the estimator's parameters; rows: how many the smallest owner has."""
    try:
        yield
    except InvalidInput as error:
        path, _, said = str(error).partition(": ")
        key = path.partition(" of ")[0].rpartition(".")[2]
        if key in ("delta", "epsilon", "threshold", "regularization", "feature_bound"):
            raise InvalidInput(f"{key}: {said}") from None
        if key == "name":
            raise InvalidInput(f"owners: a label {said}") from None
        if not isinstance(error, AgreementError) and path != "noise":
            raise type(error)(str(error).replace("model.regularization", "regularization")) from None
        raise InvalidInput(
            "epsilon: too little for these rows: no model can be fitted privately from an owner of "
            f"{rows} rows with these epsilon, regularization, feature_bound, row_norm and threshold; raise epsilon, give "
            "owners more rows, or leave the others as they are by default"
        ) from None


def _within(kind: Any, name: str, value: Any, remedy: str, owner: str | None = None) -> float:
    """A number within the limits that a type of the agreement states."""
    limits = TypeAdapter(kind).json_schema()
    return _between((limits["minimum"], limits["maximum"]), name, value, remedy, owner)


def _between(limits: tuple[float, float], name: str, value: Any, remedy: str, owner: str | None = None) -> float:
    given, (least, most) = number(name, value, owner), limits
    if not least <= given <= most:
        whose = f" of owner {owner!r}" if isinstance(value, dict) else ""
        raise InvalidInput(f"{name}{whose}: must be from {least:g} to {most:g}, not {given!r}; {remedy}")
    return given


class UndeclaredWarning(UserWarning):
    """Something that should be declared was not; the message says what was taken in its place.

    >>> import warnings
    >>> from copriv.estimators import UndeclaredWarning
    >>> warnings.simplefilter("error", UndeclaredWarning)  # bounds are then declared, or there is no fit
    >>> warnings.resetwarnings()
    """


def terms(
    *, columns: int, loss: str, threshold: float, regularization: float, intercept: bool,
    feature_bound: float | Literal["auto"], owners: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """The agreement of a fit with columns and target in [−1, 1]; rule, step and bounds are left to be planned.

    owners: name, records, epsilon and delta of each.
    """
    return {
        "agreement": {"name": "estimator", "rule": "auto", "horizon": 1000},
        "model": {"loss": loss, "threshold": threshold, "regularization": regularization, "intercept": intercept},
        "data": {
            "components": 0, "feature_bound": feature_bound, "target": "target",
            "features": [f"x{j}" for j in range(columns)],
        },
        "owner": owners,
    }  # fmt: skip


def weighed(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The same terms where rows count for shares: an intercept is a column, of which a row has less that counts for less."""
    model, data = wanted["model"], wanted["data"]
    if not model["intercept"]:
        return {**wanted}
    B = data["feature_bound"]
    data = {
        **data,
        "features": [*data["features"], "intercept"],
        "feature_bound": B if B == "auto" else (B + 1.0) * ROUNDED,
    }
    return {**wanted, "model": {**model, "intercept": False}, "data": data}


def planned(wanted: Mapping[str, Any], public: Records) -> tuple[Agreement, Problem]:
    """Plan on the public rows; return the agreement, and the problem with these rows in place of every owner's."""
    document = {**wanted, "data": {**wanted["data"], "public_rows": len(public)}}
    problem = Problem.forecasting(Agreement.of(document), public)
    agreement = plan(problem, one_answer=True).agreement
    return agreement, problem.under(agreement)


@dataclass(frozen=True, eq=False)
class Settled:
    """Terms that follow from what is declared, without any rows."""

    agreement: Agreement
    """For columns in [−scale, scale]."""
    scale: float
    """0: for a constant, the coefficient of one column of ones."""
    step: float
    """Factor of the agreement's θ: 1, unless classes are asked for with the squared loss; then that of a Newton step from 0."""
    expected_gap: float
    """What is expected to be left between the best model, 0, and a constant 0, 1 (`copriv.mechanisms.expected`)."""
    constant_gap: float
    """What the best constant is expected to leave: where there is an intercept, less than a constant 0 does."""
    measured: Measured = field(default_factory=Measured)
    """In whose units it is asked."""
    noise: float | None = None
    """Of a constant: the scale of the noise on the mean of targets in [−1, 1]."""

    def model(self, theta: Array) -> Array:
        """The model of a θ; of a constant the mean that is likely, for two classes as the log odds of their rate."""
        if self.noise is not None:
            theta = np.array([likely_mean(float(theta[0]), self.noise)])
            if self.step != 1.0:
                theta = np.arctanh(theta)  # half the log odds: a Newton step from even ones is the mean itself
        return np.asarray(self.step * theta)

    @property
    def drowned(self) -> bool:
        """Whether noise is expected to leave little but a constant, which is said in a warning."""
        return self.expected_gap > DROWNED * self.constant_gap


def measuring(
    wanted: Mapping[str, Any], row_norm: float | None, nonzero: int | None = None
) -> tuple[Agreement, dict[str, Any], float] | None:
    """An agreement to measure lengths and targets under, what is wanted with the rest of the budget, and the noise on shares.

    None where too little would be heard.
    """
    of_classes = isinstance(named(wanted["model"]["loss"], wanted["model"]["threshold"]), OfMargin)
    nonzero = nonzero or len(wanted["data"]["features"])
    longest = _longest(nonzero, row_norm, wanted["data"]["feature_bound"]) * ROUNDED
    both = SHARES if of_classes or row_norm is not None else SHARES_OF_RANGES
    ways: list[tuple[float, float, dict[str, float]]] = [(*one, {"reach": longest}) for one in both]
    if not of_classes:  # where noise would hide two histograms, one of the targets alone
        ways += [(*one, {}) for one in SHARES_OF_RANGES]
    for share, loudest, terms in ways:
        agreement, rest, noise = _in_two(
            wanted, share, {"mechanism": Lengths.name, **terms},
            {**wanted["model"], "gradient_bound": 1.0, "intercept": False},
            {"feature_bound": float(np.sqrt(nonzero) * longest)},
        )  # fmt: skip
        if noise <= loudest:
            return agreement, rest, noise
    return None


COUNTED = 0.5
"""The mean of the shares for which rows count, where it was not measured."""
CUT = 0.3
"""Squared bias of a mean of targets that are clipped to a measured interval, over the square of half its width and the noise on
shares: set by hand on open tables (`benchmarks.published`), where half of it leaves ceosal1 surely worse than nothing."""
HIDDEN, FAR = 0.3, 16.0
"""Where the interval reaches an end of the declared range, rows are likely to reach the other end, too. The squared bias, of
models as well, is then HIDDEN times that of as many rows there as the noise on shares is; the other end counts as at most FAR
half widths away. Set by hand on open tables and on simulated targets that are rarely 1."""
DROWNED = 0.9
"""What is expected to be left, over what a constant leaves, above which a model is nearly a constant: set by hand."""
SHARES_FOR_RANGES = (0.1, 0.2, 0.4)
"""Shares of ε for ranges that nobody declares: the first that is heard (`LogScale.hidden`). Set by hand, as `LOUDEST` is."""


def ranging(wanted: Mapping[str, Any], unknown: Sequence[str]) -> tuple[Agreement, dict[str, Any], float]:
    """An agreement to measure ranges under, what is wanted with the rest of the budget, and the noise on each share.

    unknown: for each column the parameter that is None. Raises InvalidInput where too little would be heard.
    """
    columns = [f"x{j}" for j in range(len(unknown))]
    hidden = np.inf
    for share in SHARES_FOR_RANGES:
        agreement, rest, noise = _in_two(
            wanted, share, {"mechanism": Histograms.name}, {"loss": "squared", "gradient_bound": 1.0, "intercept": False},
            {"feature_bound": float(len(columns)), "features": columns},
        )  # fmt: skip
        hidden = LogScale.hidden(noise, len(columns))
        if hidden <= LOUDEST:
            return agreement, rest, noise
    names, times = " and ".join(dict.fromkeys(unknown)), np.ceil(10.0 * hidden / LOUDEST) / 10.0  # so many are enough
    raise InvalidInput(
        f"{names}: None has the ranges of {counted(len(columns), 'column')} measured privately, which takes "
        f"{times:,.1f} times this epsilon, or as many times these rows; declare {names} as (low, high) instead"
    )


def _in_two(
    wanted: Mapping[str, Any], share: float, terms: Mapping[str, Any], model: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[Agreement, dict[str, Any], float]:
    """An agreement on one answer for a share of every ε and no δ, what is wanted with all the rest, and the noise.

    terms, data: changes of these tables. The noise is on a share of all owners' rows: its deviation over that of one draw of
    scale 1.
    """
    first, rest = [], []
    for owner in wanted["owner"]:
        left = owner["epsilon"] * (1.0 - share)
        first.append({**owner, "epsilon": owner["epsilon"] - left, "delta": 0.0})  # exactly (Sterbenz)
        rest.append({**owner, "epsilon": left})
    agreement = Agreement.of({
        **wanted,
        "agreement": {**wanted["agreement"], **in_one_answer(len(first)), **terms},
        "model": model,
        "data": {**wanted["data"], **data},
        "owner": first,
    })  # fmt: skip
    return agreement, {**wanted, "owner": rest}, _noise_on_mean(agreement)


def _noise_on_mean(agreement: Agreement) -> float:
    """Scale of the noise on each number of the mean of all owners' answers."""
    scales = [agreement.mechanism.scale(agreement, owner) for owner in agreement.owner_tables]
    return float(np.sqrt(np.sum(np.square(agreement.weights * scales))))


def _longest(nonzero: int, row_norm: float | None, feature_bound: float | Literal["auto"]) -> float:
    """The largest ‖x‖₂ of a row with so many numbers in [−1, 1] that are not 0, of which ‖x‖₂ ≤ √nonzero follows."""
    declared = [one for one in (row_norm, feature_bound) if isinstance(one, float)]
    return float(min([np.sqrt(nonzero), *declared]))


def without_data(
    wanted: Mapping[str, Any],
    row_norm: float | None = None,
    measured: Measured | None = None,
    nonzero: int | None = None,
    tighter: Sequence[float] = TIGHTER,
    weighted: bool = False,
) -> Settled:
    """Derive all terms from what is declared, without any rows: those of the least expected cost.

    row_norm: the largest ‖x‖₂ of a row with columns in [−1, 1]; None: what follows from the other bounds. A row that is
    longer counts for less. Pure ε is (ε, δ), so owners that state a δ may be asked with δ = 0.
    nonzero: the most columns in which a row is not 0; of the levels of a category that is one. None: all columns.
    tighter: candidates for the bounds on rows over those declared.
    weighted: whether rows count for shares (`Records.of_shares`); an intercept is then the last column.
    measured: in whose units this is asked, where what is wanted is in the declared ones. Beside an intercept lengths do not say
    how columns vary about their means.
    """
    known, data = measured or Measured(), wanted["data"]
    model = {**wanted["model"], "threshold": wanted["model"]["threshold"] / known.width}
    loss, columns = named(model["loss"], model["threshold"]), len(data["features"])
    nonzero = nonzero or columns
    longest, B = _longest(nonzero, row_norm, data["feature_bound"]), data["feature_bound"]
    # Of columns in units that were found, the bound that is declared is as much wider.
    B = min(nonzero if B == "auto" else B * 2.0**known.columns, np.sqrt(nonzero) * longest)
    counted = 1.0 if not weighted else known.counted if known.rows else COUNTED
    of_classes = isinstance(loss, OfMargin)
    scales: tuple[float, ...] = SCALES if model["intercept"] else (1.0,)
    if model["regularization"] > 1e-5:  # more than by default; a larger unit would weaken what is asked for
        scales = tuple(scale for scale in scales if scale <= 1.0)
    one_answer = mechanisms_of_one_answer()
    # Of labels −1 and 1 the squared loss has the moments that a Newton step from 0 takes.
    ways = [(loss, [each for each in one_answer if each.suits(loss)])]
    ways += [(Squared(), [each for each in one_answer if each.suits(Squared()) > each.suits(loss)])] * of_classes
    # The target's mean from the whole ε, in the present unit: what a model with an intercept must not be worse than.
    bare = tuple((owner["records"], owner["epsilon"] / (1.0 - known.spent), 0.0) for owner in wanted["owner"])
    mean = Law.LAPLACE.variance * sum((2.0 / (ε * sum(n for n, _, _ in bare))) ** 2 for _, ε, _ in bare)
    found = candidates(
        model, wanted["owner"], ways, columns=columns, feature_bound=B, row_norm=longest,
        tighter=tighter if data["feature_bound"] == "auto" else (1.0,), scales=scales, rows=known.rows, size=known.size,
        at_bounds=known.at_bounds, classes=of_classes, nothing=mean / (known.width * counted) ** 2, counted=counted,
    )  # fmt: skip
    declared = found[-1].declared
    constant_gap, constants = declared.constant_gap, []
    if model["intercept"]:
        # A model from which less is expected than from a constant without noise is not worth its columns. Nor is one from which
        # hardly more is, where targets are clipped to an interval: its mean is that of clipped ones.
        least = constant_gap * (DROWNED if known.width < 1.0 else 1.0)
        found = [one for one in found if one.gap < least]
        pure = [{**owner, "delta": 0.0} for owner in wanted["owner"]]
        kinds = tuple((owner["records"], owner["epsilon"], 0.0) for owner in wanted["owner"])
        alone = replace(declared, loss=Squared(), columns=0, feature_bound=0.0, row_norm=0.0, owners=kinds)
        if weighted:
            alone = WeightedMean.of(declared, kinds)
        constants = [
            Candidate(gap, mechanism, setting, alone, pure, 0.0)
            for mechanism in one_answer
            for gap, setting in (mechanism.expected(alone) if weighted else mechanism.constant(alone))
        ]

    def settled(best: Candidate) -> Settled:
        setting, scale = best.setting, best.scale
        learnt = {
            "gradient_bound": setting.bound,
            "loss": best.declared.loss.name,
            "intercept": best.declared.intercept,
        }
        columns_of: dict[str, Any] = {"feature_bound": best.declared.feature_bound * ROUNDED}
        if not scale:
            learnt |= {"intercept": False, "theta_max": 1.0}
            columns_of = {"feature_bound": ROUNDED, "features": ["constant"]}
        once = in_one_answer(len(best.owners), setting.steps[0] if scale else 1.0)
        document = {
            **wanted,
            "agreement": {**wanted["agreement"], **once, "mechanism": best.mechanism.name, **setting.terms},
            "model": model | learnt,
            "data": data | columns_of,
            "owner": best.owners,
        }
        agreement = Agreement.of(weighed(document) if weighted else document)
        newton = 1.0
        if of_classes and best.declared.loss.name != loss.name and loss.smooth:
            # With H the mean of xxᵀ and g that of yx, y = −1 or 1, the squared loss has the optimum H⁻¹g, and this loss φ the
            # Newton step −φ′(0)/φ″(0)·H⁻¹g from 0.
            newton = float(abs(loss.slope(np.zeros(1), np.ones(1))[0]) / loss.curvature)
        noise = None if scale else _noise_on_mean(agreement) / (Squared.curvature * counted)
        return Settled(agreement, float(scale), newton, best.gap, constant_gap, known, noise)

    best = settled(min([*found, *constants], key=lambda one: one.gap))
    if not constants or known.size is None or known.width == 1.0:
        return best
    mean = settled(min(constants, key=lambda one: one.gap))
    assert mean.noise is not None
    if known.at_an_end:
        beyond = HIDDEN * (known.noise * min(1.0 / known.width, FAR)) ** 2
    elif best.noise is None:
        return best
    else:
        beyond = CUT * known.noise
    # Of targets that no interval cuts, a mean has more noise, and no bias.
    alone = replace(declared, loss=Squared())
    of_all = alone.constant_gap + alone.of_gain(Law.LAPLACE.variance * (mean.noise / known.width) ** 2)
    if of_all > best.expected_gap + alone.of_gain(beyond):
        return best
    return replace(mean, expected_gap=of_all, measured=known.of_all_targets)


def enough(
    wanted: Mapping[str, Any], row_norm: float | None, measured: Measured | None = None, nonzero: int | None = None,
    weighted: bool = False,
) -> float | None:  # fmt: skip
    """How many times as large ε must be, a power of 2, for no constant to be expected; None: no private ε would do.

    By what was measured, or by what is declared where less is enough: a fit measures anew. Of a few candidates, so that it
    takes a moment: no δ, and bounds on rows as they are declared. All together need no more.
    """

    def heard(times: float) -> bool:
        owners = [{**owner, "epsilon": times * owner["epsilon"], "delta": 0.0} for owner in wanted["owner"]]
        then = {**wanted, "owner": owners}
        if measured and not without_data(then, row_norm, measured, nonzero, TIGHTER[:1], weighted).drowned:
            return True
        if lengths := measuring(then, row_norm, nonzero):
            then = lengths[1]
        return not without_data(then, row_norm, None, nonzero, TIGHTER[:1], weighted).drowned

    most = LARGEST_BUDGET / max(owner["epsilon"] for owner in wanted["owner"])
    powers = [2.0**k for k in range(1, 20) if 2.0**k <= most]
    enough = bisect_left(powers, True, key=heard)
    return powers[enough] if enough < len(powers) else None
