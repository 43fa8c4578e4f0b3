"""Real tables, cut into owners that differ: by a column, by time, sorted by the target or by a feature; and shuffled.

Tables are read from the folder that is given (`--data`); those that are not there are left out. Public rows are drawn at
random from all rows, or are those of one owner only (`one owner`), or many owners hold little (`small`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PUBLIC = 1000
TESTED = 0.2
"""Of every owner's rows: never trained on."""


@dataclass(frozen=True)
class Split:
    """A table and how its rows come to be owners'."""

    table: str
    column: str
    """What owners are: a column's groups; or "sorted by …"."""
    loss: str = "squared"
    most_rows: int = 30_000

    @property
    def name(self) -> str:
        return f"{self.table} by {self.column}"


SPLITS = (
    Split("diabetes_130_hospitals", "payer_code"),
    Split("diabetes_130_hospitals", "medical_specialty"),
    Split("diabetes_130_hospitals", "sorted by num_medications"),
    Split("lending_10k", "state"),
    Split("lending_10k", "grade"),
    Split("lending_10k", "sorted by interest_rate"),
    Split("creditcard", "sorted by Time", "logistic", 10_000),
    Split("creditcard", "sorted by Amount", "logistic", 10_000),
    Split("creditcard", "sorted by V1", "logistic", 10_000),
    *(Split(f"unlike/{name}", "_owner") for name in ("diamonds", "cps1988", "gss_wages", "insteval", "fertility")),
)
TARGETS = {"diabetes_130_hospitals": "time_in_hospital", "lending_10k": "interest_rate", "creditcard": "Class"}
COLUMNS = {
    "diabetes_130_hospitals": [
        "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient", "number_emergency",
        "number_inpatient", "number_diagnoses", "gender", "change", "diabetesMed", "insulin",
    ],
    "lending_10k": [
        "annual_income", "debt_to_income", "total_credit_lines", "open_credit_lines", "total_credit_utilized",
        "accounts_opened_24m", "num_mort_accounts", "loan_amount", "term", "homeownership", "verified_income",
    ],
    "creditcard": [f"V{i}" for i in range(1, 29)],
}  # fmt: skip


@dataclass(frozen=True)
class Owners:
    """A consortium in arrays, with what nobody trained on."""

    public: tuple[Any, Any]
    strata: Any
    train: list[tuple[Any, Any]]
    test: list[tuple[Any, Any]]
    names: list[str]
    """Of each owner: what `strata` calls it."""


def owners(
    folder: Path, split: Split, number: int, shuffled: bool, seed: int = 0, public: str = "all"
) -> Owners | None:
    """`number` owners of a split (as many as it has groups, for the tables in unlike/). None where the table is missing."""
    path = folder / f"{split.table}.parquet"
    if not path.exists():
        return None
    rng = np.random.default_rng([seed, 11])
    frame = pd.read_parquet(path)
    target = TARGETS.get(split.table, "_target")
    key = split.column.removeprefix("sorted by ")
    features = COLUMNS.get(split.table) or [c for c in frame.columns if not c.startswith("_")]
    frame = frame[[*dict.fromkeys([*features, target, key])]].dropna()
    if len(frame) > split.most_rows:
        # Of the card transactions all frauds are kept: of every tenth of them 1,000 public rows would show none.
        rare = np.flatnonzero(frame[target] > 0) if split.loss != "squared" else np.empty(0, dtype=np.int64)
        common = np.setdiff1d(np.arange(len(frame)), rare)
        drawn = rng.choice(common, split.most_rows - len(rare), replace=False)
        frame = frame.iloc[np.sort(np.concatenate([rare, drawn]))]
    label = _labels(frame, key, split.column.startswith("sorted"), number, rng)
    frame, label = frame[label >= 0], label[label >= 0]
    at = rng.permutation(len(frame))
    if shuffled:
        label = label[rng.permutation(len(label))]
    x = pd.get_dummies(frame[features], drop_first=True).to_numpy(dtype=np.float64)
    y = frame[target].to_numpy(dtype=np.float64)
    known = at if public == "all" else at[label[at] == 0]
    mine = known[: min(PUBLIC, len(known) // 2)]
    rest = np.setdiff1d(np.arange(len(frame)), mine)
    mean, spread = x[mine].mean(axis=0), x[mine].std(axis=0)
    x = np.clip((x - mean) / np.where(spread > 0, spread, 1.0), -20.0, 20.0)
    y = np.where(y > 0, 1.0, -1.0) if split.loss != "squared" else (y - y[mine].mean()) / y[mine].std()
    train, test, names = [], [], []
    for group in range(label.max() + 1):
        rows = rng.permutation(rest[label[rest] == group])
        if len(rows) < 10:
            continue
        cut = max(int(TESTED * len(rows)), 1)
        names.append(str(group))
        test.append((x[rows[:cut]], y[rows[:cut]]))
        train.append((x[rows[cut:]], y[rows[cut:]]))
    return Owners((x[mine], y[mine]), label[mine], train, test, names)


def _labels(frame: Any, key: str, in_order: bool, number: int, rng: np.random.Generator) -> Any:
    """Which owner each row is of; −1: of none."""
    if in_order:
        order = np.argsort(frame[key].to_numpy(), kind="stable")
        size = rng.uniform(0.3, 1.7, size=number)
        label = np.empty(len(frame), dtype=np.int64)
        label[order] = np.searchsorted(np.cumsum(size / size.sum()), np.arange(len(frame)) / len(frame))
        return np.minimum(label, number - 1)
    groups = frame[key].value_counts().index.tolist()
    if key == "_owner":
        return frame[key].map({name: i for i, name in enumerate(groups)}).to_numpy()
    # The largest groups; where there are fewer than owners, the largest are two owners, or three.
    place = {name: i for i, name in enumerate(groups[:number])}
    label = frame[key].map(place).fillna(-1).to_numpy().astype(np.int64)
    if len(groups) < number:
        more = rng.integers(-(-number // len(groups)), size=len(label))
        label = np.where(label >= 0, label + len(groups) * more, -1)
        label = np.where(label < number, label, label % len(groups))
    return label


def cells(quick: bool) -> Iterator[tuple[Split, int, float, bool, str, str, int]]:
    """(split, owners, ε, shuffled, which rows are public, what is known, seed), in an order that is balanced wherever it stops.

    Every number of owners and ε has public rows of its own, so that what is measured does not hang on one draw of them.

    known: "nothing", "strata" or "alike". First the groups as they are, all owners; then a round of all splits for each
    number of owners and ε, each table shuffled once in it; among them many small owners, and public rows of one owner.
    """
    own = [split for split in SPLITS if split.table.startswith("unlike/")]
    cut = [split for split in SPLITS if split not in own]
    for turn, epsilon in enumerate((0.3, 3.0)):
        for split in own:
            for known in ("nothing", "strata"):
                yield split, 0, epsilon, False, "all", known, turn
    few = (10, 3) if quick else (10, 3, 30)
    rounds = [(10, 1.0), (10, 0.1), (10, 10.0), *((n, ε) for ε in (1.0, 0.1, 10.0) for n in few if n != 10)]
    for turn, (number, epsilon) in enumerate(rounds):
        for i, split in enumerate(cut):
            for known in ("nothing", "strata"):
                yield split, number, epsilon, False, "all", known, turn
            if (i + turn) % 3 == 0:
                for known in ("nothing", "alike"):
                    yield split, number, epsilon, True, "all", known, turn
        if turn == 0:
            for split in (cut[1], cut[3]):
                for known in ("nothing", "strata"):
                    yield split, 100, 1.0, False, "all", known, turn
                yield split, 10, 1.0, False, "one owner", "nothing", turn
