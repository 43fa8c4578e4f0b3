"""`PrivateRegressor` and `PrivateClassifier`: linear models by scikit-learn's conventions, fitted by private answers alone.

Guarantee of a fit: all that the fitted estimator holds is (ε, δ)-differentially private for each owner, when one of its
rows (features and target) is replaced. Public are: how many rows each owner has and which these are, the number, names and
order of columns, the labels there are, bounds, levels, public rows and all parameters. The guarantee is that of `copriv.Owner`,
which alone reads rows once they are checked; docs/how-to/estimators.md says what it rests on.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from fractions import Fraction
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from copriv.data.cells import shortened
from copriv.errors import AgreementError, DataError, InvalidInput
from copriv.estimators.declared import (
    Settled,
    UndeclaredWarning,
    budget,
    enough,
    in_the_callers_words,
    kink,
    length,
    measuring,
    number,
    of_one_kind,
    planned,
    ranging,
    strength,
    terms,
    weighed,
    without_data,
)
from copriv.estimators.in_process import (
    NOTHING_MEASURED,
    OwnersLedger,
    PrivacySpent,
    PrivateRows,
    SharedLedger,
    SpendingWarning,
    answered,
    owners_of,
    train,
)
from copriv.estimators.inputs import (
    NO_NUMBER,
    STANDARD,
    Columns,
    LogScale,
    Ranges,
    dense,
    has_days,
    repeated,
    shares_of,
    whose_rows,
    with_level,
    without_values,
)
from copriv.mechanisms.lengths import Measured
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.validation import positive

LIGHT = 0.25
"""Mean share for which rows count below which a fit with weights warns: set by hand."""


class _PrivateLinear(BaseEstimator):  # type: ignore[misc]
    """Base of both estimators: divides rows among owners, agrees on terms, runs the agreement and counts its cost."""

    _own_ledger: SharedLedger
    _columns: Columns

    def __new__(cls, *_: Any, **__: Any) -> Any:
        made = super().__new__(cls)
        made._own_ledger = SharedLedger()  # before it is pickled or forked, so that what comes of that is a copy
        return made

    def __init__(
        self, *, epsilon: Any, delta: Any, loss: Any, bounds: Any, feature_bound: Any, regularization: Any,
        fit_intercept: Any, ledger: Any, row_norm: Any, weight_cap: Any, categories: Any,
    ) -> None:  # fmt: skip
        # By scikit-learn's convention anything is taken here; what is wrong is said by `fit`.
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.bounds = bounds
        self.feature_bound = feature_bound
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.ledger = ledger
        self.row_norm = row_norm
        self.weight_cap = weight_cap
        self.categories = categories

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, owners: Any = None, public: Any = None) -> Any:
        """Fit by asking owners, and spend their budgets.

        X: shape (rows, columns), a DataFrame, array or SciPy sparse matrix of finite numbers, and of declared levels in the
            columns of `categories`; a sparse one is made dense, and refused beyond 1 GiB of cells. y: shape (rows,).
        sample_weight: shape (rows,), private: a row's loss counts sample_weight/weight_cap times, at most once. The mean is
            over the number of rows, never over the sum of weights; None: once each.
        owners: whose row each one is, a label a row; None: all are one owner's.
        public: (X, y) that anybody may look at, never among the rows of X. With it bounds need not be declared, the
            terms are planned for the least cost, and `forecast_` says what to expect.

        Raises ValueError (its children DataError and InvalidInput) where data or parameters are not as declared, and
        BudgetRefused where the ledger does not allow it: both before anything is answered or spent. No message quotes
        a value of X or y. The estimator is then as it was before.
        """
        before = dict(vars(self))
        try:
            return self._fitted(X, y, sample_weight, owners, public)
        except BaseException:
            if vars(self).get("privacy_spent_") is before.get(
                "privacy_spent_"
            ):  # a warning may be an error after a fit
                self.__dict__ = before
            raise

    def _fitted(self, X: Any, y: Any, sample_weight: Any, owners: Any, public: Any) -> Any:
        X, y = self._checked(X, y)
        public_X, public_y = self._public(public)
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidInput(f"fit_intercept: must be True or False, not {self.fit_intercept!r}")
        intercept = bool(self.fit_intercept)
        target = self._numbers(y, public_y)
        ranges = self._ranges_of_columns(public_X)
        whose, share = whose_rows(owners, len(X)), self._shares(sample_weight, len(X))
        # A row that counts for less than one has less of the intercept, too: it is then a column, 1 in every row.
        weighted, nonzero = share is not None, self.n_features_in_  # of a category's levels a row has one
        level = int(weighted and intercept)
        whole = wanted = terms(
            columns=X.shape[1], loss=self.loss, threshold=self._threshold(),
            regularization=strength(self.regularization), intercept=intercept, feature_bound=self._feature_bound(),
            owners=of_one_kind(
                {"name": name, "records": len(rows), **budget(self.epsilon, self.delta, name)}
                for name, rows in whose.items()
            ),
        )  # fmt: skip
        fewest, unknown = min(map(len, whose.values())), self._of_no_range(ranges)
        of_ranges = ranging(wanted, unknown) if unknown else None
        if of_ranges:
            wanted = of_ranges[1]
        row_norm, of_lengths, known = None, None, NOTHING_MEASURED
        settled: Settled | None = None
        stand_in, public_records = None, None
        if public_X is None:
            row_norm = None if self.row_norm is None else length("row_norm", self.row_norm)
            with in_the_callers_words(fewest):
                of_lengths = measuring(wanted, row_norm, nonzero)
                rest = of_lengths[1] if of_lengths else wanted
                settled = without_data(rest, row_norm, nonzero=nonzero, weighted=weighted)
            agreement, scale = settled.agreement, settled.scale
            if of_lengths is None and settled.drowned:
                _warn_of_noise(settled, enough(wanted, row_norm, None, nonzero, weighted), whole)
        else:
            public_records = Records.of(with_level(ranges.inside(public_X), level), self._public_numbers(public_y))
            with in_the_callers_words(fewest):
                agreement, stand_in = planned(weighed(wanted) if weighted else wanted, public_records)
            scale = 1.0

        def rows() -> PrivateRows:
            return PrivateRows(ranges.inside(X), target, whose, share, level, public_records)

        private = rows()
        with in_the_callers_words(fewest):
            problem = private.problem(agreement, scale)
        shared = self.shared_ledger
        _warn_of_labels(whose, lambda: np.column_stack([X, np.asarray(y, float) if self._regressor else target]))
        _warn_of_spending(shared)
        # What a first answer leaves of δ is not known before it: the whole budget must be there.
        paying = whole["owner"] if of_lengths or of_ranges else problem.agreement.to_dict()["owner"]
        costs = {one["name"]: (Fraction(one["epsilon"]), Fraction(one["delta"])) for one in paying}
        with shared.for_fit(costs, problem.agreement.answers) as own, in_the_callers_words(fewest):
            ledgers = [own]
            if of_lengths or of_ranges:
                # Terms that owners can keep whatever is measured, so that nothing is spent on a fit that is then refused.
                owners_of(problem)
            if of_ranges:
                asked, _, noise = of_ranges
                on_scale = self._on_scale(private.x, target, unknown)
                answer = answered(Problem.of(asked, [on_scale.taken(each) for each in whose.values()]), own)
                ranges = self._with_ranges(ranges, LogScale.found(answer, noise, intercept))
                target = self._public_numbers(y)
                private = rows()
                problem = private.problem(agreement, scale)
                ledgers.append(_of_the_same_fit(own))
            if of_lengths:
                asked, rest, noise = of_lengths
                answer = answered(private.problem(asked), ledgers[-1])
                spent = asked.owner[0].epsilon / wanted["owner"][0]["epsilon"]
                found = Measured.of(answer, noise, intercept, spent, weighted)
                with suppress(AgreementError, InvalidInput):
                    closest = without_data(rest, row_norm, found, nonzero=nonzero, weighted=weighted)
                    closer = closest.scale * 2.0**found.columns
                    sized = private.problem(closest.agreement, closer, closest.measured)
                    owners_of(sized)
                    settled, known, problem, scale = closest, found, sized, closer
                ledgers.append(_of_the_same_fit(ledgers[-1]))
            theta = train(problem, ledgers[-1])
        measured = settled.measured if settled else NOTHING_MEASURED
        theta = measured.width * (settled.model(theta) if settled else theta)
        ranges, columns = cast(Ranges, ranges), len(self._columns.features)
        coef, shift = ranges.coefficients(scale * theta[:columns] if scale else np.zeros(columns))
        self._set_model(coef, shift, measured.centre + float(theta[-1]) if intercept else 0.0)
        self.agreement_, self.scale_ = problem.agreement, scale
        self.expected_gap_ = settled.expected_gap if settled else None
        self._stand_in, self._forecast = stand_in, cast(Any, None)
        self.coef_names_ = self._columns.features
        self.bounds_ = ranges.low[self._columns.of_numbers], ranges.high[self._columns.of_numbers]
        self.privacy_spent_ = _spent(ledgers)  # the last: without it a fit that was interrupted is undone
        if settled:
            _warn_of_light_rows(settled.measured.counted)
            if of_lengths and settled.drowned:  # what was measured says so; the fit is whole
                _warn_of_noise(settled, enough(rest, row_norm, known, nonzero, weighted), whole)
        return self

    def _public(self, public: Any) -> Any:
        """Public rows and their targets, checked; None and None where there are none."""
        if public is None:
            return None, None
        if not isinstance(public, tuple | list) or len(public) != 2:
            raise InvalidInput("public: must be a pair (X, y)")
        return self._checked(public[0], public[1], reset=False)

    def _on_scale(self, scaled: Any, target: Any, unknown: list[str]) -> Records:
        """The columns of which no range is known, the target's last, on the scale of `LogScale`."""
        of_numbers = [scaled[:, self._columns.of_numbers]] * ("bounds" in unknown)
        return Records.of(np.hstack([*of_numbers, *[target[:, None]] * ("target_bounds" in unknown)]), 0.0 * target)

    @property
    def shared_ledger(self) -> SharedLedger:
        """Where every fit of this estimator and its clones counts: the parameter `ledger`, or one of their own."""
        if self.ledger is not None:
            if not isinstance(self.ledger, SharedLedger):
                raise InvalidInput("ledger: must be a copriv.estimators.SharedLedger, or None")
            return self.ledger
        return self._own_ledger

    @property
    def forecast_(self) -> Any:
        """The `copriv.Forecast` of the agreement, from public rows alone; made when first asked for, None without them."""
        check_is_fitted(self)
        if self._stand_in is not None and self._forecast is None:
            from copriv.forecast import forecast

            self._forecast = forecast(self._stand_in)
        return self._forecast

    def __copy__(self) -> Any:
        made: Any = type(self).__new__(type(self))
        vars(made).update(vars(self))  # with the ledger: copies spend for the same caller, as clones do
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made: Any = copy(self)
        memo[id(self)] = made
        vars(made).update(deepcopy(vars(made), memo))
        return made

    def __sklearn_clone__(self) -> Any:
        made = super().__sklearn_clone__()
        made._own_ledger = self._own_ledger  # clones spend for the same caller
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # an owner's noise cannot be seeded
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, reset: bool = True) -> Any:
        """X and y as `_validated`, X dense; days and durations are refused."""
        if has_days(X) or (self._regressor and has_days(y)):
            raise TypeError(
                "X or y: has days or durations, alone or as days beside numbers, in a unit that one row may change for "
                "all; make them numbers before"
            )
        if self._regressor and (isinstance(y, list | tuple) or np.asarray(y).dtype.kind in "US"):
            y = np.array(y, dtype=object)  # cell by cell: one text in a list would make texts of all numbers
        X, y = self._validated(X, y, reset=reset, y_numeric=self._regressor, ensure_min_samples=2)
        if self._regressor:
            with np.errstate(over="ignore"):  # a warning would tell of single rows
                y = np.asarray(y, dtype=np.float64)
            if not np.isfinite(y).all():  # which scikit-learn does not see among objects, and in longer floats
                raise ValueError("Input y contains NaN or infinity.")
        return dense(X), y

    def _validated(self, X: Any, *y: Any, reset: bool, **how: Any) -> Any:
        """What scikit-learn's check makes of X, encoded, and y, without the values that some of its messages quote."""
        how |= {"dtype": np.float64, "accept_sparse": "csr"}
        refused: Exception
        try:
            if self.categories is not None if reset else self._columns.categories:
                validate_data(self, X, reset=reset, skip_check_array=True)
                columns = self._columns_of_X() if reset else self._columns
                X, checked = columns.encode(X), check_X_y if y else check_array
                checked = checked(X, *y, **how)
            else:
                checked = validate_data(self, X, *y, reset=reset, **how)
            if reset:
                self._columns = self._columns_of_X()
            return checked
        except (TypeError, ValueError) as error:
            refused = type(error)(without_values(str(error)))
        except ArithmeticError:  # 10**400 overflows, and a Decimal may signal
            refused = ValueError(NO_NUMBER)
        raise refused  # outside, so that no context of it quotes a value

    def _columns_of_X(self) -> Columns:
        return Columns.declared(self.categories, getattr(self, "feature_names_in_", None), self.n_features_in_)

    def _scores(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._validated(X, reset=False) @ np.ravel(self.coef_) + np.ravel(self.intercept_)[0]

    def _shares(self, weights: Any, rows: int) -> Any:
        """For how much of a record each row counts; None where all count for one."""
        if weights is None:
            return None
        cap = 1.0
        if self.weight_cap is not None:
            cap = positive("weight_cap", number("weight_cap", self.weight_cap))
        else:
            warnings.warn(
                "weight_cap: not declared: 1 is taken, and larger weights count as 1. Declare the largest weight there may be",
                UndeclaredWarning, stacklevel=4,
            )  # fmt: skip
        return shares_of(weights, cap, rows)

    def _feature_bound(self) -> Any:
        if isinstance(self.feature_bound, str):
            if self.feature_bound != "auto":
                raise InvalidInput('feature_bound: must be "auto" or a number above 0')
            return "auto"
        return length("feature_bound", self.feature_bound)

    def _ranges_of_columns(self, public: Any) -> Ranges | LogScale:
        """The ranges of all features: those of `bounds` for columns of numbers, and for levels those of 0 and 1."""
        columns, features = self._columns, self._columns.of_numbers
        if not columns.numbers:
            return Ranges(np.empty(0), np.empty(0), bool(self.fit_intercept)).among(features)
        names = [columns.names[j] for j in columns.numbers] if hasattr(self, "feature_names_in_") else None
        public = None if public is None else public[:, features]
        return self._ranges("bounds", self.bounds, len(columns.numbers), public, names).among(features)

    def _ranges(self, name: str, declared: Any, columns: int, public: Any, names: Any = None) -> Ranges | LogScale:
        shift = bool(self.fit_intercept)
        if declared is None and public is None:
            return LogScale(np.full(columns, True))
        if not isinstance(declared, str | None):
            return Ranges.declared(name, declared, columns, shift, names)
        if declared not in ("auto", None):
            raise InvalidInput(f'{name}: must be "auto", None or (low, high)')
        if public is not None:
            return Ranges(public.min(axis=0), public.max(axis=0), shift)
        warnings.warn(
            f"{name}: not declared, and there are no public rows: {STANDARD} is taken, and what lies outside counts as "
            f"the nearer end. Declare {name}=(low, high), give public=(X, y), or pay for it with {name}=None",
            UndeclaredWarning, stacklevel=5,
        )  # fmt: skip
        return Ranges.declared(name, STANDARD, columns, shift)

    def _of_no_range(self, ranges: Ranges | LogScale) -> list[str]:
        """The parameter that is None, for each column whose range is to be measured, the target's last."""
        return ["bounds"] * len(self._columns.numbers) * isinstance(ranges, LogScale)

    def _with_ranges(self, ranges: Ranges | LogScale, found: Ranges) -> Ranges:
        """The ranges of all features, once those that were measured are found, the target's last."""
        if isinstance(ranges, Ranges):
            return ranges
        columns = len(self._columns.numbers)
        return Ranges(found.low[:columns], found.high[:columns], found.shift).among(self._columns.of_numbers)

    def _threshold(self) -> float:
        """Where the Huber loss turns straight, for a target in [−1, 1]; other losses ignore it."""
        return 1.0


def _of_the_same_fit(ledgers: Mapping[str, OwnersLedger]) -> dict[str, OwnersLedger]:
    """Ledgers for another answer, with what these have left."""
    return {name: one.of_the_same_fit() for name, one in ledgers.items()}


def _spent(ledgers: Sequence[Mapping[str, OwnersLedger]]) -> PrivacySpent:
    """What all answers of a fit have cost."""
    by_owner = {
        name: (float(sum(one[name].spent for one in ledgers)), float(sum(one[name].spent_delta for one in ledgers)))
        for name in ledgers[0]
    }
    ε, δ = map(max, zip(*by_owner.values(), strict=True))
    return PrivacySpent(ε, δ, by_owner)


def _warn_of_labels(whose: Mapping[str, Any], rows: Callable[[], Any]) -> None:
    """Say that all rows of a label stand under others, too, where they do."""
    if len(whose) > 1 and (again := repeated(whose, rows())):
        warnings.warn(
            f"owners: all rows of {shortened(again)} stand under other labels too. If they are the same people, each of them "
            "pays once for every label, and the ledger, which counts the dearest owner of a fit, reads too little",
            RuntimeWarning, stacklevel=4,
        )  # fmt: skip


def _warn_of_spending(shared: SharedLedger) -> None:
    """Say that a ledger has counted fits before."""
    if shared.fits:
        warnings.warn(
            f"fit {shared.fits + 1} in one ledger, which reads epsilon {shared.spent:g}: every fit of a "
            "cross-validation or search spends, and its scores, which come from private rows without noise, are "
            "not private. To choose on public rows instead: docs/how-to/estimators.md",
            SpendingWarning, stacklevel=4,
        )  # fmt: skip


def _warn_of_light_rows(counted: float) -> None:
    """Say what it costs that rows count for so little of `weight_cap`, where they do."""
    if counted < LIGHT:
        warnings.warn(
            f"sample_weight: rows count for {counted:.0%} of weight_cap in the mean. All else is noise, and where targets lie "
            "is told of all rows alike: of heavy rows that are unlike the others they may be cut. Declare a smaller "
            "weight_cap, or closer target_bounds",
            RuntimeWarning, stacklevel=4,
        )  # fmt: skip


def _warn_of_noise(settled: Settled, times: float | None, wanted: Any) -> None:
    """Say that the model is nearly a constant, and with how many times the ε or rows of `wanted` it would not be."""
    ε = max(owner["epsilon"] for owner in wanted["owner"])
    takes = "By what is declared, no epsilon that is private would do."
    if times is not None:
        takes = f"It takes an epsilon of {times * ε:.2g}, or {times:g} times as many rows."
    warnings.warn(
        f"noise is expected to leave {settled.expected_gap:.0%} of the gap between the best model and 0, and a constant alone "
        f"{settled.constant_gap:.0%}, so what comes is nearly a constant. {takes} Closer bounds, or public rows, help too: "
        "docs/explanation/without-public-rows.md",
        RuntimeWarning, stacklevel=4,
    )  # fmt: skip


class PrivateRegressor(RegressorMixin, _PrivateLinear):  # type: ignore[misc]
    """Linear regression under differential privacy.

        ŷ = X · coef_ + intercept_, and without public rows the nearer end of target_bounds_ where that is beyond them

    epsilon, delta: the budget of one fit; a number for all owners, or a dict by owner. delta = 0 is pure ε, of all owners
        where it is 0 for one.
    loss: "squared" or "huber"; threshold: where the Huber loss turns straight, in the target's unit. Without public rows large
        residuals may count as by the Huber loss under "squared", too: there is less noise, and predictions of skewed targets
        are drawn towards their median (`agreement_.gradient_bound`).
    bounds: (low, high) of the columns, each a number or one a column; or a (low, high) for each column, by name
        ({"age": (18, 90), ...}, where X is a DataFrame) or in order (not for two columns, where ([0, 1], [5, 9]) is two lows
        and two highs). Columns of `categories` are left out. Values beyond count as the nearer end. Declared; None: measured
        privately, for a part of epsilon; "auto": those of the public rows, else (−3, 3) with an `UndeclaredWarning`.
    target_bounds: (low, high) of y, likewise.
    feature_bound: the largest ‖x‖₁ of a row whose columns are in [−1, 1]; smaller means less noise, and longer rows
        count for less. "auto": planned on public rows, else measured, or what follows from the other bounds.
    row_norm: the largest ‖x‖₂ of a row whose columns are in [−1, 1], used without public rows; smaller means less noise, and
        longer rows count for less. None: what follows from the other bounds.
    weight_cap: the largest sample_weight; larger ones count as it. Declared, never measured; None: 1, with an
        `UndeclaredWarning` where there are weights.
    categories: the levels of each column of categories, by name ({"place": ("town", "country")}), or by position where the
        columns of X have no names. Declared, never learnt from X. A level is one feature, 1 for its rows and 0 for the
        others; a value that is missing or no level is refused.
    regularization: c of (c/2)‖θ‖², in the units of `agreement_`.
    ledger: a `SharedLedger` in which this and all clones count; None: one of their own (`shared_ledger`). Every fit in it
        counts for the same people: for other people give another.

    Fitted: coef_ (features,), coef_names_ (the column's name, or column=level for each level, in the order of columns),
    intercept_, privacy_spent_ (`PrivacySpent`), agreement_ (`copriv.Agreement`, columns in [−scale_, scale_] and target in
    [−1, 1]; of a constant alone where scale_ is 0), bounds_ and target_bounds_ (the lows and the highs that were taken, of
    columns of numbers), expected_gap_ (what noise is expected to leave between the best model, 0,
    and a constant one, 1; None with public rows), forecast_ (`copriv.Forecast`; None without public rows), n_features_in_,
    feature_names_in_.

    >>> import numpy as np
    >>> from copriv.estimators import PrivateRegressor
    >>> X = np.linspace(0, 1, 2000)[:, None]
    >>> model = PrivateRegressor(epsilon=1.0, bounds=(0, 1), target_bounds=(0, 10)).fit(X, 2 + 5 * X[:, 0])
    >>> model.privacy_spent_.epsilon
    1.0
    """

    _regressor = True

    def __init__(
        self, *, epsilon: Any = 1.0, delta: Any = 0.0, loss: Any = "squared", threshold: Any = 1.0,
        bounds: Any = "auto", target_bounds: Any = "auto", feature_bound: Any = "auto", regularization: Any = 1e-5,
        fit_intercept: Any = True, ledger: Any = None, row_norm: Any = None, weight_cap: Any = None, categories: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, loss=loss, bounds=bounds, feature_bound=feature_bound,
            regularization=regularization, fit_intercept=fit_intercept, ledger=ledger, row_norm=row_norm,
            weight_cap=weight_cap, categories=categories,
        )  # fmt: skip
        self.threshold = threshold
        self.target_bounds = target_bounds

    def predict(self, X: Any) -> Any:
        """ŷ, shape (rows,)."""
        ŷ = self._scores(X)
        # Noise moves predictions in proportion to the length of a row; no target is beyond its declared range.
        return ŷ if self._stand_in is not None else np.clip(ŷ, *self.target_bounds_)

    def _numbers(self, y: Any, public: Any) -> Any:
        if self.loss not in ("squared", "huber"):
            raise InvalidInput('loss: must be "squared" or "huber" for a regressor')
        sample = None if public is None else np.asarray(public)[:, None]
        self._target = self._ranges("target_bounds", self.target_bounds, 1, sample)
        if isinstance(self._target, LogScale) and self.loss == "huber":
            raise InvalidInput(
                'target_bounds: None leaves threshold without a unit; declare target_bounds=(low, high), or take loss="squared"'
            )
        if isinstance(self._target, Ranges) and not self._target.size[0] > 0:
            raise InvalidInput("target_bounds: low must be below high")
        return self._public_numbers(y)

    def _of_no_range(self, ranges: Ranges | LogScale) -> list[str]:
        return [*super()._of_no_range(ranges), *["target_bounds"] * isinstance(self._target, LogScale)]

    def _with_ranges(self, ranges: Ranges | LogScale, found: Ranges) -> Ranges:
        if isinstance(self._target, LogScale):
            self._target = Ranges(found.low[-1:], found.high[-1:], found.shift)
        return super()._with_ranges(ranges, found)

    def _public_numbers(self, y: Any) -> Any:
        return self._target.inside(np.asarray(y, dtype=np.float64)[:, None])[:, 0]

    def _threshold(self) -> float:
        return kink(self.threshold, float(self._target.size[0]) if isinstance(self._target, Ranges) else 1.0)

    def _set_model(self, coef: Any, shift: float, intercept: float) -> None:
        of_target = cast(Ranges, self._target)
        self.target_bounds_ = float(of_target.low[0]), float(of_target.high[0])
        size, centre = float(of_target.size[0]), float(of_target.centre[0])
        self.coef_, self.intercept_ = size * coef, centre + size * (intercept + shift)


class PrivateClassifier(ClassifierMixin, _PrivateLinear):  # type: ignore[misc]
    """Linear classification in two classes under differential privacy.

        decision = X · coef_ᵀ + intercept_, and the second of `classes_` where it is above 0

    loss: "logistic" (with `predict_proba`) or "hinge" (without).
    classes: the two labels, in any order; None: those of the public rows, without which a fit is refused. "auto": those of
        the public rows, else those in y with an `UndeclaredWarning`: whoever asks for it states that which labels there are
        is public (a label that one row alone has is then not protected).

    epsilon, delta, bounds, feature_bound, row_norm, weight_cap, categories, regularization and ledger are as in
    `PrivateRegressor`, and so is what is fitted; coef_ has shape (1, features), intercept_ (1,), and classes_ holds the two
    labels, sorted. Without public rows `agreement_` may be of the squared loss on labels −1 and 1: the model is then a Newton
    step from 0, which puts the probabilities of a rare class too near to a half, or a constant, the class rate.

    >>> import numpy as np
    >>> from copriv.estimators import PrivateClassifier
    >>> X = np.linspace(0, 1, 2000)[:, None]
    >>> model = PrivateClassifier(epsilon=1.0, bounds=(0, 1), classes=("no", "yes"))
    >>> model = model.fit(X, np.where(X[:, 0] > 0.5, "yes", "no"))
    >>> model.classes_.tolist(), model.privacy_spent_.epsilon
    (['no', 'yes'], 1.0)
    """

    _regressor = False

    def __init__(
        self, *, epsilon: Any = 1.0, delta: Any = 0.0, loss: Any = "logistic", classes: Any = None,
        bounds: Any = "auto", feature_bound: Any = "auto", regularization: Any = 1e-5, fit_intercept: Any = True,
        ledger: Any = None, row_norm: Any = None, weight_cap: Any = None, categories: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, loss=loss, bounds=bounds, feature_bound=feature_bound,
            regularization=regularization, fit_intercept=fit_intercept, ledger=ledger, row_norm=row_norm,
            weight_cap=weight_cap, categories=categories,
        )  # fmt: skip
        self.classes = classes

    def decision_function(self, X: Any) -> Any:
        """Shape (rows,): above 0 for the second class."""
        return self._scores(X)

    def predict(self, X: Any) -> Any:
        """Labels, shape (rows,)."""
        second = self._scores(X) > 0
        return self.classes_[second.astype(np.intp)]

    @available_if(lambda self: self.loss == "logistic")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Shape (rows, 2): the probability of each class."""
        from scipy.special import expit

        z = self._scores(X)
        return np.column_stack([expit(-z), expit(z)])

    @available_if(lambda self: self.loss == "logistic")  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """The logarithm of `predict_proba`."""
        z = self._scores(X)
        return np.column_stack([-np.logaddexp(0.0, z), -np.logaddexp(0.0, -z)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _numbers(self, y: Any, public: Any) -> Any:
        if self.loss not in ("logistic", "hinge"):
            raise InvalidInput('loss: must be "logistic" or "hinge" for a classifier')
        auto = isinstance(self.classes, str) and self.classes == "auto"
        if self.classes is not None and not auto:
            found = np.asarray(self.classes)
        elif public is not None:
            found = np.unique(public)
        elif not auto:
            raise InvalidInput(
                "classes: not declared, and there are no public rows: which labels stand in y is private. Declare "
                'classes=(first, second), or state with classes="auto" that the labels in y are public'
            )
        else:
            check_classification_targets(y)
            kind = type_of_target(y)
            if kind != "binary":
                raise DataError(f"Only binary classification is supported. The type of the target is {kind}.")
            found = np.unique(y)
            warnings.warn(
                "classes: which labels stand in y is taken as public, as there are no public rows. Declare "
                "classes=(first, second)",
                UndeclaredWarning, stacklevel=4,
            )  # fmt: skip
        if found.shape != (2,) or found[0] == found[1]:
            what = "one twice" if found.size == 2 else str(found.size)
            raise DataError(f"classes: needs two classes, not {what} (one class says nothing to learn)")
        self.classes_ = np.sort(found)  # scores of scikit-learn take the later one in this order for the positive class
        return self._public_numbers(y)

    def _public_numbers(self, y: Any) -> Any:
        second, first = y == self.classes_[1], y == self.classes_[0]
        if not np.all(first != second):  # whole numbers beyond 2⁵³ that one float made floats of may be both
            raise DataError("y: a label is none of the two classes, or both; declare the classes that there are")
        return np.where(second, 1.0, -1.0)

    def _set_model(self, coef: Any, shift: float, intercept: float) -> None:
        self.coef_, self.intercept_ = coef[None, :], np.array([intercept + shift])
