"""One answer that looks for the scale of a table: noisy shares of its rows by length, and of its targets by interval.

Formal guarantee. A row is in one bin of lengths, ‖x‖₂ in (r/2, r], (r/4, r/2], … of its numbers (where other columns are
declared, these are left out; so is an intercept), and in one of targets, between two neighbours of `EDGES`; the first and
last bins have all that is beyond. J = 2 histograms, and J = 1 for classes, whose targets have one size, and of targets alone
where no `reach` is agreed. The shares of n units,
each over J, are a mean of vectors of L1 norm at most 1. So replacing a unit moves them by at most 2/n in L1, and with Laplace
noise of scale 2/(nε) on each they are ε-differentially private. Undone, the noise has scale 2J/(nε) on each share. A person's
rows have weights that add up to 1.

No model follows from this answer: it says in which unit the next one is to be asked (`Measured`), of an estimator or after
the pilot of owners without public rows. Where the target's range is declared, `EDGES` are in units of half of it.
"""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from jaxtyping import Bool, Float

from copriv.errors import AgreementError
from copriv.losses import OfMargin, named
from copriv.mechanisms.expected import OFF_CENTRE, SLOPES_OF_NUMBERS
from copriv.mechanisms.mechanism import of_numbers
from copriv.mechanisms.statistics import OfShares
from copriv.model.records import Records
from copriv.privacy.clipping import exact_sum
from copriv.rules.rule import SharedSum
from copriv.terms import AgreedTerms
from copriv.types import Array, Loss, Whole

BINS = 9
"""K: lengths down to 2⁻⁸ of the longest are told apart."""
_ENDS = 2.0**-8, 2.0**-6, 2.0**-5, 2.0**-4, 2.0**-3, 0.25, 0.5, 0.75
EDGES = np.array([*(-end for end in reversed(_ENDS)), *_ENDS])
"""Between the bins of targets: close about the middle of a range that may be far too wide, even where it may be uneven."""
TARGETS = len(EDGES) + 1
"""Bins of targets."""
SHARES = ((0.1, 0.1),)
"""Shares of ε for this answer, each with the largest scale of noise on the share of rows in a bin at which it is spent: the
first that is heard, or none."""
SHARES_OF_RANGES = ((0.1, 0.1), (0.2, 0.1), (0.4, 0.1))
"""The same for numbers of which ranges alone are declared. A target's range that is ten times too wide costs more than 40 %
of ε (`benchmarks.published`)."""
BARELY, SURELY = 3.0, 6.0
"""Scales of its noise within which a share of rows is taken for none: the larger where it is at most a fifth."""
HEARD, CLIPPED = 4.0, 0.12
"""By shapes: scales of the noise by which a share of targets must differ from what is expected before the rest is believed,
and that the interval leaves out at either end; at most a share of 0.12. Set by hand on open tables (`benchmarks.published`)."""
OUTLIERS, UNLIKE = 0.1, 0.05
"""Share of targets that may lie anywhere, and by how much of itself a share may differ from that of its shape: set by hand."""


@dataclass(frozen=True)
class Histograms:
    """What is released: shares of rows by length (K), then of targets by interval (unless they are classes)."""

    reach: float | None
    """r: the upper end of the first bin of lengths; None where these are not asked for."""
    intercept: bool
    of_targets: bool
    middle: float = 0.0
    """Of the target's range; 0 without an intercept, by which no model could be moved there."""
    half: float = 1.0
    """Of the target's range from `middle` on."""
    counted: Bool[Whole, " columns"] | None = None
    """The columns whose length is taken; None: all."""

    @classmethod
    def agreed(cls, agreed: AgreedTerms, n_parameters: int | None = None) -> "Histograms":
        found = cls.of_run(agreed, None if n_parameters is None else n_parameters - agreed.model.intercept)
        found = replace(found, reach=agreed.agreement.reach)
        if not found.number:
            raise AgreementError('agreement.reach: mechanism "lengths" of classes needs the largest length of a row')
        return found

    @classmethod
    def of_run(cls, agreed: AgreedTerms, columns: int | None = None) -> "Histograms":
        """Those of a pilot before a run of owners without public rows."""
        counted = None if columns is None else of_numbers(agreed, columns)
        of_classes = isinstance(named(agreed.model.loss, agreed.model.threshold), OfMargin)
        middle, half = (0.0, 1.0) if of_classes else target_range(agreed)
        return cls(longest_row(agreed), agreed.model.intercept, not of_classes, middle, half, counted)

    @property
    def number(self) -> int:
        """J."""
        return (self.reach is not None) + self.of_targets

    @property
    def length(self) -> int:
        """Numbers of an answer."""
        return BINS * (self.reach is not None) + TARGETS * self.of_targets

    @property
    def bounds(self) -> dict[str, float]:
        return {} if self.reach is None else {"reach": self.reach}

    @property
    def unit(self) -> Float[Array, " answer"]:
        return np.full(self.length, float(self.number))

    def of(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The shares themselves, which depend on neither loss nor θ. Private."""
        sums = []
        for rows in records.blocks():
            found = []
            if self.reach is not None:
                x = rows.features
                own = x[:, : x.shape[1] - self.intercept]
                if self.counted is not None:
                    # Row by row in memory: else a row that is alone in its block is added up in another order.
                    own = np.ascontiguousarray(own[:, self.counted])
                with np.errstate(over="ignore", under="ignore"):  # what overflows is in the first bin
                    length = np.sqrt(np.einsum("ij,ij->i", own, own)) / self.reach
                # Bin 0 is of lengths above ½, 1 of those above ¼, …
                place = BINS - 1 - np.searchsorted(0.5 ** np.arange(BINS - 1, 0, -1), length)
                found.append(np.bincount(place, rows.weight, BINS))
            if self.of_targets:
                place = np.searchsorted(EDGES, (rows.target - self.middle) / self.half)
                found.append(np.bincount(place, rows.weight, TARGETS))
            sums.append(np.concatenate(found).astype(float))
        return np.asarray(exact_sum(sums) / records.weight.sum())


class Lengths(OfShares):
    """Pure ε, one answer: how long rows are and where targets lie; the model stays at the start."""

    name = "lengths"
    terms = ("reach",)
    label = "lengths"
    phrase = "noisy lengths of rows"

    def check(self, agreed: AgreedTerms) -> None:
        super().check(agreed)
        Histograms.agreed(agreed)

    def numbers(self, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> Histograms:
        return Histograms.agreed(agreed, n_parameters)

    def histograms(self, agreed: AgreedTerms) -> int:
        return Histograms.agreed(agreed).number

    def bins(self, agreed: AgreedTerms) -> str:
        found = Histograms.agreed(agreed)
        of_rows = ["by length, in bins that halve"] * (found.reach is not None)
        return ", and ".join([*of_rows, *["of their targets by interval"] * found.of_targets])

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return Histograms.agreed(agreed).length


def longest_row(agreed: AgreedTerms) -> float:
    """The largest ‖x‖₂ of the numbers in a row, which are in [−1, 1], and which ‖x‖₁ ≤ B bounds, too."""
    declared = {**(agreed.data.bounds or {}), **(agreed.data.dates or {})}
    features = agreed.data.features or ()
    B, columns = agreed.data.feature_bound, (len(declared.keys() & set(features)) or len(features)) ** 0.5
    return float(min(B, columns)) if isinstance(B, float) else columns


def target_range(agreed: AgreedTerms) -> tuple[float, float]:
    """Middle and half of the target's declared range, or 0 and 1; without an intercept, of the range about 0 that has it."""
    low, high = (agreed.data.bounds or {}).get(agreed.data.target or "", (-1.0, 1.0))
    if not agreed.model.intercept:
        return 0.0, float(max(abs(low), abs(high)))
    return 0.5 * (low + high), 0.5 * (high - low)


def share_heard(agreed: AgreedTerms, left: float = 1.0) -> float:
    """Share of every ε that a pilot of owners without public rows takes: the first of `SHARES_OF_RANGES`, for classes of
    `SHARES`, whose noise on the mean is as small as it says; 0 where none is. left: the part of every ε that is agreed here.
    """
    of_classes = isinstance(named(agreed.model.loss, agreed.model.threshold), OfMargin)
    whole = noise_on_mean(agreed, 1.0 / left)
    return next((share for share, most in (SHARES if of_classes else SHARES_OF_RANGES) if whole / share <= most), 0.0)


def noise_on_mean(agreed: AgreedTerms, times: float) -> float:
    """Scale of the noise on each share of all owners' rows, of a pilot with so many times every ε that is agreed here."""
    answers, floors = 1 + agreed.summed * agreed.attempts, [table.floor or np.inf for table in agreed.owner_tables]
    whole = 2.0 * Histograms.of_run(agreed).number * answers * agreed.overlaps / (times * agreed.records)
    if not agreed.summed:
        return float(np.linalg.norm(agreed.weights * whole / agreed.epsilons))
    together = SharedSum(agreed.weights, agreed.uncounted, whole / agreed.by_owner(floors))
    return float(np.linalg.norm(together.noise(whole / agreed.epsilons)))


def shares(noisy: Float[Array, " bins"]) -> Float[Array, " bins"]:
    """The nearest shares that are not negative and add up to 1, from a noisy histogram."""
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - 1.0) / np.arange(1.0, len(noisy) + 1.0)
    return np.asarray(np.maximum(noisy - over[falling > over][-1], 0.0))


Reading = tuple[float, float, tuple[float, float]]
"""Centre and half width of an interval, and the squared mean and variance of targets that are clipped to it, in its unit."""


PARTS = 8
"""Of each bin: by them the variance is found of shapes that are narrower than a bin."""


@dataclass(frozen=True, eq=False)
class Shapes:
    """Targets that are uniform, normal or exponential, at any place and of any width, or half of them in each of two bins."""

    bins: Float[Array, "shapes bins"]
    """Shares by bin."""
    parts: Float[Array, "shapes parts"]
    """Shares by part of a bin."""

    @staticmethod
    @cache
    def of_targets() -> "Shapes":
        from scipy.special import ndtr

        ends = np.array([-1.0, *EDGES, 1.0])
        places = np.unique([*ends, *0.5 * (ends[1:] + ends[:-1])])[:, None]
        z = (_cuts(0.0)[1:, None, None] - places) / 2.0 ** np.arange(-8.5, 0.6, 0.5)
        tail = np.exp(-np.abs(z))
        to_right, to_left = np.where(z > 0, 1.0 - tail, 0.0), np.where(z < 0, tail, 1.0)
        below = np.stack([np.clip(0.5 + z / 12.0**0.5, 0.0, 1.0), ndtr(z), to_right, to_left], axis=1)
        below = below.reshape(len(z), -1)
        found = np.diff(np.vstack([np.zeros_like(below[:1]), below, np.ones_like(below[:1])]), axis=0).T
        one, other = np.triu_indices(TARGETS, 1)
        halves = np.repeat(0.5 * (np.eye(TARGETS)[one] + np.eye(TARGETS)[other]) / PARTS, PARTS, axis=1)
        parts = np.vstack([found, halves])
        return Shapes(parts.reshape(-1, TARGETS, PARTS).sum(axis=2), parts)

    def deviation(self, centre: float, width: float) -> Float[Array, " shapes"]:
        """Standard deviation of the targets of each, clipped to an interval between bins, in its unit."""
        within = np.clip((_cuts(0.5) - centre) / width, -1.0, 1.0)
        uniform = np.where(np.abs(within) < 1.0, np.diff(np.append(_cuts(0.0), 1.0)) / width, 0.0) ** 2 / 12.0
        return np.asarray(np.sqrt(np.maximum(self.parts @ (within**2 + uniform) - (self.parts @ within) ** 2, 0.0)))


def _cuts(place: float) -> Float[Array, " parts"]:
    """Where each part of the bins begins (0), or a share of it later."""
    ends = np.array([-1.0, *EDGES, 1.0])
    return np.asarray(np.interp((np.arange(PARTS * TARGETS) + place) / PARTS, np.arange(len(ends)), ends))


def by_bins(noisy: Float[Array, " bins"], scale: float, intercept: bool) -> Reading:
    """Read shares of targets bin by bin: beyond the interval, at either end, are no more than noise may have there.

    noisy: a share for each bin. scale: of the noise on each. intercept: whether the interval may lie off 0.
    """
    found = shares(noisy)
    # At either end half as many, and the deviation of the noise on the sum of that many bins; at most a quarter.
    most = np.minimum(0.5 * _few(scale) + scale * np.sqrt(2.0 * np.arange(1, len(found))), 0.25)
    low, above = (int(np.argmin([*(np.cumsum(each)[:-1] <= most), False])) for each in (found, found[::-1]))
    centre, width, squares, targets, off = _interval(low, max(len(found) - above, low + 1), intercept)
    mean = float(found @ targets)
    return centre, width, (mean**2 + float(np.square(found * off).sum()), float(found @ squares) - mean**2)


def by_shapes(noisy: Float[Array, " bins"], scale: float, intercept: bool) -> Reading:
    """Read shares of targets together: what is expected of `Shapes`, and of the rest what noise does not explain.

    Each shape is as likely as Laplace noise of this scale makes it. Noise in one far bin, which `by_bins` takes for rows, makes
    no other shape likely. Parameters are those of `by_bins`.
    """
    shapes, fits = Shapes.of_targets(), []
    for outliers in (0.0, OUTLIERS):
        mixed = (1.0 - outliers) * shapes.bins + outliers / TARGETS
        spread = max(scale, 1e-4) + UNLIKE * mixed
        fits.append(-(np.abs(noisy - mixed) / spread + np.log(spread)).sum(axis=1))
    likely = np.exp(np.array(fits) - np.max(fits)).sum(axis=0)
    likely /= likely.sum()
    expected = likely @ shapes.bins
    over = noisy - expected
    found = shares(expected + _beyond(over, HEARD * scale))
    most = min(HEARD * scale, CLIPPED)
    low, above = (int(np.argmax(np.cumsum(each) > most)) for each in (found, found[::-1]))
    centre, width, squares, targets, off = _interval(low, len(found) - above, intercept)
    mean = float(found @ targets)
    unlike = float((found - expected) @ squares) - mean**2 + float(expected @ targets) ** 2
    # The square of what a deviation is expected to be: one that noise made too large would promise a gain that is not there.
    variance = float(likely @ shapes.deviation(centre, width)) ** 2 + max(unlike, 0.0)
    return centre, width, (mean**2 + float(np.square(found * off).sum()), variance)


UNEXPLAINED = 0.8
"""What features leave of the deviations of targets from their mean: set by hand on open tables."""
AT_END = 0.7
"""Share of the targets of an outer bin that may be at its outer end: set by hand on open tables."""


def at_bounds(
    found: Float[Array, " bins"], centre: float, width: float, scale: float, intercept: bool = True
) -> tuple[tuple[float, float], ...]:
    """Squared distance of the Huber location of clipped targets from the mean of all, and share within the bound of it.

    For each of `SLOPES_OF_NUMBERS`. found: the share of targets in each bin. centre, width: middle and half width of the
    interval that targets are clipped to, in units of half of the declared range; results are in units of `width`
    (`Declared.at_bounds`). scale: of the noise on each share; what it may show is subtracted from the distance, of the location
    from the mean of clipped targets and, with an intercept, of that from the mean of all; and added to the share.
    The mean of three cases: targets are uniform in each bin; those of the lowest bin are mostly at its outer end, and else at
    its inner one; and so are those of the highest.
    """
    even = np.repeat(found / PARTS, PARTS)
    low, high, inside = even.copy(), even.copy(), np.flatnonzero(even)
    low[inside[:PARTS]], high[inside[-PARTS:]] = 0.0, 0.0
    low[inside[[0, PARTS - 1]]] = np.array([AT_END, 1.0 - AT_END]) * even[inside[:PARTS]].sum()
    high[inside[[-1, -PARTS]]] = np.array([AT_END, 1.0 - AT_END]) * even[inside[-PARTS:]].sum()
    share = np.array([even, low, high])
    whole = (_cuts(0.5) - centre) / width
    y = np.clip(whole, -1.0, 1.0)
    cut = intercept * (y - whole).reshape(-1, PARTS).mean(axis=1)
    y = UNEXPLAINED * (y - (share @ y)[:, None])
    bound, place = np.array(SLOPES_OF_NUMBERS)[:, None, None], np.zeros((len(SLOPES_OF_NUMBERS), 3))
    for _ in range(200):
        place = place + (np.clip(y - place[..., None], -bound, bound) * share).sum(axis=-1)
    within = ((np.abs(y - place[..., None]) < bound) * share).sum(axis=-1)[:, 0]
    # What noise on each share may show of a place that lies within the bound, or of a share.
    noise = scale * np.sqrt(len(found))
    place = _beyond(place, UNEXPLAINED * noise) + _beyond(found @ cut, scale * float(np.linalg.norm(cut)))
    squares = np.square(place).mean(axis=1)
    return tuple(zip(squares.tolist(), np.minimum(within + noise, 1.0).tolist(), strict=True))


def _beyond(values: Float[Array, "*values"] | float, noise: float) -> Float[Array, "*values"]:
    """What of values such a noise does not explain."""
    return np.asarray(np.sign(values) * np.maximum(np.abs(values) - noise, 0.0))


def _few(scale: float) -> float:
    """The share of rows that is taken for none, at this scale of its noise."""
    # A fifth of the rows may be clipped before a unit is taken that may be far too wide, which costs far more.
    return max(BARELY * scale, min(SURELY * scale, 0.2))


def _interval(
    low: int, high: int, intercept: bool
) -> tuple[float, float, Float[Array, " bins"], Float[Array, " bins"], Float[Array, " bins"]]:
    """Read an interval from one end of a bin to another: middle and half width, about 0 without an intercept.

    In units of the half width, for each bin: the mean square and the mean of its targets, as if they were uniform in it, and
    how far off that mean is expected.
    """
    ends = np.array([-1.0, *EDGES, 1.0])
    first, last = ends[low], ends[high]
    if not intercept:
        last = max(-first, last)
        first = -last
    centre, width = 0.5 * (first + last), 0.5 * (last - first)
    targets = np.clip((0.5 * (ends[1:] + ends[:-1]) - centre) / width, -1.0, 1.0)
    halves = 0.5 * (ends[1:] - ends[:-1]) / width
    squares = targets**2 + np.clip(2.0 * halves, 0.0, 1.0) ** 2 / 12.0
    return float(centre), float(width), squares, targets, intercept * OFF_CENTRE * np.clip(halves, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Measured:
    """What noisy lengths say: the units in which columns and target are to be asked for, and what is known in them."""

    columns: int = 0
    """How many times the unit of columns is half of the declared one."""
    centre: float = 0.0
    """Of the interval that targets are clipped to, in the unit of the declared range; 0 without an intercept."""
    width: float = 1.0
    """Half the width of that interval."""
    rows: tuple[float, ...] = ()
    """Share of the rows in each bin of length (`Declared.measured`); empty where nothing was measured."""
    size: tuple[float, float] | None = None
    """Squared mean and variance of targets in [−1, 1] of that interval."""
    at_bounds: tuple[tuple[float, float], ...] = ()
    """What bounds on slopes would do to targets (`Declared.at_bounds`)."""
    counted: float = 1.0
    """The mean of the shares for which rows count, where they do."""
    noisy: Float[Array, " answer"] = field(default_factory=lambda: np.zeros(0))
    """The answer itself."""
    noise: float = 0.0
    """Scale of its noise."""
    spent: float = 0.0
    """Share of ε that this has cost."""

    @classmethod
    def of(
        cls, noisy: Float[Array, " answer"], scale: float, intercept: bool, spent: float = 0.0, weighted: bool = False
    ) -> "Measured":
        """noisy: an answer of "lengths", or the mean of several; scale: of its noise; weighted: rows count for shares."""
        known = cls(spent=spent, noisy=noisy, noise=scale)
        if len(noisy) != TARGETS:
            rows, few = shares(noisy[:BINS]), _few(scale)
            if weighted:  # what is left of a row is a row of zeros, in the last bin
                counted = max(1.0 - float(rows[-1]), scale)
                known = replace(known, counted=counted)
                rows, few = shares(np.append(noisy[: BINS - 1], 0.0) / counted), _few(scale / counted)
            # The first bins that have hardly a row are left out, and their rows are counted in the next one.
            empty = int(np.searchsorted(np.cumsum(rows)[:-1], few, side="right")) if few < 0.5 else 0
            if empty == BINS - 1:  # rows of zeros, perhaps, beside a few that are long: no unit is told by them
                empty = 0
            known = replace(known, columns=empty, rows=(float(rows[: empty + 1].sum()), *rows[empty + 1 :].tolist()))
        if len(noisy) == BINS:
            return known
        centre, width, size = by_bins(noisy[-TARGETS:], scale, intercept)
        likely = by_shapes(noisy[-TARGETS:], scale, intercept)
        if likely[1] <= 0.5 * width:  # noise in a far bin was taken for rows
            centre, width, size = likely
        elif likely[:2] == (centre, width):  # the less spread is promised: skewed targets use little of a wide range
            size = size[0], min(size[1], likely[2][1])
        return replace(
            known,
            centre=centre,
            width=width,
            size=size,
            at_bounds=at_bounds(shares(noisy[-TARGETS:]), centre, width, scale, intercept),
        )

    def by_less(self, times: float, intercept: bool) -> "Measured":
        """What the same answer says if its noise had so many times its scale."""
        return Measured.of(self.noisy, times * self.noise, intercept, self.spent)

    @property
    def at_an_end(self) -> bool:
        """Whether the interval of targets reaches an end of the declared range."""
        return abs(self.centre) + self.width > 1.0 - 1e-9

    @property
    def of_all_targets(self) -> "Measured":
        """The same where targets are asked for as they are declared."""
        level, variance = self.size or (1.0, 0.0)
        size = min(self.centre**2 + self.width**2 * level, 1.0), self.width**2 * variance
        return replace(self, centre=0.0, width=1.0, size=size)

    def clipped(self, target: Float[Array, " records"]) -> Float[Array, " records"]:
        """Targets in the unit that was found."""
        return np.asarray(np.clip((target - self.centre) / self.width, -1.0, 1.0))
