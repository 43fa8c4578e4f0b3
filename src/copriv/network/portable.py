"""A model for programs without copriv: a few simple steps from the text of a table's cells to a score.

The text of each column is mapped to a few numbers (its atoms): a number within its bounds, the position of a day, or an
indicator of each text that it may hold. Features are linear in the atoms, also through the dictionary, so that

    score = φ(atoms · inner + inner_offset) · outer + outer_offset,      φ(z) = z, or √(2/D)·cos(z) of D random waves.

Values that copriv would refuse give no score: a text that a column may not hold, a number out of its bounds, a missing value
without a substitute. `Portable.pipeline` uses scikit-learn's own classes, `copriv.network.exports` ONNX.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from importlib import import_module
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Float

from copriv import losses
from copriv.agreement.data_terms import schema_of
from copriv.data.cells import MISSING, reading
from copriv.data.columns import TRUTHS, Boolean, Category, Column, Date, Number, Scaling, TwoClasses
from copriv.errors import CoprivError
from copriv.network.model import Model, estimator
from copriv.types import Array, Loss

FAR = (date(1900, 1, 1), date(2100, 12, 31))
"""First and last day that a clamped column may name; days outside its own range count as the nearest one in it."""

PANDAS_MISSING = frozenset((
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
))  # fmt: skip
"""Texts that pandas.read_csv reads as missing by default (its documentation, `na_values`)."""


@dataclass(frozen=True, eq=False)
class TextColumn:
    """The map from a column's cells to atoms.

    texts: the texts that a cell may hold; each level has an atom, days have one atom, their position; none for a number.
    low, width: range of a number, or of the positions of days; the atom is (value − low), within [0, width].
    missing: the text that replaces a missing value; None: it is refused, or is one of the texts.
    cut: whether values below, and above, the range count as its bound; otherwise they are refused.
    log: whether the atom is log(1 + value − low).
    """

    name: str
    features: Float[Array, "atoms features"]
    offset: Float[Array, " features"]
    """Features where all atoms are 0."""
    texts: tuple[str, ...] = ()
    low: float = 0.0
    width: float = math.inf
    missing: str | None = None
    cut: tuple[bool, bool] = (False, False)
    log: bool = False

    @property
    def of_levels(self) -> bool:
        """Whether each text has an atom."""
        return math.isinf(self.width)


@dataclass(frozen=True, eq=False)
class Portable:
    """A model in these steps; `classes`: names of two classes, the first for scores up to 0; None for a number."""

    columns: tuple[TextColumn, ...]
    inner: Float[Array, "atoms waves"]
    inner_offset: Float[Array, " waves"]
    outer: Float[Array, " waves"]
    outer_offset: float
    waves: bool
    classes: tuple[str, str] | None
    loss: Loss

    @classmethod
    def of(cls, model: Model) -> "Portable | None":
        """The steps of a model; None where its agreement declares no columns (a built-in data set reads its own files).

        Raises DataError for a model with parameters, or a dictionary with columns, of another table.
        """
        schema = schema_of(model.agreement, None)
        if schema is None or model.agreement.data.dataset != "table":
            return None
        columns = tuple(_column(column, schema.scaling) for column in schema.columns)
        inner = np.zeros((sum(len(one.features) for one in columns), sum(len(one.offset) for one in columns)))
        row = place = 0
        for one in columns:
            atoms, features = one.features.shape
            inner[row : row + atoms, place : place + features] = one.features
            row, place = row + atoms, place + features
        offset, dictionary = np.concatenate([one.offset for one in columns]), model.dictionary
        θ, last, waves = model.theta, 0.0, None
        if model.agreement.model.intercept:
            θ, last = θ[:-1], float(θ[-1])
        if dictionary is not None:
            dictionary.check_columns(len(offset))
            inner, offset = inner @ dictionary.matrix, (offset - dictionary.mean) @ dictionary.matrix
            waves = dictionary.waves
        if waves is not None:
            inner, offset = inner @ waves.frequencies, offset @ waves.frequencies + waves.phases
        model.check_features(inner.shape[1] + model.agreement.model.intercept)
        classes, loss = None, losses.named(model.agreement.model.loss)
        if isinstance(schema.target, TwoClasses):
            classes = (schema.target.negative, schema.target.positive)
        return cls(columns, inner, offset, θ, last, waves is not None, classes, loss)

    def pipeline(self) -> Any:
        """A fitted scikit-learn Pipeline. It predicts from a pandas frame of text, as `exports.TABLE_READ` reads a CSV file."""
        from sklearn.compose import ColumnTransformer
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.pipeline import Pipeline

        pandas = needed("pandas", "model")
        parts, rows, first = [], list[Array](), 0
        for column in self.columns:
            atoms = self.inner[first : first + len(column.features)]
            first += len(atoms)
            known = _as_pandas_reads(column)
            if column.of_levels:
                atoms = atoms[known]
            # Besides the atoms there are checks, which are NaN where a value is refused, and have weight 0.
            for name, step, checks in _transformers(column, known):
                parts.append((name, step, [column.name]))
                rows.append(np.zeros((1, atoms.shape[1])) if checks else atoms)
        reader, inner = ColumnTransformer(parts), np.concatenate(rows)
        example = {one.name: [*one.texts, repr(one.low)][:1] for one in self.columns}
        reader.fit(pandas.DataFrame(example, dtype=object))
        outer, offset = self.outer, self.outer_offset
        steps: list[tuple[str, Any]] = [("columns", reader)]
        if self.waves:
            sampler = RBFSampler(n_components=len(self.outer))
            sampler.random_weights_, sampler.random_offset_ = inner, self.inner_offset
            sampler.n_features_in_ = len(inner)
            steps.append(("waves", sampler))
        else:
            outer, offset = inner @ self.outer, offset + float(self.inner_offset @ self.outer)
        return Pipeline([*steps, ("model", estimator(self.loss, outer, offset, self.classes))])


def needed(module: str, extra: str) -> Any:
    """The module of an extra of copriv. Raises CoprivError where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise CoprivError(f"{module.partition('.')[0]} is not installed; pip install 'copriv[{extra}]'") from None


def _column(column: Column, scaling: Scaling) -> TextColumn:
    match column:
        case Number():
            log = column.by == "log" and scaling != "none"
            width = atom_width = column.high - column.low
            if log:
                atom_width = math.log1p(width)
            missing = None if column.missing is None else repr(column.missing)
            cut = column.clamp, column.clamp or column.cap
            low, high = _encoded(column, [repr(column.low), repr(column.high)], scaling)[1]
            slope = (high - low) / atom_width
            return TextColumn(column.name, slope[None, :], low, (), column.low, width, missing, cut, log)
        case Date():
            first, last = column.first, column.last
            if column.clamp:
                first, last = min(first, FAR[0]), max(last, FAR[1])
            texts = tuple((first + timedelta(days=i)).isoformat() for i in range((last - first).days + 1))
            low, high = _encoded(column, [column.first.isoformat(), column.last.isoformat()], scaling)[1]
            width = (column.last - column.first).days
            missing = None if column.missing is None else column.missing.isoformat()
            slope, cut = (high - low) / width, (column.clamp, column.clamp)
            start = float((column.first - first).days)
            return TextColumn(column.name, slope[None, :], low, texts, start, float(width), missing, cut)
        case Boolean():
            candidates = [spelt for word in TRUTHS for spelt in (word, word.title(), word.upper())]
        case Category():
            candidates = [text for level in column.levels for text in (level, *_spellings(level))]
        case _:
            raise NotImplementedError(type(column).__name__)
    accepted, rows = _encoded(column, [*dict.fromkeys(candidates), *sorted(MISSING)], scaling)
    return TextColumn(column.name, rows, np.zeros(rows.shape[1]), tuple(accepted))


def _spellings(level: str) -> Sequence[str]:
    """Other texts that are read as the same label, for a level that is a whole number."""
    label = reading(level)
    if label is None or not label.lstrip("-").isdigit():
        return ()
    words = {"1": ("true", "True", "TRUE"), "0": ("false", "False", "FALSE")}.get(label, ())
    return label, f"{label}.0", *words


def _encoded(column: Column, texts: Sequence[str], scaling: Scaling) -> tuple[list[str], Array]:
    """The distinct texts that the column accepts, and the features of each."""
    accepted, rows = [], []
    for text in dict.fromkeys(texts):
        cells = column.encode(nw.from_native(pa.table({column.name: [text]}), eager_only=True)[column.name], scaling)
        if not cells.problems:
            accepted.append(text)
            rows.append(cells.values[0])
    return accepted, np.array(rows)


def _as_pandas_reads(column: TextColumn) -> list[int]:
    """Indices of the texts that pandas distinguishes; last, the first of those that it reads as missing, if there is one.

    Raises CoprivError where it reads different levels as missing.
    """
    lost = [i for i, text in enumerate(column.texts) if text in PANDAS_MISSING]
    if any((column.features[i] != column.features[lost[0]]).any() for i in lost):
        among = ", ".join(column.texts[i] for i in lost if column.texts[i])
        raise CoprivError(
            f"--skops: {column.name} has a level that pandas takes for missing, among {among}; rename it in the agreement, or "
            "use --onnx"
        )
    return [i for i in range(len(column.texts)) if i not in lost] + lost[:1]


def _transformers(column: TextColumn, known: Sequence[int]) -> list[tuple[str, Any, bool]]:
    """Fitted transformers of a column, each with its name and whether it is a check; the first gives the atoms.

    A check gives NaN where a value is refused. known: indices of the texts that pandas distinguishes.
    """
    import pandas
    from sklearn.frozen import FrozenEstimator
    from sklearn.impute import KNNImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, OrdinalEncoder

    name, low, width, texts = column.name, column.low, column.width, list(column.texts)

    def fitted(step: Any, *values: Any) -> Any:
        """Fit a step to a column of these values: a frame for the first step, whose output has no names."""
        frame = pandas.DataFrame({name: list(values)}, dtype=object)
        return step.fit(frame.to_numpy() if read else frame)

    read: list[Any] = []
    if column.of_levels:
        levels = [math.nan if texts[i] in PANDAS_MISSING else texts[i] for i in known]
        encoder = OneHotEncoder(categories=[np.array(levels, dtype=object)], sparse_output=False)
        return [(name, FrozenEstimator(fitted(encoder, levels[0])), False)]
    if texts:
        days = OrdinalEncoder(categories=[np.array([*texts, math.nan], dtype=object)])
        read.append(fitted(days, texts[0]))
        days.set_params(categories="auto")  # so that the file does not hold them twice
        if column.missing is None:
            days.categories_ = [np.array(texts)]  # an array of text, because a file stores objects one by one
    if column.missing is not None:
        substitute = float(texts.index(column.missing) if texts else column.missing)
        read.append(fitted(KNNImputer(n_neighbors=1), substitute))  # fitted to one row: a constant

    def above(first: float, clip: bool = False) -> Any:
        """The value minus `first`."""
        return fitted(MinMaxScaler(feature_range=(0.0, width), clip=clip), first, first + width)

    start = above(low, clip=column.cut[1])
    made = [(name, [start, *[FunctionTransformer(np.log1p)] * column.log], False)]
    root = FunctionTransformer(np.sqrt)  # NaN below 0
    if not (texts or column.cut[0]):
        made.append((f"{name}, not below", [above(low), root], True))
    if not (texts or column.cut[1]):
        below_end = MinMaxScaler(feature_range=(0.0, width)).fit([[-width], [0.0]])
        made.append((f"{name}, not above", [above(low), FunctionTransformer(np.negative), below_end, root], True))
    return [(what, FrozenEstimator(make_pipeline(*read, *steps)), checks) for what, steps, checks in made]
